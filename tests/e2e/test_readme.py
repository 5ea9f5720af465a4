"""The README's blocks do what they say: Python prints what stands below it, shell commands end well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
ADDRESS = "127.0.0.1:8000"

if not README.exists():
    pytest.skip("the README is not here: these are the tests of an installed wheel", allow_module_level=True)

BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def _with_answer() -> list[object]:
    """Each Python block, with the text block behind it."""
    found: list[object] = []
    for i, (language, code) in enumerate(BLOCKS):
        if language == "python":
            answer = BLOCKS[i + 1][1] if BLOCKS[i + 1 : i + 2] and BLOCKS[i + 1][0] == "text" else None
            found.append(pytest.param(code, answer, id=f"python-{i}"))
    return found


def _shell(marker: str) -> str:
    return next(code for language, code in BLOCKS if language == "sh" and marker in code)


def _run(command: list[str]) -> str:
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(("code", "answer"), _with_answer())
def test_python_prints_what_stands_below_it(code: str, answer: str | None, server_url: str):
    assert answer is not None, "say below the block what it prints"
    code = code.replace(ADDRESS, server_url.removeprefix("http://"))
    assert _run([sys.executable, "-W", "error", "-c", code]) == answer


def test_curl_is_answered(server_url: str):
    code = _shell("curl").replace(f"http://{ADDRESS}", server_url)
    answer = json.loads(_run(["sh", "-c", code]))
    assert answer["outputs"]["OutputTensor"]["data"] == [[1], [0]]


@pytest.mark.parametrize("line", _shell("opwire validate").splitlines())
def test_command_lines_print_something(line: str):
    assert _run(["sh", "-c", line])


def test_the_first_command_exists():
    first = BLOCKS[0][1].strip()
    assert os.access(ROOT / first, os.X_OK)
