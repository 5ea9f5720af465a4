"""Sides that lack tensors, give wrong ones, fail, hang or crash: the rest is compared."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import opwire
from opwire.difference import Differences, SideError, Verdict
from opwire.errors import ProblemCode, RequestError
from tests.onnx_models.building import info, model, node
from tests.support.commands import opwire as command

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
RIGHT = {"a": -X, "b": np.abs(X), "y": -np.abs(X)}


def proto() -> onnx.ModelProto:
    nodes = [
        node("Neg", ["x"], ["a"], name="first"),
        node("Abs", ["a"], ["b"], name="second"),
        node("Neg", ["b"], ["y"], name="third"),
    ]
    return model(nodes, [info("x", [2, 3])], ["y"])


def diff(against: Any, **options: Any) -> Differences:
    return opwire.diff(opwire.onnx.load(proto()), against, {"x": X}, **options)


def verdicts(found: Differences) -> dict[str, tuple[Verdict, str]]:
    return {each.name: (each.verdict, each.detail) for each in found.nodes}


def test_tensors_of_other_types_and_shapes_are_wrong_and_the_rest_is_compared():
    found = diff({"a": (-X).astype(np.float64), "b": RIGHT["b"].T, "y": RIGHT["y"]})
    assert verdicts(found) == {
        "first": (Verdict.WRONG, "it is float64[2, 3] instead of float32[2, 3]"),
        "second": (Verdict.WRONG, "it is float32[3, 2] instead of float32[2, 3]: the axes are in another order"),
        "third": (Verdict.EXACT, ""),
    }


def test_renamed_tensors_are_missing_and_left_over():
    found = diff({"A": RIGHT["a"], "b": RIGHT["b"], "Y": RIGHT["y"], "x": X})
    assert {each.name: each.members for each in found.nodes} == {"second": ("first",), "third": ()}
    assert verdicts(found)["third"] == (Verdict.UNKNOWN, "the side does not give it")
    assert found.unused == ["A", "Y"]


def test_nan_everywhere_is_said():
    found = diff({name: np.full_like(array, np.nan) for name, array in RIGHT.items()})
    assert [each.name for each in found.wrong] == ["first"]
    assert "NaN" in found.wrong[0].detail


def test_a_file_that_cannot_be_read_is_missing(tmp_path):
    for name, array in RIGHT.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "y.npy").write_bytes((tmp_path / "y.npy").read_bytes()[:140])
    found = verdicts(diff(tmp_path))
    assert found["second"] == (Verdict.EXACT, "")
    assert found["third"][0] is Verdict.UNKNOWN
    assert "it cannot be read" in found["third"][1]


def test_an_archive_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "side.npz").write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(SideError, match=r"side\.npz cannot be read"):
        diff(tmp_path / "side.npz")


def program(folder: Path, body: str) -> str:
    """Writes a program that has its inputs and the folder for its outputs, and returns the side that runs it."""
    path = folder / "program.py"
    head = "import os, sys, time, numpy as np\ninputs, outputs = sys.argv[1:]\nx = np.load(f'{inputs}/x.npy')\n"
    path.write_text(f"{head}def save(name, array): np.save(f'{{outputs}}/{{name}}.npy', array)\n{body}")
    return f"command:{sys.executable} {path}"


def test_a_program_reads_and_writes_arrays(tmp_path):
    side = program(tmp_path, "save('a', -x)\nsave('b', abs(x))\nsave('y', -abs(x) + 1)")
    assert [each.name for each in diff(side).wrong] == ["third"]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("sys.exit('no memory')", "ended with status 1: no memory"),
        ("os.abort()", "was ended by SIGABRT"),
        ("time.sleep(60)", "did not end within 2 s"),
    ],
)
def test_what_a_program_wrote_before_it_failed_is_compared(tmp_path, end, said):
    found = diff(program(tmp_path, f"save('a', -x)\nsave('b', abs(x))\n{end}"), timeout=2)
    assert said in found.failure
    assert not found.is_complete
    assert verdicts(found)["second"] == (Verdict.EXACT, "")
    assert verdicts(found)["third"] == (Verdict.UNKNOWN, found.failure)


@pytest.mark.parametrize(("end", "said"), [("sys.exit(3)", "ended with status 3"), ("time.sleep(60)", "did not end")])
def test_a_program_that_writes_nothing_is_refused(tmp_path, end, said):
    with pytest.raises(SideError, match=said):
        diff(program(tmp_path, end), timeout=1)


def test_the_command_tells_a_side_that_failed_from_one_that_is_right(tmp_path):
    onnx.save(proto(), tmp_path / "net.onnx")
    side = program(tmp_path, "save('a', -x)\nsys.exit(1)")
    done = command("diff", tmp_path / "net.onnx", "--against", side)
    assert done.returncode == 2
    assert "ended with status 1" in done.stdout.splitlines()[-1]
    side = program(tmp_path, "save('a', x)\nsys.exit(1)")
    assert command("diff", tmp_path / "net.onnx", "--against", side).returncode == 1
    (tmp_path / "empty").mkdir()
    assert command("diff", tmp_path / "net.onnx", "--against", tmp_path / "empty").returncode == 2


class Refusing:
    """Runs everything but one operator."""

    def __init__(self, client: Any, refused: str) -> None:
        self._client = client
        self._refused = refused

    def execute(self, operator: Any, inputs: Any, /) -> Any:
        graph = operator.to_json()
        if self._refused in {each.get("type") for each in graph["nodes"].values()}:
            raise RequestError(ProblemCode.INVALID_REQUEST, "it is not supported here")
        return self._client.execute(operator, inputs)


def test_a_device_that_refuses_a_node_runs_the_others():
    with opwire.local() as client:
        found = diff(Refusing(client, "DML_OPERATOR_ELEMENT_WISE_ABS"))
    assert {each.name: (each.verdict, each.members) for each in found.nodes} == {
        "first": (Verdict.EXACT, ()),
        "third": (Verdict.EXACT, ("second",)),
    }


def test_a_server_that_cannot_be_reached_is_asked_once():
    found = diff("http://127.0.0.1:1")
    assert "no connection" in found.failure
    assert {each.verdict for each in found.nodes} == {Verdict.UNKNOWN}
    assert not found.is_complete


def test_onnx_runtime_runs_the_model_in_another_process():
    pytest.importorskip("onnxruntime")
    assert {each.verdict for each in diff("onnxruntime").nodes} == {Verdict.EXACT}
    with pytest.raises(SideError, match=r"onnxruntime:CPU did not end within 0\.01 s"):
        diff("onnxruntime", timeout=0.01)


def test_onnx_runtime_says_why_it_refuses_a_model():
    pytest.importorskip("onnxruntime")
    refused = model([node("Relu", ["x"], ["y"])], [info("x", [2], onnx.TensorProto.INT16)], ["y"])
    with pytest.raises(SideError, match=r"onnxruntime:CPU fails: .*NOT_IMPLEMENTED"):
        opwire.diff(opwire.onnx.load(refused), "onnxruntime")


def test_tensors_that_python_lacks_a_type_of_are_not_compared():
    pytest.importorskip("onnxruntime")
    nodes = [
        node("Cast", ["x"], ["y"], to=onnx.TensorProto.BFLOAT16, name="cast"),
        node("Abs", ["x"], ["z"], name="abs"),
    ]
    found = opwire.diff(opwire.onnx.load(model(nodes, [info("x", [2, 3])], ["y", "z"])), "onnxruntime")
    assert verdicts(found) == {
        "cast": (Verdict.UNKNOWN, "onnxruntime:CPU does not return tensor(bfloat16) in Python"),
        "abs": (Verdict.EXACT, ""),
    }
    assert found.is_complete


def test_random_results_are_not_compared():
    nodes = [node("RandomNormalLike", ["x"], ["y"], name="draw"), node("Abs", ["y"], ["z"], name="abs")]
    random = opwire.onnx.load(model(nodes, [info("x", [2, 3])], ["z"]))
    found = opwire.diff(random, {"y": X, "z": np.abs(X)}, {"x": X})
    assert verdicts(found) == {
        "draw": (Verdict.UNKNOWN, "its results differ from run to run"),
        "abs": (Verdict.EXACT, ""),
    }


@pytest.mark.parametrize("cumulative", [False, True])
def test_tensors_stream(tmp_path, cumulative):
    """A longer model of tensors too large to be copied takes no more memory, whether the side is files or a device."""
    x = np.random.default_rng(3).standard_normal((1024, 512)).astype(np.float32)

    def peak(length: int, side: Any) -> int:
        nodes = [node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(length)]
        loaded = opwire.onnx.load(model(nodes, [info("t0", [1024, 512])], [f"t{length}"]))
        tracemalloc.start()
        found = opwire.diff(loaded, side, {"t0": x}, cumulative=cumulative)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert {each.verdict for each in found.nodes} == {Verdict.EXACT}
        return most

    for i in range(24):
        np.save(tmp_path / f"t{i + 1}.npy", x * (-1) ** (i + 1))
    for side in (tmp_path, "cpu"):
        peak(4, side)  # compiles and imports
        assert peak(24, side) < peak(4, side) + 8 * x.nbytes


def test_a_view_of_a_node_with_further_outputs_is_compared():
    """A Dropout passes its input on, and its mask, which nothing reads, needs an operator."""
    nodes = [
        node("Neg", ["x"], ["a"], name="first"),
        node("Dropout", ["a"], ["b", "mask"], name="second"),
        node("Neg", ["b"], ["y"], name="third"),
    ]
    loaded = opwire.onnx.load(model(nodes, [info("x", [2, 3])], ["y"]))
    assert [each.name for each in loaded.nodes] == ["first", "second", "third"]
    found = opwire.diff(loaded, {"a": -X, "b": -X, "y": X}, {"x": X})
    assert verdicts(found)["third"] == (Verdict.EXACT, "")
