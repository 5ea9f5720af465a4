"""How rows map to threads and loop nests to tensors, checked without a card."""

from __future__ import annotations

import itertools
from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import Plan, check
from opwire.tensor import BufferTensorDesc, DataType
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch, device_desc
from opwire_service.kernels.cuda.nests import coordinates_at, in_packs, offsets, size_of, stretched_strides
from opwire_service.kernels.cuda.normalization.shape import RowShape, nests_of, row_shape

CARD = Card(4)

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 8, 40]), min_size=1, max_size=4).filter(
    lambda sizes: prod(sizes) < 20_000
)


def launches(plan: Plan) -> list[KernelLaunch]:
    """Returns the launches of a plan, with arbitrary addresses."""
    nowhere = CudaMemory(dict.fromkeys(plan.inputs, 0), dict.fromkeys(plan.outputs, 0), 0, 0, 0)
    found = JOBS[plan.operator.name](plan, CARD).launches(nowhere)
    return [launch for launch in found if isinstance(launch, KernelLaunch)]


def items_of(shape: RowShape, split: int, thread: int) -> range:
    """Returns the items of a row that one of its threads visits."""
    begin, end = split * shape.stretch, min((split + 1) * shape.stretch, shape.items)
    return range(begin + thread, end, shape.sharing)


@given(SIZES, st.data())
def test_every_element_of_a_row_is_visited_once(sizes, data):
    order = data.draw(st.permutations(range(len(sizes))))
    turned = np.empty(sizes, np.float32).transpose(order).strides
    strides = [turned[order.index(i)] // 4 for i in range(len(sizes))]
    axes = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    ordered = data.draw(st.booleans())
    kept, reduced = nests_of(sizes, [strides, strides], axes, ordered=ordered)
    shape = row_shape(kept, reduced, 4, CARD.processors, data.draw(st.sampled_from([1, 16, 32])))
    packs = in_packs(reduced, shape.lanes)
    assert shape.block[0] * shape.block[1] <= 512
    visits: Counter[int] = Counter()
    for split, thread in itertools.product(range(shape.splits), range(shape.sharing)):
        own = items_of(shape, split, thread)
        assert not shape.held or len(own) <= shape.held
        for at in offsets(packs, np.array(own, np.int64), 0).tolist():
            visits.update(range(at, at + shape.lanes))
    starts = offsets(kept, np.arange(size_of(kept)), 0).tolist()
    every = Counter(start + at for start in starts for at in visits.elements())
    assert every == Counter(range(prod(sizes)))


@given(SIZES, st.data())
def test_rows_are_visited_in_order_where_that_matters(sizes, data):
    axes = sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1)))
    strides = [data.draw(st.integers(0, 50)) for _ in sizes]
    _, reduced = nests_of(sizes, [strides, strides], axes, ordered=True)
    right = [
        sum(i * strides[axis] for i, axis in zip(index, axes, strict=True))
        for index in itertools.product(*(range(sizes[axis]) for axis in axes))
    ]
    assert offsets(reduced, np.arange(len(right)), 0).tolist() == right


@given(SIZES, st.data())
def test_indices_are_converted_to_coordinates(sizes, data):
    order = data.draw(st.permutations(range(len(sizes))))
    strides = [0] * len(sizes)
    step = 1
    for axis in order:
        strides[axis] = step
        step *= sizes[axis]
    desc = BufferTensorDesc(DataType.FLOAT32, tuple(sizes), tuple(strides))
    for index in itertools.islice(itertools.product(*map(range, sizes)), 0, None, 7):
        assert coordinates_at(desc, sum(i * step for i, step in zip(index, strides, strict=True))) == index


def test_broadcast_dimensions_have_zero_stride():
    desc = BufferTensorDesc(DataType.FLOAT32, (1, 3, 1))
    assert stretched_strides(desc, (5, 3, 2)) == (0, 1, 0)
    assert stretched_strides(None, (5, 3)) == (0, 0)


@pytest.mark.parametrize(
    ("sizes", "axes", "entries"),
    [
        ([3000, 1024], [1], ["held_rows"]),
        ([3000, 20_000], [1], ["whole_rows"]),
        ([2, 2_000_000], [1], ["split_rows", "join_splits", "put_rows"]),
        ([64, 40_000], [0], ["whole_rows"]),
        ([2_000_000, 2], [0], ["split_rows", "join_splits", "put_rows"]),
    ],
)
def test_rows_are_kept_in_registers_read_twice_or_shared(sizes, axes, entries):
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    plan = check({"type": "ACTIVATION_SOFTMAX1", "desc": {"InputTensor": tensor, "Axes": axes}})
    assert [launch.entry for launch in launches(plan)] == entries


def test_many_rows_take_several_launches():
    tensor = {"DataType": "FLOAT16", "Sizes": [2**19, 2048]}
    plan = check({"type": "ACTIVATION_SOFTMAX", "desc": {"InputTensor": tensor}})
    parts = [launch.parameter[0] for launch in launches(plan)]
    assert [int(part["first"]) for part in parts] == [0, 2**17, 2**18, 3 * 2**17]
    assert all(int(part["outputs"]) == 2**17 for part in parts)


def test_a_window_as_large_as_the_image_is_a_reduction():
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3, 40, 60]},
        "WindowSize": [40, 60],
        "Strides": [1, 1],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
        "IncludePadding": False,
    }
    assert [launch.entry for launch in launches(check({"type": "AVERAGE_POOLING", "desc": desc}))] == ["reduce_rows"]


def test_the_nibble_after_the_last_element_is_a_gap():
    odd, even = (BufferTensorDesc(DataType.INT4, (size,)) for size in (7, 8))
    assert device_desc(odd) is not odd
    assert device_desc(even) is even
