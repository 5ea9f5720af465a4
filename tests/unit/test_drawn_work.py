"""The work of plans against the time that they take on the reference device, for drawn descs of every operator.

Work counts element visits, which are dearer for some operators, data types and modes than for others; what the server
expects of a plan it learns from others of its kind. So among plans of a kind the time of a visit must be much the same.
It is measured as the time of the processor, which other processes change little.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from opwire.check import Plan, check
from opwire.errors import ContractViolation, OpwireError
from opwire.tensor import Array, BufferTensorDesc
from opwire_service.devices.base import Device
from opwire_service.devices.reference import ReferenceDevice, visits_of
from opwire_service.engine.durations import kind_of_work
from opwire_service.execution import Stopped
from opwire_service.kernels.executable import EXECUTABLE
from tests.drawing import descs
from tests.profiles import request_examples

FACTOR = 3
"""By which the time of a visit may differ from that of others of its kind."""

SIZES = (1, 3, 8, 12)

LEAST_SECONDS = 0.002
"""Below these, what is done once for a plan counts more than what is done for each element."""

LEAST_WORK, MOST_WORK = 100, 3 * 10**5
MOST_BYTES = 1 << 25
SECONDS = 0.5
"""After which a plan is stopped and tells nothing."""

ALL_SECONDS = 1.0
"""For the plans of an operator."""

DRAWN = settings(request_examples(60), derandomize=True, database=None, deadline=None, phases=[Phase.generate])


UNEVEN = ("ACTIVATION_SOFTMAX1",)
"""What is done once for a block counts on the CPU device, and hardly here."""

NAMES = [
    pytest.param(name, marks=[pytest.mark.xfail(strict=False, reason="short blocks")] if name in UNEVEN else [])
    for name in EXECUTABLE
]


@pytest.mark.thorough
@pytest.mark.serial
@pytest.mark.parametrize("name", NAMES)
def test_a_visit_takes_about_as_long_as_others_of_its_kind(name: str) -> None:
    device = ReferenceDevice()
    measured: dict[str, list[tuple[Plan, float]]] = defaultdict(list)
    end = time.monotonic() + ALL_SECONDS

    @DRAWN
    @given(descs(EXECUTABLE[name], SIZES))
    def measure(drawn):
        if time.monotonic() > end or not is_plain(drawn.request):
            return
        with suppress(ContractViolation):  # more elements than a tensor may have
            plan = check(drawn.request, drawn.level)
            if is_measured(plan):
                seconds = taken(device, plan)
                if seconds is not None and seconds > LEAST_SECONDS:
                    measured[kind_of_work(plan)].append((plan, seconds))

    measure()
    for kind, found in measured.items():
        # An output may be dearer than what is visited for it.
        units = [[plan.work for plan, _ in found], [visits_of(plan) for plan, _ in found]]
        unlike = min((unlike_others(counts, found) for counts in units), key=len)
        assert not unlike, f"{kind}: " + "; ".join(unlike)


def unlike_others(counts: list[int], found: list[tuple[Plan, float]]) -> list[str]:
    """The plans whose time for each of what is counted is far from that in the middle."""
    rates = [seconds / count for count, (_, seconds) in zip(counts, found, strict=True)]
    middle = math.exp(np.mean(np.log(rates)))
    return [
        f"{rate / middle:.2f} times the {middle:.2g} s of {len(found)} in {sizes_of(plan)}"
        for rate, (plan, _) in zip(rates, found, strict=True)
        if not 1 / FACTOR <= rate / middle <= FACTOR
    ]


def sizes_of(plan: Plan) -> list[tuple[int, ...]]:
    return [desc.sizes for desc in (*plan.inputs.values(), *plan.outputs.values())]


def is_plain(value: object) -> bool:
    """Whether the numbers of a desc are such as people use: where results are subnormal or infinite, all is slow."""
    match value:
        case dict():
            return all(map(is_plain, value.values()))
        case list():
            return all(map(is_plain, value))
        case float():
            return value == 0 or 1e-3 <= abs(value) <= 1e3
        case str():
            return value not in ("inf", "-Infinity")
    return True


def is_measured(plan: Plan) -> bool:
    size = sum(desc.total_size_in_bytes for desc in (*plan.inputs.values(), *plan.outputs.values()))
    return size <= MOST_BYTES and LEAST_WORK <= plan.work <= MOST_WORK


def taken(device: Device, plan: Plan) -> float | None:
    """Seconds of the processor that a plan takes; None if it is too many, or too much for the device."""
    inputs = {name: filled(desc) for name, desc in plan.inputs.items()}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}

    def once() -> float:
        began = time.process_time()
        device.run(plan, inputs, outputs, lambda: time.process_time() - began > SECONDS)
        return time.process_time() - began

    try:
        with device.admit(plan):
            once()  # kernels may be compiled for it
            seconds = min(once(), once())
    except (Stopped, OpwireError):
        return None
    # Where most results are no numbers, there was little to compute.
    return (
        seconds if all(np.isfinite(each).mean() > 0.5 for each in outputs.values() if each.dtype.kind == "f") else None
    )


def filled(desc: BufferTensorDesc) -> Array:
    """Numbers such as tensors have."""
    data = bytearray(desc.total_size_in_bytes)
    if desc.data_type.bits >= 8:
        count = len(data) // desc.data_type.dtype.itemsize
        random = np.random.default_rng(1)
        values = random.standard_normal(count) if desc.data_type.is_float else random.integers(0, 4, count)
        data[: count * desc.data_type.dtype.itemsize] = values.astype(desc.data_type.dtype).tobytes()
    return desc.view(data)
