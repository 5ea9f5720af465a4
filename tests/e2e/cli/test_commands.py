"""The command line: output and exit codes, in separate processes where that matters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.directml.tensor_support import COUNT, introduced_by
from tests.support.commands import opwire, opwire_process
from tests.support.http.pointers import resolves
from tests.support.paths import MODELS

DESC = {
    "type": "DML_OPERATOR_ARGMAX",
    "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "Axes": [1], "AxisDirection": "INCREASING"},
}
ROWS = [[1, 5, 2], [9, 3, "NaN"]]
REQUEST = {"feature_level": "5_0", "operator": DESC, "inputs": {"InputTensor": {"data": ROWS}}}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a value as a JSON file and returns its path."""

    def write_json(value: object, name: str = "given.json") -> Path:
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write_json


def test_version_is_printed():
    done = opwire("--version")
    assert (done.returncode, done.stdout) == (0, f"opwire {version('opwire')}\n")


# --- validate


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize("content", [DESC, REQUEST])
def test_files_can_start_with_a_byte_order_mark(write, command, content):
    plain = opwire(command, write(content))
    marked = opwire(command, write("\ufeff" + json.dumps(content)))
    assert (marked.returncode, marked.stdout, marked.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_validate_prints_outputs_and_lowest_level_of_a_desc(write):
    path = write(DESC)
    done = opwire("validate", path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"{path}: valid at DML_FEATURE_LEVEL_6_4, from DML_FEATURE_LEVEL_3_0 on",
        "  OutputTensor: UINT32 [2, 1], 8 bytes",
    ]
    assert done.stderr == ""


def test_validate_shows_every_violation(write):
    tensor = {"DataType": "INT64", "Sizes": [1, 1, 2, 3]}
    path = write({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [4], "Axis": 1}})
    done = opwire("validate", path, "--level", "2_1")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{path}: 3 violations at DML_FEATURE_LEVEL_2_1; valid at no level",
        "  /desc/InputTensor/DataType [data_type_not_in_level]",
        "    INT64 given for InputTensor; at DML_FEATURE_LEVEL_2_1 allowed: FLOAT32, FLOAT16, INT32, UINT32",
        "    available from: DML_FEATURE_LEVEL_5_0",
        "  /desc/Axis [unknown_field]",
        '    REDUCE has no field "Axis"; did you mean Axes?',
        "    allowed: Function, InputTensor, OutputTensor, AxisCount, Axes",
        "  /desc/Axes/0 [axis_out_of_range]",
        "    axis 4 given; InputTensor has rank 4, so axes range from 0 to 3",
    ]


