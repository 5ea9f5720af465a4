"""Graphs that run repeatedly: what the CPU device prepares once never shows in a result, nor keeps anything alive."""

from __future__ import annotations

import gc
import time
import weakref
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from opwire.check import Plan
from opwire.graph import CONSTANT, check_graph
from opwire.tensor import Array
from opwire_service.devices import load
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.execution import FixedMemory, Stopped
from opwire_service.kernels.cpu.elementwise.kernel import is_ready
from opwire_service.kernels.cpu.run.bound_graph import COPIED_BYTES, BoundGraphs
from tests.support.execution import never_stop

SIZES = [1, 1, 20, 30]
TENSOR = {"DataType": "INT32", "Sizes": SIZES}
TIMES = 3


def node(operator: str, **sources: str) -> dict[str, Any]:
    desc = dict.fromkeys((*sources, "OutputTensor"), TENSOR)
    return {"type": operator, "desc": desc, "inputs": sources}


GRAPH = {
    "nodes": {
        "one": {"constant": ""},
        "two": {"constant": ""},
        "both": node("ELEMENT_WISE_MULTIPLY", ATensor="one", BTensor="two"),
        "twice": node("ELEMENT_WISE_ADD", ATensor="both", BTensor="both"),
        "more": node("ELEMENT_WISE_ADD", ATensor="twice", BTensor="twice"),
        "y": node("ELEMENT_WISE_ADD", ATensor="input:x", BTensor="more"),
    },
    "outputs": {"y": "y"},
}
"""``x + 4 * one * two``, in three parts: what two tensors of a step read is not fused into it."""


@pytest.fixture
def plan() -> Plan:
    return check_graph(GRAPH)


