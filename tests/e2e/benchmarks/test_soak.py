"""Short runs of the soaks of a server."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")]


def soak(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks", "soak", *arguments, "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_call_is_lost_despite_faults():
    assert re.search(r"answers [1-9]\d+, lost 0", soak("faults", "--workers", "2"))


@pytest.mark.thorough
def test_an_overloaded_server_keeps_answering():
    said = soak("overload")
    assert re.search(r"half the load: [1-9]\d* \(100\.0%\) of status 200", said)
    assert re.search(r"twice the load: [1-9]\d* \(.*\) of status 200", said)
