"""Short runs of the soak and crowd commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SOAK = ROOT / "benchmarks" / "soak.py"

# In such a short time memory and rates vary too much to be checked closely, which the long runs do. That no call fails
# is checked here, too.
FAULTS = ("faults", "--seconds", "4", "--warm-up", "1", "--workers", "2", "--kill-every", "1.5", "--rest", "0.5")
CLOSED = ("crowd", "--quick", "--rounds", "1", "--share", "0", "--client-share", "0", "--loads", "")
OPEN = ("crowd", "--quick", "--shapes", "", "--open-seconds", "3", "--goodput", "0.5")

pytestmark = [pytest.mark.serial, pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")]


def soak(*arguments: str) -> str:
    command = [sys.executable, str(SOAK), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_call_is_lost_despite_faults():
    assert re.search(r"answers [1-9]\d+, lost 0", soak(*FAULTS, "--growth", "2"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "by",
    [
        "client",
        pytest.param("wrk", marks=pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")),
    ],
)
def test_no_call_of_a_crowd_fails(by):
    rows = re.findall(
        rf"^\[.*\] (?:base64|binary) {by} +(4|64) +\d+\.\d .* -; -$", soak(*CLOSED, "--by", by), re.MULTILINE
    )
    assert sorted(rows) == sorted(["4", "64"] * 4)


@pytest.mark.thorough
def test_an_overloaded_server_keeps_answering():
    said = soak(*OPEN, "--growth", "2")
    assert re.search(r"half the load: [1-9]\d* \(100\.0%\) of status 200", said)
    assert re.search(r"twice the load: [1-9]\d* \(.*\) of status 200", said)
