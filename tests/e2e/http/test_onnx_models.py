"""Tests of ONNX models in requests: validated, registered, bounded."""

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import opwire
from opwire.onnx import load
from opwire_service.settings import Limits, Settings
from tests.onnx_models.building import graph, info, model, node
from tests.support.http.serving import serving

ONNX = {"Content-Type": "application/x-onnx"}
X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) - 12
W = np.linspace(-1, 1, 36, dtype=np.float32).reshape(2, 2, 3, 3)


@pytest.fixture(scope="module")
def server():
    with serving(Settings(port=0, devices=("reference",))) as started:
        yield started.url


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server, headers=ONNX, timeout=60) as made:
        yield made


def convolution() -> ModelProto:
    nodes = [
        node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"], "relu"),
        node("Flatten", ["b"], ["y"], "flatten"),
    ]
    return model(nodes, [info("x", ["batch", 2, 3, 4])], ["y"], {"w": W})


def post(http: httpx.Client, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    answer = http.post(path, content=body)
    return answer.status_code, answer.json()


def test_model_is_validated_with_the_level_of_each_node(http):
    status, found = post(http, "/v1/validate?dim=batch=1&feature_level=2_1", convolution().SerializeToString())
    assert (status, found["valid"], found["minimum_feature_level"]) == (200, True, "DML_FEATURE_LEVEL_2_1")
    assert [each["name"] for each in found["model"]["nodes"]] == ["conv", "relu", "flatten"]
    assert found["graph"]["outputs"].keys() == {"y"}
    assert found["outputs"]["y"]["Sizes"] == [1, 24]


def test_model_is_registered_and_run(server, http):
    body = convolution().SerializeToString()
    answer = http.put("/v1/graphs/network?dim=batch=1", content=body)
    assert answer.status_code == 201
    with opwire.Client(server) as client:
        found = client.execute("network", {"x": X}).output
        loaded = load(convolution(), dimensions={"batch": 1})
        np.testing.assert_array_equal(found, loaded.run({"x": X})["y"])
        np.testing.assert_array_equal(found, loaded.run({"x": X}, runner=client)["y"])
        assert client.register("again", loaded)["byte_size"] == answer.json()["byte_size"]
        np.testing.assert_array_equal(found, client.execute("again", {"x": X}).output)


def test_nodes_on_the_cpu_are_named(http):
    body = model([node("NonZero", ["x"], ["y"], "where")], [info("x", [2, 3])], ["y"]).SerializeToString()
    status, found = post(http, "/v1/validate", body)
    assert (status, found["model"]["on_cpu"], found["graph"]) == (200, ["where"], None)
    answer = http.put("/v1/graphs/where", content=body)
    assert answer.status_code == 400
    assert "node where (NonZero) has no DirectML operators" in answer.json()["detail"]


def external() -> ModelProto:
    proto = convolution()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return proto


def huge() -> ModelProto:
    nodes = [node("Expand", ["x", "sizes"], ["y"], "spread")]
    return model(nodes, [info("x", [1])], ["y"], {"sizes": np.array([1 << 31, 1 << 31])})


def hollow() -> ModelProto:
    proto = convolution()
    proto.graph.initializer[0].dims[:] = [1 << 20, 1 << 20, 3, 3]
    return proto


HOSTILE: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "external data": (external, "which only a model in a file has"),
    "a huge tensor": (huge, "DirectML"),
    "elements without bytes": (hollow, "take"),
    "a cycle": (lambda: model([node("Neg", ["a"], ["a"], "n")], [info("x", [1])], ["a"]), "cycle"),
    "many nodes": (
        lambda: model([node("Neg", ["x"], [f"y{i}"]) for i in range(5000)], [info("x", [1])], ["y0"]),
        "more than 4096 nodes",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_models_get_a_clear_error_soon(http, name):
    make, message = HOSTILE[name]
    began = time.monotonic()
    body = make()
    query = "?dim=batch=1" if body.graph.input[0].type.tensor_type.shape.dim[0].dim_param else ""
    answer = http.put(f"/v1/graphs/hostile{query}", content=body.SerializeToString())
    assert answer.status_code in (400, 413, 422), answer.text
    assert message in json.dumps(answer.json())
    assert time.monotonic() - began < 5


def test_deep_subgraphs_are_refused():
    leaf = graph([node("Identity", ["x"], ["y"])], [], ["y"])
    inner = leaf
    for _ in range(20):
        inner = graph([node("If", ["c"], ["y"], then_branch=inner, else_branch=leaf)], [], ["y"])
    body = model(list(inner.node), [info("x", [2])], ["y"], {"c": np.array(True)}).SerializeToString()
    with pytest.raises(opwire.RequestError, match="subgraphs more than 16 deep"):
        load(body)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "give the sizes of its dimensions: batch=SIZE"),
        ("?dim=batch", "expected NAME=SIZE"),
        ("?dim=batch=0", "expected NAME=SIZE"),
        ("?dim=batch=1&level=2", "parameter 'level' given; allowed: dim"),
        ("?dim=n=1&dim=batch=1", 'no dimension "n"'),
    ],
)
def test_parameters_are_checked(http, query, message):
    answer = http.put(f"/v1/graphs/g{query}", content=convolution().SerializeToString())
    assert answer.status_code == 400
    assert message in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"{}", b"\x08", bytes(1000)])
def test_bodies_that_are_no_models_are_refused(http, body):
    answer = http.put("/v1/graphs/g", content=body)
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_model"


@pytest.mark.parametrize(("method", "path"), [("PUT", "/v1/graphs/g"), ("POST", "/v1/validate")])
def test_a_deadline_ends_the_work_on_a_model(method, path):
    nodes = [node("Relu", [f"x{i}" if i else "x"], [f"x{i + 1}"]) for i in range(3000)]
    body = model(nodes, [info("x", [2, 3])], ["x3000"]).SerializeToString()
    with serving(Settings(port=0, devices=("reference",), limits=Limits(timeout_ms=100))) as started:
        answer = httpx.request(method, started.url + path, content=body, headers=ONNX, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    assert "while the model was read" in answer.json()["detail"]
