"""Runs the command line, in this process or in a new one; neither may show a traceback."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from typer.testing import CliRunner

from opwire_service.cli.app import app

Ended = subprocess.CompletedProcess[str]


def opwire(*arguments: object, stdin: str = "") -> Ended:
    """Runs a command in this process, which saves starting another one."""
    given = [*map(str, arguments)]
    done = CliRunner().invoke(app, given, input=stdin, catch_exceptions=False, prog_name="opwire")
    assert "Traceback" not in done.output
    return Ended(given, done.exit_code, done.stdout, done.stderr)


def opwire_process(*arguments: object, stdin: str = "", **options: Any) -> Ended:
    """Runs a command in a process of its own, as users do."""
    command = [sys.executable, "-m", "opwire_service", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False, **options)
    assert "Traceback" not in done.stdout + done.stderr
    return done
