"""Failure modes specific to the CUDA device: splits, strips, memory, concurrent plans."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.errors import LimitExceededError
from opwire.tensor import DataType
from opwire_service.devices import load
from opwire_service.devices.base import Device, DeviceUnavailable
from opwire_service.devices.cuda.device import STREAMS, CudaDevice
from opwire_service.execution import Stopped
from tests.oracles import oracle
from tests.support.execution import execute

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]

LEAST = 2.0**-149
STEP = 2.0**-24


@pytest.fixture(scope="module", params=[None, 64], ids=["as it is", "with few float64 units"])
def card(cuda: CudaDevice, request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device, and one that uses the same card as if it had few float64 units."""
    if request.param is None:
        yield cuda
        return
    device = CudaDevice(memory_bytes=2**31)
    device.card = device.card._replace(float64_ratio=request.param)
    yield device
    device.close()


def plan_of(array: np.ndarray, function: str, axes: list[int]) -> Plan:
    tensor = {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape)}
    return check({"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": axes}})


def run(device: Device, plan: Plan, array: np.ndarray) -> np.ndarray:
    """Runs a plan on an array of any size and returns the output."""
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.run(plan, {"InputTensor": np.ascontiguousarray(array)}, outputs, lambda: False)
    return outputs["OutputTensor"]


def exact(values: np.ndarray, function: str) -> Any:
    """Computes the reduction of finite values in Python integers and rounds it once."""
    unit = Fraction(1, 2**149)
    units = [int(Fraction(value) / unit) for value in values.ravel().tolist()]
    total = sum(map(abs, units)) if function == "L1" else sum(units)
    if function == "SUM_SQUARE":
        return oracle.rounded(sum(value * value for value in units) * unit**2, values.dtype)
    return oracle.rounded(total * unit / (values.size if function == "AVERAGE" else 1), values.dtype)


SHAPES = [
    ((300_001,), [0]),
    ((2, 65_536), [1]),
    ((300, 1000), [1]),
    ((20_000, 3), [0]),
    ((5_000, 64), [0]),
    ((3, 700, 96), [1]),
    ((30, 40, 50), [0, 2]),
    ((7, 3, 5, 11, 13), [1, 3]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "L1", "SUM_SQUARE"])
@pytest.mark.parametrize(("sizes", "axes"), SHAPES)
def test_sums_of_every_geometry_are_correctly_rounded(card, function, sizes, axes, dtype):
    generator = np.random.default_rng(7)
    array = (generator.standard_normal(sizes) * 2.0 ** generator.integers(-6, 6, sizes)).astype(dtype)
    result = run(card, plan_of(array, function, axes), array)
    kept = [i for i in range(array.ndim) if i not in axes]
    groups = array.transpose(*kept, *axes).reshape(-1, math.prod(sizes[axis] for axis in axes))
    flat = result.ravel()
    for i in generator.choice(len(groups), min(len(groups), 20), replace=False):
        assert oracle.same(flat[i], exact(groups[i], function))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("function", ["MAX", "MIN", "ARGMAX", "ARGMIN"])
@pytest.mark.parametrize(("sizes", "axes"), SHAPES)
def test_maxima_and_minima_of_every_geometry(cuda, function, sizes, axes, dtype):
    # Few distinct values, so that the first of several maxima must be found across threads, blocks and splits.
    array = np.random.default_rng(8).integers(0, 3, sizes).astype(dtype)
    result = run(cuda, plan_of(array, function, axes), array)
    kept = [i for i in range(array.ndim) if i not in axes]
    groups = array.transpose(*kept, *axes).reshape(-1, math.prod(sizes[axis] for axis in axes))
    right = getattr(groups, function.lower())(axis=1)
    assert result.ravel().tolist() == right.tolist()


def test_decreasing_axes_pick_the_last_of_several_maxima_across_splits(cuda):
    array = np.zeros(1_000_000, np.float32)
    array[[5, 400_000, 999_990]] = 1
    tensor = {"DataType": "FLOAT32", "Sizes": [array.size]}
    desc = {"InputTensor": tensor, "Axes": [0], "AxisDirection": "DECREASING"}
    assert run(cuda, check({"type": "ARGMAX", "desc": desc}), array).tolist() == [999_990]
    assert run(cuda, check({"type": "ARGMIN", "desc": desc}), array).tolist() == [999_999]


