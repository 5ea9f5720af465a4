"""The command line, in this process or in one of its own; neither may end in a traceback."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from typer.testing import CliRunner

from opwire_service.cli.app import app

Ended = subprocess.CompletedProcess[str]


def opwire(*arguments: object, stdin: str = "") -> Ended:
    """Runs a command in this process, which spares the start of another."""
    given = [*map(str, arguments)]
    done = CliRunner().invoke(app, given, input=stdin, catch_exceptions=False, prog_name="opwire")
    assert "Traceback" not in done.output
    return Ended(given, done.exit_code, done.stdout, done.stderr)


def opwire_process(*arguments: object, stdin: str = "", **options: Any) -> Ended:
    """Runs a command as a user does."""
    command = [sys.executable, "-m", "opwire_service", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False, **options)
    assert "Traceback" not in done.stdout + done.stderr
    return done
