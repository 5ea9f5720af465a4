"""Graphs for a card, as far as can be checked without one: memory layout, and what the host computes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import Plan, check
from opwire.graph import Place, check_graph
from opwire.tensor import Array
from opwire_service.devices.cuda.room import PreparedPlan
from opwire_service.kernels.cuda import JOBS, elementwise
from opwire_service.kernels.cuda.elementwise import MOST, CudaElementsJob
from opwire_service.kernels.cuda.graph import CudaGraph, graph_of, has_gaps, without_gaps
from opwire_service.kernels.cuda.job import Card, CudaJob, CudaMemory, KernelLaunch, device_desc
from opwire_service.kernels.reference import KERNELS
from tests.support.execution import never_stop
from tests.support.gpu.every_kernel import regrouped
from tests.support.profiles import examples
from tests.unit.kernels.test_chains import SIZES, branches, chains, declared_as_bytes


def job_of(plan: Plan) -> CudaJob:
    """Returns the job of a plan, preferring its formula: the host cannot stand in for a card's copies."""
    name = plan.operator.name
    return (elementwise.JOBS.get(name) or JOBS[name])(plan, Card(4))


def arrays_of(plan: Plan, seed: int) -> dict[str, Array]:
    """Returns inputs of small numbers, laid out according to their descs."""
    random = np.random.default_rng(seed)
    found = {}
    for name, desc in plan.inputs.items():
        data = random.standard_normal(desc.extent).astype(desc.data_type.dtype)
        found[name] = desc.view(data)
    return found


def run(plan: Plan, inputs: dict[str, Array]) -> dict[str, Array]:
    """Runs a graph on the reference kernels and returns its packed outputs."""
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    KERNELS[plan.operator.name](plan, inputs, outputs, never_stop)
    return {name: np.ascontiguousarray(array) for name, array in outputs.items()}


@examples(60)
@given(chains(), st.integers(0, 99))
def test_removing_gaps_does_not_change_a_graph(graph, seed):
    plan = check_graph(graph)
    packed = without_gaps(plan)
    assert not any(map(has_gaps, packed.outputs.values()))
    assert not packed.attributes.copies
    inputs = arrays_of(plan, seed)
    right, found = run(plan, inputs), run(packed, inputs)
    for name, array in right.items():
        assert found[name].tobytes() == array.tobytes()


def test_gaps_are_kept_only_for_nodes_that_read_them():
    steps = without_gaps(regrouped()).attributes.steps
    kept = [step for step in steps if any(map(has_gaps, step.plan.outputs.values()))]
    assert [(step.plan.operator.name, len(steps)) for step in kept] == [("ELEMENT_WISE_IDENTITY", 3)]
    found = graph_of(regrouped(), job_of)
    assert found.memory.has_gaps  # so that data of earlier requests cannot be read


def by_host(plan: Plan, found: CudaGraph, inputs: dict[str, Array]) -> dict[str, Array]:
    """Runs a graph of formulas with the host in place of the card, and returns its outputs."""
    memory = {
        (Place.INPUT, name): np.frombuffer(desc.bytes_of(inputs[name]).tobytes(), np.uint8)
        for name, desc in plan.inputs.items()
    }
    for part in found.parts:
        for tensor in part.outputs.values():
            memory[tensor.at.place, str(tensor.at.name)] = np.zeros(tensor.desc.data_size_in_bytes, np.uint8)
        read, written = (
            {
                name: memory[tensor.at.place, str(tensor.at.name)][: tensor.desc.data_size_in_bytes].view(
                    tensor.desc.data_type.dtype
                )
                for name, tensor in tensors.items()
            }
            for tensors in (part.inputs, part.outputs)
        )
        part.job.settle(None, read, written, never_stop)
    return {name: device_desc(desc).view(memory[Place.OUTPUT, name]).copy() for name, desc in plan.outputs.items()}


def has_only_formulas(graph: dict[str, Any]) -> bool:
    return all(node["type"] != "REDUCE" for node in graph["nodes"].values())


@examples(40)
@given(chains().filter(has_only_formulas), st.integers(0, 99))
def test_chains_on_the_host_match_their_formulas_one_by_one(graph, seed):
    plan = check_graph(graph)
    inputs = arrays_of(plan, seed)
    right, found = run(plan, inputs), by_host(plan, graph_of(plan, job_of), inputs)
    declared = check_graph(declared_as_bytes(graph))
    as_bytes = {name: desc.bytes_of(inputs[name]) for name, desc in plan.inputs.items()}
    read_otherwise = by_host(declared, graph_of(declared, job_of), as_bytes)
    for name, array in right.items():
        assert found[name].tobytes() == read_otherwise[name].tobytes() == array.tobytes()


