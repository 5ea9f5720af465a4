"""The soak and the flood in a short form, by the commands of their long ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"

# So little time says nothing of memory and of latencies, so neither is held here; the long forms hold both closely.
FAULTS = ("faults", "--seconds", "4", "--warm-up", "1", "--workers", "2", "--kill-every", "1.5")
OVERLOAD = ("overload", "--seconds", "2.5", "--slower", "1000", "--refused", "1", "--warm-up", "0")
SHORT = ("--growth", "2", "--rest", "0.5")


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize("arguments", [FAULTS, OVERLOAD], ids=lambda arguments: arguments[0])
def test_the_server_keeps_its_promises(arguments):
    done = subprocess.run(
        [sys.executable, SOAK, *arguments, *SHORT], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"answers [1-9]\d+, lost 0|twice the load: [1-9]\d* \(\d+%\) of status 429", done.stdout)
