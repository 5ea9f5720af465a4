"""How copies map to a card's threads, checked without one: each element is moved once, to its place."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire_service.kernels.cuda.movement.view import BATCH, RowBlocks, Units, copy_part
from opwire_service.kernels.cuda.movement.walk import THREADS, Loop, SplitLaunch, merged
from opwire_service.kernels.views.view import Copy, View, copy, copy_band

Pairs = Counter[tuple[int, int]]


def offsets(loops: Sequence[Loop]) -> Iterator[tuple[int, ...]]:
    """Yields the offsets of all iterations of loops, given outermost first."""
    sizes, *steps = zip(*loops, strict=True)
    for place in itertools.product(*map(range, sizes)):
        yield tuple(sum(at * step for at, step in zip(place, each, strict=True)) for each in steps)


def walked(walk: Any) -> list[Loop]:
    """Returns the loops of a parameter, outermost first; steps that wrapped are negative."""
    loops = walk["loop"][: int(walk["count"])]
    return [(int(loop["size"]), *map(int, loop["step"].astype(np.int32))) for loop in loops][::-1]


def expected_pairs(made: Copy) -> Pairs:
    pairs: Pairs = Counter()
    for source, target in offsets([tuple(loop) for loop in made.loops] or [(1, 0, 0)]):
        pairs[made.source_offset + source, made.target_offset + target] += 1
    return pairs


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    """Draws copies of windows of a tensor, in any order of dimensions, with strides and backwards."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    source = View.of(0, BufferTensorDesc(DataType.INT8, tuple(sizes)))
    for axis, size in enumerate(sizes):
        start = draw(st.integers(0, size - 1))
        step = draw(st.sampled_from([-1, 1, 1, 2]))
        room = start + 1 if step < 0 else -(-(size - start) // step)
        source = source.taken(axis, start, draw(st.integers(1, room)), step)
    source = source.ordered(*order)
    return copy(source, View.of(1, BufferTensorDesc(DataType.INT8, source.sizes)))


@given(copies(), st.sampled_from([1, 2, 4, 8, 16]))
def test_units_move_each_element_once(made, most):
    units = Units.of(made, most)
    moved: Pairs = Counter()
    for source, target in offsets(units.loops):
        for lane in range(units.lanes):
            first = made.source_offset + source * units.lanes, made.target_offset + target * units.lanes
            assert units.lanes == 1 or not any(each % units.lanes for each in first)
            moved[first[0] + lane, first[1] + lane] += 1
    assert moved == expected_pairs(made)


def moved_by(part: SplitLaunch, item: int) -> Pairs:
    """Returns what the threads of a kernel move, in elements of ``item`` bytes."""
    (task,) = part.parameter
    lanes = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}.get(str(dict(part.program.macros)["UNIT"]), 16) // item
    moved: Pairs = Counter()
    for source, target in unit_pairs(part, task):
        for lane in range(lanes):
            moved[(int(task["begin"]) + source) * lanes + lane, target * lanes + lane] += 1
    return moved


def unit_pairs(part: SplitLaunch, task: Array) -> Iterator[tuple[int, int]]:
    loops = walked(task["walk"])
    if part.entry == "copy_units":
        yield from offsets(loops)  # type: ignore[misc]
    elif part.entry == "copy_rows":
        for source, target in offsets(loops):
            for at in range(int(task["width"])):
                yield source + at * int(task["step"].astype(np.int32)), target + at * int(task["target_step"])
    else:
        macros = dict(part.program.macros)
        step, target_step = (int(task[name].astype(np.int32)) for name in ("step", "target_step"))
        for source, target, row, column, matrix in offsets(loops):
            rows = range(min(int(macros["ROWS"]), int(task["rows"]) - row))
            columns = range(min(int(macros["COLUMNS"]), int(task["columns"]) - column))
            matrices = range(min(int(macros["DEEP"]), int(task["matrices"]) - matrix))
            for r, c, m in itertools.product(rows, columns, matrices):
                across, down = int(task["across"].astype(np.int32)), int(task["down"])
                yield source + r + c * across + m * step, target + c + r * down + m * target_step


@given(copies(), st.sampled_from([1, 2, 4, 8]))
def test_kernels_move_each_element_once(made, item):
    pairs = moved_by(copy_part(made, item), item)
    assert Counter(
        {(source, target + made.target_offset): n for (source, target), n in pairs.items()}
    ) == expected_pairs(made)


@pytest.mark.parametrize("sizes", [(40, 70), (70, 40), (2, 300), (300, 2), (3, 5, 90)])
@pytest.mark.parametrize("item", [1, 4, 8])
def test_transposed_matrices_go_through_tiles(sizes, item):
    source = View.of(0, BufferTensorDesc(DataType.INT8, sizes)).ordered(*reversed(range(len(sizes))))
    made = copy(source, View.of(1, BufferTensorDesc(DataType.INT8, source.sizes)))
    part = copy_part(made, item)
    assert part.entry == ("transpose_tiles" if made.loops[-1].size >= 8 else "copy_units")
    assert moved_by(part, item) == expected_pairs(made)


@pytest.mark.parametrize("ends", [(-3, 4), (0, 1), (-30, -2), (-7, 9), (8, 9)])
def test_bands_do_not_exceed_the_matrix(ends):
    desc = BufferTensorDesc(DataType.INT8, (2, 8, 9))
    begin, end = max(-8, ends[0]), ends[1]
    made = copy_band(View.of(0, desc), View.of(1, desc), begin, end)
    part = copy_part(made, 1)
    (task,) = part.parameter
    found = [
        (int(task["target_begin"]) + target) % 2**32
        for _, target, third in offsets(walked(task["walk"]))
        if (int(task["start"]) + third) % 2**32 < int(task["span"])
    ]
    right = [
        72 * matrix + 9 * row + column
        for matrix, row, column in itertools.product(range(2), range(8), range(9))
        if begin <= column - row < end
    ]
    assert sorted(found) == right


@given(st.integers(1, 10_000))
def test_blocks_cover_rows(width):
    blocks = RowBlocks.of(width)
    if blocks is None:
        return
    across, down = blocks.threads
    assert across * down <= THREADS
    assert width <= blocks.layers * across * BATCH < width + blocks.layers * BATCH


def test_contiguous_loops_are_merged():
    assert merged([(2, 12, 6), (3, 4, 2), (1, 9, 9), (2, 2, 1)], 2) == [(12, 2, 1)]
    assert merged([(2, 12, 0), (3, 4, 2)], 2) == [(2, 12, 0), (3, 4, 2)]
    assert merged([], 3) == [(1, 0, 0, 0)]