@pytest.mark.parametrize("level", ["2_1", "0x2100", "DML_FEATURE_LEVEL_2_1"])
def test_validate_prints_json(write, level):
    done = opwire("validate", write(DESC), "--level", level, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["feature_level"] == "DML_FEATURE_LEVEL_2_1"
    assert found["valid"] is False
    assert found["minimum_feature_level"] == "DML_FEATURE_LEVEL_3_0"
    assert found["outputs"]["OutputTensor"]["Sizes"] == [2, 1]
    assert [violation["code"] for violation in found["violations"]] == ["operator_not_in_level"]


def test_validate_request_uses_its_own_level(write):
    assert json.loads(opwire("validate", write(REQUEST), "--json").stdout)["feature_level"] == "DML_FEATURE_LEVEL_5_0"
    found = opwire("validate", write({"operator": DESC, "feature_level": "2_1"}), "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["violations"][0]["pointer"] == "/operator/type"
    assert opwire("validate", write(REQUEST), "--level", "1_0").returncode == 1


@pytest.mark.parametrize(
    ("tensor", "code", "pointer"),
    [
        ({"data": [1, 2]}, "shape_mismatch", "/inputs/InputTensor/data"),
        ("AAAA", "byte_count_mismatch", "/inputs/InputTensor"),
        ("?" * 32, "invalid_base64", "/inputs/InputTensor"),
    ],
)
def test_validate_request_checks_its_tensors(write, tensor, code, pointer):
    path = write({**REQUEST, "inputs": {"InputTensor": tensor}})
    done = opwire("validate", path, "--json")
    assert done.returncode == 1
    assert [(found["code"], found["pointer"]) for found in json.loads(done.stdout)["violations"]] == [(code, pointer)]


def test_validate_checks_each_dispatchable_of_a_model():
    path = MODELS / "foreign.json"
    done = opwire("validate", path)
    assert done.returncode == 1
    assert "sum: valid at DML_FEATURE_LEVEL_6_4" in done.stdout
    assert "an HLSL compute shader given; opwire runs only DirectML operators and graphs" in done.stdout
    found = json.loads(opwire("validate", path, "--json").stdout)
    assert found["valid"] is False
    assert {name: member["valid"] for name, member in found["dispatchables"].items()} == {
        "shader": False,
        "network": False,
        "sum": True,
    }
    model = json.loads(path.read_text())
    for member in found["dispatchables"].values():
        assert all(resolves(model, violation["pointer"]) for violation in member["violations"])


@pytest.mark.parametrize("name", ["reduce_lists", "pooling_nested", "argmax_inline", "offsets", "files"])
def test_validate_accepts_valid_models(name):
    assert opwire("validate", MODELS / f"{name}.json").returncode == 0


# --- run


def test_run_prints_the_outputs_of_a_request(write):
    done = opwire("run", write(REQUEST))
    assert done.returncode == 0
    assert done.stdout == "OutputTensor: UINT32 [2, 1]\n[[1],\n [0]]\n"


def test_run_reads_a_request_from_stdin():
    done = opwire_process("run", "-", "--json", stdin=json.dumps(REQUEST))
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["outputs"]["OutputTensor"]["data"] == [[1], [0]]
    assert found["outputs"]["OutputTensor"]["desc"]["DataType"] == "UINT32"
    assert found["feature_level"] == "DML_FEATURE_LEVEL_5_0"
    assert found["device"] == "cpu"


@pytest.mark.parametrize("suffix", ["npy", "bin"])
def test_run_reads_and_writes_tensor_files(write, tmp_path, suffix):
    array = np.array([[1, 5, 2], [9, 3, np.nan]], np.float32)
    np.save(tmp_path / "x.npy", array)
    array.tofile(tmp_path / "x.bin")
    target = tmp_path / "out" / f"y.{suffix}"
    done = opwire("run", write(DESC), "--input", f"InputTensor={tmp_path / f'x.{suffix}'}", "--output", target)
    assert done.returncode == 0
    found = np.load(target) if suffix == "npy" else np.fromfile(target, "<u4").reshape(2, 1)
    assert found.tolist() == [[1], [0]]
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_run_saves_several_outputs_into_a_folder(write, tmp_path):
    desc = {
        "InputTensor": {"DataType": "INT8", "Sizes": [1, 1, 2, 2]},
        "OutputIndicesTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, 1]},
        "Strides": [1, 1],
        "WindowSize": [2, 2],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
    }
    operator = {"type": "MAX_POOLING1", "desc": desc}
    path = write({"operator": operator, "inputs": {"InputTensor": {"data": [-1, 7, 3, 4]}}})
    done = opwire("run", path, "--output", tmp_path / "both.npy", "--json")
    assert done.returncode == 0
    outputs = json.loads(done.stdout)["outputs"]
    assert np.load(outputs["OutputTensor"]["path"]).tolist() == [[[[7]]]]
    assert np.load(tmp_path / "both.npy" / "OutputIndicesTensor.npy").tolist() == [[[[1]]]]


def test_run_reads_strided_inputs_from_files(write, tmp_path):
    tensor = {"DataType": "INT32", "Sizes": [2, 2], "Strides": [1, 3]}
    path = write({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [1]}})
    np.save(tmp_path / "logical.npy", np.array([[1, 10], [2, 20]], np.int32))
    np.array([1, 2, 99, 10, 20], np.int32).tofile(tmp_path / "buffer.bin")
    for name in ("logical.npy", "buffer.bin"):
        done = opwire("run", path, "--input", f"InputTensor={tmp_path / name}", "--json")
        assert json.loads(done.stdout)["outputs"]["OutputTensor"]["data"] == [[11], [22]]


def test_run_prints_what_a_model_prints():
    done = opwire("run", MODELS / "pooling_nested.json")
    assert done.returncode == 0
    first, *rest = done.stdout.splitlines()
    assert first.startswith("Dispatch 'pool': ")
    assert rest == [
        "Resource 'pooled': 3, 3.5, 5, 5.5",
        "Resource 'where':",
        "[0] 10 (0x0000000A)",
        "[1] 11 (0x0000000B)",
        "[2] 14 (0x0000000E)",
        "[3] 15 (0x0000000F)",
    ]


def test_run_saves_the_files_that_a_model_writes(tmp_path):
    done = opwire("run", MODELS / "offsets.json", "--output", tmp_path, "--json")
    assert done.returncode == 0
    assert [command["type"] for command in json.loads(done.stdout)["commands"]] == [
        "dispatch",
        "print",
        "writeFile",
        "writeFile",
        "writeFile",
    ]
    assert np.load(tmp_path / "results.npy").tolist() == [0, 0, 0, 0, 3]


def test_model_files_are_relative_to_the_model(tmp_path):
    np.save(tmp_path / "input.npy", np.array([3, 4, 6, 8], np.float32))
    np.array([5, -7, 2], "<i2").tofile(tmp_path / "input.dat")
    (tmp_path / "model.json").write_bytes((MODELS / "files.json").read_bytes())
    (tmp_path / "elsewhere").mkdir()
    done = opwire_process("run", tmp_path / "model.json", "--json", cwd=tmp_path / "elsewhere")
    printed = [command["values"] for command in json.loads(done.stdout)["commands"] if command["type"] == "print"]
    assert printed == [[5, 10], [-7]]


# --- operators


def test_operators_lists_support_at_a_level():
    done = opwire("operators", "--level", "3_1")
    assert done.returncode == 0
    for name in ("REDUCE", "ARGMIN", "MAX_POOLING2", "LOG_SUM_EXP", "1 to 8", "FLOAT16"):
        assert name in done.stdout
    assert "4_1" not in done.stdout
    assert "INT64" in done.stdout  # ARGMAX's output type
    assert "ARGMAX" not in opwire("operators", "--level", "1_0").stdout.replace("ARGMAX, ARGMIN", "")


@pytest.mark.parametrize("level", ["1_0", "2_0", "6_4"])
def test_operators_lists_all_operators_of_a_level(level):
    done = opwire("operators", "--all", "--level", level, "--json")
    names = [row["type"] for row in json.loads(done.stdout)["operators"]]
    assert len(names) == len(set(names)) == introduced_by(level)
    assert len(json.loads(opwire("operators", "--all", "--json").stdout)["operators"]) == COUNT


def test_operators_json_has_the_support_row_of_the_level():
    listed = json.loads(opwire("operators", "--level", "4_0", "--json").stdout)["operators"]
    (argmax,) = [row for row in listed if row["type"] == "DML_OPERATOR_ARGMAX"]
    (row,) = argmax["support"]
    assert row["feature_level"] == "DML_FEATURE_LEVEL_3_0"
    assert "INT64" not in row["tensors"]["InputTensor"]["data_types"]
    (reduce,) = [row for row in listed if row["type"] == "DML_OPERATOR_REDUCE"]
    assert sorted(name for row in reduce["support"] for name in row["when"]["Function"])[:2] == ["ARGMAX", "ARGMIN"]
    assert len([name for row in reduce["support"] for name in row["when"]["Function"]]) == 12


def test_operators_filters_by_state_and_family():
    listed = opwire("operators", "--state", "declared", "--family", "argreduce").stdout
    assert "ARGMAX" in listed
    assert "executable" in listed
    assert "REDUCE" not in listed
    known = opwire("operators", "--state", "known", "--family", "recurrent", "--data-type", "FLOAT16", "--json")
    names = [row["type"] for row in json.loads(known.stdout)["operators"]]
    assert names == ["DML_OPERATOR_RNN", "DML_OPERATOR_LSTM", "DML_OPERATOR_GRU"]
    refused = opwire("operators", "--family", "x")
    assert refused.returncode == 2
    assert "allowed:" in refused.stderr


# --- schema


def test_schema_prints_the_schema():
    whole = json.loads(opwire("schema").stdout)
    assert len(whole["operators"]) == COUNT
    one = json.loads(opwire("schema", "DML_OPERATOR_GEMM").stdout)
    assert one == {"GEMM": whole["operators"]["GEMM"]}
    assert json.loads(opwire("schema", "--json-schema").stdout)["$defs"]["DML_GEMM_OPERATOR_DESC"]
    assert json.loads(opwire("schema", "--meta").stdout)["$defs"]["Member"]
    assert opwire("schema", "NOPE").returncode == 2
    assert opwire("schema", "GEMM", "--meta").returncode == 2


# --- whole models


def test_validate_prints_the_lowest_level_of_a_model(write):
    def dispatchable(data_type: str) -> dict[str, Any]:
        tensor = {"DataType": data_type, "Sizes": [1, 1, 2, 3]}
        return {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [3]}}

    def validated(*arguments: str, **dispatchables: Any) -> tuple[Path, subprocess.CompletedProcess[str]]:
        path = write({"resources": {}, "dispatchables": dispatchables, "commands": []})
        return path, opwire("validate", path, *arguments)

    both = {"a": dispatchable("FLOAT32"), "b": dispatchable("INT64")}
    path, done = validated(**both)
    assert done.stdout.splitlines()[-1] == f"{path}: valid at DML_FEATURE_LEVEL_6_4, from DML_FEATURE_LEVEL_5_0 on"
    path, done = validated("--level", "2_1", **both)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == (
        f"{path}: not valid at DML_FEATURE_LEVEL_2_1; valid from DML_FEATURE_LEVEL_5_0 on"
    )
    found = json.loads(validated("--json", **both)[1].stdout)
    assert found["minimum_feature_level"] == "DML_FEATURE_LEVEL_5_0"
    found = json.loads(validated("--json", **both, c={"type": "onnx"})[1].stdout)
    assert found["minimum_feature_level"] is None
    assert validated()[1].stdout.endswith("nothing to check\n")


