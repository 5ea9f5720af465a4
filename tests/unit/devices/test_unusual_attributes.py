"""No attribute makes a plan take far longer than its cost says, as exact arithmetic on all elements would."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire.level import FeatureLevel
from opwire.tensor import Array
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.execution import Stopped
from opwire_service.kernels.executable import EXECUTABLE
from tests.strategies import descs
from tests.support.poisoning import filled
from tests.support.profiles import request_examples

UNUSUAL = (0.0, -0.0, 1e-30, -1e-30, 1e30, "Infinity", "-Infinity", "NaN", 3.0, 0.5, -1.0, 1e-4, 100.0)

ORDINARY = 1.25

FACTOR = 12
"""Most times that a visit may take with unusual attributes; exact arithmetic takes hundreds or thousands of times."""

ELEMENTS = range(1000, 20000)
"""Elements of the largest tensor: enough to be measured, and little enough for exact arithmetic."""

MOST_WORK = 200_000
PLANS = 3
"""Number of plans of an operator."""

LEAST, MOST = 2e-4, 2.0
"""Seconds below which times are not meaningful, and after which a plan is stopped."""

DRAWN = settings(request_examples(200), derandomize=True, database=None, phases=[Phase.generate])


def with_floats(value: Any, number: float | None = None) -> Any:
    """Returns a desc whose floats all have the same value."""
    match value:
        case dict():
            return {key: with_floats(each, number) for key, each in value.items()}
        case list():
            return [with_floats(each, number) for each in value]
        case float() | "inf" | "Infinity" | "-Infinity" | "NaN":
            return number
    return value


def places_of(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of the floats in a desc."""
    if isinstance(value, float):
        yield place
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_of(each, (*place, key))


def replaced(desc: dict[str, Any], place: tuple[Any, ...], value: object) -> dict[str, Any]:
    made = deepcopy(desc)
    part: Any = made
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return made


def drawn(name: str) -> list[tuple[dict[str, Any], FeatureLevel]]:
    """Returns some requests for an operator that have a suitable size and floats."""
    found: list[tuple[dict[str, Any], FeatureLevel]] = []

    @DRAWN
    @given(descs(EXECUTABLE[name], (1, 8, 16)))
    def collect(each: Any) -> None:
        request = with_floats(each.request, ORDINARY)
        if len(found) < PLANS and any(places_of(request)):
            with suppress(ContractViolation):
                plan = check(request, each.level)
                tensors = (*plan.inputs.values(), *plan.outputs.values())
                if max(desc.element_count for desc in tensors) in ELEMENTS and plan.work < MOST_WORK:
                    found.append((request, each.level))

    collect()
    return found


def _is_late(end: float) -> bool:
    return time.process_time() > end


def seconds(device: Device, plan: Plan, inputs: Mapping[str, Array]) -> float:
    """Returns the shorter time of two runs; of the first, if that takes too long."""
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    found = MOST
    for _ in range(2):
        began = time.process_time()
        with suppress(Stopped):
            device.run(plan, inputs, outputs, partial(_is_late, began + MOST))
        found = min(found, time.process_time() - began)
        if found > MOST / 4:
            break
    return found


@pytest.fixture(scope="module")
def one_thread() -> Iterator[Device]:
    device = CpuDevice(1)
    device.warm_up()
    yield device
    device.close()


@pytest.mark.thorough
@pytest.mark.serial
@pytest.mark.parametrize("name", EXECUTABLE)
def test_unusual_attributes_cost_what_is_expected(one_thread, name):
    requests = drawn(name)
    if not requests:
        pytest.skip("the operator has no attribute that is a float")
    for request, level in requests:
        plan = check(request, level)
        buffers = {key: filled(desc, np.random.default_rng(1)) for key, desc in plan.inputs.items()}
        inputs = {key: desc.view(buffers[key]) for key, desc in plan.inputs.items()}
        usual = max(seconds(one_thread, plan, inputs), LEAST) / one_thread.visits(plan)
        for place in places_of(request):
            for value in UNUSUAL:
                with suppress(ContractViolation):
                    other = check(replaced(request, place, value), level)
                    taken = seconds(one_thread, other, inputs) / one_thread.visits(other)
                    assert taken <= FACTOR * usual, (
                        f"{taken / usual:.0f} times as long with {value} in {place}: {request}"
                    )
