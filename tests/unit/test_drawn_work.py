"""What the server expects of plans against the time that they take, for drawn descs of every operator.

A plan that ran is expected to take what it took. Of any other one the server knows its work, which counts element
visits, and what visits of its kind took; so among plans of a kind the time of a visit must be much the same.
``at_most`` of what is expected is an upper bound within a factor of 3: of 100 runs of what ran before 95 take no
longer, and 95 take at least a third of it; of 100 new plans of a kind that ran, 90. Times are those of the processor,
which other processes change little.
"""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import SkipTest

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from opwire.check import Plan, check
from opwire.errors import ContractViolation, OpwireError
from opwire.schema import CATALOG
from opwire.tensor import Array
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import SMALL_WORK, CpuDevice
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.durations import Durations, at_most, kind_of_work
from opwire_service.execution import Stopped
from opwire_service.kernels.executable import EXECUTABLE
from tests.drawing import descs
from tests.profiles import request_examples

FACTOR = 3
"""By which a bound may exceed what a run takes."""

AGAIN, NEW = 0.05, 0.1
"""The shares of runs that may take longer than the bound, and that may take less than a third of it: of plans that ran
before, and of new ones."""

RUNS = 4
"""By which a plan becomes known, and so many again that are compared with what is expected then."""

MOST_BYTES = 1 << 25
SECONDS = 0.5
"""After which a plan is stopped and tells nothing."""

ALL_SECONDS, FAMILY_SECONDS = 1.5, 10.0
"""For the plans of an operator, at least, and of a family."""


@dataclass(frozen=True)
class Range:
    """What is drawn for a device and measured there.

    Attributes:
        sizes: of dimensions.
        work: the least and the most. What is less than the least on the CPU runs inline, and waits for nothing.
        seconds: the least; below, what is done once for a plan counts more than what is done for each element.
    """

    sizes: tuple[int, ...]
    work: range
    seconds: float


RANGES = {
    "reference": Range((1, 3, 8, 12), range(100, 3 * 10**5), 0.002),
    "cpu": Range((1, 3, 8, 20, 64, 200), range(SMALL_WORK + 1, 3 * 10**8), 0.001),
}

FREE = 1 << 8
"""The least part of the most work that an operator has whose output may have any sizes."""

PACKED = {"IndicesTensor", "ROITensor", "BatchIndicesTensor"}
"""Tensors that say where others are read or written."""

DRAWN = settings(request_examples(300), derandomize=True, database=None, deadline=None, phases=[Phase.generate])

FAMILIES: dict[str, list[str]] = defaultdict(list)
for each in EXECUTABLE:
    FAMILIES[CATALOG[each].family].append(each)


class OutOfTime(SkipTest):
    """No more is drawn: to draw takes as long as to measure. Hypothesis passes it on, and looks for no simpler one."""


class Measured(NamedTuple):
    """Seconds that a plan was expected to take after it had run, and those that it took then."""

    plan: Plan
    expected: float
    runs: list[float]

    @property
    def seconds(self) -> float:
        """What it mostly takes."""
        return float(np.median(self.runs))


class Compared(NamedTuple):
    """What a run took, in parts of what was expected; and of which plan it was."""

    ratio: float
    plan: Plan


