"""``opwire diff``: what it prints, writes and exits with. The sides are tensors computed here, some of them wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from opwire.difference.drawing import Distribution
from opwire.tensor import Array
from tests.onnx_models.building import info, model, node
from tests.support.commands import Ended, opwire

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
DOUBLED = X + X
RIGHT = {"d": DOUBLED, "r": np.maximum(DOUBLED, 0), "y": -np.maximum(DOUBLED, 0)}


@pytest.fixture
def given(tmp_path, monkeypatch):
    """A folder with a model of three nodes and its input."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        node("Add", ["x", "x"], ["d"], name="double"),
        node("Relu", ["d"], ["r"], name="clip"),
        node("Neg", ["r"], ["y"], name="negate"),
    ]
    onnx.save(model(nodes, [info("x", ["batch", 3])], ["y"]), "net.onnx")
    np.save("x.npy", X)
    return tmp_path


def diff(tensors: Mapping[str, Array], *options: str) -> Ended:
    np.savez("side.npz", **dict[str, Any](tensors))
    return opwire("diff", "net.onnx", "--against", "side.npz", "--input", "x=x.npy", *options)


def wrong_clip() -> dict[str, Array]:
    """Returns tensors in which one node is wrong, and the one after it computes the right result from the wrong one."""
    r = RIGHT["r"].copy()
    r[1, 2] += 1
    return {"d": DOUBLED, "r": r, "y": -r}


def test_right_tensors_exit_with_0(given):
    done = diff(RIGHT)
    assert done.returncode == 0, done.stderr
    assert "net.onnx against side.npz: 3 exact" in done.stdout


def test_the_wrong_node_comes_first_with_its_worst_element(given):
    done = diff(wrong_clip())
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] and line.split()[0] in KINDS]
    assert rows[0][0] == "clip"
    assert [row[2].rstrip(":") for row in rows] == ["wrong", "exact", "exact"]
    assert "r[1, 2] is 7.0 instead of 6.0, from d 6.0" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == "net.onnx against side.npz: 1 wrong, 2 exact"


KINDS = ("double", "clip", "negate")


def test_cumulative_errors_are_shown_in_the_order_of_the_model(given):
    done = diff(wrong_clip(), "--cumulative")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] and line.split()[0] in KINDS]
    assert [(row[0], row[2].rstrip(":")) for row in rows] == [*zip(KINDS, ["exact", "wrong", "exact"], strict=True)]
    ulps = str(np.float32(7).view(np.int32) - np.float32(6).view(np.int32))
    mantissa = f"{float(ulps):.4g}"
    assert mantissa in rows[1]
    assert rows[2][3:6] == [mantissa, mantissa, "1"]
    assert done.stdout.splitlines()[-1].endswith("clip (Relu)")


def test_tolerances_hold_for_whole_runs_if_these_are_compared(given):
    assert "1 wrong, 2 exact" in diff(wrong_clip(), "--atol", "0.5").stdout
    assert "2 wrong, 1 exact" in diff(wrong_clip(), "--atol", "0.5", "--cumulative").stdout
    assert diff(wrong_clip(), "--atol", "1", "--cumulative").returncode == 0


@pytest.mark.parametrize(
    ("options", "status"),
    [(["--atol", "1"], 0), (["--rtol", "0.1"], 1), (["--rtol", "0.2"], 0), (["--ulp", "5"], 1), (["--ulp", "3e6"], 0)],
)
def test_what_is_allowed_is_not_wrong(given, options, status):
    assert diff(wrong_clip(), *options).returncode == status


def test_json_has_every_node(given):
    done = diff(wrong_clip(), "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert {each["name"]: each["verdict"] for each in found["nodes"]} == dict(
        zip(KINDS, ["exact", "wrong", "exact"], strict=True)
    )
    worst = found["nodes"][1]["tensors"][0]["worst"]
    assert (worst["index"], worst["actual"], worst["exact"], worst["inputs"]) == ([1, 2], 7, 6, {"d": 6})


def test_junit_has_a_test_for_each_node(given):
    tensors = wrong_clip()
    del tensors["d"], tensors["y"]
    assert diff(tensors, "--junit", "report.xml").returncode == 1
    (suite,) = ElementTree.parse("report.xml").getroot()
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped", "errors")} == {
        "tests": "2",
        "failures": "1",
        "skipped": "1",
        "errors": "0",
    }
    cases = {case.get("name"): [each.tag for each in case] for case in suite}
    assert cases == {"clip with double": ["failure"], "negate": ["skipped"]}
    assert "r[1, 2] is 7.0 instead of 6.0" in str(suite[0][0].get("message"))


def test_names_that_xml_lacks_characters_of_are_written(given):
    proto = model([node("Neg", ["x"], ["a\x01<b"], name="\x00&")], [info("x", [2, 3])], ["a\x01<b"])
    onnx.save(proto, "net.onnx")
    assert diff({"a\x01<b": X}, "--junit", "report.xml").returncode == 1
    ((case,),) = ElementTree.parse("report.xml").getroot()
    assert case.get("name") == "\ufffd&"


def test_nodes_beyond_the_worst_are_shown_on_request(given):
    nodes = [node("Neg", [f"t{i}"], [f"t{i + 1}"], name=f"n{i}") for i in range(25)]
    onnx.save(model(nodes, [info("t0", [2, 3])], ["t25"]), "net.onnx")
    given = ["diff", "net.onnx", "--against", "reference", "--seed", "3", "--draw", "adversarial"]
    short, whole = opwire(*given), opwire(*given, "--all")
    assert short.returncode == whole.returncode == 0, short.stderr
    assert "--all shows the other 5 nodes" in short.stdout
    counts = [sum(line.split()[1:2] == ["Neg"] for line in each.stdout.splitlines()) for each in (short, whole)]
    assert counts == [20, 25]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["net.onnx", "--against", "nothing", "--dim", "batch=2"], "'nothing' given; a side is"),
        (["none.onnx", "--against", "cpu"], "none.onnx"),
        (["x.npy", "--against", "cpu"], "x.npy"),
        (["net.onnx", "--against", "onnxruntime:Quantum", "--dim", "batch=2"], "no QuantumExecutionProvider"),
        (["net.onnx", "--against", "cpu"], "batch=SIZE"),
        (["net.onnx", "--against", "cpu", "--input", "z=x.npy"], 'no input "z"'),
        (["net.onnx", "--against", "command:false", "--dim", "batch=2"], "false ended with status 1"),
        (["net.onnx", "--against", "command:", "--dim", "batch=2"], "without a program"),
        (["net.onnx", "--against", "command:'", "--dim", "batch=2"], "No closing quotation"),
        (["net.onnx", "--against", "http://", "--dim", "batch=2"], "is not an http or https URL"),
        (["net.onnx", "--against", "onnxruntime:CPU:fast", "--dim", "batch=2"], "only optimized may follow"),
        (["net.onnx", "--against", "cpu", "--draw", "cauchy"], "cauchy"),
        (["net.onnx", "--dim", "batch=2"], "no backend to compare with"),
    ],
)
def test_what_cannot_be_used_exits_with_2(given, options, said):
    done = opwire("diff", *options)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("each", Distribution)
def test_every_distribution_can_be_drawn(given, each):
    done = opwire("diff", "net.onnx", "--against", "cpu", "--dim", "batch=2", "--draw", each)
    assert done.returncode == 0, done.stderr