def test_listed_places_of_a_chain_go_through_all_formulas():
    graph = branches(1000, ["ACTIVATION_SIGMOID", "ELEMENT_WISE_ADD", "ACTIVATION_TANH"])
    plan = check_graph(graph)
    part = next(part for part in graph_of(plan, job_of).parts if isinstance(part.job, CudaElementsJob))
    ((name, _),) = part.outputs.items()
    x = np.random.default_rng(0).standard_normal(1000, np.float32)
    y = np.zeros_like(x)
    places = np.array([[3, 0], [999, 0]], np.uint32)
    part.job.settle(places, dict.fromkeys(part.inputs, x), {name: y}, never_stop)
    right = x
    for node in ("n0", "n1", "n2"):
        operator = check({key: graph["nodes"][node][key] for key in ("type", "desc")})
        arrays = dict.fromkeys(operator.inputs, right)
        if node == "n1":
            arrays["BTensor"] = x
        target = np.empty_like(x)
        KERNELS[operator.operator.name](operator, arrays, {"OutputTensor": target}, never_stop)
        right = target
    assert np.flatnonzero(y).tolist() == [3, 999]
    assert y[[3, 999]].tobytes() == right[[3, 999]].tobytes()


def test_a_chain_is_one_kernel_up_to_the_parameter_size():
    stages = PreparedPlan.graph(*graph_and_parts(branches(1000, ["ELEMENT_WISE_ADD"] * 20))).stages
    chained = [stage for stage in stages if isinstance(stage.job, CudaElementsJob)]
    assert [len(stage.outputs) for stage in chained] == [1, 1, 1]
    for stage in chained:
        (launch,) = stage.job.launches(stage.room.at(0))
        assert isinstance(launch, KernelLaunch)
        assert launch.parameter.nbytes <= 4096


def graph_and_parts(graph: dict[str, Any]) -> tuple[Plan, CudaGraph]:
    plan = check_graph(graph)
    return plan, graph_of(plan, job_of)


def test_the_kernel_parameter_fits_the_longest_chain():
    """Formulas with three tensors each, all different and walked by loops of their own."""
    wide = {"DataType": "FLOAT32", "Sizes": SIZES, "Strides": [480, 240, 60, 3]}
    packed = {"DataType": "FLOAT32", "Sizes": SIZES}
    truth = {"DataType": "UINT8", "Sizes": SIZES, "Strides": [480, 240, 60, 3]}
    nodes = {
        f"n{i}": {
            "type": "ELEMENT_WISE_IF",
            "desc": {"ConditionTensor": truth, "ATensor": wide if i == 0 else packed, "BTensor": wide},
            "inputs": {
                "ConditionTensor": f"input:c{i}",
                "ATensor": f"n{i - 1}" if i else "input:a",
                "BTensor": f"input:b{i}",
            },
        }
        for i in range(MOST)
    }
    _, found = graph_and_parts({"nodes": nodes, "outputs": {f"y{i}": f"n{i}" for i in range(MOST)}})
    (part,) = found.parts
    assert (len(part.inputs), len(part.outputs)) == (2 * MOST + 1, MOST)
    (launch,) = part.job.launches(CudaMemory(dict.fromkeys(part.inputs, 0), dict.fromkeys(part.outputs, 0), 0, 0, 0))
    assert isinstance(launch, KernelLaunch)
    assert launch.parameter.nbytes <= 4096


def are_disjoint(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    return all(one[1] <= other[0] or other[1] <= one[0] for one, other in itertools.product(ones, others))


@examples(60)
@given(chains())
def test_outputs_of_a_stage_do_not_overlap_its_other_buffers(graph):
    prepared = PreparedPlan.graph(*graph_and_parts(graph))
    for stage in prepared.stages:
        read, written = (
            [(offsets[name], offsets[name] + desc.data_size_in_bytes) for name, desc in descs.items()]
            for offsets, descs in ((stage.room.inputs, stage.inputs), (stage.room.outputs, stage.outputs))
        )
        own = [(stage.room.scratch, stage.room.size)]
        assert are_disjoint(read, written)
        assert are_disjoint([*read, *written], own)
        assert all(are_disjoint([one], [other]) for one, other in itertools.combinations(written, 2))
        assert stage.room.size <= prepared.size
    begin, size = prepared.zeroed
    assert 0 <= begin <= begin + size <= prepared.size
