"""Graphs, operators and DxDispatch models as what ``opwire diff`` compares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import opwire
from opwire.difference import Differences, Verdict, subject_of
from opwire.errors import ContractViolation, RequestError
from opwire.tensor import Array
from tests.support.commands import opwire as command

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
W = np.full((2, 3), 0.5, np.float32)


def graph() -> opwire.Graph:
    """Returns a graph of -max(x + w, 0), whose last node reads the transpose of its tensor."""
    made = opwire.Graph()
    clipped = made.activation_relu(made.element_wise_add(made.input("x", "FLOAT32", X.shape), W))
    made.output("y", made.element_wise_negate(clipped.transpose(1, 0)))
    return made


def tensors() -> dict[str, Array]:
    added = X + W
    clipped = np.maximum(added, 0)
    return {"element_wise_add.OutputTensor": added, "activation_relu.OutputTensor": clipped, "y": -clipped.T}


def verdicts(found: Differences) -> dict[str, Verdict]:
    return {node.name: node.verdict for node in found.nodes}


def test_tensors_of_graphs_are_called_by_node_and_tensor():
    subject = subject_of(graph())
    assert [node.outputs for node in subject.nodes] == [(name,) for name in tensors()]
    assert [node.operator for node in subject.nodes] == ["ELEMENT_WISE_ADD", "ACTIVATION_RELU", "ELEMENT_WISE_NEGATE"]
    assert {*verdicts(opwire.diff(graph(), tensors(), {"x": X})).values()} == {Verdict.EXACT}


@pytest.mark.parametrize("name", tensors())
def test_the_node_of_a_graph_that_is_wrong_is_found(name):
    given = tensors()
    given[name] = given[name].copy()
    given[name][1, 0] += 4
    found = opwire.diff(graph(), {**given}, {"x": X})
    producer = next(node.name for node in subject_of(graph()).nodes if name in node.outputs)
    assert producer in [node.name for node in found.wrong]
    tensor = next(node for node in found.wrong if node.name == producer).worst_tensor
    assert tensor is not None
    worst = tensor.worst
    assert worst is not None
    assert worst.index == (1, 0)
    assert worst.actual - worst.exact == 4


def test_tensors_of_graphs_may_be_in_one_dimension():
    found = opwire.diff(graph(), {name: array.reshape(-1) for name, array in tensors().items()}, {"x": X})
    assert {*verdicts(found).values()} == {Verdict.EXACT}
    found = opwire.diff(graph(), {name: array[:1] for name, array in tensors().items()}, {"x": X})
    assert "instead of float32[2, 3]" in found.nodes[0].detail


def test_graphs_in_files_and_as_json(tmp_path):
    made = graph()
    made.save(tmp_path / "net.json")
    named = made.to_json()
    named["nodes"] = {name: node for name, node in named["nodes"].items() if "constant" not in node}
    named["nodes"]["element_wise_add"]["inputs"]["BTensor"] = "input:w"
    named["inputs"] = ["x", "w"]
    assert verdicts(opwire.diff(tmp_path / "net.json", tensors(), {"x": X})).keys() == named["nodes"].keys()
    found = opwire.diff(named, tensors(), {"x": X, "w": W})
    assert {*verdicts(found).values()} == {Verdict.EXACT}


def test_an_operator_has_the_inputs_of_its_request(tmp_path):
    tensor = {"DataType": "FLOAT32", "Sizes": [2, 3]}
    operator = {"type": "ELEMENT_WISE_NEGATE", "desc": {"InputTensor": tensor, "OutputTensor": tensor}}
    (tmp_path / "operator.json").write_text(json.dumps(operator))
    given = {"InputTensor": X}
    assert not opwire.diff(tmp_path / "operator.json", {"OutputTensor": -X}, given).wrong
    assert opwire.diff(tmp_path / "operator.json", {"OutputTensor": X}, given).wrong
    request = {"operator": operator, "inputs": {"InputTensor": {"data": X.tolist()}}}
    (tmp_path / "request.json").write_text(json.dumps(request))
    assert not opwire.diff(tmp_path / "request.json", {"OutputTensor": -X}).wrong
    assert opwire.diff(tmp_path / "request.json", {"OutputTensor": -X}, {"InputTensor": X + 1}).wrong


def buffer(values: object) -> dict[str, object]:
    return {"initialValuesDataType": "FLOAT32", "initialValues": values}


def negation(sizes: list[int]) -> dict[str, object]:
    tensor = {"DataType": "FLOAT32", "Sizes": sizes, "Flags": "DML_TENSOR_FLAG_NONE"}
    return {"type": "DML_OPERATOR_ELEMENT_WISE_NEGATE", "desc": {"InputTensor": tensor, "OutputTensor": tensor}}


def dispatch(name: str, source: object, target: object) -> dict[str, object]:
    return {"type": "dispatch", "dispatchable": name, "bindings": {"InputTensor": source, "OutputTensor": target}}


def write(folder: Path, commands: list[dict[str, object]]) -> Path:
    zeros = {"valueCount": 4, "value": 0}
    model = {
        "resources": {"a": buffer([1, 2, 3, 4, 5, 6, 7, 8]), "b": buffer(zeros), "c": buffer(zeros)},
        "dispatchables": {"four": negation([4])},
        "commands": commands,
    }
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return path


def test_dxdispatch_models_have_tensors_called_as_resources(tmp_path):
    path = write(tmp_path, [dispatch("four", "a", "b"), dispatch("four", "b", "c")])
    b = -np.arange(1, 5, dtype=np.float32)
    found = opwire.diff(path, {"b": b, "c": -b})
    assert [(node.name, node.inputs, node.verdict) for node in found.nodes] == [
        ("four", ("a",), Verdict.EXACT),
        ("four_", ("b",), Verdict.EXACT),
    ]
    assert [node.name for node in opwire.diff(path, {"b": b, "c": b}).wrong] == ["four_"]
    assert [node.name for node in opwire.diff(path, {"b": b, "c": -b}, {"a": b}).wrong] == ["four"]


def test_the_last_values_of_a_buffer_have_its_name(tmp_path):
    path = write(tmp_path, [dispatch("four", "a", "b"), dispatch("four", "b", "c"), dispatch("four", "c", "b")])
    assert [node.outputs for node in subject_of(path).nodes] == [("b of four",), ("c",), ("b",)]
    b = -np.arange(1, 5, dtype=np.float32)
    assert not opwire.diff(path, {"b": b, "c": -b}).wrong
    in_place = subject_of(write(tmp_path, [dispatch("four", "b", "b")]))
    assert [(node.inputs, node.outputs) for node in in_place.nodes] == [(("b at first",), ("b",))]


def test_inputs_may_be_parts_of_buffers(tmp_path):
    path = write(tmp_path, [dispatch("four", {"name": "a", "elementOffset": 4}, "b")])
    assert not opwire.diff(path, {"b": -np.arange(5, 9, dtype=np.float32)}).wrong
    parts = [dispatch("four", "b", {"name": "a", "elementOffset": 4})]
    with pytest.raises(RequestError, match="opwire diff takes whole buffers"):
        subject_of(write(tmp_path, parts))


@pytest.mark.parametrize("commands", [[], [{"type": "print", "resource": "a"}]])
def test_a_model_that_dispatches_nothing_is_refused(tmp_path, commands):
    with pytest.raises(RequestError, match="dispatches nothing"):
        subject_of(write(tmp_path, commands))


@pytest.mark.parametrize("value", [3, {}, {"a": 1}, []])
def test_json_of_something_else_is_refused(tmp_path, value):
    (tmp_path / "model.json").write_text(json.dumps(value))
    with pytest.raises(RequestError, match="is not a model"):
        subject_of(tmp_path / "model.json")


def test_violations_of_graphs_are_raised(tmp_path):
    with pytest.raises(ContractViolation):
        subject_of({"nodes": {"n": {"type": "GEMM", "desc": {}}}, "outputs": {"y": "n"}})
    (tmp_path / "net.json").write_text('{"nodes": {}}')
    done = command("diff", tmp_path / "net.json", "--against", "cpu")
    assert done.returncode == 2
    assert "/nodes" in done.stderr
