"""Folders that reproduce a wrong node alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import opwire
from opwire.difference import Differences, Verdict
from opwire.tensor import Array
from tests.onnx_models.building import info, model, node
from tests.support.commands import opwire as command

X = np.arange(8, dtype=np.float32).reshape(2, 4)
W = np.eye(4, dtype=np.float32)[::-1].copy()
PRODUCT = X @ W
SUM = PRODUCT + 1


def proto() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "w"], ["p"], name="a/product"),
        node("Add", ["p", "one"], ["s"], name="sum"),
        node("Greater", ["s", "one"], ["g"], name="compare"),
        node("Not", ["g"], ["y"], name="invert"),
    ]
    return model(nodes, [info("x", [2, 4])], ["y"], {"w": W, "one": np.ones(1, np.float32)})


def right() -> dict[str, Array]:
    return {"p": PRODUCT, "s": SUM, "g": SUM > 1, "y": ~(SUM > 1)}


def compare(folder: Path, changed: dict[str, Array], *missing: str) -> Differences:
    tensors = {name: array for name, array in {**right(), **changed}.items() if name not in missing}
    return opwire.diff(opwire.onnx.load(proto()), tensors, {"x": X}, repro=folder)


def alone(folder: str) -> Differences:
    return opwire.diff(folder)


def test_right_nodes_have_no_folders(tmp_path):
    assert compare(tmp_path / "wrong", {}).repros == []
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("name", "changed"), [("p", PRODUCT + np.float32(8) * (X == 3)), ("s", SUM * 2), ("g", SUM > 2), ("y", SUM > 1)]
)
def test_a_folder_reproduces_the_wrong_node(tmp_path, name, changed):
    found = compare(tmp_path, {name: changed})
    wrong = next(each for each in found.wrong if name in [tensor.name for tensor in each.tensors])
    folder = found.repros[found.wrong.index(wrong)]
    (again,) = alone(folder).nodes
    assert again.to_json() == wrong.to_json()
    assert np.array_equal(np.load(Path(folder, "side", f"{name}.npy")), changed)
    assert not opwire.diff(folder, Path(folder, "exact")).wrong
    assert not opwire.diff(folder, "reference").wrong


def test_the_model_of_the_folder_is_one_node_with_its_data(tmp_path):
    (folder,) = compare(tmp_path, {"p": PRODUCT * 2, "s": PRODUCT * 2 + 1, "g": SUM > 0, "y": SUM <= 0}).repros[:1]
    assert folder == str(tmp_path / "a_product")
    written = onnx.load(Path(folder, "model.onnx"))
    onnx.checker.check_model(written)
    assert [each.op_type for each in written.graph.node] == ["MatMul"]
    assert np.array_equal(onnx.numpy_helper.to_array(written.graph.initializer[0]), W)
    session = pytest.importorskip("onnxruntime").InferenceSession(Path(folder, "model.onnx"))
    (product,) = session.run(None, {"x": np.load(Path(folder, "inputs", "x.npy"))})
    assert np.array_equal(product, np.load(Path(folder, "exact", "p.npy")))


def test_dxdispatch_runs_the_node_of_the_folder(tmp_path):
    (folder,) = compare(tmp_path, {"s": SUM * 2, "g": SUM * 2 > 1, "y": SUM * 2 <= 1}).repros
    done = command("run", Path(folder, "dxdispatch", "model.json"), "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["commands"][-1]
    assert np.array_equal(np.float32(shown["values"]), SUM.reshape(-1))


def test_nodes_that_were_compared_together_are_reproduced_together(tmp_path):
    (folder,) = compare(tmp_path, {"s": SUM * 2, "g": SUM * 2 > 1, "y": SUM * 2 <= 1}, "p").repros
    found = alone(folder)
    assert [(each.name, each.members, each.verdict) for each in found.nodes] == [("sum", ("a/product",), Verdict.WRONG)]
    assert not Path(folder, "dxdispatch").exists()


def test_a_node_of_a_graph_is_reproduced(tmp_path):
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", X.shape)
    added = graph.element_wise_add(x, np.full(X.shape, 2, np.float32))
    graph.output("y", graph.element_wise_multiply(added.reshape(4, 2), added.reshape(4, 2)))
    y = (X + 2).reshape(4, 2) ** 2
    tensors = {"element_wise_add.OutputTensor": X + 2, "y": y + 1}
    found = opwire.diff(graph, tensors, {"x": X}, repro=tmp_path)
    (folder,) = found.repros
    assert alone(folder).nodes[0].to_json() == found.wrong[0].to_json()
    del tensors["element_wise_add.OutputTensor"]
    found = opwire.diff(graph, tensors, {"x": X}, repro=tmp_path / "together")
    assert alone(found.repros[0]).nodes[0].to_json() == found.wrong[0].to_json()


def test_the_command_names_the_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(proto(), "net.onnx")
    np.save("x.npy", X)
    np.savez("side.npz", **dict[str, Any](right() | {"y": SUM > 1}))
    given = ["diff", "net.onnx", "--against", "side.npz", "--input", "x=x.npy", "--repro", "wrong"]
    done = command(*given)
    assert done.returncode == 1
    assert "opwire diff wrong/invert reproduces it alone" in done.stdout
    again = command("diff", "wrong/invert")
    assert again.returncode == 1, again.stderr
    assert "invert against wrong/invert/side: 1 wrong" in again.stdout


def test_a_model_needs_a_side_and_a_folder_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(proto(), "net.onnx")
    done = command("diff", "net.onnx")
    assert (done.returncode, "no backend to compare with" in done.stderr) == (2, True)
    (folder,) = compare(tmp_path, {"y": SUM > 1}).repros
    Path(folder, "inputs", "g.npy").write_bytes(b"none")
    done = command("diff", folder)
    assert (done.returncode, "g.npy cannot be read" in done.stderr) == (2, True)
    Path(folder, "repro.json").write_text("{}")
    done = command("diff", folder)
    assert (done.returncode, "repro.json is malformed" in done.stderr) == (2, True)