ADVERSARIAL = {
    "above a tie": ([1, STEP, LEAST], 1 + 2 * STEP),
    "below a tie": ([1, STEP, -LEAST], 1),
    "cancellation": ([1e30, 1, -1e30, LEAST], 1),
    "to the least": ([1e8, LEAST, -1e8], LEAST),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("rows", [1, 500])
def test_sums_near_a_tie_in_long_rows_are_correctly_rounded(card, name, rows):
    values, right = ADVERSARIAL[name]
    array = np.zeros((rows, 70_000 if rows == 1 else 2_000), np.float32)
    places = np.random.default_rng(9).permuted(np.tile(np.arange(array.shape[1]), (rows, 1)), axis=1)
    for place, value in enumerate(values):
        array[np.arange(rows), places[:, place]] = value
    for axes, data in (([1], array), ([0], np.ascontiguousarray(array.T))):
        assert set(run(card, plan_of(data, "SUM", axes), data).ravel().tolist()) == {np.float32(right)}


def test_sums_of_many_halves_are_exact(card):
    # The sum exceeds what a double holds exactly, and only exact arithmetic rounds it to this side.
    array = np.full(2**22, 65504, np.float16)
    array[::2] = -65504
    array[1] = 2.0**-24
    assert run(card, plan_of(array, "SUM", [0]), array).tolist() == [-65504]
    array[[0, 2, 3]] = 0
    assert run(card, plan_of(array, "SUM", [0]), array).tolist() == [2.0**-24]
    assert run(card, plan_of(array, "L2", [0]), array).tolist() == [np.inf]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_products_of_many_factors(cuda, reference, dtype):
    factors = np.random.default_rng(10).uniform(0.5, 2, (6, 4096)).astype(dtype)
    factors[1, 17] = 0
    factors[2, [5, 9]] = 0, np.inf
    factors[3, 4000] = -np.inf
    for axes, data in (([1], factors), ([0], np.ascontiguousarray(factors[:, :64].T.repeat(3, 0)))):
        plan = plan_of(data, "MULTIPLY", axes)
        for given, right in zip(run(cuda, plan, data).ravel(), run(reference, plan, data).ravel(), strict=True):
            assert oracle.same(given, right)


ROWS = [((300, 1000), [1]), ((5_000, 64), [0]), ((2, 65_536), [1]), ((300_001,), [0]), ((6, 700, 96), [1])]
"""Sizes and axes of reductions that have a fast pass."""


def with_scattered(sizes: tuple[int, ...], axes: list[int], values: list[float], rest: float, dtype: Any) -> np.ndarray:
    """Returns an array in which every reduced row has the same values, scattered among a filler."""
    (axis,) = axes
    array = np.full(sizes, rest, dtype)
    rows = np.moveaxis(array, axis, -1)
    places = np.random.default_rng(13).choice(sizes[axis], len(values), replace=False)
    rows[..., places] = np.array(values, dtype)
    return array


OPEN: dict[tuple[str, Any, str], tuple[list[float], float, float]] = {
    ("SUM_SQUARE", np.float32, "a tie"): ([4096, 1], 0, 2.0**24),
    ("SUM_SQUARE", np.float32, "above a tie"): ([4096, 1, 2.0**-14], 0, 2.0**24 + 2),
    ("SUM_SQUARE", np.float16, "a tie"): ([45, 4, 2, 2], 0, 2048),
    ("SUM_SQUARE", np.float16, "above a tie"): ([45, 4, 2, 2, 2.0**-24], 0, 2050),
    ("L2", np.float16, "a tie"): ([45, 4, 2, 2, 0], 0, 45.28125),
    ("MULTIPLY", np.float32, "a tie"): ([97, 257, 673], 1, 2.0**24),
    ("MULTIPLY", np.float16, "a tie"): ([3, 683], 1, 2048),
    ("MULTIPLY", np.float16, "least"): ([2.0**-24, 0.5], 1, 0),
    ("MULTIPLY", np.float16, "far off"): ([2.0**-24] * 40 + [2.0**15] * 64, 1, 1),
    ("MULTIPLY", np.float32, "far off"): ([2.0**-140] * 40 + [2.0**112] * 50, 1, 1),
}
"""Reductions that the fast pass cannot certify, or that exceed a double on the way: values, filler, result."""


@pytest.mark.parametrize(("sizes", "axes"), ROWS)
@pytest.mark.parametrize("case", OPEN, ids=lambda case: f"{case[0]}-{case[1].__name__}-{case[2]}")
def test_results_the_fast_pass_cannot_round_are_settled(card, case, sizes, axes):
    (function, dtype, _), (values, rest, right) = case, OPEN[case]
    array = with_scattered(sizes, axes, values, rest, dtype)
    plan = plan_of(array, function, axes)
    assert len(card.job(plan).programs) == 2
    assert set(run(card, plan, array).ravel().tolist()) == {float(dtype(right))}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("sizes", "axes"), ROWS)