# --- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "{folder}/missing.json"], 2, "missing.json: No such file or directory"),
        (["validate", "{folder}"], 2, "Is a directory"),
        (["validate", "{folder}/binary"], 2, "not JSON: byte 0 is not UTF-8"),
        (["run", "{folder}/broken"], 2, "not JSON: Expecting ',' delimiter at line 2, column 1"),
        (["run", "{folder}/list"], 1, "or a DxDispatch model"),
        (["validate", "{folder}/half"], 1, "(root) [missing_field]"),
        (["validate", "{folder}/desc", "--level", "7_0"], 2, "'7_0' is not a feature level; allowed: 1_0, "),
        (["run", "{folder}/level"], 1, "/feature_level [unknown_feature_level]"),
        (["run", "{folder}/desc"], 1, "InputTensor is required and missing"),
        (["run", "{folder}/request", "--device", "abacus"], 2, "'abacus' is not a device; allowed: "),
        (["run", "{folder}/desc", "--input", "InputTensor"], 2, "given; expected TENSOR=FILE"),
        (["run", "{folder}/desc", "--input", "InputTensor={folder}/none.npy"], 2, "none.npy: No such file"),
        (["run", "{folder}/desc", "--input", "InputTensor={folder}/f64.npy"], 1, "FLOAT64; the desc says FLOAT32"),
        (["run", "{folder}/desc", "--input", "InputTensor={folder}/shape.npy"], 1, "has the shape [3, 2]"),
        (["run", "{folder}/desc", "--input", "InputTensor={folder}/list"], 1, "[byte_count_mismatch]"),
        (["run", "{folder}/request", "--input", "Other={folder}/list"], 1, "/inputs/Other [unknown_tensor]"),
        (["run", "{folder}/request", "--output", "{folder}/list/x.npy"], 2, "opwire: {folder}/list"),
        (["run", "{folder}/request", "--output", "/dev/full"], 2, "/dev/full: No space left on device"),
        (["run", "{models}/reduce_lists.json", "--input", "x=y"], 2, "a model takes its tensors from its resources"),
        (["run", "{models}/foreign.json"], 1, "/dispatchables/network/type [operator_not_executable]"),
        (["run", "{models}/files.json"], 2, "input.npy: No such file or directory"),
        (["run", "{folder}/huge"], 2, "out of memory"),
        (["operators", "--level", "x"], 2, "is not a feature level"),
        (["serve", "--port", "70000"], 2, "--port"),
        (["serve", "--device", "abacus"], 2, "'abacus' is not a device; allowed: "),
        (["frobnicate"], 2, "No such command"),
        (["run"], 2, "FILE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_failures_have_exit_codes_and_messages(arguments, code, message, tmp_path):
    if "/dev/full" in arguments and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "broken").write_text("[1, 2\n")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "half").write_text('{"resources": {}}')
    (tmp_path / "desc").write_text(json.dumps(DESC))
    (tmp_path / "request").write_text(json.dumps(REQUEST))
    (tmp_path / "level").write_text(json.dumps({**REQUEST, "feature_level": "9_9"}))
    buffer = {"initialValuesDataType": "UINT8", "initialValues": [1], "sizeInBytes": 2**62}
    (tmp_path / "huge").write_text(json.dumps({"resources": {"x": buffer}, "dispatchables": {}, "commands": []}))
    np.save(tmp_path / "f64.npy", np.zeros((2, 3)))
    np.save(tmp_path / "shape.npy", np.zeros((3, 2), np.float32))
    done = opwire(*(argument.format(folder=tmp_path, models=MODELS) for argument in arguments))
    assert done.returncode == code
    assert message.format(folder=tmp_path) in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("content", "code", "problem"), [("[1", 2, "invalid_json"), ("[]", 1, "invalid_request")])