@pytest.fixture(scope="module", params=RANGES)
def measured_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device that does its work on the thread that calls."""
    device = ReferenceDevice() if request.param == "reference" else CpuDevice(1)
    for _ in device.warm_up([]):
        pass
    yield device
    device.close()


@pytest.mark.thorough
@pytest.mark.serial
@pytest.mark.parametrize("family", FAMILIES)
def test_plans_take_no_longer_than_they_should(measured_device: Device, family: str) -> None:
    seconds = max(ALL_SECONDS, FAMILY_SECONDS / len(FAMILIES[family]))
    found = [each for name in FAMILIES[family] for each in measured_of(measured_device, name, seconds)]
    again = [Compared(seconds / each.expected, each.plan) for each in found for seconds in each.runs]
    assert_bounded(again, max(RUNS, few(AGAIN, len(again))))
    kinds = defaultdict(list)
    for each in found:
        kinds[kind_of_work(each.plan, measured_device.method(each.plan))].append(each)
    several = [alike for alike in kinds.values() if len(alike) > 1]
    new = [each for alike in several for each in compared(measured_device, alike)]
    # One plan that is unlike the others of a small kind makes two of those look odd.
    assert_bounded(new, max(2, few(NEW, len(new))))


def few(share: float, count: int) -> float:
    """How many of so many are hardly ever exceeded, by two standard deviations, where a share of all is meant."""
    return share * count + 2 * math.sqrt(share * (1 - share) * count)


def assert_bounded(found: list[Compared], most: float) -> None:
    """``at_most`` is a bound within a factor of 3, of all runs but so many."""
    over = [each for each in found if each.ratio > at_most(1)]
    under = [each for each in found if FACTOR * each.ratio < at_most(1)]
    assert len(over) <= most, f"{len(over)} of {len(found)} took longer: {shown(over)}"
    assert len(under) <= most, f"{len(under)} of {len(found)} took less: {shown(under)}"


def compared(device: Device, alike: list[Measured]) -> list[Compared]:
    """The times for each visit of plans of a kind, in parts of what the others of it take in the middle."""
    rates = np.log([each.seconds / device.visits(each.plan) for each in alike])
    others = (rates.sum() - rates) / (len(rates) - 1)
    return [Compared(ratio, each.plan) for ratio, each in zip(np.exp(rates - others), alike, strict=True)]


def shown(found: list[Compared]) -> str:
    return "; ".join(
        f"{each.ratio:.2f} times what is expected of {kind_of_work(each.plan)} {sizes_of(each.plan)}" for each in found
    )


RAN: Mapping[str, dict[str, Any]] = {
    "packed": {"type": "ELEMENT_WISE_EXP", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1 << 12]}}},
    "strided": {
        "type": "REDUCE",
        "desc": {
            "Function": "SUM",
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [64, 512], "Strides": [1, 64]},
            "Axes": [1],
        },
    },
    "windows": {
        "type": "MAX_POOLING",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 4, 32, 32]},
            "WindowSize": [3, 3],
            "Strides": [1, 1],
            "StartPadding": [1, 1],
            "EndPadding": [1, 1],
        },
    },
}


@pytest.mark.serial
@pytest.mark.parametrize("name", RAN)
def test_a_plan_that_ran_takes_about_as_long_again(name: str) -> None:
    plan = check(RAN[name])
    found = [measured_on(ReferenceDevice(), plan) for _ in range(3)]
    assert any(each is not None and 1 / FACTOR <= each.seconds / each.expected <= at_most(1) for each in found), found


def measured_of(device: Device, name: str, seconds: float) -> list[Measured]:
    """Plans of an operator that take long enough to tell."""
    bounds = RANGES[device.name]
    found: list[Measured] = []
    end = time.monotonic() + seconds

    @DRAWN
    @given(descs(EXECUTABLE[name], bounds.sizes))
    def measure(drawn: Any) -> None:
        if time.monotonic() > end:
            raise OutOfTime("no time is left")
        if not is_plain(drawn.request):
            return
        with suppress(ContractViolation):  # more elements than a tensor may have
            plan = check(with_free_sizes(as_used(drawn.request), bounds.work.stop), drawn.level)
            size = sum(desc.total_size_in_bytes for desc in (*plan.inputs.values(), *plan.outputs.values()))
            measured = measured_on(device, plan) if plan.work in bounds.work and size <= MOST_BYTES else None
            if measured is not None and min(measured.seconds, measured.expected) > bounds.seconds:
                found.append(measured)

    with suppress(OutOfTime):
        measure()
    return found


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


def as_used(value: Any) -> Any:
    """A desc as people write them: dimensions in any order, some repeated; indices packed; regions in elements."""
    if isinstance(value, list):
        return [as_used(each) for each in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {
        name: 1 if name.startswith("SpatialScale") else as_used(each) for name, each in value.items()
    }
    if made.get("Strides") is not None and "Sizes" in made:
        made["Strides"] = ordered(made["Sizes"], made["Strides"])
    for name in PACKED & made.keys():
        made[name]["Strides"] = None
    return made


def with_free_sizes(desc: Any, most: int) -> Any:
    """A desc whose output may have any sizes, which are drawn small, with those that the others have."""
    if desc["type"] == "RANDOM_GENERATOR":
        output = desc["desc"]["OutputTensor"]
        output["Sizes"][0] *= most // FREE
        output["Strides"] = None
    return desc


def ordered(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Strides in the order of some others that leave no gaps; 0 where those are."""
    found, step = [0] * len(sizes), 1
    for i in sorted(range(len(sizes)), key=lambda i: (strides[i], -i)):
        if strides[i]:
            found[i], step = step, step * sizes[i]
    return found