def test_log_sum_exp_of_extreme_values(card, sizes, axes, dtype):
    terms = sizes[axes[0]]
    limit = float(np.finfo(dtype).max)
    for value in (0, 1, -math.log(terms), 60000, -60000, 0.3 * limit, -limit, 2.0**-14):
        array = np.full(sizes, value, dtype)
        exact_value = Decimal(float(array.flat[0])) + Decimal(terms).ln()
        for given in run(card, plan_of(array, "LOG_SUM_EXP", axes), array).ravel()[:3]:
            assert oracle.close(given, dtype(float(exact_value))), (value, given)
    for value, right in ((np.inf, np.inf), (np.nan, np.nan), (-np.inf, math.log(terms - 1))):
        array = with_scattered(sizes, axes, [value], 0, dtype)
        for given in run(card, plan_of(array, "LOG_SUM_EXP", axes), array).ravel()[:3]:
            assert oracle.close(given, dtype(right)), (value, given)
    array = np.full(sizes, -np.inf, dtype)
    assert set(run(card, plan_of(array, "LOG_SUM_EXP", axes), array).ravel().tolist()) == {-np.inf}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("scale", [0.01, 1, 30, 10000])
@pytest.mark.parametrize(("sizes", "axes"), ROWS)
def test_log_sum_exp_is_within_one_ulp(card, sizes, axes, scale, dtype):
    (axis,) = axes
    array = (np.random.default_rng(14).standard_normal(sizes) * scale).astype(dtype)
    # Rows around zero, where the fast pass is not accurate enough, and others.
    array -= (
        np.linspace(0, 2 * math.log(sizes[axis]), array.size // sizes[axis])
        .reshape([1 if i == axis else size for i, size in enumerate(sizes)])
        .astype(dtype)
    )
    wide = array.astype(np.longdouble)
    top = wide.max(axis, keepdims=True)
    right = (top + np.log(np.exp(wide - top).sum(axis, keepdims=True))).astype(np.float64).astype(dtype)
    given = run(card, plan_of(array, "LOG_SUM_EXP", axes), array)
    unit = np.spacing(np.abs(right)).astype(np.float64)
    assert (np.abs(given.astype(np.float64) - right) <= np.maximum(unit, 1e-15)).all()


POOLINGS = [
    ([2, 3, 37, 41], [3, 3], [2, 2], [1, 1], [1, 1]),
    ([2, 3, 36, 48], [3, 3], [2, 2], [1, 1], [1, 1]),
    ([1, 4, 32, 32], [2, 2], [2, 2], [0, 0], [1, 1]),
    ([1, 4, 31, 64], [3, 3], [1, 1], [1, 1], [1, 1]),
    ([1, 2, 20, 40], [2, 5], [1, 3], [1, 4], [3, 2]),
    ([1, 2, 17, 19], [8, 2], [1, 1], [0, 0], [1, 1]),
    ([1, 2, 60, 60], [50, 50], [3, 3], [0, 0], [1, 1]),
    ([1, 2, 6, 7, 9], [2, 3, 2], [1, 2, 1], [1, 1, 0], [1, 1, 2]),
]


def pooled(data: np.ndarray, row: tuple[list[int], ...]) -> Plan:
    """Returns the plan of a max pooling with indices."""
    sizes, window, strides, padding, dilations = row
    desc: dict[str, object] = {
        "InputTensor": {"DataType": DataType.of(data.dtype).name, "Sizes": sizes},
        "WindowSize": window,
        "Strides": strides,
        "StartPadding": padding,
        "EndPadding": padding,
        "Dilations": dilations,
    }
    results = check({"type": "MAX_POOLING2", "desc": desc}).outputs["OutputTensor"].sizes
    desc["OutputIndicesTensor"] = {"DataType": "UINT32", "Sizes": list(results)}
    return check({"type": "MAX_POOLING2", "desc": desc})


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint16, np.int64])
@pytest.mark.parametrize("row", POOLINGS)
def test_pooling_of_every_geometry_matches_the_reference(cuda, reference, row, dtype):
    generator = np.random.default_rng(11)
    array = generator.integers(-3, 3, row[0]).astype(dtype)
    if array.dtype.kind == "f":
        array[generator.random(array.shape) < 0.3] = np.nan
        array[generator.random(array.shape) < 0.2] = -0.0
        array[..., :7, :9] = np.nan
    else:
        array[..., :7, :9] = np.iinfo(dtype).min
    plan = pooled(array, row)
    given, right = (execute(device, plan, {"InputTensor": array.tobytes()}) for device in (cuda, reference))
    for name in right:
        assert given[name].tobytes() == right[name].tobytes()


