"""Graphs on devices: any random graph gives the same bits as its nodes run one by one."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire.graph import Place, check_graph
from opwire.tensor import Array
from opwire_service.devices.base import Device
from opwire_service.execution import Stopped
from opwire_service.kernels.graph import GraphMemory
from tests.support.execution import execute, never_stop
from tests.support.profiles import examples

SIZES = [1, 2, 3, 4]
ROWS = [1, 2, 3, 1]


@dataclass
class Drawn:
    """A graph with two inputs, as JSON, and a valid order of its nodes."""

    graph: dict[str, Any]
    nodes: list[str]


def tensor(sizes: list[int], strides: list[int] | None = None) -> dict[str, Any]:
    desc: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": sizes}
    return desc if strides is None else {**desc, "Strides": strides}


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    """Draws graphs of sums, maxima and poolings; some outputs have gaps or are transposed."""
    sizes = {"input:x": SIZES, "input:y": SIZES}
    layouts: dict[str, list[int] | None] = {"input:x": None, "input:y": None}
    nodes: dict[str, Any] = {}
    for i in range(draw(st.integers(1, 9))):
        source = draw(st.sampled_from(list(sizes)))
        given_desc = tensor(sizes[source], layouts[source])
        axes = draw(st.lists(st.sampled_from([2, 3]), unique=True))
        result = [1 if axis in axes else size for axis, size in enumerate(sizes[source])]
        strides = draw(st.sampled_from([None, [48, 24, 8, 2], [48, 1, 2, 8]]))
        desc = {"Function": draw(st.sampled_from(["SUM", "MAX", "L1"])), "InputTensor": given_desc, "Axes": axes}
        desc["OutputTensor"] = tensor(result, strides)
        nodes[f"n{i}"] = {"type": "REDUCE", "desc": desc, "inputs": {"InputTensor": source}}
        sizes[f"n{i}"], layouts[f"n{i}"] = result, strides
    used = {node["inputs"]["InputTensor"] for node in nodes.values()}
    outputs = {f"out_{name}": name for name in nodes if name not in used or draw(st.booleans())}
    last = list(nodes)[-1]
    shuffled = draw(st.permutations(list(nodes)))
    return Drawn(
        {"nodes": {name: nodes[name] for name in shuffled}, "outputs": {**outputs, "again": last}}, list(nodes)
    )


def one_by_one(device: Device, drawn: Drawn, inputs: dict[str, Array]) -> dict[str, Array]:
    """Runs the nodes one by one, passing strided tensors on as elements."""
    known = {f"input:{name}": array for name, array in inputs.items()}
    for name in drawn.nodes:
        node = drawn.graph["nodes"][name]
        plan = check({"type": node["type"], "desc": node["desc"]})
        desc = plan.inputs["InputTensor"]
        buffer = bytearray(desc.total_size_in_bytes)
        desc.view(buffer)[...] = known[node["inputs"]["InputTensor"]]
        known[name] = execute(device, plan, {"InputTensor": buffer})["OutputTensor"]
    return {output: known[source] for output, source in drawn.graph["outputs"].items()}


def test_random_graphs_match_their_nodes_bit_for_bit(device):
    if not device.executes("GRAPH"):
        pytest.skip(f"{device.name} runs no graphs")

    @examples(40)
    @given(graphs(), st.integers(0, 99))
    def holds(drawn, seed):
        plan, random = check_graph(drawn.graph), np.random.default_rng(seed)
        for _ in range(3):  # a repeated graph may be prepared for all later runs
            inputs = {name: random.standard_normal(SIZES, np.float32) for name in ("x", "y")}
            found = execute(device, plan, {name: inputs[name].tobytes() for name in plan.inputs})
            for name, right in one_by_one(device, drawn, inputs).items():
                assert found[name].tobytes() == right.tobytes()

    holds()


@examples(60)
@given(graphs())
def test_live_tensors_do_not_overlap(drawn):
    memory = GraphMemory(check_graph(drawn.graph))
    steps = memory.steps.steps
    uses = {
        number: [
            i
            for i, step in enumerate(steps)
            if any(
                at.place is Place.BETWEEN and at.name == number
                for at in (*step.inputs.values(), *step.outputs.values())
            )
        ]
        for number in range(len(memory.steps.between))
    }
    for at in memory.steps.copies.values():
        if at.place is Place.BETWEEN:
            uses[int(at.name)].append(len(steps))
    for one, ones in uses.items():
        begin, end = memory.offsets[one], memory.offsets[one] + memory.steps.between[one]
        assert end <= memory.size
        for other, others in uses.items():
            overlap = memory.offsets[other] < end and begin < memory.offsets[other] + memory.steps.between[other]
            assert one == other or not overlap or max(ones) < min(others) or max(others) < min(ones)


def chain(length: int, count: int) -> dict[str, Any]:
    """Returns a chain of absolute values of a vector."""
    desc = {"Function": "L1", "InputTensor": tensor([1, 1, 1, count]), "Axes": []}
    names = ["input:x", *(f"n{i}" for i in range(length))]
    nodes = {
        name: {"type": "REDUCE", "desc": desc, "inputs": {"InputTensor": source}}
        for source, name in itertools.pairwise(names)
    }
    return {"nodes": nodes, "outputs": {"y": names[-1]}}


def test_a_chain_takes_the_memory_of_two_tensors():
    assert GraphMemory(check_graph(chain(50, 1000))).size == 2 * 4032


def test_a_graph_stops_between_its_nodes(cpu_device):
    plan = check_graph(chain(30, 100_000))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 12

    with pytest.raises(Stopped):
        execute(cpu_device, plan, {"x": bytes(400_000)}, stop)
    assert asked == 13


def test_constants_are_inputs_of_the_plan(cpu_device):
    graph = chain(1, 3)
    graph["nodes"]["w"] = {"constant": ""}
    graph["nodes"]["n0"]["inputs"]["InputTensor"] = "w"
    plan = check_graph(graph)
    found = execute(cpu_device, plan, {"constant:w": np.array([-1, 2, -3], np.float32).tobytes()}, never_stop)
    assert found["y"].ravel().tolist() == [1, 2, 3]


def live_at_once(count: int) -> dict[str, Any]:
    """Returns a graph of maxima that are all live at once, and pairwise sums of them."""
    desc = tensor([8, 16])
    copy = {"Function": "MAX", "InputTensor": desc, "Axes": []}
    add = {"ATensor": desc, "BTensor": desc}
    nodes: dict[str, Any] = {
        f"n{i}": {"type": "REDUCE", "desc": copy, "inputs": {"InputTensor": "input:x"}} for i in range(count // 2)
    }
    for i in range(count // 2 - 1):
        inputs = {"ATensor": f"n{2 * i}", "BTensor": f"n{2 * i + 1}"}
        nodes[f"n{count // 2 + i}"] = {"type": "ELEMENT_WISE_ADD", "desc": add, "inputs": inputs}
    return {"nodes": nodes, "outputs": {"y": list(nodes)[-1]}}


@pytest.mark.parametrize("made", [live_at_once, lambda count: chain(count, 128)], ids=["side by side", "in a row"])
@pytest.mark.usefixtures("gc_disabled")
def test_large_graphs_are_planned_in_linear_time(cpu_device, made):
    """Four times as many nodes take about four times as long to check and plan."""

    def seconds(count: int) -> float:
        graph = made(count)
        begin = time.process_time()
        cpu_device.scratch_bytes(check_graph(graph))
        return time.process_time() - begin

    seconds(64)
    few = min(seconds(1024) for _ in range(3))
    assert seconds(4096) < 9 * few
