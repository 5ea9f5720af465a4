"""Nested loops with several steps each, in the format of the data-movement kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ..job import KernelLaunch, Program, device_desc

UNROLLED = 4
"""Maximum depth for which kernels are specialized; deeper nests are counted at run time."""

THREADS = 256

PIECE = 2**28
"""Maximum number of items, of up to 16 bytes, per launch: some milliseconds."""

Loop = tuple[int, ...]
"""A size, and the steps that a kernel needs."""


def without_ones(loops: Sequence[Loop], steps: int) -> list[Loop]:
    """Removes loops of size 1; if none remain, returns a single one of size 1."""
    return [loop for loop in loops if loop[0] > 1] or [(1, *(0,) * steps)]


def merged(loops: Iterable[Sequence[int]], steps: int) -> list[Loop]:
    """Merges loops, given outermost first, into the fewest that visit the same places in the same order."""
    found: list[Loop] = []
    for size, *made in loops:
        if size == 1:
            continue
        if found and found[-1][1:] == tuple(size * step for step in made):
            found[-1] = (found[-1][0] * size, *made)
        else:
            found.append((size, *made))
    return without_ones(found, steps)


def depth_macro(loops: Sequence[Loop]) -> tuple[str, int]:
    return "DEPTH", len(loops) if len(loops) <= UNROLLED else 0


def count_of(loops: Sequence[Loop]) -> int:
    return prod(loop[0] for loop in loops)


def write_walk(loops: Sequence[Loop], into: Array) -> None:
    """Writes loops, given outermost first, with the magic numbers that replace division by multiplication."""
    into["count"] = len(loops)
    for i, (size, *steps) in enumerate(reversed(loops)):
        bits = (size - 1).bit_length()
        factor = (2**32 * (2**bits - size)) // size + 1
        wrapped = [step % 2**32 for step in steps]
        into["loop"][i] = (size, factor, min(bits, 1), max(bits - 1, 0), wrapped)


def on_card(plan: Plan) -> Plan:
    """Returns the plan with its outputs laid out as on the GPU."""
    outputs = {name: device_desc(desc) for name, desc in plan.outputs.items()}
    return replace(plan, outputs=outputs)


@dataclass(frozen=True, slots=True)
class SplitLaunch:
    """A kernel over many items, split into one or more launches.

    Attributes:
        program, entry: the kernel.
        parameter: its parameter, which starts with the addresses and has the fields ``first`` and ``count``.
        count: number of items.
        per_block: items per block.
        piece: maximum number of items per launch.
        block: threads of a block.
        layers: number of blocks that share the same items.
    """

    program: Program
    entry: str
    parameter: Array
    count: int
    per_block: int
    piece: int = PIECE
    block: tuple[int, int] = (THREADS, 1)
    layers: int = 1

    def __post_init__(self) -> None:
        parameter = self.parameter.copy()
        parameter["first"], parameter["count"] = 0, min(self.count, self._at_once)
        object.__setattr__(self, "parameter", parameter)

    @property
    def _at_once(self) -> int:
        return max(1, self.piece // self.per_block) * self.per_block

    def launches(self, *addresses: int) -> Iterator[KernelLaunch]:
        """Yields the launches for the given addresses."""
        # Raw bytes are copied faster than fields; the size of each parameter is a multiple of 8.
        parameter = self.parameter.view(np.dtype((np.void, self.parameter.itemsize))).copy()
        parameter.view("<u8")[: len(addresses)] = addresses
        at_once = self._at_once
        yield self._launch(parameter, min(self.count, at_once))
        for first in range(at_once, self.count, at_once):
            part = parameter.view(self.parameter.dtype).copy()
            count = min(at_once, self.count - first)
            part["first"], part["count"] = first, count
            yield self._launch(part, count)

    def _launch(self, parameter: Array, count: int) -> KernelLaunch:
        grid = -(-count // self.per_block), self.layers
        return KernelLaunch(self.program, self.entry, grid, self.block, parameter)
