"""Graph files written with the official flatbuffers package, one for each operator."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from opwire.check import check
from opwire.errors import OpwireError, RequestError
from opwire.graph import CONSTANT, Place, check_graph, validate_graph
from opwire.graph.serialized import SerializedGraph, read_serialized
from opwire.operators import OPERATORS
from tests.strategies import descs
from tests.support.profiles import request_examples
from tests.support.serialized_graphs import file_of

DRAWN = settings(request_examples(2), derandomize=True, database=None, phases=[Phase.generate])
TENSOR = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
GEMM: dict[str, Any] = {
    "type": "GEMM",
    "desc": {"ATensor": TENSOR, "BTensor": TENSOR, "TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 0},
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_an_operator_is_read_back(operator):
    @DRAWN
    @given(st.data())
    def holds(data):
        plan = check(data.draw(descs(operator)).request)
        (step,) = check_graph(read_serialized(file_of(plan)).graph).attributes.steps
        assert step.plan.operator is operator
        assert step.plan.attributes == plan.attributes
        assert (step.plan.inputs, step.plan.outputs) == (plan.inputs, plan.outputs)

    holds()


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_mutated_files_are_read_or_refused(operator):
    @settings(DRAWN, max_examples=1)
    @given(st.data())
    def holds(data):
        whole, draw = file_of(check(data.draw(descs(operator)).request)), random.Random(0)
        for _ in range(30):
            changed = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            with suppress(RequestError):
                validate_graph(read_serialized(bytes(changed)).graph)

    holds()


def test_constants_in_the_file_are_read():
    plan = check(GEMM)
    found = read_serialized(file_of(plan, {"BTensor": bytes(range(16))}))
    assert (found.constants, found.files) == ({"BTensor": bytes(range(16))}, ())
    assert check_graph(found.graph).inputs.keys() == {"ATensor", "constant:BTensor"}


@pytest.mark.parametrize(
    "names", [{}, {"BTensor": "node.OutputTensor"}, {"BTensor": "input:ATensor"}, {"BTensor": "node"}]
)
def test_the_names_of_nodes_do_not_change_a_graph(names):
    plan = check_graph(read_serialized(file_of(check(GEMM), {"BTensor": bytes(16)}, names)).graph)
    (step,) = plan.attributes.steps
    assert step.inputs["ATensor"] == (Place.INPUT, "ATensor")
    assert step.inputs["BTensor"].name == next(name for name in plan.inputs if name.startswith(CONSTANT))
    assert plan.outputs.keys() == {"OutputTensor"}
    assert not plan.attributes.copies


@pytest.mark.parametrize("file", ["w", "a", "a.OutputTensor"])
def test_a_constant_in_a_file_is_not_mistaken_for_a_node(file):
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [4]}}
    nodes = {
        "a": {"type": "ACTIVATION_RELU", "desc": desc, "inputs": {"InputTensor": f"input:{file}"}},
        "b": {"type": "ACTIVATION_RELU", "desc": desc, "inputs": {"InputTensor": "a.OutputTensor"}},
    }
    graph = {"nodes": nodes, "inputs": [file], "outputs": {"y": "b.OutputTensor"}}
    found, names = SerializedGraph(graph, {}, (file,)).with_file_constants()
    first, second = check_graph(found).attributes.steps
    assert first.inputs["InputTensor"] == (Place.INPUT, CONSTANT + names[file])
    assert second.inputs["InputTensor"] == first.outputs["OutputTensor"]


@pytest.mark.parametrize("name", ["DML_OPERATOR_GEMM", "DML_TENSOR_DATA_TYPE_FLOAT32", "ATensor", "OutputTensor"])
def test_names_must_match_completely(name):
    """Microsoft's reader would accept the prefix of a name as a match."""
    whole = file_of(check(GEMM))
    written = len(name).to_bytes(4, "little") + name.encode()
    assert written in whole
    cut = whole.replace(written, (len(name) - 1).to_bytes(4, "little") + name[:-1].encode() + b"\0", 1)
    with pytest.raises(OpwireError, match=f'"{name[:-1]}'):
        check_graph(read_serialized(cut).graph)
