"""The attacks on a server in a short form, by the command of the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soaking.attacks import ATTACKS
from benchmarks.soaking.attacks.lookalikes import Message, meaning
from tests.processes import ROOT, until

SOAK = ROOT / "benchmarks" / "soak.py"
EXECUTE = "/v1/execute"
DESC = '{"Function":"ARGMAX","InputTensor":{"DataType":"INT8","Sizes":[3]},"Axes":[0]}'
HEAD = f'{{"operator":{{"type":"REDUCE","desc":{DESC}}}'


# The machine has other tests to run, so the normal client may wait longer here than in the long form.
@pytest.mark.serial
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.timeout(240)
def test_others_hardly_notice_an_attack():
    command = [sys.executable, str(SOAK), "attack", "--quick", "--wait", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=230, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for attack in ATTACKS:
        assert attack.name in done.stdout


IS_KILLED = """
import os, signal
from benchmarks.soaking.served import served

with served("--device", "reference", "--workers", "2") as server:
    print(*server.processes(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(process: int) -> bool:
    """Whether it runs; one that has ended has no command line."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_server_ends_with_a_command_that_is_killed():
    done = subprocess.run(
        [sys.executable, "-c", IS_KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120, check=False
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
def test_what_a_request_means(inputs, index):
    """What the answers to lookalikes are compared with."""
    assert meaning(Message(EXECUTE, f'{HEAD},"inputs":{inputs}}}'.encode())) == index
