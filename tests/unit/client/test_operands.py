"""Numbers in place of tensors, and arrays that keep their strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opwire import Call, Client, FeatureLevel, Graph, check, prepare, strided, validate_graph
from opwire.client.operands import operator_call
from opwire.operators import OPERATORS
from opwire.wire import Encoding, write_call

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
BYTES = np.array([[0, 1, 2], [3, 0, 1]], np.uint8)


def sent(call: Call) -> bytes:
    """Returns the tensors of a call as they are sent, in the order of its inputs."""
    _, (_, *tail) = write_call(call, Encoding.BINARY)
    return b"".join(tail)


REPEATED = {"Sizes": [2, 3], "Strides": [0, 0]}
NUMBERS: list[tuple[Call, str, dict[str, Any], Any]] = [
    (prepare.add(X, 2), "BTensor", {"DataType": "FLOAT32", **REPEATED}, np.float32(2)),
    (prepare.add(0.1, X), "ATensor", {"DataType": "FLOAT32", **REPEATED}, np.float32(0.1)),
    (prepare.add(X.astype(np.int64), 2.0), "BTensor", {"DataType": "INT64", **REPEATED}, np.int64(2)),
    (prepare.add(X, np.float32(2)), "BTensor", {"DataType": "FLOAT32", **REPEATED}, np.float32(2)),
    (prepare.where(BYTES, X, 0), "BTensor", {"DataType": "FLOAT32", **REPEATED}, np.float32(0)),
    (prepare.where(1, X, X), "ConditionTensor", {"DataType": "UINT8", **REPEATED}, np.uint8(1)),
    (prepare.bit_shift_left(BYTES, 1), "BTensor", {"DataType": "UINT8", **REPEATED}, np.uint8(1)),
    # Where sizes need not be equal, it has one element.
    (prepare.add(X[:1, :1], 2), "BTensor", {"DataType": "FLOAT32", "Sizes": [1, 1]}, np.float32(2)),
    (
        prepare.matrix_multiply_integer(BYTES, 7, BYTES.T),
        "AZeroPointTensor",
        {"DataType": "UINT8", "Sizes": [1, 1]},
        np.uint8(7),
    ),
]


@pytest.mark.parametrize(("call", "member", "desc", "element"), NUMBERS)
def test_a_number_is_a_tensor_of_one_element(call: Call, member: str, desc: dict[str, Any], element: Any):
    check(call.operator)
    assert call.operator["desc"][member] == desc
    assert call.inputs[member].dtype == element.dtype
    assert (call.inputs[member] == element).all()
    only = Call(call.operator, {member: call.inputs[member]}, {k: v for k, v in call.layouts.items() if k == member})
    assert sent(only) == element.tobytes()


ONE_ELEMENT = [
    (name, example, member.name)
    for name, operator in OPERATORS.items()
    for example in operator.examples
    for member in operator.members.inputs
    if not member.is_array and len(operator.members.inputs) > 1
    if (given := example.desc.get(member.name)) is not None and set(given["Sizes"]) == {1}
]


def test_a_number_stands_for_each_tensor_of_one_element_in_an_example():
    tried = 0
    for name, example, single in ONE_ELEMENT:
        plan, members = check({"type": name, "desc": example.desc}, example.level), OPERATORS[name].members
        arrays = {key: np.zeros(desc.sizes, desc.data_type.dtype) for key, desc in plan.inputs.items() if key != single}
        if not arrays:
            continue
        inputs: list[Any] = [1 if each.name == single else arrays.get(each.name) for each in members.inputs]
        others = {
            key: value for key, value in example.desc.items() if key not in {each.name for each in members.inputs}
        }
        made = check(operator_call(name, inputs, others).operator, example.level)
        assert made.inputs[single].element_count == 1
        tried += 1
    assert tried > 20


def test_a_number_needs_a_tensor_that_tells_its_data_type():
    of_what: Any = prepare
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: of_what.add(2, 3), r"a_tensor is 2; its data type must be known"),
        (lambda: of_what.relu(2), r"input_tensor is 2; its data type must be known"),
        (lambda: of_what.add(BYTES, 2.5), r"b_tensor is 2\.5, which is no UINT8"),
        (lambda: of_what.add(BYTES, -1), r"b_tensor is -1, which is no UINT8"),
        (
            lambda: of_what.quantize_linear(X, 0.5, 128),
            r"zero_point_tensor is 128; its data type may be any of INT8, U",
        ),
        (lambda: of_what.add(X, True), r"b_tensor is of type bool"),
    ]
    for call, said in wrong:
        with pytest.raises(TypeError, match=said):
            call()


def test_an_array_keeps_its_strides_on_request():
    for array, sizes, strides, data in [
        (X.T, [3, 2], [1, 3], X),
        (X[:, ::2], [2, 2], [3, 2], [[1, 0, 3], [4, 0, -6]]),  # gaps are 0
        (np.broadcast_to(X[0], (2, 3)), [2, 3], [0, 1], X[0]),
        (X.astype(">f4").T, [3, 2], [1, 3], X),
    ]:
        call = prepare.abs(strided(array))
        assert call.operator["desc"]["InputTensor"] == {"DataType": "FLOAT32", "Sizes": sizes, "Strides": strides}
        assert sent(call) == np.array(data, np.float32).tobytes()
        assert "Strides" not in prepare.abs(array).operator["desc"]["InputTensor"]
    assert "Strides" not in prepare.abs(strided(X)).operator["desc"]["InputTensor"]
    assert prepare.abs(strided(X[:, :1])).operator["desc"]["InputTensor"]["Strides"] == [3, 1]
    assert prepare.sum(strided(X.T), 0).operator["desc"]["InputTensor"]["Strides"] == [1, 3]
    listed = prepare.join([X.T, strided(X.T)], axis=0).operator["desc"]["InputTensors"]
    assert ["Strides" in each for each in listed] == [False, True]


def test_strides_that_a_desc_cannot_have_are_refused():
    for array in (X[::-1], X[:, ::-1]):
        with pytest.raises(ValueError, match="DirectML's are not negative"):
            strided(array)
    with pytest.raises(ValueError, match="DirectML counts whole elements"):
        strided(np.zeros(2, [("a", "<f4"), ("b", "u1")])["a"])
    with pytest.raises(TypeError, match="of type list, not an array"):
        strided([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has its strides already"):
        strided(Graph().input("x", np.float32, [2]))
    assert repr(strided(X.T)) == "<Strided float32 [3, 2] with strides (1, 3)>"


@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
def test_numbers_and_strides_compute_what_numpy_does(make_client: Any, server_url: str, encoding: Any):
    client: Client = make_client(server_url, encoding=encoding)
    row = np.array([10, 20, 30], np.float32)
    for result, right in [
        (client.mul(X, 0.5), X * np.float32(0.5)),
        (client.sub(1, X), 1 - X),
        (client.where(BYTES, X, 0), np.where(BYTES, X, 0)),
        (client.matmul(strided(X.T), X), X.T @ X),
        (client.add(X, strided(np.broadcast_to(row, X.shape))), X + row),
        (client.max(strided(X.T), 0), X.T.max(0, keepdims=True)),
    ]:
        np.testing.assert_array_equal(result.output, right)


def test_a_number_in_a_graph_needs_no_level_of_constants():
    graph = Graph()
    x = graph.input("x", np.float32, [1, 1, 2, 3])
    graph.output("y", graph.add(graph.mul(x, 2), 0.5))
    assert not graph.constants
    assert validate_graph(graph.to_json()).minimum_feature_level is FeatureLevel.V2_1
    with_nan = Graph()
    with_nan.add(with_nan.input("x", np.float32, [2]), np.nan)
    assert len(with_nan.constants) == 1  # JSON has no such number


def test_graphs_take_numbers_and_strides(make_client: Any, server_url: str):
    client: Client = make_client(server_url)
    graph = Graph()
    x = graph.input("x", np.float32, [2, 3])
    weights = graph.constant(strided(X.T))
    assert weights.desc.element_strides == (1, 3)
    y = graph.relu(graph.sub(graph.matmul(x, weights), strided(np.broadcast_to(X[0, :2], (2, 2)))))
    graph.output("y", graph.minimum(y, 20))
    right = np.clip(X @ X.T - X[0, :2], 0, 20)
    np.testing.assert_array_equal(client.execute(graph, {"x": X}).output, right)
