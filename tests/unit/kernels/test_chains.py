"""Formulas of a graph fused into one: identical bits, less memory, and no data of other requests."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire.graph import Place, Steps, check_graph
from opwire.operators import OPERATORS
from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.execution import Stopped
from opwire_service.kernels.cpu.elementwise.family import ElementsJob
from opwire_service.kernels.cpu.elementwise.fusing import MOST_FUSED, InPlace, fused
from opwire_service.kernels.cpu.families import PREPARE
from opwire_service.kernels.cpu.run.graph import GraphPart
from opwire_service.kernels.graph import GraphMemory
from tests.support.elements import ATTRIBUTES, FORMULAS, drawn_floats
from tests.support.execution import execute
from tests.support.profiles import examples

SIZES = [1, 2, 3, 4]
LAYOUTS = (None, [48, 24, 8, 2], [48, 1, 2, 8])
UNARY = ("ACTIVATION_RELU", "ACTIVATION_SIGMOID", "ELEMENT_WISE_ABS", "ELEMENT_WISE_IDENTITY", "ACTIVATION_IDENTITY")
BINARY = ("ELEMENT_WISE_ADD", "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_SUBTRACT", "ELEMENT_WISE_MAX")


def tensor(data_type: str, sizes: list[int], strides: list[int] | None = None) -> dict[str, Any]:
    desc: dict[str, Any] = {"DataType": data_type, "Sizes": sizes}
    return desc if strides is None else {**desc, "Strides": strides}


@st.composite
def chains(draw: st.DrawFn) -> dict[str, Any]:
    """Draws graphs of formulas with outputs in any layout, and an occasional maximum of rows in between."""
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    layouts: dict[str, list[int] | None] = {"input:x": None, "input:y": [0, 0, 4, 1]}
    nodes: dict[str, Any] = {}
    for i in range(draw(st.integers(2, 9))):
        strides = draw(st.sampled_from(LAYOUTS))
        kind = draw(st.sampled_from(["unary", "unary", "binary", "binary", "rows"]))
        sources = draw(st.lists(st.sampled_from(list(layouts)), min_size=2, max_size=2))
        if kind == "binary":
            members: dict[str, str] = dict(zip(("ATensor", "BTensor"), sources, strict=True))
            operator = draw(st.sampled_from(BINARY))
        else:
            operator = "REDUCE" if kind == "rows" else draw(st.sampled_from(UNARY))
            members = {"InputTensor": sources[0]}
        desc: dict[str, Any] = {name: tensor(data_type, SIZES, layouts[source]) for name, source in members.items()}
        desc["OutputTensor"] = tensor(data_type, SIZES, strides)
        if kind == "rows":
            desc |= {"Function": "MAX", "Axes": [0]}
        nodes[f"n{i}"] = {"type": operator, "desc": desc, "inputs": members}
        layouts[f"n{i}"] = strides
    used = {source for node in nodes.values() for source in node["inputs"].values()}
    outputs = {f"out_{name}": name for name in nodes if name not in used or draw(st.integers(0, 3)) == 0}
    return {"nodes": nodes, "outputs": outputs}


def declared_as_bytes(graph: dict[str, Any]) -> dict[str, Any]:
    """Returns a graph whose nodes read declared inputs, of bytes, with the descs that they have."""
    inputs = check_graph(graph).inputs.items()
    return {**graph, "inputs": {name: tensor("UINT8", [desc.data_size_in_bytes]) for name, desc in inputs}}


def one_by_one(device: Device, graph: dict[str, Any], inputs: dict[str, Array]) -> dict[str, Array]:
    """Runs the nodes one by one in a valid order and returns their outputs."""
    known = {f"input:{name}": array for name, array in inputs.items()}
    for name, node in graph["nodes"].items():
        plan = check({"type": node["type"], "desc": node["desc"]})
        buffers = {}
        for member, desc in plan.inputs.items():
            laid_out = desc.lay_out(np.broadcast_to(known[node["inputs"][member]], desc.sizes))
            assert laid_out is not None
            buffers[member] = laid_out[0].tobytes()
        known[name] = execute(device, plan, buffers)["OutputTensor"]
    return {output: known[source] for output, source in graph["outputs"].items()}


def inputs_of(plan: Plan, arrays: dict[str, Array]) -> dict[str, bytes]:
    found = {}
    for name, desc in plan.inputs.items():
        laid_out = desc.lay_out(np.broadcast_to(arrays[name], desc.sizes))
        assert laid_out is not None
        found[name] = laid_out[0].tobytes()
    return found


def test_random_chains_match_the_reference_bit_for_bit(cpu_device):
    reference = ReferenceDevice()

    @examples(60)
    @given(chains(), st.integers(0, 99))
    def holds(graph, seed):
        plan = check_graph(graph)
        dtype = next(iter(plan.inputs.values())).data_type.dtype
        random = np.random.default_rng(seed)
        arrays = {"x": random.standard_normal(SIZES).astype(dtype), "y": random.standard_normal((3, 4)).astype(dtype)}
        found = execute(cpu_device, plan, inputs_of(plan, arrays))
        for name, right in one_by_one(reference, graph, arrays).items():
            assert found[name].tobytes() == right.tobytes()

    holds()


def branches(count: int, operators: list[str]) -> dict[str, Any]:
    """Returns a chain of formulas that also read the first input, between reductions along no axis."""
    desc = tensor("FLOAT32", [count])
    copy = {"Function": "MAX", "InputTensor": desc, "Axes": []}
    nodes: dict[str, Any] = {"first": {"type": "REDUCE", "desc": copy, "inputs": {"InputTensor": "input:x"}}}
    last = "first"
    for i, operator in enumerate(operators):
        if operator.startswith("ELEMENT_WISE_A"):
            members, described = {"ATensor": last, "BTensor": "first"}, {"ATensor": desc, "BTensor": desc}
        else:
            members, described = {"InputTensor": last}, {"InputTensor": desc}
        nodes[f"n{i}"] = {"type": operator, "desc": described, "inputs": members}
        last = f"n{i}"
    nodes["last"] = {"type": "REDUCE", "desc": copy, "inputs": {"InputTensor": last}}
    return {"nodes": nodes, "outputs": {"y": "last"}}


def steps_and_memory(graph: dict[str, Any]) -> tuple[list[type], GraphMemory]:
    plan = check_graph(graph)
    steps: Steps = plan.attributes
    found = fused(steps, [PREPARE[step.plan.operator.name](step.plan) for step in steps.steps])
    return [type(part) for part in found.parts], GraphMemory(plan, found.groups, found.passing, found.shared)


ALONE: dict[str, dict[str, float]] = {
    "ACTIVATION_CELU": {"Alpha": 1.5},
    "ACTIVATION_HARD_SIGMOID": {"Alpha": 0.2, "Beta": 0.5},
    "ACTIVATION_LEAKY_RELU": {"Alpha": 0.1},
    "ACTIVATION_SCALED_ELU": {"Alpha": 1.5, "Gamma": 1.1},
    "ACTIVATION_SHRINK": {"Bias": 0.1, "Threshold": 0.3},
    "ACTIVATION_SOFTPLUS": {"Steepness": 1.5},
    "ACTIVATION_SWISH": {"SigmoidInputScale": 1.5},
    "ACTIVATION_THRESHOLDED_RELU": {"Alpha": 0.3},
    **{f"ELEMENT_WISE_{name}": {} for name in ("ERF", "EXP", "RECIP", "SIN", "SQRT", "TANH")},
}


@pytest.mark.parametrize("operator", ALONE)
def test_a_formula_can_overwrite_its_input(cpu_device, operator):
    """It may read its inputs again after it has started writing."""
    x = np.random.default_rng(0).standard_normal(3000, np.float32)
    x[:2] = -(2**-25), 2**-24  # exp is close to a tie there
    graph = branches(len(x), [operator])
    graph["nodes"]["n0"]["desc"] |= ALONE[operator]
    assert steps_and_memory(graph)[0] == [GraphPart, InPlace, GraphPart]
    found = execute_large(cpu_device, check_graph(graph), x)
    assert found.tobytes() == one_by_one_large(cpu_device, graph, x).tobytes()


ADD, RELU, SIGMOID = "ELEMENT_WISE_ADD", "ACTIVATION_RELU", "ACTIVATION_SIGMOID"
SUMS = [ADD, RELU, "ELEMENT_WISE_NEGATE", ADD, "ELEMENT_WISE_SQRT", ADD]


@pytest.mark.parametrize("operators", [[ADD, RELU, ADD, SIGMOID, ADD], SUMS])
@pytest.mark.parametrize("count", [7, 20_000, 200_000, 200_003])
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_long_chains_across_tiles(cpu_device, operators, count, data_type):
    graph = json.loads(json.dumps(branches(count, operators)).replace("FLOAT32", data_type))
    x = np.random.default_rng(0).standard_normal(count).astype(data_type.lower())
    plan = check_graph(graph)
    found = execute_large(cpu_device, plan, x)
    assert found.tobytes() == one_by_one_large(cpu_device, graph, x).tobytes()


def execute_large(device: CpuDevice, plan: Plan, x: Array) -> Array:
    y = np.empty_like(x)
    device.run(plan, {"x": x}, {"y": y}, lambda: False)
    return y


def one_by_one_large(device: CpuDevice, graph: dict[str, Any], x: Array, last: str = "last") -> Array:
    known = {"input:x": x}
    for name, node in graph["nodes"].items():
        plan = check({"type": node["type"], "desc": node["desc"]})
        known[name] = np.empty_like(x)
        given = {member: known[source] for member, source in node["inputs"].items()}
        device.run(plan, given, dict.fromkeys(plan.outputs, known[name]), lambda: False)
    return known[last]


@pytest.mark.parametrize("count", [1000, 200_000, 200_003])
def test_intermediates_of_a_chain_take_no_memory(count):
    parts, memory = steps_and_memory(branches(count, SUMS))
    size = -(-count * 4 // 64) * 64
    is_in_place = count != 200_003  # overlapping vectors would read what was already written
    assert parts == [GraphPart, InPlace if is_in_place else GraphPart, GraphPart]
    assert memory.size == size * (1 if is_in_place else 2)


def test_the_length_of_a_chain_is_bounded():
    """An input that is read repeatedly would be recomputed each time."""
    parts, _ = steps_and_memory(branches(1000, [RELU] * (2 * MOST_FUSED)))
    assert len(parts) == 4
    desc = tensor("FLOAT32", [1000])
    doubled: dict[str, Any] = {
        "n0": {"type": RELU, "desc": {"InputTensor": desc}, "inputs": {"InputTensor": "input:x"}}
    }
    for i in range(1, 9):
        both = {"ATensor": f"n{i - 1}", "BTensor": f"n{i - 1}"}
        doubled[f"n{i}"] = {"type": ADD, "desc": {"ATensor": desc, "BTensor": desc}, "inputs": both}
    assert len(steps_and_memory({"nodes": doubled, "outputs": {"y": "n8"}})[0]) == 9


def test_integers_wrap_around_in_each_formula(cpu_device):
    desc = tensor("INT32", [40_000])
    names = ["input:x", "a", "b", "c"]
    nodes = {
        name: {
            "type": "ELEMENT_WISE_MULTIPLY",
            "desc": {"ATensor": desc, "BTensor": desc},
            "inputs": {"ATensor": source, "BTensor": "input:x"},
        }
        for source, name in itertools.pairwise(names)
    }
    plan = check_graph({"nodes": nodes, "outputs": {"y": "c"}})
    x = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, 40_000, np.int32)
    found = np.empty_like(x)
    cpu_device.run(plan, {"x": x}, {"y": found}, lambda: False)
    wide = [(int(each) ** 4 + 2**31) % 2**32 - 2**31 for each in x]
    assert found.tolist() == wide
    assert len(steps_and_memory({"nodes": nodes, "outputs": {"y": "c"}})[0]) == 1


def test_an_output_reuses_an_input_only_after_its_last_reader():
    graph = branches(1000, [RELU])
    assert steps_and_memory(graph)[1].size == 4032
    desc = tensor("FLOAT32", [1000])
    later = {"ATensor": "last", "BTensor": "first"}
    graph["nodes"]["later"] = {"type": ADD, "desc": {"ATensor": desc, "BTensor": desc}, "inputs": later}
    graph["outputs"] = {"y": "later"}
    assert steps_and_memory(graph)[1].size == 3 * 4032


def test_reinterpreted_bytes_break_a_chain():
    graph = branches(1000, [RELU, ADD])
    graph["nodes"]["n1"]["desc"] = {
        "ATensor": tensor("FLOAT32", [10, 100], [1, 10]),
        "BTensor": tensor("FLOAT32", [10, 100]),
    }
    graph["nodes"]["last"]["desc"] = {**graph["nodes"]["last"]["desc"]}
    assert len(steps_and_memory(graph)[0]) == len(graph["nodes"])
    x = np.random.default_rng(1).standard_normal(1000, np.float32)
    device = CpuDevice(1)
    try:
        y = np.empty_like(x)
        device.run(check_graph(graph), {"x": x}, {"y": y}, lambda: False)
    finally:
        device.close()
    relu = np.maximum(x, 0)
    assert y.tobytes() == (relu.reshape(100, 10).T + x.reshape(10, 100)).tobytes()


def test_unwritten_bytes_are_zero(cpu_device):
    """The padding after three bytes, which the next step reads as part of a four-byte element, is zeroed."""
    graph = branches(1000, [RELU])
    three, one = tensor("UINT8", [3]), tensor("UINT32", [1])
    graph["nodes"] = {
        "a": {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": three}, "inputs": {"InputTensor": "input:x"}},
        "b": {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": one}, "inputs": {"InputTensor": "a"}},
    }
    graph["outputs"] = {"y": "b"}
    for _ in range(5):
        found = execute(cpu_device, check_graph(graph), {"x": b"\1\2\3"})
        assert found["y"].tolist() == [0x030201]


def test_a_chain_stops_between_its_tiles(cpu_device):
    plan = check_graph(branches(1 << 20, [SIGMOID] * 4))
    asked = itertools.count()
    with pytest.raises(Stopped):
        cpu_device.run(
            plan, {"x": np.ones(1 << 20, np.float32)}, {"y": np.empty(1 << 20, np.float32)}, lambda: next(asked) > 20
        )
    assert next(asked) < 40


def test_live_tensors_share_no_memory_unless_allowed():
    @examples(60)
    @given(chains())
    def holds(graph):
        plan = check_graph(graph)
        steps: Steps = plan.attributes
        found = fused(steps, [PREPARE[step.plan.operator.name](step.plan) for step in steps.steps])
        memory = GraphMemory(plan, found.groups, found.passing, found.shared)
        group_of = {i: at for at, group in enumerate(found.groups) for i in group}
        uses: dict[int, list[int]] = {}
        for i, step in enumerate(steps.steps):
            for at in (*step.inputs.values(), *step.outputs.values()):
                if at.place is Place.BETWEEN and at.name not in found.passing:
                    uses.setdefault(int(at.name), []).append(group_of[i])
        for at in steps.copies.values():
            if at.place is Place.BETWEEN:
                uses.setdefault(int(at.name), []).append(len(found.groups))
        for (one, ones), (other, others) in itertools.combinations(uses.items(), 2):
            begin, end = memory.offsets[one], memory.offsets[one] + steps.between[one]
            overlap = memory.offsets[other] < end and begin < memory.offsets[other] + steps.between[other]
            if overlap and max(ones) >= min(others) and max(others) >= min(ones):
                assert found.shared.get(one) == other or found.shared.get(other) == one
                assert max(ones) == min(others) or max(others) == min(ones)

    holds()


def node_of(name: str, data_type: DataType, count: int) -> dict[str, Any]:
    """Returns an operator on vectors of one type."""
    members = OPERATORS[name].members
    chosen = {each.name: ATTRIBUTES[each.name] for each in members.attributes if each.name in ATTRIBUTES}
    if "MinMaxDataType" in chosen:
        chosen["MinMaxDataType"] = data_type.name
    return {"type": name, "desc": {**chosen, **{each.name: tensor(data_type.name, [count]) for each in members.inputs}}}


def composable(data_type: DataType) -> list[str]:
    """Returns the operators that can be fused into a formula."""
    found = []
    for name in FORMULAS:
        with suppress(ContractViolation):  # it does not take the type
            job = ElementsJob(check(node_of(name, data_type, 3)))
            found += [name] * (job.is_composable and not job.channels)
    return found


def random_chain(names: list[str], data_type: DataType, count: int, draw: np.random.Generator) -> dict[str, Any]:
    """Returns a chain of operators, each applied to the previous result and otherwise to the input."""
    nodes: dict[str, Any] = {}
    for i, name in enumerate(draw.choice(names, 6).tolist()):
        members = [member.name for member in OPERATORS[name].members.inputs]
        sources = dict.fromkeys(members, "input:x")
        if i:
            sources[draw.choice(members)] = f"n{i - 1}"
        nodes[f"n{i}"] = {**node_of(name, data_type, count), "inputs": sources}
    return {"nodes": nodes, "outputs": {"y": "n5"}}


@pytest.mark.parametrize("count", [300, 40_003])
@pytest.mark.parametrize("data_type", [DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.UINT8])
def test_fused_operators_match_bit_for_bit(cpu_device, data_type, count):
    draw = np.random.default_rng(count)
    names = composable(data_type)
    assert len(names) > 5
    is_float = data_type.is_float
    with np.errstate(over="ignore"):
        x = (drawn_floats(count, seed=1) if is_float else draw.integers(0, 255, count)).astype(data_type.dtype)
    for _ in range(8):
        graph = random_chain(names, data_type, count, draw)
        assert len(steps_and_memory(graph)[0]) == 1
        found = np.empty_like(x)
        cpu_device.run(check_graph(graph), {"x": x}, {"y": found}, lambda: False)
        right = one_by_one_large(cpu_device, graph, x, "n5")
        unlike = found.view(f"u{found.itemsize}") != right.view(f"u{right.itemsize}")
        if is_float:
            unlike &= ~(np.isnan(found) & np.isnan(right))
        assert not unlike.any(), [node["type"] for node in graph["nodes"].values()]
