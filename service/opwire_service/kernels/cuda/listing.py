"""The base of jobs with a single program that list the positions of results that the host must settle."""

from __future__ import annotations

from opwire.tensor import BufferTensorDesc

from .job import MOST_UNDECIDED, Program


class Listing:
    """A job with a single program; subclasses set the program and the desc of the output on the GPU."""

    scratch_bytes = 0
    state_bytes = 0

    _program: Program
    _target: BufferTensorDesc

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self._program,)

    @property
    def undecided_bytes(self) -> int:
        return 8 + 8 * self._room

    @property
    def _room(self) -> int:
        return min(self._target.element_count, MOST_UNDECIDED)