def mixed_plans() -> list[tuple[Plan, np.ndarray]]:
    generator = np.random.default_rng(12)
    plans = []
    for i, function in enumerate(("SUM", "MAX", "ARGMAX", "L2", "MULTIPLY", "AVERAGE", "MIN", "LOG_SUM_EXP")):
        array = generator.standard_normal((3 + i, 8 << i, 5)).astype(np.float32)
        plans.append((plan_of(array, function, [i % 3]), array))
    for row in POOLINGS[:2]:
        array = generator.standard_normal(row[0]).astype(np.float32)
        plans.append((pooled(array, row), array))
    return plans


@pytest.mark.serial
def test_concurrent_plans_leak_no_memory(cuda):
    plans = mixed_plans()
    right = [run(cuda, plan, array).tobytes() for plan, array in plans]
    wrong = threading.Event()

    def work(i: int) -> None:
        plan, array = plans[i % len(plans)]
        if run(cuda, plan, array).tobytes() != right[i % len(plans)]:
            wrong.set()

    with ExitStack() as blocks:  # one block per stream and size, the most that can be in use at once
        for plan, _ in plans:
            for _ in range(STREAMS):
                blocks.enter_context(cuda.memory.block(cuda.memory_needed(plan), lambda: False))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(500)))
        warm = cuda.describe()["card_memory"], free_memory()
        list(threads.map(work, range(10_000)))
    assert not wrong.is_set()
    assert (cuda.describe()["card_memory"], free_memory()) == warm


def free_memory() -> int:
    """Returns the bytes of free memory on the card."""
    return int(import_module("cupy").cuda.runtime.memGetInfo()[0])


def test_plans_that_exceed_the_memory_budget_are_refused(cuda):
    small = CudaDevice(memory_bytes=2**20)
    array = np.ones(2**19, np.float32)
    with pytest.raises(LimitExceededError) as refusal:
        run(small, plan_of(array, "SUM", [0]), array)
    assert refusal.value.limit == 2**20
    assert refusal.value.size > array.nbytes
    assert run(small, plan_of(array[: 2**17], "SUM", [0]), array[: 2**17]).tolist() == [2**17]
    small.close()


def test_a_plan_waiting_for_memory_can_be_stopped(cuda):
    small = CudaDevice(memory_bytes=2**20)
    array = np.ones(2**17, np.float32)
    plan = plan_of(array, "SUM", [0])
    outputs = {"OutputTensor": np.empty(1, np.float32)}
    with small.memory.block(2**19, lambda: False), pytest.raises(Stopped):
        small.run(plan, {"InputTensor": array}, outputs, lambda: True)
    assert run(small, plan, array).tolist() == [2**17]
    small.close()


def test_an_index_beyond_the_last_card_is_unavailable(cuda):
    with pytest.raises(DeviceUnavailable, match="there is no cuda:99"):
        load("cuda:99")


BROKEN = """
import numpy as np
from opwire.check import check
from opwire.errors import UnavailableError
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.kernels.cuda.job import Card, CudaMemory

device = CudaDevice(memory_bytes=2**20)
tensor = {"DataType": "FLOAT32", "Sizes": [8]}
plan = check({"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": tensor, "Axes": [0]}})
nowhere = CudaMemory({"InputTensor": 2**20}, {"OutputTensor": 2**20}, 0, 0, 0)
try:
    with device.lane(lambda: False) as lane:
        device.enqueue(device.job(plan), nowhere, lane.stream, lambda: False)
except device.failures:
    pass

def answer():
    try:
        device.run(plan, {"InputTensor": np.ones(8, "f4")}, {"OutputTensor": np.ones(1, "f4")}, lambda: False)
    except UnavailableError as error:
        return error.status, error.retry_after

print(answer(), answer(), device.broken is not None)
"""


def test_a_failed_card_refuses_with_a_retryable_error(cuda):
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.strip() == "(503, 1.0) (503, 1.0) True", done.stderr
