"""Copies between strided views on the GPU, in units of up to 16 bytes or in tiles that are transposed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...layout import Loop as Step
from ...views import phases
from ...views.movements import MOVEMENTS, Movement
from ...views.view import Copy
from ..job import LOAD_BYTES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import constant, structure
from .walk import PIECE, THREADS, Loop, SplitLaunch, count_of, depth_macro, on_card, without_ones, write_walk

UNITS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "Pack<u64, 2>"}
"""Units that are moved as a whole, by size in bytes."""

BATCH = constant("BATCH", "movement/view")
"""Units per thread, as in ``rows.cu``."""

PLAIN = ("scalars", "movement/walk", "movement/plain")
"""Sources for units that are moved unchanged."""

Macros = tuple[tuple[str, str | int], ...]

WIDEST_TILED = 8
"""Largest unit, in bytes, for which transposing through shared memory pays off."""

WORD_BYTES = 4
"""Narrower units are read and written in words of this many bytes, where alignment allows."""

TILE_SIDES = {1: 64, 2: 64, 4: 32, 8: 32}
"""Sides of a square tile, by the bytes of a unit."""

FEWEST_WORDS = 32
"""Minimum words along a side of such a tile, one for each thread of a warp."""

FEWEST_ROWS, FEWEST_COLUMNS = 2, 8
"""Smallest matrix transposed in tiles; with narrower ones, threads access adjacent elements anyway."""

MANY_LOOPS = 4
"""Number of loops from which on narrow matrices are transposed in tiles, too, as walking the loops is expensive."""

NARROWEST, MOST_LAYERS = 64, 2**16 - 1
"""Minimum units of a row for a row-wise kernel, and the maximum number of blocks that share the same rows."""

_COPY_SOURCES = "movement/walk", "movement/view"
_ROWS = structure("Rows", "movement/walk", "movement/rows", STEPS=2)
_TILES = structure("Tiles", "movement/walk", "movement/transpose", STEPS=5)


class Units(NamedTuple):
    """A copy in units.

    Attributes:
        lanes: elements of a unit, contiguous in both views.
        loops: sizes and the steps in source and target, in units, outermost first.
    """

    lanes: int
    loops: list[Loop]

    @classmethod
    def of(cls, copy: Copy, most: int, *, repeats: bool = False) -> Units:
        """Returns a copy in the widest possible units.

        Args:
            copy: a copy between views of dense or strided tensors.
            most: maximum elements of a unit, a power of two.
            repeats: whether one element is written everywhere.
        """
        loops = list(copy.loops) or [Step(1, 0, 0)]
        *outer, inner = loops
        lanes = 1
        if inner.target == 1 and (repeats or inner.source == 1):
            sources = [] if repeats else [copy.source_offset, *(loop.source for loop in outer)]
            lanes = gcd(most, inner.size, copy.target_offset, *sources, *(loop.target for loop in outer))
        if lanes == 1:
            return cls(1, without_ones([tuple(loop) for loop in loops], 2))
        found = [(loop.size, loop.source // lanes, loop.target // lanes) for loop in outer]
        return cls(lanes, without_ones([*found, (inner.size // lanes, int(not repeats), 1)], 2))


def copy_part(copy: Copy, item: int, value: Array | None = None) -> SplitLaunch:
    """Returns the kernel that copies elements of ``item`` bytes, or writes a value; see ``target_bytes``."""
    copy = _at_band(copy)
    most = LOAD_BYTES // item if copy.band is None else 1
    units = Units.of(copy, most, repeats=value is not None)
    size = units.lanes * item
    offsets = copy.source_offset // units.lanes, copy.target_offset // units.lanes
    tiled = _transposed(units.loops, size, offsets) if value is None and copy.band is None else None
    part = tiled or _plain(copy, units, size, value)
    if value is None:
        part.parameter["begin"] = copy.source_offset // units.lanes % 2**32
    if copy.band is not None:
        part.parameter["target_begin"] = copy.target_offset % 2**32
    return part


def filling(count: int, value: Array) -> SplitLaunch:
    """Returns the kernel that fills memory with a value, in the widest possible units."""
    return copy_part(Copy(0, 0, 0, 0, (Step(count, 0, 1),)), value.itemsize, value)


def target_bytes(copy: Copy, item: int) -> int:
    """Returns the byte offset at which a copy's kernel starts in the target; a band kernel handles its own offset."""
    return copy.target_offset * item if copy.band is None else 0


