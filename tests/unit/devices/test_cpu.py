"""The CPU device itself: the same bits on any number of threads, and bounded work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import DataType
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.kept import PLANS
from opwire_service.execution import Stopped
from tests.support.execution import never_stop, run

THREADS = (1, 2, 3, 8)

FUNCTIONS = (
    *("SUM", "AVERAGE", "L1", "L2", "SUM_SQUARE", "MULTIPLY"),
    *("LOG_SUM", "LOG_SUM_EXP", "MIN", "MAX", "ARGMIN", "ARGMAX"),
)


@pytest.fixture(scope="module")
def devices(cpu_device) -> Iterator[dict[int, CpuDevice]]:
    made = {threads: CpuDevice(threads) for threads in THREADS}
    for device in made.values():
        device.warm_up()
    yield made
    for device in made.values():
        device.close()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("shape", "axes"), [((700, 1500), [1]), ((1500, 700), [0]), ((3, 400_000), [0, 1])])
def test_results_do_not_depend_on_the_number_of_threads(devices, shape, axes, function):
    values = np.exp2(np.random.default_rng(0).standard_normal(shape) * 0.3).astype(np.float32)
    results = [run_plain(device, function, values, axes) for device in devices.values()]
    for result in results[1:]:
        assert result.tobytes() == results[0].tobytes()


def run_plain(device: CpuDevice, function: str, values: np.ndarray, axes: list[int]) -> np.ndarray:
    tensor = {"DataType": "FLOAT32", "Sizes": list(values.shape)}
    plan = check({"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": axes}})
    desc = plan.outputs["OutputTensor"]
    result = np.empty(desc.sizes, desc.data_type.dtype)
    device.run(plan, {"InputTensor": values}, {"OutputTensor": result}, never_stop)
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 70_000), 1), ((70_000, 40), 0), ((3, 300, 257), 1), ((2, 200_001), 1), ((40_000, 3), 0)]
)
def test_maxima_and_minima_of_large_tensors(cpu_device, shape, axis, dtype):
    random = np.random.default_rng(shape[0])
    if np.issubdtype(dtype, np.floating):
        values = random.choice(np.array([0.0, -0.0, -1, np.nan, 2, -np.inf], dtype), shape)
        values[..., 0] = np.nan
        numbers = np.where(np.isnan(values), -np.inf, values)
    else:
        values = numbers = random.integers(0, 50, shape).astype(dtype)
    last = shape[axis] - 1
    for direction, right in (
        ("INCREASING", numbers.argmax(axis)),
        ("DECREASING", last - np.flip(numbers, axis).argmax(axis)),
    ):
        fields = {"Axes": [axis], "AxisDirection": direction}
        found = execute_large(cpu_device, "ARGMAX", values, fields).squeeze(axis)
        # NumPy cannot tell all-NaN or -inf rows apart: the winner must be -inf if there is one.
        ordinary = numbers.max(axis) > numbers.min() if numbers.dtype.kind == "f" else np.ones(found.shape, bool)
        assert (found == right)[ordinary].all()
    greatest = execute_large(cpu_device, "REDUCE", values, {"Axes": [axis], "Function": "MAX"})
    first = np.take_along_axis(values, np.expand_dims(numbers.argmax(axis), axis), axis)
    usual = np.expand_dims(ordinary, axis)
    assert greatest[usual].tobytes() == first[usual].tobytes()


def execute_large(device: CpuDevice, operator: str, values: np.ndarray, fields: Mapping[str, object]) -> np.ndarray:
    tensor = {"DataType": DataType.of(values.dtype).name, "Sizes": list(values.shape)}
    plan = check({"type": operator, "desc": {"InputTensor": tensor, **fields}})
    desc = plan.outputs["OutputTensor"]
    result = np.empty(desc.sizes, desc.data_type.dtype)
    device.run(plan, {"InputTensor": values}, {"OutputTensor": result}, never_stop)
    return result


def test_a_window_as_large_as_the_tensor_is_reduced_in_parallel(cpu_device):
    sizes = [1, 1, 64, 512, 512]
    values = np.zeros(sizes, np.float32)
    values[0, 0, 40, 300, 200] = 7
    fields = {
        "WindowSize": sizes[2:],
        "Strides": [1, 1, 1],
        "StartPadding": [0, 0, 0],
        "EndPadding": [0, 0, 0],
        "Dilations": [1, 1, 1],
        "OutputIndicesTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, 1, 1]},
    }
    outputs = run(cpu_device, "MAX_POOLING2", values, **fields)
    assert outputs["OutputTensor"].ravel().tolist() == [7]
    assert outputs["OutputIndicesTensor"].ravel().tolist() == [int(values.argmax())]


EVICTED = [
    *(
        ("ARGMAX", sizes, axis)
        for sizes, axis in (((300, 7), 1), ((2000, 700), 1), ((2000, 700), 0), ((2, 300_000), 1))
    ),
    *((function, sizes, 1) for function, sizes in (("SUM", (50, 9)), ("MAX", (2, 300_000)), ("SUM", (2, 300_000)))),
]
"""Plans with few and many units, and with one and several steps."""


def test_plans_run_again_after_eviction(cpu_device):
    runs = []
    for function, sizes, axis in EVICTED:
        values = np.random.default_rng(0).integers(0, 1000, sizes, np.int32)
        tensor = {"DataType": "INT32", "Sizes": list(sizes)}
        plan = check({"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": [axis]}})
        desc = plan.outputs["OutputTensor"]
        result = np.zeros(desc.sizes, desc.data_type.dtype)
        again = partial(cpu_device.run, plan, {"InputTensor": values}, {"OutputTensor": result})
        again(never_stop)
        runs.append((again, result, getattr(values, function.lower())(axis, keepdims=True)))
    for size in range(2, PLANS + 100):
        run_maximum(cpu_device, np.zeros((3, size), np.int8))
    for again, result, right in runs:
        result.fill(0)
        again(never_stop)
        assert (result == right).all()


def run_maximum(device: CpuDevice, values: np.ndarray) -> None:
    tensor = {"DataType": DataType.of(values.dtype).name, "Sizes": list(values.shape)}
    plan = check({"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": tensor, "Axes": [1]}})
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.run(plan, {"InputTensor": values}, outputs, never_stop)


BOMBS = [
    {"type": "REDUCE", "desc": {"Function": function, "Axes": [0], "InputTensor": {"DataType": data_type}}}
    for data_type, function in (("FLOAT32", "MULTIPLY"), ("FLOAT16", "LOG_SUM_EXP"), ("FLOAT32", "SUM"))
]


@pytest.mark.usefixtures("gc_disabled")
@pytest.mark.parametrize("operator", BOMBS, ids=lambda operator: operator["desc"]["Function"])
@pytest.mark.parametrize("sizes", [[2**32 - 1, 1], [2**20, 4095]])
def test_endless_work_stops_soon(cpu_device, operator, sizes):
    tensor = {**operator["desc"]["InputTensor"], "Sizes": sizes, "Strides": [0, 0]}
    plan = check({**operator, "desc": {**operator["desc"], "InputTensor": tensor}})
    desc = plan.outputs["OutputTensor"]
    source = plan.inputs["InputTensor"].view(bytearray(b"\x00\x3c\x00\x3c"))
    result = np.empty(desc.sizes, desc.data_type.dtype)
    told: list[float] = []
    deadline = time.monotonic() + 0.05

    def stop() -> bool:
        if time.monotonic() > deadline:
            told.append(time.process_time())
        return bool(told)

    with pytest.raises(Stopped):
        cpu_device.run(plan, {"InputTensor": source}, {"OutputTensor": result}, stop)
    # CPU time of all threads, because other processes may be running; 20 ms on an idle machine.
    assert time.process_time() - told[0] < 1


def test_concurrent_runs_do_not_interfere(cpu_device):
    values = np.random.default_rng(3).standard_normal((600, 900)).astype(np.float32)
    right = values.max(1, keepdims=True)
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.append(run_plain(cpu_device, "MAX", values, [1]))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    assert all((result == right).all() for result in results)


@pytest.mark.parametrize(("function", "is_inline"), [("AVERAGE", True), ("MAX", False)])
def test_reference_fallbacks_run_inline_only_if_tiny(cpu_device, function, is_inline):
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 8, 8]},
        "ROITensor": {"DataType": "FLOAT32", "Sizes": [4, 4]},
        "BatchIndicesTensor": {"DataType": "UINT32", "Sizes": [4]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [4, 1, 16, 16]},
        "ReductionFunction": function,
        "InterpolationMode": "LINEAR",
        "SpatialScaleX": 1,
        "SpatialScaleY": 1,
        "OutOfBoundsInputValue": 0,
        "MinimumSamplesPerOutput": 1,
        "MaximumSamplesPerOutput": 1,
    }
    assert cpu_device.runs_inline(check({"type": "ROI_ALIGN", "desc": desc})) is is_inline


@pytest.mark.parametrize(("alpha", "is_inline"), [(1, True), (-1, False)])
def test_cancelling_terms_are_not_added_inline(cpu_device, alpha, is_inline):
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 4, 16, 16]}
    desc = {"InputTensor": tensor, "CrossChannel": True, "LocalSize": 3, "Alpha": alpha, "Beta": 0.75, "Bias": 1}
    plan = check({"type": "LOCAL_RESPONSE_NORMALIZATION", "desc": desc})
    assert cpu_device.runs_inline(plan) is is_inline
