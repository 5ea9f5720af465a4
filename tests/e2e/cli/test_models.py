"""The commands for ONNX models: output, files and exit codes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from opwire.schema import PREFIX, schema_of
from tests.onnx_models.building import info, model, node
from tests.support.commands import opwire
from tests.support.paths import EXAMPLES

UPSCALE, IMAGE = EXAMPLES / "upscale.onnx", EXAMPLES / "upscale.npy"

if not UPSCALE.exists():
    pytest.skip("the examples are not here: these are the tests of an installed wheel", allow_module_level=True)


@pytest.fixture
def cpu_nodes(tmp_path: Path) -> Path:
    """A model with a node that stays on the CPU, and an input of booleans."""
    nodes = [node("NonZero", ["x"], ["places"], "where"), node("Not", ["m"], ["other"], "not")]
    proto = model(nodes, [info("x", ["n"]), info("m", [2], onnx.TensorProto.BOOL)], ["places", "other"])
    onnx.save(proto, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array([0, 3, 0, 4], np.float32))
    np.save(tmp_path / "m.npy", np.array([True, False]))
    return tmp_path / "m.onnx"


def test_the_example_is_what_its_script_makes():
    spec = importlib.util.spec_from_file_location("upscale", EXAMPLES / "upscale.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert onnx.load(UPSCALE) == module.make_model()


def test_level_names_each_node():
    done = opwire("level", UPSCALE, "--dim", "batch=1")
    assert done.returncode == 0
    for words in (("conv1", "Conv", "CONVOLUTION", "1_0"), ("double", "Resize", "RESAMPLE1", "2_1")):
        assert any(all(word in line for word in words) for line in done.stdout.splitlines())
    assert "upscale.onnx: DirectML runs 5 of 5 nodes from DML_FEATURE_LEVEL_2_1 on (DirectML 1.2.0)" in done.stdout


@pytest.mark.parametrize(("level", "status", "failing"), [("6_4", 0, []), ("2_0", 1, ["double"])])
def test_level_says_which_nodes_fail_at_a_level(level, status, failing):
    done = opwire("level", UPSCALE, "--dim", "batch=1", "--level", level, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["failing"]) == (status, failing)


def test_nodes_on_the_cpu_are_named(cpu_nodes):
    done = opwire("level", cpu_nodes, "--dim", "n=4")
    assert done.returncode == 0
    assert "where (NonZero) stays on the CPU: " in done.stdout
    files = [f"--input={name}={cpu_nodes.parent / name}.npy" for name in ("x", "m")]
    ran = opwire("run", cpu_nodes, *files, "--json")
    assert ran.returncode == 0
    found = json.loads(ran.stdout)
    assert found["outputs"]["places"]["data"] == [[1, 3]]
    assert found["outputs"]["other"] == {"dtype": "bool", "sizes": [2], "data": [False, True]}
    assert list(found["on_cpu"]) == ["where (NonZero)"]


def test_every_tensor_is_saved(tmp_path):
    done = opwire("run", UPSCALE, "--input", f"image={IMAGE}", "--all", "--output", tmp_path / "all")
    assert done.returncode == 0
    assert {path.name for path in (tmp_path / "all").iterdir()} == {
        f"{name}.npy" for name in ["a", "b", "c", "d", "upscaled"]
    }
    assert np.load(tmp_path / "all" / "c.npy").shape == (1, 4, 16, 16)


def test_a_server_computes_the_same(tmp_path, server_url):
    here, there = tmp_path / "here.npy", tmp_path / "there.npy"
    assert opwire("run", UPSCALE, "--input", f"image={IMAGE}", "--output", here).returncode == 0
    assert opwire("run", UPSCALE, "--input", f"image={IMAGE}", "--output", there, "--url", server_url).returncode == 0
    np.testing.assert_array_equal(np.load(here), np.load(there))


def test_an_exported_model_computes_the_same(tmp_path):
    done = opwire("export", UPSCALE, tmp_path / "out", "--input", f"image={IMAGE}")
    assert done.returncode == 0
    assert opwire("validate", tmp_path / "out" / "model.json").returncode == 0
    for each in json.loads((tmp_path / "out" / "model.json").read_text())["dispatchables"].values():
        members = schema_of(each["type"].removeprefix(PREFIX)).members
        assert members.completed(each["desc"]) == each["desc"]
        assert each["desc"].keys() >= {member.name for member in (*members.outputs, *members.counts)}
    shown = json.loads(opwire("run", tmp_path / "out" / "model.json", "--json").stdout)["commands"][-1]
    opwire("run", UPSCALE, "--input", f"image={IMAGE}", "--output", tmp_path / "direct.npy")
    np.testing.assert_array_equal(np.float32(shown["values"]), np.load(tmp_path / "direct.npy").reshape(-1))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["level", UPSCALE], 2, '"image" is float[batch, 3, 8, 8]; give the sizes of its dimensions: batch=SIZE'),
        (["level", IMAGE], 2, "upscale.npy is not an ONNX model"),
        (["level", "missing.onnx"], 2, "missing.onnx: No such file"),
        (["level", UPSCALE, "--dim", "batch"], 2, "expected NAME=SIZE"),
        (["run", UPSCALE, "--level", "5_0"], 2, "it is for files of JSON; opwire level checks ONNX models"),
        (["run", EXAMPLES / "argmax.json", "--dim", "batch=1"], 2, "but it is for ONNX models"),
        (["run", EXAMPLES / "argmax.json", "--all"], 2, "but it is for ONNX models"),
        (["validate", UPSCALE], 2, "is an ONNX model, which opwire level checks"),
        (["run", UPSCALE], 2, "give the sizes of its dimensions"),
        (["run", UPSCALE, "--input", f"picture={IMAGE}"], 2, 'no input "picture"; it takes image'),
        (["run", UPSCALE, "--input", f"image={UPSCALE}"], 2, "is not a .npy file"),
        (["run", UPSCALE, "--input", f"image={IMAGE}", "--url", "http://127.0.0.1:9"], 1, "127.0.0.1:9"),
    ],
)
def test_mistakes_are_explained(arguments, status, message):
    done = opwire(*arguments)
    assert done.returncode == status
    assert message in " ".join((done.stdout + done.stderr).split())
