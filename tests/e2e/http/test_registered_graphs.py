"""Registered graphs: over HTTP, through the clients, and as models of the Open Inference Protocol."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

import opwire
from opwire.errors import ContractViolation, LimitExceededError, NotFoundError
from opwire.graph import as_numbered, check_graph, without_constants
from opwire_service.engine.graph_registry import GraphRegistry
from opwire_service.engine.registered_graph import StoredGraph
from opwire_service.settings import Limits, Settings
from tests.support.commands import opwire as command
from tests.support.conformance import PLACES
from tests.support.http.clients import MakeClient
from tests.support.http.problems import read_problem
from tests.support.http.serving import serving

X = {"DataType": "FLOAT32", "Sizes": [2, 3]}
VALUES = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
INPUTS = {"x": {"data": VALUES.tolist()}}


def adds(first: int, sizes: list[int] | None = None) -> dict[str, Any]:
    """Returns a graph that adds a constant tensor with the given first element."""
    desc = {"DataType": "FLOAT32", "Sizes": sizes or [2, 3]}
    constant = [[first, 0, 0], [0, 0, 0]]
    nodes = {
        "c": {"constant": {"data": constant}},
        "sum": {
            "type": "ELEMENT_WISE_ADD",
            "desc": {"ATensor": desc, "BTensor": desc},
            "inputs": {"ATensor": "input:x", "BTensor": "c"},
        },
    }
    return {"nodes": nodes, "outputs": {"y": "sum"}}


def execute_by_name(name: str) -> dict[str, Any]:
    return {"graph": name, "inputs": INPUTS, "output_format": "numbers"}


def first_element(answer: httpx.Response) -> float:
    found: float = answer.json()["outputs"]["y"]["data"][0][0]
    return found


NUMBERS = itertools.count()


@pytest.fixture
def name(http: httpx.Client) -> Iterator[str]:
    """A name that no other test uses."""
    made = f"net-{next(NUMBERS)}"
    yield made
    http.delete(f"/v1/graphs/{made}")


def test_a_graph_can_be_registered_listed_read_run_replaced_and_deleted(http, name):
    path = f"/v1/graphs/{name}"
    put = http.put(path, json={"graph": adds(7)})
    assert put.status_code == 201
    described = put.json()
    assert (described["name"], described["nodes"], described["feature_level"]) == (name, 2, "DML_FEATURE_LEVEL_6_4")
    assert (described["inputs"]["x"]["Sizes"], described["outputs"]["y"]["Sizes"]) == ([2, 3], [2, 3])
    assert described in http.get("/v1/graphs").json()["graphs"]
    shown = http.get(path).json()
    assert shown.pop("graph")["nodes"]["c"] == {"constant": {"binary_data_size": 24}}
    assert shown == described
    assert first_element(http.post("/v1/execute", json=execute_by_name(name))) == 8
    assert http.put(path, json={"graph": adds(1)}).status_code == 200
    assert first_element(http.post("/v1/execute", json=execute_by_name(name))) == 2
    assert http.delete(path).status_code == 200
    for refused in (http.post("/v1/execute", json=execute_by_name(name)), http.get(path), http.delete(path)):
        assert read_problem(refused.status_code, refused.headers, refused.content)["code"] == "not_found"


def test_a_graph_read_in_binary_form_can_be_registered_again(http, name):
    http.put(f"/v1/graphs/{name}", json={"graph": adds(5)})
    whole = http.get(f"/v1/graphs/{name}", headers={"Accept": "application/octet-stream"})
    length = int(whole.headers["inference-header-content-length"])
    head = json.dumps({"graph": json.loads(whole.content[:length])["graph"]}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    again = http.put(f"/v1/graphs/{name}", content=head + whole.content[length:], headers=headers)
    assert again.status_code == 200
    assert first_element(http.post("/v1/execute", json=execute_by_name(name))) == 6


def test_a_numbered_graph_keeps_its_constants(http, name):
    operator = adds(0)["nodes"]["sum"]
    nodes = [
        {"Type": "CONSTANT", "Desc": {"Data": {"data": [[3, 0, 0], [0, 0, 0]]}}},
        {"Type": "OPERATOR", "Desc": {"Operator": {"type": operator["type"], "desc": operator["desc"]}}},
    ]
    graph = {
        "Nodes": nodes,
        "InputEdges": [{"GraphInputIndex": 0, "ToNodeIndex": 1, "ToNodeInputIndex": 0}],
        "IntermediateEdges": [{"FromNodeIndex": 0, "FromNodeOutputIndex": 0, "ToNodeIndex": 1, "ToNodeInputIndex": 1}],
        "OutputEdges": [{"FromNodeIndex": 1, "FromNodeOutputIndex": 0, "GraphOutputIndex": 0}],
    }
    assert http.put(f"/v1/graphs/{name}", json={"graph": graph}).status_code == 201
    shown = http.get(f"/v1/graphs/{name}").json()["graph"]
    assert shown["Nodes"][0]["Desc"] == {"Data": {"binary_data_size": 24}}
    answer = http.post("/v1/execute", json={**execute_by_name(name), "inputs": {"Input0": INPUTS["x"]}})
    assert answer.json()["outputs"]["Output0"]["data"][0][0] == 4


def test_batches_and_validations_can_name_a_graph(http, name):
    http.put(f"/v1/graphs/{name}", json={"graph": adds(7), "feature_level": "6_3"})
    results = http.post("/v1/batch", json={"requests": [execute_by_name(name), execute_by_name("absent")]}).json()[
        "results"
    ]
    assert results[0]["feature_level"] == "DML_FEATURE_LEVEL_6_3"
    assert results[1]["code"] == "not_found"
    found = http.post("/v1/validate", json={"graph": name}).json()
    assert (found["valid"], found["minimum_feature_level"]) == (True, "DML_FEATURE_LEVEL_6_2")
    lower = http.post("/v1/validate", json={"graph": name, "feature_level": "5_0"}).json()
    assert [violation["pointer"] for violation in lower["violations"]] == ["/graph"]
    request = {**execute_by_name(name), "feature_level": "5_0"}
    refused = http.post("/v1/execute", json=request)
    (violation,) = read_problem(422, refused.headers, refused.content, request)["violations"]
    assert (violation["pointer"], violation["message"][:11]) == ("/graph", "/nodes/c: c")
    assert http.post("/v1/execute", json={**execute_by_name(name), "feature_level": "6_2"}).status_code == 200
    wrong = http.post("/v1/execute", json={**execute_by_name(name), "inputs": {"z": INPUTS["x"]}}).json()
    assert [violation["pointer"] for violation in wrong["violations"]] == ["/inputs", "/inputs/z"]


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("REDUCE", {"graph": adds(1)}, 400, "operator types"),
        ("DML_OPERATOR_GEMM", {"graph": adds(1)}, 400, "operator types"),
        ("stats", {"graph": adds(1)}, 400, "are reserved"),
        (".hidden", {"graph": adds(1)}, 400, "allowed: 1 to 128 of"),
        ("a" * 129, {"graph": adds(1)}, 400, "allowed: 1 to 128 of"),
        ("right", {"graph": adds(1), "inputs": {}}, 400, "malformed"),
        ("right", {}, 400, "malformed"),
        ("right", {"graph": "other"}, 400, "malformed"),
        ("right", {"graph": adds(1, [3, 3])}, 422, "violation"),
        ("right", {"graph": adds(1), "feature_level": "5_0"}, 422, "violation"),
        ("right", {"graph": {**adds(1), "outputs": {f"y{i}": "sum" for i in range(512)}}}, 413, "inputs and outputs"),
    ],
)
def test_invalid_registrations_are_refused(http, name, body, status, said):
    refused = http.put(f"/v1/graphs/{name}", json=body)
    problem = read_problem(refused.status_code, refused.headers, refused.content, body)
    assert (problem["status"], said in problem["detail"]) == (status, True)


def test_wrong_methods_are_refused_with_allow(http):
    refused = http.post("/v1/graphs/net", json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, PUT, DELETE")
    assert http.put("/v1/graphs", json={}).headers["allow"] == "GET"


def test_the_clients_register_graphs(make_client: MakeClient, server_url, name):
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", [2, 3])
    graph.output("y", graph.element_wise_add(x, np.full((2, 3), 3, np.float32)))
    client = make_client(server_url)
    assert client.register_graph(name, graph, "6_3")["feature_level"] == "DML_FEATURE_LEVEL_6_3"
    assert client.register_graph(name, graph)["inputs"]["x"]["Sizes"] == [2, 3]
    assert name in [each["name"] for each in client.registered_graphs()]
    assert set(client.registered_graph(name)["graph"]["nodes"]) == {"element_wise_add", "constant"}
    assert client.validate(name).valid
    assert client.execute(name, {"x": VALUES}).outputs["y"].tolist() == (VALUES + 3).tolist()
    assert client.delete_graph(name) is None
    with pytest.raises(NotFoundError):
        client.execute(name, {"x": VALUES})
    with pytest.raises(ContractViolation):
        client.register_graph(name, {"nodes": {}})


def infer_input(values: np.ndarray[Any, Any] = VALUES, datatype: str = "FP32") -> InferInput:
    given = InferInput("x", list(values.shape), datatype)
    given.set_data_from_numpy(values)
    return given


@pytest.fixture
def triton(server_url: str) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(server_url.removeprefix("http://")) as client:
        yield client


def test_a_graph_is_served_as_a_model(http, triton, name):
    http.put(f"/v1/graphs/{name}", json={"graph": adds(7)})
    assert triton.is_model_ready(name)
    metadata = triton.get_model_metadata(name)
    assert metadata["versions"] == ["6400"]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [2, 3]}]
    assert triton.get_model_config(name, "6400")["output"][0]["dims"] == [2, 3]
    assert (name, "6400") in {(each["name"], each["version"]) for each in triton.get_model_repository_index()}
    for binary in (True, False):
        outputs = [InferRequestedOutput("y", binary_data=binary)]
        found = triton.infer(name, [infer_input()], outputs=outputs)
        assert found.as_numpy("y")[0].tolist() == [8, 2, 3]
        assert found.get_response()["model_name"] == name
    (stats,) = triton.get_inference_statistics(name)["model_stats"]
    assert (stats["name"], stats["inference_count"]) == (name, 2)
    http.put(f"/v1/graphs/{name}", json={"graph": adds(1)})
    (stats,) = triton.get_inference_statistics(name, "6400")["model_stats"]
    assert stats["inference_count"] == 0  # the replaced graph's requests do not count


def test_a_registered_graph_and_its_model_have_the_declared_inputs(make_client: MakeClient, server_url, triton, name):
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", [2, 3])
    graph.output("y", x.transpose() + np.array([10, 20], np.float32))
    client = make_client(server_url)
    assert client.register_graph(name, graph)["inputs"]["x"]["Sizes"] == [2, 3]
    assert client.registered_graph(name)["graph"]["inputs"]["x"]["Sizes"] == [2, 3]
    right = (VALUES.T + np.array([10, 20])).tolist()
    assert client.execute(name, {"x": VALUES}).output.tolist() == right
    assert triton.get_model_metadata(name)["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [2, 3]}]
    assert triton.infer(name, [infer_input()]).as_numpy("y").tolist() == right


@pytest.mark.parametrize(
    ("given", "said"),
    [(infer_input(VALUES.T.copy()), "has the shape"), (infer_input(VALUES.astype(np.int32), "INT32"), "is FP32")],
)
def test_a_model_refuses_other_tensors(http, triton, name, given, said):
    http.put(f"/v1/graphs/{name}", json={"graph": adds(7)})
    with pytest.raises(InferenceServerException, match=said):
        triton.infer(name, [given])
    (stats,) = triton.get_inference_statistics(name)["model_stats"]
    assert stats["inference_stats"]["fail"]["count"] == 1


def test_graphs_with_strided_inputs_are_not_models(http, triton, name):
    graph = adds(7)
    graph["nodes"]["sum"]["desc"]["ATensor"] = {**X, "Strides": [4, 1]}
    assert http.put(f"/v1/graphs/{name}", json={"graph": graph}).status_code == 201
    assert name not in {each["name"] for each in triton.get_model_repository_index()}
    for call in (triton.get_model_metadata, triton.load_model, lambda given: triton.infer(given, [infer_input()])):
        with pytest.raises(InferenceServerException, match="strides"):
            call(name)


def test_a_model_has_one_version_and_cannot_be_unloaded(http, triton, name):
    http.put(f"/v1/graphs/{name}", json={"graph": adds(7)})
    triton.load_model(name)
    with pytest.raises(InferenceServerException, match="its versions are 6400"):
        triton.get_model_metadata(name, "6300")
    with pytest.raises(InferenceServerException, match="DELETE /v1/graphs"):
        triton.unload_model(name)


def test_graphs_belong_to_the_api_key_owner(tmp_path: Path):
    keys = tmp_path / "keys"
    keys.write_text("alice:a1\nalice:a2\n..:b1\n")
    with serving(Settings(port=0, devices=("reference",), api_keys_file=keys)) as server:
        alice, other, bob = (
            httpx.Client(base_url=str(server.url), headers={"Authorization": f"Bearer {key}"})
            for key in ("a1", "a2", "b1")
        )
        with alice, other, bob:
            assert alice.put("/v1/graphs/net", json={"graph": adds(7)}).status_code == 201
            assert bob.get("/v1/graphs").json() == {"graphs": []}
            assert bob.delete("/v1/graphs/net").status_code == 404
            assert bob.post("/v1/execute", json=execute_by_name("net")).status_code == 404
            assert bob.get("/v2/models/net").status_code == 404
            assert bob.put("/v1/graphs/net", json={"graph": adds(1)}).status_code == 201
            assert first_element(other.post("/v1/execute", json=execute_by_name("net"))) == 8
            assert first_element(bob.post("/v1/execute", json=execute_by_name("net"))) == 2
            assert other.delete("/v1/graphs/net").status_code == 200
            assert first_element(bob.post("/v1/execute", json=execute_by_name("net"))) == 2
            assert httpx.put(f"{server.url}/v1/graphs/net", json={"graph": adds(1)}).status_code == 401


def test_graphs_are_bounded_in_number_and_in_bytes():
    limits = Limits(graphs=2, graph_bytes=8192)
    settings = Settings(port=0, devices=("reference",), limits=limits)
    with serving(settings) as server, opwire.Client(server.url) as client:
        client.register_graph("a", adds(1))
        client.register_graph("b", adds(2))
        with pytest.raises(LimitExceededError, match="2 graphs are registered") as full:
            client.register_graph("c", adds(3))
        assert full.value.code == "graphs_full"
        client.delete_graph("a")
        large = opwire.Graph()
        large.element_wise_add(large.input("x", "FLOAT32", [2000]), np.ones(2000, np.float32))
        with pytest.raises(LimitExceededError, match="bytes") as too_large:
            client.register_graph("c", large)
        assert too_large.value.limit == 8192
        for i in range(20):  # replacing and deleting free memory
            client.register_graph("a", adds(i))
            client.register_graph("a", adds(i))
            if i % 2:
                client.delete_graph("a")


def test_concurrent_registrations_respect_the_bounds(tmp_path: Path):
    """Several registries share a folder, as several processes do."""
    limits = Limits(graphs=5, graph_bytes=2**20)
    folder = tmp_path / "graphs"
    folder.mkdir()
    registries = [GraphRegistry(folder, limits) for _ in range(4)]
    graph, constants = without_constants(adds(1), "")
    assert set(constants) == {"c"}
    file = StoredGraph(graph, check_graph(graph), {"c": memoryview(VALUES.tobytes())})
    refused = []

    def put(number: int) -> None:
        for i in range(10):
            try:
                registries[number].put(f"{number}-{i}", None, file)
            except LimitExceededError as error:
                refused.append(error)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 35
    names = {each.name for each in registries[0].of(None)}
    assert len(names) == 5
    for name in names:
        registries[1].remove(name, None)
    assert registries[2].of(None) == []
    assert list((folder / "slots").iterdir()) == []


# --- the command line


def test_graph_commands_register_list_and_delete(server_url: str, http: httpx.Client, name: str, tmp_path: Path):
    at = ["--url", server_url]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"graph": adds(7), "feature_level": "6_3", "inputs": INPUTS}))
    put = command("graph", "put", name, path, *at)
    assert put.returncode == 0, put.stderr
    lines = put.stdout.splitlines()
    assert lines[0].startswith(f"{name}: 2 nodes at DML_FEATURE_LEVEL_6_3, ")
    assert lines[1:] == ["  input x: FLOAT32 [2, 3]", "  output y: FLOAT32 [2, 3]"]
    assert first_element(http.post("/v1/execute", json=execute_by_name(name))) == 8
    path.write_text(json.dumps(adds(1)))
    replaced = json.loads(command("graph", "put", name, path, *at, "--json", "--level", "6_2").stdout)
    assert (replaced["name"], replaced["feature_level"]) == (name, "DML_FEATURE_LEVEL_6_2")
    assert first_element(http.post("/v1/execute", json=execute_by_name(name))) == 2
    assert replaced in json.loads(command("graph", "list", *at, "--json").stdout)["graphs"]
    assert name in command("graph", "list", *at).stdout
    deleted = command("graph", "delete", name, *at)
    assert (deleted.returncode, deleted.stdout) == (0, "")
    again = command("graph", "delete", name, *at)
    assert again.returncode == 1
    assert "no graph" in again.stderr


def test_graph_commands_read_constants_from_files(server_url: str, http: httpx.Client, name: str, tmp_path: Path):
    np.save(tmp_path / "c.npy", VALUES)
    graph = adds(0)
    graph["nodes"]["c"] = {"constant": {"sourcePath": "c.npy"}}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    done = command("graph", "put", name, tmp_path / "graph.json", "--url", server_url)
    assert done.returncode == 0, done.stderr
    assert http.post("/v1/execute", json=execute_by_name(name)).json()["outputs"]["y"]["data"] == (2 * VALUES).tolist()


def test_graph_commands_register_numbered_graphs(server_url: str, http: httpx.Client, name: str, tmp_path: Path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(as_numbered(adds(3))))
    assert command("graph", "put", name, path, "--url", server_url).returncode == 0
    answer = http.post("/v1/execute", json={**execute_by_name(name), "inputs": {"Input0": INPUTS["x"]}})
    assert answer.json()["outputs"]["Output0"]["data"][0][0] == 4


FOLDER = next((place / "dxdispatch" for place in PLACES if (place / "dxdispatch").is_dir()), Path("absent"))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="conformance/dxdispatch is not there")
def test_graph_commands_register_onnx_runtime_files(server_url: str, http: httpx.Client, name: str):
    done = command("graph", "put", name, FOLDER / "matmul_add" / "Partition_0.bin", "--url", server_url)
    assert done.returncode == 0, done.stderr
    matrix, addend = (
        np.fromfile(FOLDER / "matmul_add" / f"{each}.bin", np.float32) for each in ("matmul_b_tensor", "add_b_tensor")
    )
    row = np.arange(5, dtype=np.float32)
    request = {"graph": name, "inputs": {"model_input": {"data": [[[row.tolist()]]]}}, "output_format": "numbers"}
    found = http.post("/v1/execute", json=request).json()["outputs"]["model_output"]["data"]
    np.testing.assert_allclose(np.ravel(found), row @ matrix.reshape(5, 5) + addend, rtol=1e-6)


def test_graph_commands_report_refusals(server_url: str, tmp_path: Path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"type": "REDUCE", "desc": {}}))
    assert "contains no graph" in command("graph", "put", "net", path, "--url", server_url).stderr
    graph = adds(1)
    del graph["nodes"]["sum"]["inputs"]["BTensor"]
    path.write_text(json.dumps(graph))
    refused = command("graph", "put", "net", path, "--url", server_url)
    assert refused.returncode == 1
    assert "  /nodes/sum [missing_tensor]" in refused.stderr
    path.write_text(json.dumps(adds(1)))
    assert command("graph", "put", "ARGMAX", path, "--url", server_url).returncode == 1
    assert command("graph", "put", "net", tmp_path / "absent.json", "--url", server_url).returncode == 2
    assert command("graph", "list", "--url", "abacus").returncode == 2


def test_a_graph_by_itself_is_validated_and_registered(http, name):
    tensor = {"DataType": "FLOAT32", "Sizes": [2]}
    add = {"type": "ELEMENT_WISE_ADD", "desc": {"ATensor": tensor, "BTensor": tensor}}
    inputs = {"ATensor": "input:x", "BTensor": "w"}
    nodes: dict[str, Any] = {"w": {"constant": {"data": [1, 2]}}, "a": {**add, "inputs": inputs}}
    graph = {"nodes": nodes, "outputs": {"y": "a"}}
    assert http.post("/v1/validate", json=graph).json()["valid"]
    assert http.put(f"/v1/graphs/{name}", json=graph).status_code == 201
    request = {"graph": name, "inputs": {"x": {"data": [3, 4]}}, "output_format": "numbers"}
    assert http.post("/v1/execute", json=request).json()["outputs"]["y"]["data"] == [4, 6]

    wrong = {**graph, "outputs": {"y": "b"}}
    found = http.post("/v1/validate", json=wrong).json()
    assert [violation["pointer"] for violation in found["violations"]] == ["/outputs/y", "/nodes/a"]
    refused = http.put(f"/v1/graphs/{name}", json=wrong).json()
    assert [violation["pointer"] for violation in refused["violations"]] == ["/outputs/y", "/nodes/a"]
    malformed = {**graph, "nodes": {**nodes, "w": {"constant": "?"}}}
    answer = http.put(f"/v1/graphs/{name}", json=malformed)
    assert (answer.status_code, answer.json()["violations"][0]["pointer"]) == (400, "/nodes/w/constant")
    assert 'as the member "graph"' in http.post("/v1/execute", json=graph).json()["violations"][0]["message"]