def drawn(seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {name: random.integers(-999, 999, SIZES, np.int32) for name in (CONSTANT + "one", CONSTANT + "two", "x")}


def expected(inputs: dict[str, Array]) -> Array:
    one, two, x = inputs.values()
    y: Array = x + 4 * one * two
    return y


def run(device: Device, plan: Plan, inputs: dict[str, Array], stop=never_stop) -> Array:
    y = np.zeros(SIZES, np.int32)
    device.run(plan, inputs, {"y": y}, stop)
    return y


@pytest.fixture
def bound(cpu_device: CpuDevice, plan: Plan) -> dict[str, Array]:
    """Constants that the graph is bound to, and an input."""
    cpu_device.warm_up()
    inputs = drawn(0)
    for _ in range(TIMES):
        assert np.array_equal(run(cpu_device, plan, inputs), expected(inputs))
    assert bound_parts(cpu_device, plan) == [True, True, True]
    return inputs


def bound_parts(device: CpuDevice, plan: Plan) -> list[bool]:
    """Returns for each part that every run of a graph runs whether it is bound."""
    graph, _ = device._graphs._kept[plan]
    return [part is not None for _, part in graph._parts]


def fixed(array: Array) -> memoryview:
    return FixedMemory.fix(array.data.cast("B"))


def on(memory: memoryview) -> Array:
    return np.frombuffer(memory, np.int32).reshape(SIZES)


def test_each_run_reads_its_input_and_the_constants_as_they_are(cpu_device, plan, bound):
    for seed in range(1, 4):
        for name, array in drawn(seed).items():
            bound[name][...] = array
        assert np.array_equal(run(cpu_device, plan, bound), expected(bound))


def test_constants_may_be_elsewhere_in_the_next_run(cpu_device, plan, bound):
    for seed in range(1, 4):
        inputs = drawn(seed)
        assert np.array_equal(run(cpu_device, plan, inputs), expected(inputs))
        assert np.array_equal(run(cpu_device, plan, bound), expected(bound))


def test_constants_may_lie_at_any_byte(cpu_device, plan, bound):
    inputs = drawn(1)
    for name in inputs:
        memory = bytearray(inputs[name].nbytes + 4)
        moved = np.frombuffer(memory, np.int32, offset=4).reshape(SIZES)
        moved[...] = inputs[name]
        inputs[name] = moved
    for _ in range(TIMES):
        assert np.array_equal(run(cpu_device, plan, inputs), expected(inputs))


def test_constants_are_not_kept_alive(cpu_device, plan, bound):
    watched = [weakref.ref(array) for array in bound.values()]
    bound.clear()
    gc.collect()
    assert [each() for each in watched] == [None] * 3


def test_constants_that_cannot_be_written_to_may_change_all_the_same(cpu_device, plan, bound):
    inputs = {name: np.broadcast_to(array, SIZES) for name, array in bound.items()}
    for seed in range(1, 4):
        for name, array in drawn(seed).items():
            bound[name][...] = array
        assert np.array_equal(run(cpu_device, plan, inputs), expected(bound))


def test_what_depends_on_fixed_constants_alone_runs_once(cpu_device, plan, bound):
    one, two, _ = bound
    memory = {name: fixed(bound[name].copy()) for name in (one, two)}
    for seed in range(TIMES):
        inputs = {**{name: on(each) for name, each in memory.items()}, "x": drawn(seed)["x"]}
        assert np.array_equal(run(cpu_device, plan, inputs), expected(inputs))
        assert bound_parts(cpu_device, plan) == [True]


def test_fixed_constants_of_another_owner_are_read_anew(cpu_device, plan, bound):
    one, two, x = bound
    for seed in range(TIMES):
        bound[one][...] = drawn(seed)[one]
        inputs = {one: on(fixed(bound[one])), two: on(fixed(bound[two])), x: bound[x]}
        for _ in range(TIMES):
            assert np.array_equal(run(cpu_device, plan, inputs), expected(inputs))


def test_fixed_constants_are_not_kept_alive(cpu_device, plan, bound):
    memory = {name: fixed(bound[name]) for name in bound}
    watched = [weakref.ref(FixedMemory.under(on(each))) for each in memory.values()]
    for _ in range(TIMES):
        run(cpu_device, plan, {name: on(each) for name, each in memory.items()})
    memory.clear()
    gc.collect()
    assert [each() for each in watched] == [None] * 3


def test_a_stopped_run_leaves_work_that_is_done_once_to_the_next_one(cpu_device, plan, bound):
    for polls in range(3):
        inputs = {name: on(fixed(each)) for name, each in bound.items()}
        answers = iter([False] * polls + [True])
        with pytest.raises(Stopped):
            run(cpu_device, plan, inputs, answers.__next__)
        assert np.array_equal(run(cpu_device, plan, inputs), expected(inputs))


def test_large_tensors_are_read_and_written_in_place(cpu_device):
    cpu_device.warm_up()
    sizes = [1, 1, 1, COPIED_BYTES // 4 + 1]
    tensor = {"DataType": "INT32", "Sizes": sizes}
    desc = dict.fromkeys(("ATensor", "BTensor", "OutputTensor"), tensor)
    adds = {"type": "ELEMENT_WISE_ADD", "desc": desc}
    nodes = {
        "more": {**adds, "inputs": {"ATensor": "input:x", "BTensor": "input:x"}},
        "most": {**adds, "inputs": {"ATensor": "more", "BTensor": "more"}},
        "y": {**adds, "inputs": {"ATensor": "most", "BTensor": "most"}},
    }
    plan = check_graph({"nodes": nodes, "outputs": {"y": "y"}})
    for seed in range(TIMES):
        x = np.random.default_rng(seed).integers(-999, 999, sizes, np.int32)
        y = np.zeros_like(x)
        cpu_device.run(plan, {"x": x}, {"y": y}, never_stop)
        assert np.array_equal(y, 8 * x)
    assert bound_parts(cpu_device, plan) == [False, True, False]


def test_a_run_during_another_one_is_its_own(cpu_device, plan, bound):
    others: list[Array] = []

    def run_other() -> bool:
        if not others:
            others.append(np.zeros(0))
            others.append(run(cpu_device, plan, {**bound, "x": bound["x"] + 1}))
        return False

    assert np.array_equal(run(cpu_device, plan, bound, run_other), expected(bound))
    assert np.array_equal(others[1], expected(bound) + 1)


def test_a_stopped_run_leaves_the_next_one_right(cpu_device, plan, bound):
    for polls in range(3):
        answers = iter([False] * polls + [True])
        with pytest.raises(Stopped):
            run(cpu_device, plan, bound, answers.__next__)
        assert np.array_equal(run(cpu_device, plan, bound), expected(bound))


def test_graphs_are_kept_as_far_as_their_memory_fits(cpu_device, plan, bound):
    job = cpu_device._prepare(plan).job
    find, pool = cpu_device._library.find, cpu_device._pool
    size = job.scratch_bytes(pool.threads)
    other = check_graph(GRAPH)
    kept = BoundGraphs(find, pool, 2 * size)
    first = kept.of(plan, job, bound)
    assert kept.of(plan, job, bound) is first
    kept.of(other, cpu_device._prepare(other).job, bound)
    assert kept.of(plan, job, bound) is not first
    assert BoundGraphs(find, pool, size - 1).of(plan, job, bound) is None


@pytest.mark.parametrize("operator", ["ACTIVATION_SIGMOID", "ACTIVATION_SOFTSIGN"])
@pytest.mark.parametrize("count", [1, 7, 200])
def test_few_elements_are_the_same_in_a_bound_kernel(cpu_device, operator, count):
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, count]}
    names = ["input:x", "first", "middle", "y"]
    nodes = {
        name: {
            "type": operator,
            "desc": {"InputTensor": tensor, "OutputTensor": tensor},
            "inputs": {"InputTensor": source},
        }
        for source, name in pairwise(names)
    }
    plan, x = check_graph({"nodes": nodes, "outputs": {"y": "y"}}), np.linspace(-3, 3, count, dtype=np.float32)
    inputs, right, found = ({name: np.zeros((1, 1, 1, count), np.float32)} for name in "xyy")
    inputs["x"][...] = x
    with closing(load("reference")) as reference:
        reference.run(plan, inputs, right, never_stop)
    middle = cpu_device._prepare(plan).job.parts[1].job
    for _ in range(500):
        is_compiled = is_ready(middle._compiled.recipe)
        cpu_device.run(plan, inputs, found, never_stop)
        np.testing.assert_array_equal(found["y"], right["y"])
        if is_compiled:
            break
        time.sleep(0.02)
    assert is_compiled
