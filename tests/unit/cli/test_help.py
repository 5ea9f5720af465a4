"""The help of the command line: groups, examples that work, what a mistyped command may have meant, and completion."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from opwire_service.cli.app import app
from opwire_service.cli.help import OTHER_WORDS, Command, Group
from opwire_service.settings import Limits, Settings
from tests.support.commands import opwire
from tests.support.paths import ROOT

TOP: Any = typer.main.get_command(app)

ELSEWHERE = {"serve", "warmup", "bench", "graph"}
"""Commands that need a server, or take long."""


def commands(group: Any = TOP, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yields every command with the words it is called by."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        yield " ".join((*path, name)), command


COMMANDS = dict(commands())
EXAMPLES = [line for command in (TOP, *COMMANDS.values()) for line in str(command.epilog).splitlines()]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_of_its_own(name):
    command = COMMANDS[name]
    assert isinstance(command, Command | Group)
    examples = str(command.epilog).splitlines()
    assert examples
    assert all(line.startswith(f"opwire {name}") for line in examples)
    shown = opwire(*name.split(), "--help").stdout
    assert "\n".join(["Examples:", *(f"  {line}" for line in examples)]) in shown


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_accepted(line, tmp_path, monkeypatch):
    """Those that need neither a server nor a network run; the others are parsed."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    Path("password").write_text("correct-horse-battery-staple")
    np.save("x.npy", np.zeros((2, 3), np.float32))
    line, _, source = line.partition(">")[0].partition(" < ")
    name, *given = shlex.split(line)[1:]
    if name not in ELSEWHERE and "model.onnx" not in line:
        assert opwire(name, *given, stdin=source and Path(source).read_text()).returncode == 0
        return
    Path("net.json").touch()
    command = COMMANDS[name]
    while hasattr(command, "commands"):
        command, given = command.commands[given[0]], given[1:]
    command.make_context("opwire", given)


def sections(text: str) -> dict[str, list[str]]:
    """Returns the lines of a help text by heading, with the first word of each entry."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            heading = line.removesuffix(":")
        elif line.startswith("  ") and not line.startswith("   "):
            found.setdefault(heading, []).append(line.split()[0])
    return found


def test_commands_are_in_groups():
    found = sections(opwire("--help").stdout)
    listed = [name for heading, names in found.items() if heading not in ("Options", "Examples") for name in names]
    assert set(TOP.commands) <= set(listed)
    assert "Commands" not in found
    assert found["Servers"][:2] == ["serve", "warmup"]


def test_options_of_a_server_are_in_groups():
    found = sections(opwire("serve", "--help").stdout)
    assert found["Options"] == ["--check", "--help"]
    assert {"--host", "--port", "--tls-key"} <= set(found["Address"])
    assert {"--api-keys-file", "--metrics-open"} <= set(found["Access"])
    assert {"--log-level", "--log-format", "--otel"} == set(found["Logs and traces"])
    assert len(found["Limits"]) == len(Limits.__slots__)
    options = [name for names in found.values() for name in names if name.startswith("--")]
    assert len(options) == len(set(options)) == len(Limits.__slots__) + len(Settings.__slots__) - 1 + 2


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("valdate", "opwire validate"),
        ("Serve", "opwire serve"),
        ("check", "opwire validate"),
        ("start", "opwire serve"),
        ("benchmark", "opwire bench"),
        ("help", "opwire --help"),
        ("version", "opwire --version"),
        ("graph add", "opwire graph put"),
        ("graph rm", "opwire graph delete"),
        ("frobnicate", None),
    ],
)
def test_an_unknown_command_is_answered_with_what_it_may_have_meant(given, meant):
    done = opwire(*given.split())
    assert done.returncode == 2
    unknown = given.split()[-1]
    expected = f"No such command '{unknown}'." + (f" Did you mean '{meant}'?" if meant else "")
    assert f"Error: {expected}" in done.stderr.splitlines()


def test_words_of_other_programs_lead_to_commands():
    assert not OTHER_WORDS.keys() & TOP.commands.keys()
    assert ("'opwire diff'" in opwire("compare").stderr) == ("diff" in TOP.commands)


def complete(line: str, index: int) -> list[str]:
    """Returns what a shell is told to complete."""
    environment = {**os.environ, "_OPWIRE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(index)}
    command = [sys.executable, "-m", "opwire_service"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "index", "expected"),
    [
        ("opwire va", 1, ["validate"]),
        ("opwire graph ", 2, ["put", "list", "delete"]),
        ("opwire schema CONV", 2, ["CONVOLUTION", "CONVOLUTION_INTEGER"]),
        ("opwire validate --level 5_", 3, ["5_0", "5_1", "5_2"]),
        ("opwire serve --log-f", 2, ["--log-format"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(line, index, expected):
    assert complete(line, index) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_completion_for_bash_works_in_bash(tmp_path):
    program = tmp_path / "opwire"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m opwire_service "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(opwire --show-completion)"
        COMP_WORDS=(opwire warm) COMP_CWORD=1
        _opwire_completion opwire
        echo "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "warmup\n", "")
