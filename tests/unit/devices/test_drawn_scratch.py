"""The scratch memory of operators for random descs of a few megabytes, against what the CPU device declares.

Measured are allocations by NumPy and Python, which are all that grow with a desc; compiled kernels allocate their
scratch memory there, too.
"""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import Phase, given, settings

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire_service.devices.cpu import CpuDevice
from opwire_service.execution import Stopped
from opwire_service.kernels.executable import EXECUTABLE
from tests.strategies import descs
from tests.support.profiles import request_examples

SIZES = (1, 4, 32, 64)

LEAST, MOST = 1 << 18, 1 << 26
"""Sizes in bytes of the tensors of a measured desc."""

FLOOR = 4 << 20
"""Bytes that count as constant overhead."""

SECONDS = 1.0
"""Seconds after which a plan is stopped; it has allocated everything by then."""

DRAWN = settings(request_examples(12), derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXECUTABLE)
def test_scratch_stays_within_what_the_cpu_declares(cpu_device: CpuDevice, name: str) -> None:
    @DRAWN
    @given(descs(EXECUTABLE[name], SIZES))
    def holds(drawn):
        with suppress(ContractViolation):  # more elements than a tensor may have
            measure(check(drawn.request, drawn.level))

    def measure(plan: Plan) -> None:
        if LEAST <= sum(desc.data_size_in_bytes for desc in (*plan.inputs.values(), *plan.outputs.values())) <= MOST:
            assert taken(cpu_device, plan) <= cpu_device.scratch_bytes(plan) + FLOOR

    holds()


def taken(device: CpuDevice, plan: Plan) -> int:
    """Returns the peak of bytes that a run of a plan holds, apart from its tensors."""
    inputs = {name: desc.view(bytearray(b"\1" * desc.total_size_in_bytes)) for name, desc in plan.inputs.items()}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.scratch_bytes(plan)
    end = time.monotonic() + SECONDS
    tracemalloc.start()
    try:
        device.run(plan, inputs, outputs, lambda: time.monotonic() > end)
    except Stopped:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most
