"""Graphs in files: what is saved is loaded, run and registered with the same results, wherever the weights are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opwire import Graph
from opwire.errors import ContractViolation, RequestError
from opwire.files import read_payload
from opwire.graph import CONSTANT, as_numbered, check_graph
from opwire.level import HIGHEST
from opwire.tensor import Array
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.offline.documents import Single, read_document
from opwire_service.offline.engine import OfflineEngine
from opwire_service.offline.registrations import read_graph_file
from opwire_service.offline.tensor_files import write_outputs
from tests.support.execution import execute

DEVICE = ReferenceDevice()
X = np.array([[1, -2, 3], [0, 2, -1]], np.float32)


def network() -> Graph:
    """Returns a graph with constants that are broadcast, transposed, of 4 bits, and of another byte order."""
    graph = Graph()
    x = graph.input("x", "FLOAT32", X.shape)
    weights = graph.constant(np.array([[1, 2, 3], [4, 5, 6]], ">f4"))
    graph.output("y", x @ weights.transpose() + np.array([10, 20], np.float32))
    graph.output("z", graph.element_wise_add(x, np.full((2, 3), 0.5, np.float32)))
    return graph


def computed(graph: Any, constants: Any, x: Array = X) -> dict[str, Any]:
    plan = check_graph(graph)
    given = {"x": x, **{CONSTANT + name: array for name, array in constants.items()}}
    found = execute(
        DEVICE, plan, {name: given[name].astype(given[name].dtype.newbyteorder("<")).tobytes() for name in plan.inputs}
    )
    return {name: array.tolist() for name, array in found.items()}


RIGHT = {"y": (X @ np.array([[1, 4], [2, 5], [3, 6]]) + [10, 20]).tolist(), "z": (X + 0.5).tolist()}


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_a_saved_graph_computes_the_same(tmp_path, weights):
    path = tmp_path / "net.json"
    network().save(path, weights=weights)
    assert (tmp_path / "net.json.weights").is_dir() == (weights == "beside")
    loaded = Graph.load(path)
    assert computed(loaded.to_json(), loaded.constants) == RIGHT
    assert loaded.inputs["x"].sizes == X.shape
    loaded.save(tmp_path / "again.json")
    again = Graph.load(str(tmp_path / "again.json"))
    assert computed(again.to_json(), again.constants) == RIGHT

    document = read_document(path.read_bytes(), tmp_path)
    assert isinstance(document, Single)
    assert document.validate(HIGHEST).valid
    np.save(tmp_path / "x.npy", X)
    plan = document.dispatchable.check(HIGHEST)
    outputs = OfflineEngine().execute(plan, document.read_inputs(plan, {"x": tmp_path / "x.npy"}), DEVICE).buffers
    assert {name: plan.outputs[name].view(data).tolist() for name, data in outputs.items()} == RIGHT

    registered = read_graph_file(path, None)
    assert computed(registered.to_json(), registered.constants) == RIGHT


def test_a_loaded_graph_can_be_extended(tmp_path):
    network().save(tmp_path / "net.json")
    graph = Graph.load(tmp_path / "net.json")
    w = graph.input("w", "FLOAT32", [2])
    graph.output("more", w + np.array([1, 2], np.float32))
    plan = check_graph(graph.to_json())
    assert plan.outputs.keys() == {"y", "z", "more"}


def test_numbered_graphs_and_requests_are_loaded(tmp_path):
    """Nodes are called like inputs and tensors of others; the constant is in a .npy file in the folder."""
    tensor = {"DataType": "FLOAT32", "Sizes": [2]}
    add = {"type": "ELEMENT_WISE_ADD", "desc": {"ATensor": tensor, "BTensor": tensor}}
    nodes = {
        "w": {"constant": {"sourcePath": "w.npy"}},
        "a": {**add, "inputs": {"ATensor": "input:x", "BTensor": "w"}},
        "b": {**add, "inputs": {"ATensor": "a", "BTensor": "w"}},
    }
    named = {"nodes": nodes, "outputs": {"y": "b"}}
    numbered = as_numbered(named)
    for i, name in enumerate(("w", "a", "a.OutputTensor")):
        numbered["Nodes"][i]["Desc"]["Name"] = name
    np.save(tmp_path / "w.npy", np.array([10, 20], np.float32))
    for document in (named, numbered, {"graph": named}, {"graph": numbered, "feature_level": "6_2", "inputs": {}}):
        (tmp_path / "g.json").write_text(json.dumps(document))
        graph = Graph.load(tmp_path / "g.json")
        (name,) = graph.inputs
        plan = check_graph(graph.to_json())
        (constant,) = graph.constants.items()
        found = execute(
            DEVICE, plan, {name: np.array([1, 2], np.float32).tobytes(), CONSTANT + constant[0]: constant[1].tobytes()}
        )
        assert [array.tolist() for array in found.values()] == [[21, 42]]


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        ({"type": "ACTIVATION_RELU", "desc": {}}, RequestError, "no graph"),
        ([], RequestError, "no graph"),
        ({"nodes": {"a": {"constant": ""}}, "outputs": {"y": "a"}}, ContractViolation, "/outputs/y"),
        ({"graph": {"nodes": {}, "outputs": {}}}, ContractViolation, "/graph/nodes"),
        ({"nodes": {}, "outputs": {}, "feature_level": "6_2"}, ContractViolation, "/feature_level"),
        ({"graph": "registered"}, RequestError, "malformed"),
    ],
)
def test_files_without_a_valid_graph_are_refused(tmp_path, content, error, said):
    (tmp_path / "g.json").write_text(json.dumps(content))
    with pytest.raises(error, match=said):
        Graph.load(tmp_path / "g.json")


def test_weights_of_the_wrong_size_are_refused(tmp_path):
    network().save(tmp_path / "net.json", weights="beside")
    file = tmp_path / "net.json.weights" / "0.bin"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ContractViolation, match="/nodes/constant/constant"):
        Graph.load(tmp_path / "net.json")
    with pytest.raises(ValueError, match='"inside" or "beside"'):
        network().save(tmp_path / "net.json", weights="outside")  # type: ignore[arg-type]


def test_outputs_are_written_into_their_folder_whatever_they_are_called(tmp_path):
    names = ["../y", "/y", "a/b", "..", "y[0]", "ü", "%2E"]
    desc = check_graph(network().to_json()).outputs["y"]
    found = write_outputs(
        tmp_path / "out", dict.fromkeys(names, desc), {name: np.zeros(16, np.uint8) for name in names}
    )
    assert {path.parent for path in found.values()} == {tmp_path / "out"}
    assert len({path.name for path in found.values()}) == len(list((tmp_path / "out").iterdir())) == len(names)
    assert found["y[0]"].name == "y[0].npy"
    assert not any(Path(tmp_path, each).exists() for each in ("y.npy", "a"))
    assert read_payload(found["y[0]"], "", desc).nbytes == 16
