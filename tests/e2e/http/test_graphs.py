"""Graphs over HTTP, through the clients and on the command line."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import opwire
from opwire.errors import ContractViolation
from opwire_service.settings import Limits, Settings
from tests.support.commands import opwire as command
from tests.support.conformance import PLACES
from tests.support.http.clients import MakeClient
from tests.support.http.problems import read_problem
from tests.support.http.serving import serving

X = {"DataType": "FLOAT32", "Sizes": [2, 3]}
COLUMN = {"DataType": "FLOAT32", "Sizes": [2, 1]}
VALUES = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def row_sums(source: str, desc: dict[str, Any] = X, function: str = "SUM") -> dict[str, Any]:
    operator = {"Function": function, "InputTensor": desc, "Axes": [1]}
    return {"type": "REDUCE", "desc": operator, "inputs": {"InputTensor": source}}


def two_steps() -> dict[str, Any]:
    nodes = {"sums": row_sums("input:x"), "norms": row_sums("sums", COLUMN, "L2"), "of_w": row_sums("w"), "w": {}}
    return {"nodes": nodes, "outputs": {"y": "norms", "z": "of_w.OutputTensor"}}


def with_constant(tensor: object) -> dict[str, Any]:
    graph = two_steps()
    graph["nodes"]["w"] = {"constant": tensor}
    return graph


CONSTANT = base64.b64encode(VALUES.tobytes()).decode()
REQUEST: dict[str, Any] = {
    "graph": with_constant(CONSTANT),
    "inputs": {"x": {"data": VALUES.tolist()}},
    "output_format": "numbers",
}
RIGHT = {"y": [[6], [15]], "z": [[6], [15]]}


def output_data(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: output["data"] for name, output in answer["outputs"].items()}


@pytest.mark.parametrize("tensor", [CONSTANT, {"data": VALUES.tolist()}, {"data": CONSTANT}])
def test_constants_are_accepted_in_every_spelling(http, tensor):
    answer = http.post("/v1/execute", json={**REQUEST, "graph": with_constant(tensor)})
    assert output_data(answer.json()) == RIGHT


NAMES = [
    (["y[0]", "y[1]"], ["y"]),
    (["y[1]"], ["y[1]"]),
    (["y[1]", "y[0]"], ["y[1]", "y[0]"]),
    (["y[0]", "y[2]"], ["y[0]", "y[2]"]),
    (["y[0]", "z", "y[1]"], ["y[0]", "z", "y[1]"]),
    (["y", "y[0]"], ["y", "y[0]"]),
    (["y[0]", "y"], ["y[0]", "y"]),
    (["y[1]", "y[1][0]"], ["y[1]", "y[1][0]"]),
    (["y[0]", "y[0][0]"], ["y", "y[0][0]"]),
]


@pytest.mark.parametrize(("names", "members"), NAMES)
def test_outputs_are_a_list_where_they_are_a_whole_array(http, names: list[str], members: list[str]):
    graph = {"nodes": {"s": row_sums("input:x")}, "outputs": dict.fromkeys(names, "s")}
    body = {"graph": graph, "inputs": REQUEST["inputs"], "output_format": "numbers"}
    outputs = json.loads(http.post("/v1/execute", json=body).text, object_pairs_hook=list)[0][1]
    assert [name for name, _ in outputs] == members
    listed = [each for _, found in outputs for each in (found if isinstance(found[0], list) else [found])]
    assert len(listed) == len(names)


@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
@pytest.mark.parametrize("order", [["x[0]", "x[1]", "z"], ["x[1]", "x[0]", "z"], ["x[1]", "z", "x[0]"]])
def test_the_inputs_of_an_array_may_be_given_in_any_order(make_client, server_url, encoding: str, order: list[str]):
    tensor = {"DataType": "FLOAT32", "Sizes": [1]}
    sources = [f"input:{name}" for name in ("x[0]", "x[1]", "z")]
    join = {"type": "JOIN", "desc": {"InputTensors": [tensor] * 3, "Axis": 0}, "inputs": {"InputTensors": sources}}
    values = {"x[0]": 1, "x[1]": 2, "z": 3}
    given = {name: np.array([values[name]], np.float32) for name in order}
    graph = {"nodes": {"joined": join}, "outputs": {"y": "joined"}}
    assert make_client(server_url).execute(graph, given, encoding=encoding).output.tolist() == [1, 2, 3]


def test_some_outputs_of_an_array_may_have_names(make_client, server_url):
    graph = opwire.Graph()
    halves = graph.split(graph.input("x", "FLOAT32", [2, 3]), output_tensors=[{**X, "Sizes": [1, 3]}] * 2, axis=0)
    graph.output("first", halves)
    result = make_client(server_url).execute(graph, {"x": VALUES})
    assert {name: found.tolist() for name, found in result.outputs.items()} == {
        "first": [[1, 2, 3]],
        "split.OutputTensors[1]": [[4, 5, 6]],
    }


@pytest.mark.parametrize("names", [["x[1]"], ["x[0]", "x[2]"], ["x[0]", "x"]])
def test_inputs_that_cannot_be_given_are_refused(http, names: list[str]):
    nodes = {f"s{i}": row_sums(f"input:{name}") for i, name in enumerate(names)}
    body = {"graph": {"nodes": nodes, "outputs": {"y": "s0"}}, "inputs": {"x": [REQUEST["inputs"]["x"]] * len(names)}}
    answer = http.post("/v1/execute", json=body)
    problem = read_problem(answer.status_code, answer.headers, answer.content, body)
    assert answer.status_code == 422
    assert 'given; the inputs of an array are all from "x[0]" on' in problem["violations"][0]["message"]


def test_constants_can_be_long_or_in_the_tail(http):
    large = {"DataType": "FLOAT32", "Sizes": [64, 512]}
    graph: dict[str, Any] = {"nodes": {"s": row_sums("w", large), "w": {}}, "outputs": {"y": "s"}}
    data = np.ones((64, 512), "<f4").tobytes()
    graph["nodes"]["w"] = {"constant": base64.b64encode(data).decode()}
    text = http.post("/v1/execute", json={"graph": graph, "inputs": {}, "output_format": "numbers"})
    assert output_data(text.json()) == {"y": [[512]] * 64}
    graph["nodes"]["w"] = {"constant": {"binary_data_size": len(data)}}
    head = json.dumps({"graph": graph, "inputs": {}}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    tail = http.post("/v1/execute", content=head + data, headers={**headers, "Accept": "application/octet-stream"})
    length = int(tail.headers["inference-header-content-length"])
    assert tail.content[length:] == struct.pack("<f", 512) * 64


def test_a_batch_can_mix_graphs_and_operators(http):
    operator = {key: value for key, value in row_sums("").items() if key != "inputs"}
    alone = {"operator": operator, "inputs": {"InputTensor": {"data": VALUES.tolist()}}, "output_format": "numbers"}
    results = http.post("/v1/batch", json={"requests": [REQUEST, alone, {**REQUEST, "inputs": {}}]}).json()["results"]
    assert output_data(results[0]) == RIGHT
    assert output_data(results[1]) == {"OutputTensor": [[6], [15]]}
    assert [violation["pointer"] for violation in results[2]["violations"]] == ["/requests/2/inputs"]


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"graph": with_constant("AAAA")}, ["/graph/nodes/w/constant"]),
        ({"graph": two_steps()}, ["/graph/nodes/w"]),
        ({"operator": {}}, ["/graph"]),
        ({"graph": 5}, ["/graph"]),
        ({"inputs": {"x": {"data": [1]}}}, ["/inputs/x/data"]),
        ({"inputs": {"x": {"data": VALUES.tolist()}, "y": "AAAA"}}, ["/inputs/y"]),
    ],
)
def test_violations_point_to_their_place(http, change, pointers):
    answer = http.post("/v1/execute", json={**REQUEST, **change})
    problem = read_problem(answer.status_code, answer.headers, answer.content, {**REQUEST, **change})
    assert [violation["pointer"] for violation in problem["violations"]][: len(pointers)] == pointers


def test_validate_returns_levels_and_outputs(http):
    found = http.post("/v1/validate", json={"graph": REQUEST["graph"], "feature_level": "5_0"}).json()
    assert (found["valid"], found["minimum_feature_level"]) == (False, "DML_FEATURE_LEVEL_6_2")
    assert [violation["pointer"] for violation in found["violations"]] == ["/graph/nodes/w"]
    assert found["outputs"]["y"]["Sizes"] == [2, 1]
    assert [node["name"] for node in found["nodes"]] == list(REQUEST["graph"]["nodes"])
    assert {node["minimum_feature_level"] for node in found["nodes"]} == {
        "DML_FEATURE_LEVEL_3_0",
        "DML_FEATURE_LEVEL_6_2",
    }


def test_a_graph_of_twenty_nodes_is_one_request(http):
    nodes = {"n0": row_sums("input:x")}
    nodes |= {f"n{i}": row_sums(f"n{i - 1}", COLUMN, "L1") for i in range(1, 20)}
    request = {**REQUEST, "graph": {"nodes": nodes, "outputs": {"y": "n19"}}}
    answer = http.post("/v1/execute", json=request).json()
    assert output_data(answer) == {"y": [[6], [15]]}


@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
def test_graphs_are_built_with_operator_methods(make_client: MakeClient, server_url, encoding):
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", [2, 3])
    sums = graph.sum(x, 1)
    both = graph.element_wise_add(sums, np.ones((2, 1), np.float32))
    graph.output("y", graph.argmax(both, 0))
    graph.output("sums", sums)
    client = make_client(server_url)
    assert client.validate(graph).valid
    result = client.execute(graph, {"x": VALUES}, encoding=encoding)
    assert {name: array.tolist() for name, array in result.outputs.items()} == {"y": [[1]], "sums": [[6], [15]]}


@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
def test_views_of_inputs_and_constants_mean_the_same_in_every_encoding(make_client: MakeClient, server_url, encoding):
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", [2, 2])
    w = graph.constant(np.array([[1, 2], [3, 4]], np.float32))
    graph.output("y", x.transpose() + w.transpose() + np.array([10, 20], np.float32))
    graph.output("z", x.reshape(4) * 2)
    values = np.array([[1, 2], [3, 4]], np.float32)
    client = make_client(server_url)
    found = client.execute(graph, {"x": values}, encoding=encoding).outputs
    assert found["y"].tolist() == [[12, 26], [14, 28]]
    assert found["z"].tolist() == [2, 4, 6, 8]
    assert client.execute(graph, {"x": values.tolist()}, encoding=encoding).outputs["y"].tolist() == found["y"].tolist()


DECLARED: dict[str, Any] = {
    "nodes": {"sums": row_sums("input:x", {"DataType": "FLOAT32", "Sizes": [3, 2], "Strides": [1, 3]})},
    "inputs": {"x": X},
    "outputs": {"y": "sums"},
}
"""The sums of columns: the node reads the declared input transposed."""


def test_requests_have_the_declared_inputs(http):
    for x in ({"data": VALUES.tolist()}, CONSTANT, {"data": CONSTANT}):
        answer = http.post("/v1/execute", json={"graph": DECLARED, "inputs": {"x": x}, "output_format": "numbers"})
        assert output_data(answer.json()) == {"y": VALUES.sum(0, keepdims=True).T.tolist()}
    request = {"graph": DECLARED, "inputs": {"x": {"data": VALUES.T.tolist()}}}
    answer = http.post("/v1/execute", json=request)
    problem = read_problem(answer.status_code, answer.headers, answer.content, request)
    assert [each["pointer"] for each in problem["violations"]] == ["/inputs/x/data"]
    assert http.post("/v1/validate", json=DECLARED).json()["minimum_feature_level"] == "DML_FEATURE_LEVEL_3_0"
    wrong = http.post("/v1/validate", json={"graph": {**DECLARED, "inputs": {"x": COLUMN}}}).json()
    assert [each["pointer"] for each in wrong["violations"]] == ["/graph/nodes/sums/inputs/InputTensor"]


def test_bytes_of_a_tail_are_read_as_wider_elements_wherever_they_are(http):
    graph = {**DECLARED, "inputs": {"x": {"DataType": "UINT8", "Sizes": [24]}}}
    request = {"graph": graph, "inputs": {"x": {"binary_data_size": 24}}}
    for padding in range(4):
        head = json.dumps(request).encode() + b" " * padding
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
        headers["Accept"] = "application/octet-stream"
        answer = http.post("/v1/execute", content=head + VALUES.tobytes(), headers=headers)
        length = int(answer.headers["inference-header-content-length"])
        assert answer.content[length:] == VALUES.sum(0).tobytes()


@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
def test_clients_send_the_declared_inputs(make_client: MakeClient, server_url, encoding):
    client = make_client(server_url)
    right = VALUES.sum(0, keepdims=True).T.tolist()
    assert client.execute(DECLARED, {"x": VALUES}, encoding=encoding).output.tolist() == right
    # Elements are laid out as declared, here by columns, which the node reads as the rows of a transposed tensor.
    columns = {**DECLARED, "inputs": {"x": {**X, "Strides": [1, 2]}}}
    found = client.execute(columns, {"x": VALUES.tolist()}, encoding=encoding).output
    assert found.tolist() == VALUES.T.reshape(2, 3).sum(0, keepdims=True).T.tolist()
    with pytest.raises(ValueError, match=r"FLOAT32 with shape \[2, 3\]"):
        client.execute(DECLARED, {"x": VALUES.T}, encoding=encoding)


def filled(elements: int, strides: list[int] | None = None, nodes: int = 1) -> dict[str, Any]:
    """Returns a small graph that fills large tensors and sums them up."""
    tensor = {"DataType": "FLOAT32", "Sizes": [elements], "Strides": strides}
    fill = {"type": "FILL_VALUE_CONSTANT", "desc": {"OutputTensor": tensor, "ValueDataType": "FLOAT32", "Value": 1}}
    made: dict[str, Any] = {f"f{i}": fill for i in range(nodes)}
    total = {"DataType": "FLOAT32", "Sizes": [1]}
    row = {"Function": "SUM", "InputTensor": tensor, "Axes": [0]}
    made |= {f"s{i}": {"type": "REDUCE", "desc": row, "inputs": {"InputTensor": f"f{i}"}} for i in range(nodes)}
    join = {"InputTensors": [total] * nodes, "Axis": 0, "OutputTensor": {"DataType": "FLOAT32", "Sizes": [nodes]}}
    sums = {"InputTensors": [f"s{i}" for i in range(nodes)]}
    made["all"] = {"type": "JOIN", "desc": join, "inputs": sums}
    return {"nodes": made, "outputs": {"y": "all"}}


@pytest.mark.parametrize(
    ("graph", "said"),
    [(filled(2**29), "elements in OutputTensor of the node"), (filled(2, [2**30]), "bytes of output of the node")],
)
def test_intermediate_tensors_have_the_bounds_of_operators(http, graph, said):
    request = {"graph": graph, "inputs": {}, "output_format": "numbers"}
    for path, body in (("/v1/execute", request), ("/v1/batch", {"requests": [request]})):
        answer = http.post(path, json=body)
        problem = answer.json() if path == "/v1/execute" else answer.json()["results"][0]
        assert (problem["status"], problem["code"]) == (413, "tensor_too_large")
        assert said in problem["detail"]
    assert said in http.put("/v1/graphs/large", json={"graph": graph}).json()["detail"]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_intermediate_tensors_count_as_request_memory(device):
    limits = Limits(memory_bytes=2**22)
    with serving(Settings(port=0, devices=(device,), limits=limits)) as server:
        for elements, status in ((2**14, 200), (2**21, 413)):
            request = {"graph": filled(elements), "inputs": {}, "output_format": "numbers"}
            answer = httpx.post(f"{server.url}/v1/execute", json=request, timeout=60)
            assert answer.status_code == status
        assert "between the nodes" in answer.json()["detail"]
        small = {"graph": filled(2, [2**20], 8), "inputs": {}, "output_format": "numbers"}
        assert "between the nodes" in httpx.post(f"{server.url}/v1/execute", json=small, timeout=60).json()["detail"]


def test_invalid_nodes_are_refused_while_building():
    graph, other = opwire.Graph(), opwire.Graph()
    x = graph.input("x", "FLOAT32", [2, 3])
    with pytest.raises(ValueError, match="already"):
        graph.input("x", "FLOAT32", [1])
    for data_type, sizes in (("FLOAT33", [1]), ("FLOAT32", [0]), ("FLOAT32", [1] * 9)):
        with pytest.raises(ContractViolation, match=r"/DataType|/Sizes"):
            graph.input("y", data_type, sizes)
    with pytest.raises(ValueError, match="another graph"):
        graph.sum(other.input("x", "FLOAT32", [2, 3]), 1)
    with pytest.raises(TypeError, match="changed outside"):
        graph.sum(x.stand_in.T, 1)
    with pytest.raises(ValueError, match="not an output of a node"):
        graph.output("y", x)
    with pytest.raises(TypeError, match="timeout"):
        graph.sum(x, 1, timeout=3)
    with pytest.raises(ContractViolation):
        graph.sum(x, 7)


def test_unread_outputs_are_outputs_of_the_graph_by_default():
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", [1, 1, 4, 4])
    pooled = graph.max_pooling(x, 2, strides=2, indices=True)
    graph.sum(pooled, 3)
    assert set(graph.outputs) == {"reduce.OutputTensor", "max_pooling1.OutputIndicesTensor"}
    graph.output("indices", pooled["OutputIndicesTensor"])
    assert set(graph.outputs) == {"indices"}


def test_the_run_command_runs_a_graph(tmp_path: Path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(REQUEST))
    done = command("run", path, "--json")
    assert output_data(json.loads(done.stdout)) == RIGHT
    assert command("validate", path).returncode == 0
    path.write_text(json.dumps({"graph": two_steps()}))
    refused = command("validate", path)
    assert refused.returncode == 1
    assert "/graph/nodes/w" in refused.stdout
    path.write_text(json.dumps({**REQUEST, "graph": "net"}))
    assert "registered graphs only exist on their server" in command("run", path).stderr


@pytest.mark.parametrize("name", ["w.npy", "w.bin"])
def test_the_run_command_reads_constants_from_files(tmp_path: Path, name):
    np.save(tmp_path / "w.npy", VALUES)
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({**REQUEST, "graph": with_constant({"sourcePath": name})}))
    done = command("run", path, "--json")
    assert output_data(json.loads(done.stdout)) == RIGHT
    assert command("validate", path).returncode == 0
    np.save(tmp_path / "w.npy", VALUES.T)
    (tmp_path / "w.bin").write_bytes(b"short")
    refused = command("validate", path)
    assert refused.returncode == 1
    assert "/graph/nodes/w/constant" in refused.stdout
    (tmp_path / name).unlink()
    assert command("run", path).returncode == 2


def test_the_server_refuses_constants_from_files(http):
    refused = http.post("/v1/execute", json={**REQUEST, "graph": with_constant({"sourcePath": "/etc/passwd"})})
    assert refused.json()["violations"][0]["pointer"] == "/graph/nodes/w/constant"


FOLDER = next((place / "dxdispatch" for place in PLACES if (place / "dxdispatch").is_dir()), Path("absent"))
RUNNABLE = (
    [name for name, row in json.loads((FOLDER / "expected.json").read_text()).items() if row["runnable"]]
    if FOLDER.is_dir()
    else []
)


@pytest.mark.parametrize("name", RUNNABLE)
def test_dxdispatch_samples_print_the_expected_values(name, tmp_path):
    done = command("run", FOLDER / name, "--json", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    shown = [step for step in json.loads(done.stdout)["commands"] if "values" in step]
    expected = json.loads((FOLDER / "expected.json").read_text())[name]
    assert [step["resource"] for step in shown] == [row["resource"] for row in expected["prints"]]
    # The relative spacing of FLOAT32 is below 1e-6, so printed values agree to that.
    relative = 0 if expected["tolerance"] == "exact" else expected["tolerance"].get("relative", 1e-6)
    for step, row in zip(shown, expected["prints"], strict=True):
        values, right = np.array(step["values"], float).ravel(), np.array(row["values"], float)
        np.testing.assert_allclose(values, right, rtol=relative)
    for row in expected.get("files", ()):
        path = tmp_path / row["path"]
        if "bytes_hex" in row:
            assert path.read_bytes().hex() == row["bytes_hex"]
        else:
            assert np.load(path).tolist() == row["values"]


def test_a_missing_or_corrupt_graph_file_is_refused(tmp_path: Path):
    model = {
        "resources": {"a": {"initialValuesDataType": "FLOAT32", "initialValues": [1]}},
        "dispatchables": {"g": {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}},
        "commands": [{"type": "dispatch", "dispatchable": "g", "bindings": {"x": "a"}}],
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    assert command("run", path).returncode == 2  # the file does not exist
    (tmp_path / "g.bin").write_bytes(b"\xff" * 64)
    done = command("run", path)
    assert done.returncode == 1
    assert "/dispatchables/g/sourcePath" in done.stderr + done.stdout