def test_failures_are_printed_as_json(write, content, code, problem):
    done = opwire_process("run", write(content), "--json")
    assert done.returncode == code
    assert json.loads(done.stdout)["code"] == problem


def test_unencodable_names_are_escaped(write):
    buffer = {"initialValuesDataType": "UINT8", "initialValues": [1]}
    commands = [{"type": "print", "resource": "\ud800"}]
    done = opwire_process("run", write({"resources": {"\ud800": buffer}, "dispatchables": {}, "commands": commands}))
    assert done.returncode == 0
    assert done.stdout == "Resource '\\ud800': 1\n"


def test_what_cannot_be_run_is_skipped_on_request(tmp_path):
    model = json.loads((MODELS / "foreign.json").read_text())
    model["resources"]["c"] = {"initialValues": "deferred"}
    model["commands"] += [{"type": "print", "resource": name} for name in ("b", "c")]
    model["commands"].append({"type": "dispatch", "dispatchable": "network", "bindings": {"y": "c"}})
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps(model))
    assert opwire("run", path).returncode == 1
    done = opwire("run", path, "--skip-unsupported")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "Resource 'b': 3"
    only = "opwire runs only DirectML operators and graphs"
    assert done.stderr.splitlines() == [
        f"opwire: skipped dispatchable 'shader': an HLSL compute shader given; {only}",
        f"opwire: skipped dispatchable 'network': an ONNX model given; {only}",
        "opwire: skipped resource 'c': its size is determined by an ONNX model",
        "opwire: skipped 3 commands that use them",
    ]
    assert opwire("validate", path).returncode == 1
    assert opwire("validate", path, "--skip-unsupported").returncode == 0


