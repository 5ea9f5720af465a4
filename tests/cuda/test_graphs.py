"""Graphs on a card: the same bits as their nodes one by one, no leaks, and stopping halfway."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire.errors import ContractViolation, LimitExceededError
from opwire.graph import check_graph
from opwire.tensor import Array, DataType
from opwire_service.devices import load
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.cuda.device import MAX_SINGLE_RESULTS, CudaDevice
from opwire_service.execution import Stopped
from tests.support.elements import FORMULAS, drawn_floats
from tests.support.execution import execute
from tests.support.gpu.every_kernel import regrouped
from tests.support.profiles import examples
from tests.unit.kernels.test_chains import (
    ALONE,
    SIZES,
    branches,
    chains,
    declared_as_bytes,
    inputs_of,
    node_of,
    one_by_one,
    one_by_one_large,
    random_chain,
)

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


def run(device: Device, graph: dict[str, Any], x: Array) -> Array:
    """Runs a graph with one input of any size and returns the output."""
    plan = check_graph(graph)
    y = np.empty_like(x)
    device.run(plan, {"x": x}, {"y": y}, lambda: False)
    return y


def run_node_by_node(device: Device, graph: dict[str, Any], x: Array) -> Array:
    known = {"input:x": x}
    for name, node in graph["nodes"].items():
        plan = check({"type": node["type"], "desc": node["desc"]})
        known[name] = np.empty_like(x)
        arrays = {member: known[source] for member, source in node["inputs"].items()}
        device.run(plan, arrays, {"OutputTensor": known[name]}, lambda: False)
    return known["last"]


def test_random_graphs_match_the_reference_bit_for_bit(cuda, reference):
    @examples(25)
    @given(chains(), st.integers(0, 99))
    def holds(graph, seed):
        plan = check_graph(graph)
        dtype = next(iter(plan.inputs.values())).data_type.dtype
        random = np.random.default_rng(seed)
        arrays = {"x": random.standard_normal(SIZES).astype(dtype), "y": random.standard_normal((3, 4)).astype(dtype)}
        data = inputs_of(plan, arrays)
        found, read_otherwise = (execute(cuda, each, data) for each in (plan, check_graph(declared_as_bytes(graph))))
        for name, right in one_by_one(reference, graph, arrays).items():
            assert found[name].tobytes() == read_otherwise[name].tobytes() == right.tobytes()

    holds()


OPERATORS = [
    ["ELEMENT_WISE_ADD", "ACTIVATION_RELU", "ELEMENT_WISE_ADD", "ACTIVATION_SIGMOID", "ELEMENT_WISE_ADD"],
    [name for name in ALONE if name not in ("ACTIVATION_SHRINK",)],
]


@pytest.mark.parametrize("operators", OPERATORS, ids=["sums", "functions"])
@pytest.mark.parametrize("count", [1, 1003, 2_000_001])
def test_fused_chains_match_their_operators_run_one_by_one(cuda, operators, count):
    graph = branches(count, operators)
    for name, operator in zip(("n" + str(i) for i in range(99)), operators, strict=False):
        graph["nodes"][name]["desc"] |= ALONE.get(operator, {})
    x = np.random.default_rng(0).standard_normal(count, np.float32)
    assert run(cuda, graph, x).tobytes() == run_node_by_node(cuda, graph, x).tobytes()


@pytest.mark.parametrize("most", [41, 2001], ids=["few", "many"])
def test_elements_the_card_cannot_round_are_settled_before_they_are_read(cuda, reference, most):
    """1.5 times a small odd multiple of the least subnormal is a tie, and the exact result is just above it."""
    x = np.zeros(5000, np.float32)
    x[100 : 100 + most] = np.arange(-most, most, 2, dtype=np.float32) * np.float32(2.0**-149)
    graph = branches(len(x), ["ACTIVATION_ELU", "ELEMENT_WISE_ADD", "ACTIVATION_ELU"])
    for name in ("n0", "n2"):
        graph["nodes"][name]["desc"]["Alpha"] = 1.5
    mended: list[Any] = []

    class Watched(CudaDevice):
        def _undecided(self, stage: Any, base: int, lane: Any, stop: Any) -> Any:
            found = super()._undecided(stage, base, lane, stop)
            mended.append(found)
            return found

    device = Watched(memory_bytes=2**26)
    try:
        found = run(device, graph, x)
    finally:
        device.close()
    counts = [len(each.places) for each in mended if each is not None]
    assert (0 < max(counts) <= MAX_SINGLE_RESULTS) == (most == 41)
    assert found.tobytes() == run_node_by_node(reference, graph, x).tobytes()


def single_type_operators(data_type: DataType) -> list[str]:
    """Returns the element-wise operators whose tensors can all have this type, except those that need channels."""
    found = []
    for name in FORMULAS:
        with suppress(ContractViolation):  # it does not take the type, or not vectors
            plan = check(node_of(name, data_type, 3))
            found += [name] * all(desc.data_type is data_type for desc in plan.outputs.values())
    return found


@pytest.mark.parametrize("data_type", [DataType.FLOAT32, DataType.FLOAT16, DataType.INT32])
def test_random_chains_of_all_operators_match_the_cpu(cuda, data_type):
    cpu, draw = load("cpu"), np.random.default_rng(5)
    assert isinstance(cpu, CpuDevice)
    with np.errstate(over="ignore"):
        x = drawn_floats(3001, seed=2).astype(data_type.dtype) if data_type.is_float else np.arange(-1500, 1501)
    x = x.astype(data_type.dtype)
    for _ in range(6):
        graph = random_chain(single_type_operators(data_type), data_type, len(x), draw)
        found, right = run(cuda, graph, x), one_by_one_large(cpu, graph, x, "n5")
        unlike = found.view(f"u{found.itemsize}") != right.view(f"u{right.itemsize}")
        if data_type.is_float:
            unlike &= ~(np.isnan(found) & np.isnan(right))
        assert not unlike.any(), [node["type"] for node in graph["nodes"].values()]
    cpu.close()


def test_a_step_can_read_the_gaps_in_the_output_of_another(cuda, reference):
    plan = regrouped()
    x = np.random.default_rng(3).uniform(0, 9, (5, 7)).astype(np.float32)
    results = [execute(device, plan, {"x": x.tobytes()}) for device in (cuda, reference)]
    assert results[0]["y"].tobytes() == results[1]["y"].tobytes()


def test_a_tensor_can_be_several_outputs(cuda):
    desc = {"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [8, 2]}
    packed = {"DataType": "FLOAT32", "Sizes": [2, 3]}
    nodes = {
        "a": {
            "type": "ELEMENT_WISE_ADD",
            "desc": {"ATensor": packed, "BTensor": packed, "OutputTensor": desc},
            "inputs": {"ATensor": "input:x", "BTensor": "input:x"},
        },
        "b": {"type": "ELEMENT_WISE_SQRT", "desc": {"InputTensor": desc}, "inputs": {"InputTensor": "a"}},
    }
    plan = check_graph({"nodes": nodes, "outputs": {"one": "a", "other": "a", "root": "b"}})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = execute(cuda, plan, {"x": x.tobytes()})
    assert found["one"].tolist() == found["other"].tolist() == (2 * x).tolist()
    assert found["root"].tolist() == np.sqrt(2 * x).tolist()


def test_graphs_leak_no_memory(cuda):
    graph = branches(100_000, OPERATORS[0])
    plan = check_graph(graph)
    x = np.random.default_rng(1).standard_normal(100_000, np.float32)
    with cuda.admit(plan):
        assert cuda.memory.promised >= cuda.memory_needed(plan)
        right = run(cuda, graph, x).tobytes()
    reserved = cuda.memory.reserved
    for _ in range(20):
        y = np.empty_like(x)
        cuda.run(plan, {"x": x}, {"y": y}, lambda: False)
        assert y.tobytes() == right
    assert (cuda.memory.in_use, cuda.memory.promised, cuda.memory.reserved) == (0, 0, reserved)


def test_a_graph_allocates_only_what_is_live_at_once(cuda):
    """A row of maxima, which are never fused, needs two tensors besides input and output, whatever its length."""
    desc = {"DataType": "FLOAT32", "Sizes": [250_000]}
    copy = {"Function": "MAX", "InputTensor": desc, "Axes": []}
    names = ["input:x", *(f"n{i}" for i in range(40))]
    nodes = {
        name: {"type": "REDUCE", "desc": copy, "inputs": {"InputTensor": source}}
        for source, name in itertools.pairwise(names)
    }
    plan = check_graph({"nodes": nodes, "outputs": {"y": "n39"}})
    assert cuda.memory_needed(plan) < 4.1 * 1_000_000
    x = np.random.default_rng(2).standard_normal(250_000, np.float32)
    assert run(cuda, {"nodes": nodes, "outputs": {"y": "n39"}}, x).tobytes() == x.tobytes()
    small = CudaDevice(memory_bytes=2**21)
    with pytest.raises(LimitExceededError):
        run(small, {"nodes": nodes, "outputs": {"y": "n39"}}, x)
    small.close()


def test_a_stopped_graph_ends_between_its_nodes(cuda):
    desc = {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]}
    one = {"DataType": "FLOAT32", "Sizes": [1]}
    nodes: dict[str, Any] = {}
    source = "input:x"
    for i in range(2000):  # seconds of work, almost without memory
        operator = {"Function": "SUM_SQUARE", "InputTensor": desc, "Axes": [0]}
        nodes[f"n{i}"] = {"type": "REDUCE", "desc": operator, "inputs": {"InputTensor": source}}
        source = f"n{i}"
    nodes["last"] = {"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": one}, "inputs": {"InputTensor": source}}
    plan = check_graph({"nodes": nodes, "outputs": {"y": "last"}})
    stopped = threading.Event()
    timer = threading.Timer(0.3, stopped.set)
    cuda.memory_needed(plan)
    timer.start()
    with pytest.raises(Stopped):
        cuda.run(plan, {"x": np.zeros(1, np.float32)}, {"y": np.zeros(1, np.float32)}, stopped.is_set)
    timer.join()
    assert cuda.memory.in_use == 0
    graph = branches(1000, ["ACTIVATION_RELU"])
    x = np.arange(-500, 500, dtype=np.float32)
    assert run(cuda, graph, x).tolist() == np.maximum(x, 0).tolist()
