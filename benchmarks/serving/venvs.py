"""Creates an environment for each server that needs one, and keeps it in a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS = 1800
_MARK = "requirements.txt"
_LAST_LINES = 3


class NotInstalled(Exception):
    """A server cannot be installed here; the message says why."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment.

    Attributes:
        python: its interpreter.
        seconds: seconds to create it; None if it already existed.
    """

    python: Path
    seconds: float | None = None

    def version(self, package: str) -> str:
        """Returns the version of a package in the environment."""
        program = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
        found = subprocess.run(
            [self.python, "-c", program, package], capture_output=True, text=True, timeout=60, check=True
        )
        return found.stdout.strip()


def cache_folder() -> Path:
    """Returns the default folder for environments, in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opwire" / "benchmarks"


def install(name: str, requirements: Sequence[str], folder: Path) -> Installed:
    """Returns the environment of a server, creating it unless it exists with these requirements.

    Args:
        name: name of the environment's folder.
        requirements: packages to install; without any, this program's own environment is used.
        folder: parent folder of the environments.

    Raises:
        NotInstalled: pip failed.
    """
    if not requirements:
        return Installed(Path(sys.executable))
    venv = folder / name
    python = venv / "bin" / "python"
    mark = venv / _MARK
    wanted = "\n".join(requirements)
    if mark.exists() and mark.read_text() == wanted:
        return Installed(python)
    began = time.monotonic()
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    _run([*pip, "install", "--quiet", *requirements])
    mark.write_text(wanted)
    return Installed(python, time.monotonic() - began)


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"not finished within {INSTALL_SECONDS} s") from None
    if done.returncode:
        # pip lists every version it considered, in lines of many thousand characters.
        lines = [line[:300] for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-300:]]
        raise NotInstalled(" ".join(lines[-_LAST_LINES:]))