class RowBlocks(NamedTuple):
    """How thread blocks share rows of units.

    Attributes:
        threads: threads across and down.
        layers: number of blocks that share the same rows.
    """

    threads: tuple[int, int]
    layers: int

    @property
    def rows(self) -> int:
        """The rows of a block."""
        return self.threads[1]

    @classmethod
    def of(cls, width: int) -> RowBlocks | None:
        """Returns the blocks for rows of ``width`` units, or None if these are too short or too long."""
        layers = -(-width // (THREADS * BATCH))
        if width < NARROWEST or layers > MOST_LAYERS:
            return None
        across = -(-width // (layers * BATCH))
        return cls((across, THREADS // across), layers)


def strided_part(loops: list[Loop], sources: tuple[str, ...], macros: Macros) -> SplitLaunch:
    """Returns the kernel that copies units.

    Args:
        loops: sizes and the steps in source and target, in units, outermost first.
        sources: the sources that move a unit, such as ``movement/plain``.
        macros: their macros.
    """
    *outer, (width, step, target_step) = loops
    blocks = RowBlocks.of(width)
    if not outer or blocks is None:
        return _flat_part(loops, sources, macros)
    parameter = np.zeros(1, _ROWS)
    parameter["width"], parameter["step"], parameter["target_step"] = width, step % 2**32, target_step
    write_walk(outer, parameter["walk"][0])
    program = Program((*sources, "movement/rows"), (("STEPS", 2), depth_macro(outer), *macros))
    piece = max(blocks.rows, PIECE // width)
    return SplitLaunch(
        program, "copy_rows", parameter, count_of(outer), blocks.rows, piece, blocks.threads, blocks.layers
    )


def _flat_part(loops: list[Loop], sources: tuple[str, ...], macros: Macros, band: tuple[int, int] | None = None,
               value: Array | None = None) -> SplitLaunch:  # fmt: skip
    """Returns the kernel in which each thread locates its own units."""
    steps = len(loops[0]) - 1
    parameter = np.zeros(1, structure("Copy", *_COPY_SOURCES, STEPS=steps))
    if value is not None:
        parameter["value"] = np.frombuffer(value.tobytes() * (LOAD_BYTES // value.itemsize), "<u8")
    if band is not None:
        parameter["start"], parameter["span"] = band
    write_walk(loops, parameter["walk"][0])
    flags = ("FILL", int(value is not None)), ("BAND", int(band is not None))
    program = Program((*sources, "movement/view"), (("STEPS", steps), depth_macro(loops), *flags, *macros))
    return SplitLaunch(program, "copy_units", parameter, count_of(loops), THREADS * BATCH)


def _plain(copy: Copy, units: Units, size: int, value: Array | None) -> SplitLaunch:
    macros = (("UNIT", UNITS[size]),)
    if copy.band is not None:
        loops, *band = _band_loops(copy, *copy.band)
        return _flat_part(loops, PLAIN, macros, (band[0], band[1]), value)
    if value is not None:
        return _flat_part(units.loops, PLAIN, macros, value=value)
    return strided_part(units.loops, PLAIN, macros)


def _is_narrow(copy: Copy) -> bool:
    return copy.band is not None and copy.band[1] - copy.band[0] <= copy.loops[-1].size


def _band_loops(copy: Copy, begin: int, end: int) -> tuple[list[Loop], int, int]:
    """Returns the loops over a band, with a third offset, its start value and its exclusive limit.

    For a narrow band the loops run over rows and diagonals, and the offset is the column. Otherwise they run over rows
    and columns, and the offset is the diagonal relative to the first one.
    """
    *outer, rows, columns = copy.loops
    free = [(*loop, 0) for loop in outer]
    if not _is_narrow(copy):
        return [*free, (*rows, -1), (*columns, 1)], -begin % 2**32, end - begin
    along = (rows.size, rows.source + columns.source, rows.target + columns.target, 1)
    return [*free, along, (end - begin, columns.source, columns.target, 1)], begin % 2**32, columns.size


def _at_band(copy: Copy) -> Copy:
    """Moves a copy's offsets to the first diagonal, if its loops start there."""
    if copy.band is None or not _is_narrow(copy):
        return copy
    begin, columns = copy.band[0], copy.loops[-1]
    source, target = copy.source_offset + begin * columns.source, copy.target_offset + begin * columns.target
    return copy._replace(source_offset=source, target_offset=target)


def _transposed(loops: list[Loop], size: int, offsets: tuple[int, int]) -> SplitLaunch | None:
    """Returns the kernel that transposes tiles, or None if the copy is not a transposition.

    Args:
        loops: the loops in units, outermost first.
        size: bytes of a unit.
        offsets: offsets of the first unit in source and target.
    """
    columns, outer = loops[-1], loops[:-1]
    rows = next((loop for loop in outer if loop[1] == 1 and loop[0] >= FEWEST_ROWS), None)
    fewest = FEWEST_COLUMNS if len(loops) < MANY_LOOPS else FEWEST_ROWS
    is_turned = columns[2] == 1 and columns[1] not in (0, 1) and columns[0] >= fewest
    if rows is None or not is_turned or size > WIDEST_TILED:
        return None
    outer.remove(rows)
    sources = offsets[0], columns[1], rows[0], *(loop[1] for loop in outer)
    targets = offsets[1], rows[2], columns[0], *(loop[2] for loop in outer)
    lanes = gcd(max(1, WORD_BYTES // size), *sources, *targets)
    side = max(TILE_SIDES[size], FEWEST_WORDS * lanes)
    elements = side**2
    high = min(side, _power_above(rows[0]))
    wide = min(elements // high, _power_above(columns[0]))
    high = min(elements // wide, _power_above(rows[0]))
    matrices, deep = _followers(outer, elements // (high * wide))
    tiles = without_ones(
        [
            *((*loop, 0, 0, 0) for loop in outer if loop is not matrices),
            (-(-matrices[0] // deep), deep * matrices[1], deep * matrices[2], 0, 0, deep),
            (-(-rows[0] // high), high, high * rows[2], high, 0, 0),
            (-(-columns[0] // wide), wide * columns[1], wide, 0, wide, 0),
        ],
        5,
    )
    parameter = np.zeros(1, _TILES)
    parameter["rows"], parameter["columns"], parameter["matrices"] = rows[0], columns[0], matrices[0]
    parameter["across"], parameter["down"] = columns[1] % 2**32, rows[2]
    parameter["step"], parameter["target_step"] = (step % 2**32 for step in matrices[1:])
    write_walk(tiles, parameter["walk"][0])
    threads = min(THREADS, deep * high * wide // lanes**2)
    macros = (
        ("STEPS", 5),
        depth_macro(tiles),
        ("UNIT", UNITS[size]),
        ("ROWS", high),
        ("COLUMNS", wide),
        ("DEEP", deep),
        ("LANES", lanes),
        ("THREADS", threads),
    )
    program = Program((*PLAIN, "movement/transpose"), macros)
    return SplitLaunch(program, "transpose_tiles", parameter, count_of(tiles), 1, PIECE // elements, (threads, 1))


def _followers(loops: list[Loop], room: int) -> tuple[Loop, int]:
    """Returns the loop over consecutive matrices, and how many of their tiles fit into a block."""
    if room == 1 or not loops:
        return (1, 0, 0), 1
    loop = max(reversed(loops), key=lambda loop: min(loop[0], room))
    return loop, min(room, _power_above(loop[0]))


def _power_above(number: int) -> int:
    return 1 << (number - 1).bit_length()


class PlacedCopy(NamedTuple):
    """A copy kernel between two tensors of a plan.

    Attributes:
        part: the kernel.
        source, target: numbers of the tensors, inputs first; a source beyond them is a constant, written by FILL.
        first: offset in the target in bytes.
    """

    part: SplitLaunch
    source: int
    target: int
    first: int

    @classmethod
    def of(cls, copy: Copy, movement: Movement, tensors: int) -> PlacedCopy:
        value = None
        if copy.source >= tensors:
            assert movement.constants is not None
            value = np.asarray(movement.constants.reshape(-1)[copy.source_offset])
        source = copy.source if value is None else 0
        return cls(copy_part(copy, movement.item, value), source, copy.target, target_bytes(copy, movement.item))

    def launches(self, addresses: list[int]) -> Iterator[KernelLaunch]:
        return self.part.launches(addresses[self.source], addresses[self.target] + self.first)


class CudaCopyJob(BaseJob):
    """A sequence of copies.

    Args:
        movement: the movement of a plan with its GPU layout.
        inputs, outputs: names of its tensors.
    """

    def __init__(self, movement: Movement, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        self._inputs, self._outputs = inputs, outputs
        tensors = len(inputs) + len(outputs)
        self._copies = [PlacedCopy.of(copy, movement, tensors) for phase in movement.phases for copy in phase]
        self.programs = tuple(dict.fromkeys(copy.part.program for copy in self._copies))

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        addresses = [memory.inputs[name] for name in self._inputs]
        addresses += [memory.outputs[name] for name in self._outputs]
        for copy in self._copies:
            yield from copy.launches(addresses)


def copies(plan: Plan, movement: Callable[[Plan], Movement]) -> CudaCopyJob:
    """Returns the job of a plan that moves elements."""
    placed = on_card(plan)
    return CudaCopyJob(movement(placed), tuple(placed.inputs), tuple(placed.outputs))


def _job(name: str) -> Callable[[Plan, Card], CudaJob]:
    return lambda plan, card: copies(plan, MOVEMENTS[name])


def _band(plan: Plan, card: Card) -> CudaJob:
    """Writes the outside of the band everywhere, then the band: two copies instead of three."""

    def movement(placed: Plan) -> Movement:
        found = MOVEMENTS[plan.operator.name](placed)
        return found._replace(phases=phases.band(placed, over_all=True))

    return copies(plan, movement)


JOBS: dict[str, Callable[[Plan, Card], CudaJob]] = {
    **{name: _job(name) for name in MOVEMENTS},
    "DIAGONAL_MATRIX": _band,
    "DIAGONAL_MATRIX1": _band,
}
