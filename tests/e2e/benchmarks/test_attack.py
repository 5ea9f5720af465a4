"""Short attacks on a server, by the command that also runs the long ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soaking.attacks import ATTACKS
from benchmarks.soaking.attacks.lookalikes import Message, meaning
from tests.support.http.processes import until
from tests.support.paths import ROOT

SOAK = ROOT / "benchmarks" / "soak.py"
EXECUTE = "/v1/execute"
DESC = '{"Function":"ARGMAX","InputTensor":{"DataType":"INT8","Sizes":[3]},"Axes":[0]}'
HEAD = f'{{"operator":{{"type":"REDUCE","desc":{DESC}}}'


# Other tests compete for the machine, so the normal client may wait longer than in the long form.
@pytest.mark.serial
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.timeout(240)
def test_an_attack_barely_slows_other_clients():
    command = [sys.executable, str(SOAK), "attack", "--quick", "--wait", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=230, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for attack in ATTACKS:
        assert attack.name in done.stdout


KILLED_COMMAND = """
import os, signal
from benchmarks.soaking.served import served

with served("--device", "reference", "--workers", "2") as server:
    print(*server.processes(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(process: int) -> bool:
    """Whether a process runs; one that has ended has no command line."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_killing_the_command_ends_the_server():
    done = subprocess.run(
        [sys.executable, "-c", KILLED_COMMAND], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120, check=False
    )
    processes = [*map(int, done.stdout.split())]
    assert len(processes) == 3
    until(lambda: not any(map(is_running, processes)))


@pytest.mark.parametrize(
    ("inputs", "index"),
    [
        ('{"InputTensor":"AQMC"}', 1),
        ('{"InputTensor":"AQMC","InputTensor":"AwMC"}', 0),
        ('{"InputTensor":"AwMC","InputTensor":"\\u0041QMC"}', 1),
        ('{"InputTensor":"AQMCAQMC"}', None),
        ('{"InputTensor":"AQM="}', None),
        ('{"InputTensor":"AQM"}', None),
        ('{"inputTensor":"AQMC"}', None),
        ('{"InputTensor":"AQMC"},"inputs":{"InputTensor":"AwMC"}', 0),
        ('{"InputTensor":"AQMC"},"timeout_ms":"9999"', None),
        ('{"InputTensor":"AQMC"},"timeout_ms":9999', 1),
        ('{"InputTensor":"AQMC"},"timeout_ms":9.99', None),
    ],
)
def test_the_meaning_of_a_request_is_predicted(inputs, index):
    """``meaning`` predicts the responses to requests that look alike."""
    assert meaning(Message(EXECUTE, f'{HEAD},"inputs":{inputs}}}'.encode())) == index
