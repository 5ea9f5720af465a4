"""Runs programs that may fail."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence


def run(command: Sequence[str], timeout: float) -> str:
    """Runs a program until it ends, or for some seconds at most. Returns how it failed, or "".

    Args:
        command: the program and its arguments.
        timeout: the seconds after which it is killed.
    """
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"did not end within {timeout:g} s"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    if not done.returncode:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    how = _signal(-done.returncode) if done.returncode < 0 else f"ended with status {done.returncode}"
    return ": ".join([how, *said])


def _signal(number: int) -> str:
    try:
        return f"was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"was ended by signal {number}"
