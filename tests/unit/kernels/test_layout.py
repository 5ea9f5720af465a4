"""The collapsed loops of a reduction visit what the desc describes, and are as few as possible."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opwire.tensor import BufferTensorDesc, DataType
from opwire_service.kernels.layout import Loop, ReductionLayout, collapse, coordinates, reduction_layout


def describe(sizes, strides=None) -> BufferTensorDesc:
    return BufferTensorDesc(DataType.FLOAT32, tuple(sizes), None if strides is None else tuple(strides))


def layout_of(sizes, axes, strides=None, *, ordered=True) -> ReductionLayout:
    kept = [1 if axis in axes else size for axis, size in enumerate(sizes)]
    return reduction_layout(describe(sizes, strides), describe(kept), axes, ordered=ordered)


def visits(layout: ReductionLayout) -> dict[int, list[int]]:
    """Returns the input addresses visited for each output address, in order."""
    found: dict[int, list[int]] = {}
    for kept in itertools.product(*(range(loop.size) for loop in layout.kept)):
        source = sum(i * loop.source for i, loop in zip(kept, layout.kept, strict=True))
        target = sum(i * loop.target for i, loop in zip(kept, layout.kept, strict=True))
        found[target] = [
            source + sum(i * loop.source for i, loop in zip(reduced, layout.reduced, strict=True))
            for reduced in itertools.product(*(range(loop.size) for loop in layout.reduced))
        ]
    return found


@st.composite
def reductions(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    strides = draw(st.lists(st.integers(0, 30), min_size=len(sizes), max_size=len(sizes)))
    axes = draw(st.sets(st.integers(0, len(sizes) - 1)))
    packed = draw(st.booleans())
    return sizes, axes, None if packed else strides


@given(reductions())
def test_every_element_is_visited_in_row_major_order(reduction):
    sizes, axes, strides = reduction
    steps = describe(sizes, strides).element_strides
    kept = describe([1 if axis in axes else size for axis, size in enumerate(sizes)])
    expected: dict[int, list[int]] = {}
    for place in itertools.product(*map(range, sizes)):
        output = sum(
            i * step for axis, (i, step) in enumerate(zip(place, kept.element_strides, strict=True)) if axis not in axes
        )
        expected.setdefault(output, []).append(sum(i * step for i, step in zip(place, steps, strict=True)))
    assert visits(layout_of(sizes, axes, strides)) == expected
    unordered = visits(layout_of(sizes, axes, strides, ordered=False))
    assert {output: sorted(elements) for output, elements in unordered.items()} == {
        output: sorted(elements) for output, elements in expected.items()
    }


@given(reductions())
def test_counts_match_the_dimensions(reduction):
    sizes, axes, strides = reduction
    layout = layout_of(sizes, axes, strides)
    assert layout.reduced_count == prod(sizes[axis] for axis in axes)
    assert layout.kept_count * layout.reduced_count == prod(sizes)


def test_packed_tensors_collapse_to_one_loop_each():
    assert layout_of([2, 3, 4, 5], {2, 3}) == ReductionLayout((Loop(6, 20, 1),), (Loop(20, 1),))
    assert layout_of([2, 3, 4, 5], {0, 1}) == ReductionLayout((Loop(20, 1, 1),), (Loop(6, 20),))
    assert layout_of([2, 3, 1, 5], {0, 1, 2, 3}) == ReductionLayout((), (Loop(30, 1),))
    assert layout_of([2, 3, 5], {1}) == ReductionLayout((Loop(2, 15, 5), Loop(5, 1, 1)), (Loop(3, 5),))


def test_kept_loops_follow_the_memory_order():
    strides = np.transpose(np.empty((4, 5, 3), np.int8), (2, 0, 1)).strides
    assert layout_of([3, 4, 5], {1, 2}, strides) == ReductionLayout((Loop(3, 1, 1),), (Loop(20, 3),))
    assert layout_of([3, 4, 5], {0}, strides) == ReductionLayout((Loop(20, 3, 1),), (Loop(3, 1),))


def test_repeated_dimensions_merge_only_with_each_other():
    assert collapse([Loop(3, 0), Loop(4, 0)]) == (Loop(12, 0),)
    assert collapse([Loop(3, 0), Loop(4, 1)]) == (Loop(3, 0), Loop(4, 1))


@given(st.lists(st.integers(1, 4), max_size=5))
def test_coordinates_are_in_row_major_order(sizes):
    assert list(coordinates(sizes)) == list(itertools.product(*map(range, sizes)))


def test_coordinates_are_generated_lazily():
    assert list(itertools.islice(coordinates([2**31, 2**31]), 2)) == [(0, 0), (0, 1)]
