"""Tensors of graphs under construction: operators and views mean what they mean in NumPy, which computes none of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire import Graph, GraphTensor
from opwire.errors import ContractViolation
from opwire.graph import CONSTANT, check_graph, validate_graph
from opwire.level import FeatureLevel
from opwire.tensor import Array
from opwire_service.devices.reference import ReferenceDevice
from tests.support.execution import execute
from tests.support.profiles import examples

DEVICE = ReferenceDevice()
X = np.array([[1, -2, 3], [0, 2, -1]], np.float32)

Build = Callable[[Any], Any]


def computed(graph: Graph, **inputs: Array) -> dict[str, Array]:
    """Returns the outputs of a graph."""
    plan = check_graph(graph.to_json())
    arrays = {**inputs, **{CONSTANT + name: array for name, array in graph.constants.items()}}
    return execute(DEVICE, plan, {name: arrays[name].tobytes() for name in plan.inputs})


def of_x(build: Build, x: Array = X) -> Array:
    """Returns the result of a function of one tensor."""
    graph = Graph()
    graph.output("y", build(graph.input("x", "FLOAT32", x.shape)))
    return computed(graph, x=x)["y"]


BINARY: list[Callable[..., Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.mod,
    operator.pow,
]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
OTHERS: list[Any] = [2, -1, 0.5, np.float32(4), np.array(2, np.float32), np.array([4, 0.5, 2], np.float32)]
OTHERS += [np.array([[2], [-4]], np.float32), np.array([[[1]], [[2]]], np.float32)]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("function", [*BINARY, *COMPARISONS])
def test_operators_add_nodes_that_broadcast_as_numpy_does(function, other):
    """All results are exact, apart from powers that are NaN or infinite alike."""
    builds: tuple[Build, Build] = (lambda x: function(x, other), lambda x: function(other, x))
    for build in builds:
        with np.errstate(all="ignore"):
            right = build(X)
        found = of_x(build)
        assert found.shape == right.shape
        np.testing.assert_array_equal(found, right.astype(found.dtype))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: -x,
        abs,
        lambda x: x + x.transpose().reshape(3, 2).transpose(),
        lambda x: x @ x.transpose(),
        lambda x: x.transpose() @ x,
        lambda x: x @ np.array([[1], [2], [3]], np.float32),
        lambda x: np.array([[1, 2]], np.float32) @ x,
        lambda x: x.reshape(1, 1, 2, 3) @ x.transpose().reshape(1, 3, 2),
        lambda x: x.reshape(1, 2, 3) @ np.ones((4, 3, 2), np.float32),
        lambda x: x.reshape(6) * x.reshape([6, 1]),
        lambda x: x.reshape(-1),
        lambda x: x.reshape(3, -1).transpose(1, 0),
        lambda x: x.transpose((1, 0)).reshape(2, 3),
        lambda x: x.reshape(1, 2, 3).transpose(2, 0, 1) - 1,
    ],
)
def test_views_and_products_are_those_of_numpy(build):
    assert of_x(build).tolist() == build(X).tolist()


@examples(60)
@given(st.data())
def test_chains_of_operators_and_views_are_those_of_numpy(data):
    """Small integers and halves, whose results are exact."""
    graph = Graph()
    array, tensor = X, graph.input("x", "FLOAT32", X.shape)
    for _ in range(data.draw(st.integers(1, 5))):
        apply = data.draw(st.sampled_from(["binary", "reflected", "transpose", "reshape", "negate", "product"]))
        if apply in ("binary", "reflected"):
            function = data.draw(st.sampled_from(BINARY[:3]))
            sizes = [data.draw(st.sampled_from([1, size])) for size in array.shape]
            other = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes) % 3
            pair = (array, tensor)
            array, tensor = ((function(each, other) if apply == "binary" else function(other, each)) for each in pair)
        elif apply == "transpose":
            axes = data.draw(st.permutations(range(array.ndim)))
            array, tensor = array.transpose(axes), tensor.transpose(axes)
        elif apply == "reshape":
            sizes = data.draw(st.sampled_from([[6], [1, 6], [3, 2], [2, 3], [2, 1, 3]]))
            if array.size == 6:
                array, tensor = array.reshape(sizes), tensor.reshape(sizes)
        elif apply == "negate":
            array, tensor = -array, -tensor
        elif array.ndim > 1:
            other = np.array([[1, 0, 2], [0, 1, -1], [2, 1, 0]], np.float32)[: array.shape[-1], : array.shape[-1]]
            if other.shape[0] == array.shape[-1]:
                array, tensor = array @ other, tensor @ other
    if tensor.source == "input:x":
        array, tensor = array + 1, tensor + 1
    graph.output("y", tensor)
    assert computed(graph, x=X)["y"].tolist() == array.tolist()


@pytest.mark.parametrize(
    "ask",
    [
        np.asarray,
        np.exp,
        np.sum,
        bool,
        list,
        float,
        lambda x: np.maximum(x, 0),
        lambda x: np.concatenate([x, x]),
        lambda x: np.add(X, x),
        lambda x: np.matmul(X, x),
        lambda x: X.__iadd__(x),
        lambda x: x[0],
        lambda x: x + "1",
        lambda x: operator.add(x, [1, 2, 3]),
        lambda x: None if x == 1 else x,
    ],
)
def test_nothing_but_nodes_computes_with_a_tensor(ask):
    graph = Graph()
    x = graph.input("x", "FLOAT32", X.shape)
    with pytest.raises(TypeError):
        ask(x)
    assert {"constant", "element_wise_add"}.isdisjoint(graph.to_json()["nodes"])


def test_a_constant_added_to_a_result_is_no_placeholder():
    graph = Graph()
    x = graph.input("x", "FLOAT32", [2, 2])
    y = graph.gemm(x, np.array([[1, 2], [3, 4]], np.float32))
    graph.output("y", graph.activation_relu(y + np.full((2, 2), 5, np.float32)))
    found = computed(graph, x=np.array([[0, 1], [3, 0]], np.float32))
    assert found["y"].tolist() == [[8, 9], [8, 11]]


RELU_OF_BYTES = {"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": "UINT8", "Sizes": [24]}}}


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda x: x + np.ones(2, np.float32), ValueError, "cannot be broadcast"),
        (lambda x: x + np.ones((2, 3), np.int32), ContractViolation, "INT32"),
        (lambda x: x + np.float64(1), TypeError, "FLOAT64"),
        (lambda x: x @ x, ValueError, "last size"),
        (lambda x: x.reshape(4), ValueError, "6 elements"),
        (lambda x: x.reshape(-1, -1), ValueError, "6 elements"),
        (lambda x: x.reshape(-2, -3), ValueError, "6 elements"),
        (lambda x: x.transpose(0, 0), ValueError, "each once"),
        (lambda x: x.with_strides([2, 3], [4, 1]), ValueError, "28 bytes"),
        (lambda x: x.with_strides([2], [1, 1]), ContractViolation, "Strides"),
        (lambda x: x.graph.input("i", "INT32", [2]) / 2, TypeError, "element_wise_divide"),
        (lambda x: x.graph.input("j", "INT32", [2]) + 0.5, TypeError, "no INT32"),
        (lambda x: x.graph.input("k", "INT32", [2]) + 2**31, TypeError, "2147483648 is no INT32"),
        (lambda x: x.graph.execute(RELU_OF_BYTES, {"InputTensor": x}), TypeError, "its desc says UINT8"),
    ],
)
def test_what_cannot_be_computed_is_refused_and_leaves_no_node(ask, error, said):
    graph = Graph()
    with pytest.raises(error, match=said):
        ask(graph.input("x", "FLOAT32", X.shape))
    assert graph.to_json()["nodes"] == {}
    assert graph.constants == {}


def test_the_bytes_of_a_tensor_are_not_taken_for_a_constant():
    """A desc of other sizes would read the placeholder as a buffer."""
    graph = Graph()
    x = graph.input("x", "UINT8", [4])
    copy = {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": {"DataType": "UINT8", "Sizes": [2, 2]}}}
    with pytest.raises(ValueError, match=r"its desc says UINT8 \[2, 2\]"):
        graph.execute(copy, {"InputTensor": x})
    graph.output("y", graph.execute(copy, {"InputTensor": x.reshape(2, 2)}))
    assert computed(graph, x=np.array([1, 2, 3, 4], np.uint8))["y"].tolist() == [[1, 2], [3, 4]]


def test_readers_follow_the_strides_of_an_output():
    graph = Graph()
    x = graph.input("x", "FLOAT32", X.shape)
    columns = {"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [1, 2]}
    y = graph.element_wise_identity(x, output_tensor=columns)
    graph.output("y", graph.element_wise_negate(y))
    graph.output("z", y.with_strides([6], [1]))
    found = computed(graph, x=X)
    assert found["y"].tolist() == (-X).tolist()
    assert found["z"].tolist() == X.T.reshape(-1).tolist()
    given_strides = {"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": {**columns, "Strides": [3, 1]}}}
    with pytest.raises(ValueError, match="has the strides"):
        graph.execute(given_strides, {"InputTensor": y})


def test_a_view_may_be_smaller_than_its_tensor():
    assert of_x(lambda x: x.with_strides([2], [4]) + 0).tolist() == [1, 2]
    assert of_x(lambda x: x.with_strides([2, 2], [0, 2]) * 2).tolist() == [[2, 6], [2, 6]]


def test_a_convolution_is_flattened_into_a_product():
    graph = Graph()
    image = graph.input("x", "FLOAT32", [1, 1, 4, 4])
    features = graph.convolution(image, np.ones((2, 1, 3, 3), np.float32))
    graph.output("y", features.reshape(1, -1) @ np.arange(8, dtype=np.float32).reshape(8, 1))
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    sums = np.array([x[0, 0, i : i + 3, j : j + 3].sum() for i in range(2) for j in range(2)])
    right = (np.concatenate([sums, sums]) * np.arange(8)).sum()
    assert computed(graph, x=x)["y"].tolist() == [[right]]


def test_python_numbers_need_no_constants_of_a_graph():
    graph = Graph()
    x = graph.input("x", "FLOAT32", [1, 1, 1, 2])
    graph.output("y", (2 * x + 1) / 4)
    assert validate_graph(graph.to_json()).minimum_feature_level is FeatureLevel.V2_1


def test_outputs_named_like_those_without_a_name_do_not_hide_them():
    graph = Graph()
    x = graph.input("x", "FLOAT32", [1, 1, 4, 4])
    pooled = graph.max_pooling(x, 2, indices=True)
    graph.output("max_pooling1.OutputIndicesTensor", pooled)
    assert len(graph.outputs) == 2
    assert set(graph.outputs.values()) == {pooled.source, pooled["OutputIndicesTensor"].source}
    assert len(computed(graph, x=np.zeros((1, 1, 4, 4), np.float32))) == 2


def test_tensors_are_keys_of_dictionaries():
    graph = Graph()
    x, y = (graph.input(name, "FLOAT32", [2]) for name in "xy")
    known: dict[GraphTensor, int] = {x: 1, y: 2}
    assert (known[x], known[y]) == (1, 2)