def test_a_refused_run_leaves_no_folder(tmp_path):
    target = tmp_path / "out"
    assert opwire("run", MODELS / "foreign.json", "--output", target).returncode == 1
    assert not target.exists()


def test_help_is_shown_without_arguments():
    done = opwire_process()
    assert done.returncode == 2
    assert {"validate", "run", "operators", "serve"} <= set((done.stdout + done.stderr).split())


WITHOUT_EXTRA = """
import sys
for name in ("fastapi", "mpmath", "numba", "prometheus_client", "starlette", "threadpoolctl", "uvicorn"):
    sys.modules[name] = None
from opwire_service.__main__ import main
main()
"""


def without_extra(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a command without the packages of the service extra."""
    command = [sys.executable, "-c", WITHOUT_EXTRA, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("arguments", [["validate"], ["run", "--device", "reference"], ["run"]])
def test_models_are_validated_and_run_without_the_service_extra(arguments):
    assert without_extra(*arguments, MODELS / "reduce_lists.json").returncode == 0


def test_the_schema_is_printed_without_the_service_extra():
    assert without_extra("schema").stdout == opwire("schema").stdout


def test_a_missing_service_extra_is_named():
    done = without_extra("serve")
    assert done.returncode == 1
    assert done.stderr == 'opwire: this needs uvicorn, of the "service" extra: pip install "opwire[service]"\n'


def test_offline_commands_import_no_server():
    script = "import sys, opwire_service.cli.app\nprint({'fastapi', 'uvicorn', 'starlette'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_an_interrupt_exits_with_130(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "opwire_service", "run", str(tmp_path / "pipe")]
    with (
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Background processes of a shell ignore SIGINT, and pass that on to their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process,
        (tmp_path / "pipe").open("wb"),  # opens once the command has opened it for reading
    ):
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert (stdout, stderr.strip()) == ("", "")


@pytest.mark.parametrize("arguments", [["operators", "--all"], ["operators", "--json"]])
def test_a_closed_pipe_exits_quietly(arguments):
    command = [sys.executable, "-m", "opwire_service", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        stderr = process.stderr.read()
    assert process.returncode == 1
    assert stderr == ""
