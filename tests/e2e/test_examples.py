"""Each example script runs and reports correct results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

EXPECTED_OUTPUT = {
    "first_request.py": ["client: [[1], [0]] of type uint32", "urllib: [[1], [0]] from base64"],
    "segmentation.py": ["KKKKKKK", "344064 bytes of logits to 16384 bytes of classes"],
    "image_pooling.py": ["512x512 to 256x256: ", "the brightest of 512x512 pixels, 255, survived as 255"],
    "dxdispatch_reduce.py": ["total: [19.0, 23.5, 32.0, 12.5]"],
}
OFFLINE = {"dxdispatch_reduce.py"}


def test_every_example_is_listed():
    assert {path.name for path in EXAMPLES.glob("*.py")} == EXPECTED_OUTPUT.keys()


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
