"""The expected outputs of the ONNX node tests on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire_service.devices.base import Device
from opwire_service.kernels.executable import EXECUTABLE
from tests.support.execution import never_stop
from tests.support.onnx_cases import ABSENT, answers, buffers, cases, kind

CASES = [record for record in cases("onnx.jsonl.gz") if kind(record) in EXECUTABLE]
pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)

LARGE = [record for record in CASES if max(array.size for array in answers(record).values()) > 2**16]
"""Large cases take the reference seconds each; smaller ones cover the same operators."""


@pytest.mark.parametrize(
    "record",
    [pytest.param(each, marks=[pytest.mark.thorough] if each in LARGE else []) for each in CASES],
    ids=lambda record: record["id"],
)
def test_outputs_match_onnx(device: Device, record: dict[str, Any]) -> None:
    assert_answers(device, record)


@pytest.mark.parametrize("record", LARGE, ids=lambda record: record["id"])
def test_outputs_of_large_cases_match_onnx(cpu_device: Device, record: dict[str, Any]) -> None:
    assert_answers(cpu_device, record)


def assert_answers(device: Device, record: dict[str, Any]) -> None:
    if not device.executes(kind(record)):
        pytest.skip(f"{device.name} does not run {kind(record)}")
    plan = check(record["operator"])
    given = buffers(record)
    inputs = {name: desc.view(given[name]) for name, desc in plan.inputs.items()}
    written = {name: bytearray(desc.total_size_in_bytes) for name, desc in plan.outputs.items()}
    device.run(plan, inputs, {name: desc.view(written[name]) for name, desc in plan.outputs.items()}, never_stop)
    tolerance = record["tolerance"]
    bounds = {"rtol": 0.0, "atol": 0.0} if tolerance["type"] == "exact" else {k: tolerance[k] for k in ("rtol", "atol")}
    for name, right in answers(record).items():
        actual = np.frombuffer(written[name], right.dtype)[: right.size]
        np.testing.assert_allclose(actual, right, **bounds, err_msg=name)
