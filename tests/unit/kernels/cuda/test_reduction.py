"""How reductions map to threads, checked without a card: each element is read by one thread of its output."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire.tensor import BufferTensorDesc, DataType
from opwire_service.devices import is_device
from opwire_service.kernels.cuda import JOBS, reduce
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch, device_desc
from opwire_service.kernels.cuda.reduction import MOST_TERMS, TASK, ReductionGeometry, Tuning, geometry, loops_parameter
from opwire_service.kernels.layout import Loop, reduction_layout

CARD = Card(4)


def divided(loop: np.void, number: int) -> int:
    """Divides as the kernels do, in 32-bit arithmetic."""
    t = (int(loop["factor"]) * number) >> 32
    return (t + ((number - t) >> int(loop["shift1"]))) >> int(loop["shift2"])


@given(st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_division_by_multiplication_is_exact(size, number):
    dtype = np.dtype([(name, "<u4") for name in ("size", "source", "target", "factor", "shift1", "shift2")])
    into = np.zeros((), np.dtype([("count", "<u4"), ("loop", dtype, (8,))]))
    loops_parameter([Loop(size, 0)], into)
    assert divided(into["loop"][0], number) == number // size


def visited(shape: ReductionGeometry) -> Counter[tuple[int, int]]:
    """Counts how often the threads of a geometry read each pair of output and source offset."""
    reads: Counter[tuple[int, int]] = Counter()
    across = shape.lanes
    along = shape.block[1] if shape.rows else shape.block[0]
    assert shape.grid[0] * along >= shape.outputs
    sharing = shape.block[0] if shape.rows else shape.block[1]
    items = list(points(shape.reduced))
    for target, source in points_with_targets(shape.kept):
        for split, thread in itertools.product(range(shape.splits), range(sharing)):
            own = range(split * sharing + thread, shape.items, shape.splits * sharing)
            if not shape.rows:
                begin, end = split * shape.stretch + thread, min((split + 1) * shape.stretch, shape.items)
                own = range(begin, end, sharing)
            assert len(own) * (across if shape.rows else 1) <= MOST_TERMS
            for item, lane in itertools.product(own, range(across)):
                step = 0 if shape.rows else lane * shape.kept[-1].target // across
                reads[target + step, source + items[item] + lane] += 1
    return reads


def points(loops: tuple[Loop, ...]) -> list[int]:
    indices = itertools.product(*(range(loop.size) for loop in loops))
    return [sum(i * loop.source for i, loop in zip(index, loops, strict=True)) for index in indices]


def points_with_targets(loops: tuple[Loop, ...]) -> list[tuple[int, int]]:
    indices = itertools.product(*(range(loop.size) for loop in loops))
    return [
        (
            sum(i * loop.target for i, loop in zip(index, loops, strict=True)),
            sum(i * loop.source for i, loop in zip(index, loops, strict=True)),
        )
        for index in indices
    ]


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 8, 40]), min_size=1, max_size=4).filter(lambda sizes: prod(sizes) < 100_000),
    st.sets(st.integers(0, 3)),
    st.booleans(),
    st.sampled_from([1, 2, 4, 8]),
)
def test_every_element_is_read_once_for_its_output(sizes, axes, transposed, item_bytes):
    axes = {axis for axis in axes if axis < len(sizes)}
    strides = BufferTensorDesc(DataType.FLOAT32, tuple(sizes)).element_strides
    if transposed:
        order = BufferTensorDesc(DataType.FLOAT32, tuple(sizes[::-1])).element_strides
        strides = order[::-1]
    source = BufferTensorDesc(DataType.FLOAT32, tuple(sizes), strides)
    target = BufferTensorDesc(DataType.FLOAT32, tuple(1 if i in axes else size for i, size in enumerate(sizes)))
    shape = geometry(reduction_layout(source, target, axes), item_bytes, CARD.processors, Tuning())
    right: Counter[tuple[int, int]] = Counter()
    for index in np.ndindex(*sizes):
        kept = [0 if i in axes else at for i, at in enumerate(index)]
        place = sum(at * step for at, step in zip(kept, target.element_strides, strict=True))
        right[place, sum(at * step for at, step in zip(index, strides, strict=True))] += 1
    assert visited(shape) == right


def test_loads_are_aligned_and_many_threads_share_long_rows():
    desc = BufferTensorDesc(DataType.FLOAT16, (4, 8 * 10**6))
    target = BufferTensorDesc(DataType.FLOAT16, (4, 1))
    shape = geometry(reduction_layout(desc, target, [1]), 2, 132, Tuning())
    assert (shape.rows, shape.lanes, shape.block) == (True, 8, (256, 1))
    assert 100 < shape.splits * 4 <= 132 * 8
    odd = BufferTensorDesc(DataType.FLOAT16, (4, 8 * 10**6 + 1))
    assert geometry(reduction_layout(odd, target, [1]), 2, 132, Tuning()).lanes == 1


def test_the_longest_reduction_is_split_sufficiently():
    desc = BufferTensorDesc(DataType.FLOAT16, (2**32 - 1,), (0,))
    target = BufferTensorDesc(DataType.FLOAT16, (1,))
    shape = geometry(reduction_layout(desc, target, [0]), 2, 1, Tuning())
    assert -(-shape.stretch // shape.block[0]) <= MOST_TERMS
    assert shape.splits <= 65535


def test_outputs_with_gaps_are_packed_on_the_card():
    gaps = BufferTensorDesc(DataType.FLOAT32, (2, 3), (8, 2))
    swapped = BufferTensorDesc(DataType.FLOAT32, (2, 3), (1, 2))
    assert device_desc(gaps) == BufferTensorDesc(DataType.FLOAT32, (2, 3))
    assert device_desc(swapped) is swapped


def plan_of(sizes: list[int], axes: list[int], function: str = "SUM"):
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    return check({"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": axes}})


@pytest.mark.parametrize("listed", [True, False])
def test_results_the_card_leaves_undecided_are_computed_exactly(listed):
    plan = plan_of([3, 2, 4], [1])
    source = np.arange(24, dtype=np.float32) * np.float32(0.1)
    target = np.zeros(12, np.float32)
    places = np.array([[0, 0], [9, 5]]) if listed else None
    reduce.job(plan, CARD).settle(places, {"InputTensor": source}, {"OutputTensor": target}, lambda: False)
    right = source.reshape(3, 2, 4).astype(np.float64).sum(axis=1).ravel().astype(np.float32)
    if listed:
        right[[i for i in range(12) if i not in (0, 5)]] = 0
    assert target.tolist() == right.tolist()


def test_a_job_knows_its_memory():
    job = reduce.job(plan_of([1, 10**7], [1]), CARD)
    memory = CudaMemory({"InputTensor": 256}, {"OutputTensor": 512}, 1024, 2048, 2048)
    (launch,) = job.launches(memory)
    assert (launch.entry, launch.grid[0]) == ("reduce_rows", 1)
    assert launch.grid[1] > 1
    assert (job.scratch_bytes, job.state_bytes) == (24 * launch.grid[1], 4)
    assert launch.parameter.view(TASK)["partial"].tolist() == [1024]


@pytest.mark.parametrize("sizes", [[64, 4096], [4096, 64], [1, 10**7]])
def test_large_reductions_of_some_functions_have_a_fast_pass(sizes):
    for function, passes in (("SUM", 1), ("MAX", 1), ("L2", 2), ("MULTIPLY", 2), ("LOG_SUM_EXP", 2)):
        job = reduce.job(plan_of(sizes, [1], function), CARD)
        launches = list(job.launches(CudaMemory({"InputTensor": 0}, {"OutputTensor": 0}, 0, 256, 512)))
        assert [launch.program for launch in launches] == list(job.programs)
        assert len(job.programs) == passes
        blocks, splits = launches[0].grid
        marks, counters = (1 + blocks if passes == 2 else 0), (blocks if splits > 1 else 0)
        assert job.state_bytes == 4 * (marks + counters)
        assert launches[-1].parameter.view(TASK)["state"].tolist() == [256]
    small = reduce.job(plan_of([8, 8], [1], "L2"), CARD)
    assert (len(small.programs), small.state_bytes) == (1, 0)


def test_large_poolings_take_several_launches():
    desc = {
        "InputTensor": {"DataType": "UINT8", "Sizes": [1, 1, 4096, 4096]},
        "WindowSize": [512, 512],
        "Strides": [1, 1],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
    }
    plan = check({"type": "MAX_POOLING", "desc": desc})
    job = JOBS["MAX_POOLING"](plan, CARD)
    every = job.launches(CudaMemory({"InputTensor": 0}, {"OutputTensor": 0}, 0, 0, 0))
    launches = [launch for launch in every if isinstance(launch, KernelLaunch)]
    pieces = [(int(launch.parameter["first"][0]), int(launch.parameter["outputs"][0])) for launch in launches]
    assert sum(outputs for _, outputs in pieces) == prod(plan.outputs["OutputTensor"].sizes)
    assert [first for first, _ in pieces] == list(itertools.accumulate((n for _, n in pieces[:-1]), initial=0))
    assert max(outputs for _, outputs in pieces) * 512 * 512 <= 2**31


def test_cuda_device_names_are_parsed():
    assert is_device("cuda")
    assert is_device("cuda:1")
    assert is_device("reference")
    assert not any(is_device(name) for name in ("cuda:", "cuda:x", "cuda:-1", "reference:1", "gpu", ""))


def test_cuda_is_imported_only_on_demand():
    code = (
        "import sys, opwire_service.engine.service; from opwire_service.devices import load; "
        "load('reference'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    loaded = done.stdout
    assert "opwire_service.devices.reference" in loaded.split()
    assert [name for name in loaded.split() if name.startswith(("cupy", "numba", "opwire_service.kernels.cuda"))] == []
