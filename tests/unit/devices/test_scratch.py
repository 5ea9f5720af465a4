"""Scratch memory of plans, measured in a process of its own, against what the device declares."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from opwire_service.devices.reference import CHUNK_BYTES
from tests.unit.operators.test_work import COUNTED

FLOOR = 4 << 20
"""Bytes below the noise of the measurement."""

FACTOR = 3
"""Allowed ratio of declared to measured memory."""

MEASURE = """
import json, sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from opwire.check import check
from opwire_service.devices import load
from opwire_service.execution import Stopped

def run(operator, stop):
    plan = check(operator)
    inputs = {name: desc.view(bytearray(b"\\xff" * desc.total_size_in_bytes)) for name, desc in plan.inputs.items()}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    for output in outputs.values():
        output.fill(1)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    with suppress(Stopped):
        device.run(plan, inputs, outputs, stop)
    return plan, resident("VmHWM") - before

def resident(which):
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[which].split()[0]) << 10

name, seconds, plans = json.loads(sys.argv[1])
device = load(name)
list(device.warm_up(()))
measured = {}
for key, (operator, small) in plans.items():
    run(small, lambda: False)
    end = monotonic() + seconds
    plan, taken = run(operator, lambda: monotonic() > end)
    measured[key] = device.scratch_bytes(plan), taken
print(json.dumps(measured))
device.close()
"""


def reduction(function: str, data_type: str, sizes: list[int], axes: list[int]) -> dict[str, Any]:
    tensor = {"DataType": data_type, "Sizes": sizes, "Strides": [0] * len(sizes)}
    return {"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": axes}}


def extreme(name: str, sizes: list[int], axes: list[int]) -> dict[str, Any]:
    tensor = {"DataType": "INT32", "Sizes": sizes, "Strides": [0] * len(sizes)}
    return {"type": name, "desc": {"InputTensor": tensor, "Axes": axes, "AxisDirection": "INCREASING"}}


def old_pooling(name: str, size: int) -> dict[str, Any]:
    desc: dict[str, Any] = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, size], "Strides": [0] * 4}}
    desc |= {"WindowSize": [1, 3], "Strides": [1, 1], "StartPadding": [0, 0], "EndPadding": [0, 0]}
    return {"type": name, "desc": desc}


def pooling(data_type: str, size: int, dilation: int = 1) -> dict[str, Any]:
    desc: dict[str, Any] = {"InputTensor": {"DataType": data_type, "Sizes": [1, 1, 1, size], "Strides": [0] * 4}}
    desc |= {"WindowSize": [1, 2], "Strides": [1, 1], "Dilations": [1, dilation]}
    return {"type": "MAX_POOLING2", "desc": desc | {"StartPadding": [0, 0], "EndPadding": [0, 0]}}


PLANS = {
    "flags_of_products": (reduction("MULTIPLY", "FLOAT16", [2**25, 2], [1]), reduction("MULTIPLY", "FLOAT16", [2], [])),
    "states_of_segments": (reduction("SUM", "FLOAT32", [2**14, 2**14], [0]), reduction("SUM", "FLOAT32", [2, 2], [0])),
    "winners_of_segments": (reduction("ARGMAX", "INT32", [4, 2**26], [1]), reduction("ARGMAX", "INT32", [2, 2], [1])),
    "nothing_reduced": (reduction("SUM", "FLOAT32", [2**24], []), reduction("SUM", "FLOAT32", [2], [])),
    "long_lines_of_floats": (pooling("FLOAT32", 1_500_000, 500_000), pooling("FLOAT32", 9)),
    "long_lines_of_bytes": (pooling("UINT8", 1_500_000, 500_000), pooling("UINT8", 9)),
    "tiles": (pooling("UINT8", 2**26), pooling("UINT8", 9)),
    "least_of_segments": (extreme("ARGMIN", [4, 2**25], [1]), extreme("ARGMIN", [2, 2], [1])),
    "greatest_of_columns": (extreme("ARGMAX", [2**13, 2**13], [0]), extreme("ARGMAX", [2, 2], [0])),
    "old_windows": (old_pooling("MAX_POOLING", 2**24), old_pooling("MAX_POOLING", 9)),
    "windows": (old_pooling("MAX_POOLING1", 2**24), old_pooling("MAX_POOLING1", 9)),
}
"""By what takes memory, with a plan of the same kind that warms up without being measured."""


ON_REFERENCE = (
    *("states_of_segments", "nothing_reduced", "tiles"),
    *("least_of_segments", "greatest_of_columns", "old_windows", "windows"),
)
"""Plans measured on the reference, which takes the same memory for every plan."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read and reset in /proc")


def measured(device: str, plans: Iterable[str], seconds: float) -> dict[str, tuple[int, int]]:
    """Returns the declared bytes of each plan, and those it takes within ``seconds``."""
    asked = json.dumps([device, seconds, {name: PLANS[name] for name in plans}])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, asked], capture_output=True, text=True, check=True, timeout=150
    )
    return {name: (said, taken) for name, (said, taken) in json.loads(done.stdout).items()}


@pytest.mark.parametrize("measured_by", [PLANS, ON_REFERENCE])
def test_every_operator_that_reads_elements_or_windows_is_measured(measured_by):
    assert {PLANS[name][0]["type"] for name in measured_by} == set(COUNTED)


@linux
@pytest.mark.usefixtures("cpu_device")
def test_scratch_stays_within_what_the_cpu_declares():
    for name, (said, taken) in measured("cpu", PLANS, 1).items():
        assert taken <= said + FLOOR, name
        assert said <= FACTOR * max(taken, FLOOR), name


@linux
def test_scratch_of_the_reference_is_constant():
    for name, (said, taken) in measured("reference", ON_REFERENCE, 0.3).items():
        assert taken <= said + FLOOR, name
        assert said == CHUNK_BYTES