def measured_on(device: Device, plan: Plan) -> Measured | None:
    """Runs a plan a few times; None if it takes too long, or is too much for the device."""
    inputs = {name: filled(plan, name) for name in plan.inputs}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    durations, kind = Durations(), kind_of_work(plan)

    def once() -> float:
        began = time.process_time()
        device.run(plan, inputs, outputs, lambda: time.process_time() - began > SECONDS)
        return max(time.process_time() - began, 1e-9)

    gc.disable()
    try:
        with device.admit(plan):
            for _ in range(RUNS):
                durations.learn(kind, plan.work, once(), plan)
            expected = durations.expected(kind, plan.work, plan)
            runs = [once() for _ in range(RUNS)]
    except (Stopped, OpwireError):
        return None
    finally:
        gc.enable()
    # Where most results are no numbers, there was little to compute.
    numbers = [np.isfinite(each).mean() for each in outputs.values() if each.dtype.kind == "f"]
    return Measured(plan, expected, runs) if all(share > 0.5 for share in numbers) else None


def filled(plan: Plan, name: str) -> Array:
    """Numbers such as tensors have."""
    desc = plan.inputs[name]
    data = bytearray(desc.total_size_in_bytes)
    if desc.data_type.bits >= 8:
        count = len(data) // desc.data_type.dtype.itemsize
        random = np.random.default_rng(1)
        values = random.standard_normal(count) if desc.data_type.is_float else random.integers(0, 4, count)
        data[: count * desc.data_type.dtype.itemsize] = values.astype(desc.data_type.dtype).tobytes()
    view = desc.view(data)
    if (found := PLACES.get((CATALOG[plan.operator.name].family, name))) is not None:
        view[...] = found(plan, desc.sizes)
    return view


def _regions(plan: Plan, sizes: tuple[int, ...]) -> Array:
    """The middle half of the first image, of as many numbers as a region has."""
    image = plan.inputs.get("InputTensor") or plan.outputs["OutputGradientTensor"]
    height, width = image.sizes[2:]
    corners = np.array([0, width / 4, height / 4, 3 * width / 4, 3 * height / 4])
    return np.broadcast_to(corners[-sizes[-1] :], sizes)


def _indices(plan: Plan, sizes: tuple[int, ...]) -> Array:
    """Of each element some place in its own plane."""
    plane = math.prod(plan.outputs["OutputTensor"].sizes[2:])
    planes = np.arange(math.prod(sizes[:2])).reshape(*sizes[:2], 1, 1)
    return planes * plane + np.arange(math.prod(sizes[2:])).reshape(sizes[2:]) % plane


PLACES: Mapping[tuple[str, str], Callable[[Plan, tuple[int, ...]], Array]] = {
    ("regions", "ROITensor"): _regions,
    ("regions", "BatchIndicesTensor"): lambda plan, sizes: np.zeros(sizes),
    ("max_pooling", "IndicesTensor"): _indices,
}
"""What some tensors of some families hold that say where others are read or written."""
