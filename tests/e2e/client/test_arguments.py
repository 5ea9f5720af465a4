"""Arguments of which no request can be made: each is refused by name, with what was given and what is allowed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opwire import AsyncClient, Client, Graph, errors, prepare

X = np.ones((2, 3), np.float32)
IMAGE = np.ones((1, 1, 4, 4), np.float32)
SUM = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}}}

Ask = Callable[[Any], object]

CALLS: list[tuple[Ask, type[Exception], str]] = [
    (lambda c: c.max(X, X), TypeError, "an integer or a list of integers; element_wise_max takes two tensors"),
    (lambda c: c.multiply(X, X), TypeError, "; element_wise_multiply takes two tensors"),
    (lambda c: c.argmax(X, axes="0"), TypeError, "axes is '0'; it takes an integer or a list of integers"),
    (lambda c: c.argmax(X, axes=[0.5]), TypeError, r"axes is \[0\.5\]; it takes an integer"),
    (lambda c: c.sum(X, True), TypeError, "axes is True; it takes an integer"),
    (lambda c: c.sum(X, b"1"), TypeError, "axes is b'1'; it takes an integer"),
    (lambda c: c.sum(X, {0: 1}), TypeError, r"axes is \{0: 1\}; it takes an integer"),
    (lambda c: c.sum(X, X), TypeError, "axes is array"),
    (lambda c: c.sum(X, -1), ValueError, "axis -1: DirectML.s axes are unsigned; they count from the first"),
    (lambda c: c.max_pooling(IMAGE, 2, strides="2"), TypeError, "strides is '2'; it takes an integer"),
    (lambda c: c.max_pooling(IMAGE, None), TypeError, "window is None; it takes an integer"),
    (lambda c: c.max_pooling(IMAGE, 2, operator=1), TypeError, "operator is 1, of type int; it must be a string"),
    (lambda c: c.max_pooling(IMAGE, 2, indices=IMAGE), TypeError, "of type ndarray; it must be True or False"),
    (lambda c: c.max_pooling(IMAGE, 2, ceil=1), TypeError, "ceil is 1, of type int; it must be True or False"),
    (lambda c: c.argmax(X, 0, direction=object()), ValueError, "/operator/desc/AxisDirection is <object .* of type"),
    (lambda c: c.sum(X, 0, device=np.longdouble(1)), ValueError, "/device is .*longdouble.* JSON cannot represent"),
    (lambda c: c.sum(X, 0, feature_level="\ud800"), ValueError, r"/feature_level is .*, of type str, which JSON"),
    (
        lambda c: c.sum(X, 0, timeout="1"),
        ValueError,
        "timeout is '1'; it must be a positive number of seconds, at most 2147",
    ),
    (lambda c: c.sum(X, 0, timeout=[1]), ValueError, r"timeout is \[1\]; it must be a positive number"),
    (
        lambda c: c.sum(X, 0, encoding="json"),
        ValueError,
        "encoding is 'json'; it must be one of binary, base64, numbers",
    ),
    (lambda c: c.sum(X, 0, encoding=X), ValueError, "encoding is array.*; it must be one of binary"),
    (lambda c: c.sum(X, 0, max_retries=None), ValueError, "max_retries is None; it must be an integer of at least 0"),
    (
        lambda c: c.with_options(tmeout=1),
        TypeError,
        "there is no option 'tmeout'; there are feature_level, strict, timeout",
    ),
    (lambda c: c.execute_many([5]), TypeError, r"calls\[0\] is of type int; execute_many takes a list of calls made"),
    (lambda c: c.execute_many([prepare.sum(X, 0), None]), TypeError, r"calls\[1\] is of type NoneType"),
    (lambda c: c.execute_many(prepare.sum(X, 0)), TypeError, "calls are of type Call; execute_many takes a list"),
    (lambda c: c.execute(5, X), TypeError, "5 given, of type int; expected the JSON of an operator"),
    (lambda c: c.validate([SUM]), TypeError, "of type list; expected the JSON"),
    (lambda c: c.execute(SUM, {0: X}), TypeError, "inputs has the key 0, of type int; its keys are names"),
    (lambda c: c.execute({"nodes": {}}, {None: X}), TypeError, "inputs has the key None"),
    (lambda c: c.registered_graph(3), TypeError, "name is 3, of type int; it must be a string"),
    (lambda c: c.delete_graph(""), ValueError, 'name is ""; it must not be empty'),
    (lambda c: c.operator(None), TypeError, "name is None, of type NoneType; it must be a string"),
    (lambda c: c.wait_ready(None), ValueError, "timeout is None; it must be a number of seconds"),
    (lambda c: c.sum(Graph().input("x", "FLOAT32", [2, 3]), 0), TypeError, "which has no elements yet; execute"),
]


@pytest.mark.parametrize(("ask", "error", "message"), CALLS)
def test_a_call_says_which_argument_is_wrong(make_client, server_url, ask: Ask, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        ask(make_client(server_url))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": 8000}, "base_url is of type int; it must be a string"),
        ({"api_key": b"key"}, "api_key is of type bytes; it must be a string"),
        ({"headers": ["a"]}, "headers is of type list; expected a dict of strings"),
        ({"headers": {"a": 1}}, "headers is of type dict; expected a dict of strings"),
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_says_which_argument_is_wrong(kind: Any, arguments: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        kind(**arguments)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda g: g.input(5, "FLOAT32", [1]), TypeError, "name is 5, of type int; it must be a string"),
        (lambda g: g.input("x", "FLOAT33", [1]), errors.ContractViolation, "/DataType: .*FLOAT33.* allowed: FLOAT32"),
        (lambda g: g.input("x", "FLOAT32", [0, "a"]), errors.ContractViolation, "(?s)/Sizes/0: 0 given.*/Sizes/1"),
        (lambda g: g.input("x", "FLOAT32", 3), errors.ContractViolation, "/Sizes: 3 given"),
        (lambda g: g.output("y", X), ValueError, "is not an output of a node of this graph"),
        (
            lambda g: g.constant(g.input("x", "FLOAT32", [1])),
            TypeError,
            "has no elements yet, so it cannot be a constant",
        ),
    ],
)
def test_a_graph_says_which_argument_is_wrong(build: Ask, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        build(Graph())


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X.view(np.int32), r"x is an array of int32 .* its desc says FLOAT32; \.astype\('float32'\) converts it"),
        (X.astype(np.float64)[:1], "x is an array of float64"),
        (X.reshape(3, 2), r"x is an array of float32 with shape \[3, 2\]; its desc takes FLOAT32 with shape"),
    ],
)
def test_an_input_of_a_graph_has_the_type_and_the_shape_of_its_desc(make_client, server_url, x: Any, message: str):
    graph = Graph()
    graph.activation_relu(graph.input("x", "FLOAT32", [2, 3]))
    client = make_client(server_url)
    assert client.execute(graph, {"x": X.tolist()}).output.tolist() == X.tolist()
    with pytest.raises((TypeError, ValueError), match=message):
        client.execute(graph, {"x": x})


def test_inputs_of_four_bits_of_a_graph_are_packed(make_client, server_url):
    graph = Graph()
    scale = np.ones(3, np.float32)
    x = graph.input("x", "UINT4", [3])
    graph.dequantize(x, [scale], quantization_type="SCALE", output_tensor={"DataType": "FLOAT32", "Sizes": [3]})
    client = make_client(server_url)
    for given in (np.array([9, 8, 15], np.uint8), [9, 8, 15], bytes([0x89, 0x0F, 0, 0])):
        assert client.execute(graph, {"x": given}).output.tolist() == [1, 0, 7]


def test_numbers_of_numpy_are_numbers(make_client, server_url):
    client = make_client(server_url, timeout=np.float32(20), max_retries=np.int64(0))
    assert client.sum(X, np.array(1)).output.shape == (2, 1)
    assert client.sum(X, (np.uint8(0), np.int64(1))).output.shape == (1, 1)
    assert client.max_pooling1(IMAGE, window_size=np.int64(2), strides=np.array(2)).output.shape == (1, 1, 2, 2)
    assert client.activation_elu(-X, alpha=np.array(2.0)).output.shape == (2, 3)


OWNERS = [Client("http://127.0.0.1"), AsyncClient("http://127.0.0.1"), prepare, Graph()]


@pytest.mark.parametrize("owner", OWNERS)
def test_element_wise_operators_and_activations_have_short_names(owner: Any):
    assert owner.relu == owner.activation_relu
    assert owner.add == owner.element_wise_add
    assert owner.identity == owner.element_wise_identity


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RELU", "relu"),
        ("ACTIVATION_RELU", "activation_relu"),
        ("Abs", "abs"),
        ("conv_integer", "convolution_integer"),
        ("argmx", "argmax"),
    ],
)
@pytest.mark.parametrize("owner", OWNERS)
def test_an_operator_by_half_its_name_is_pointed_out(owner: Any, name: str, meant: str):
    with pytest.raises(AttributeError, match=rf"object has no attribute '{name}'; did you mean {meant}\?$"):
        getattr(owner, name)


def test_what_has_no_name_of_an_operator_is_missing_as_ever():
    client = Client("http://127.0.0.1")
    assert not hasattr(client, "relux")
    with pytest.raises(AttributeError, match=r"has no attribute '_repr_html_'$"):
        getattr(client, "_repr_html_")  # noqa: B009 - the name is what it is about
    assert repr(copy.copy(client)) == repr(client)
    assert pickle.loads(pickle.dumps(prepare)).sum(X, 0).operator["desc"]["Axes"] == [0]
