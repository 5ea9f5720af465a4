"""What jobs share that launch one program, and list the places of an output whose results the host computes again."""

from __future__ import annotations

from opwire.tensor import BufferTensorDesc

from .job import Program

UNCERTAIN = 2**20
"""The most places that a card lists; if there are more, all results are computed again."""


class Listing:
    """A job of one program, whose maker sets the program and the desc of the output as it lies on the card."""

    scratch_bytes = 0
    state_bytes = 0

    _program: Program
    _target: BufferTensorDesc

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self._program,)

    @property
    def uncertain_bytes(self) -> int:
        return 8 + 8 * self._room

    @property
    def _room(self) -> int:
        return min(self._target.element_count, UNCERTAIN)
