"""The server's predictions of run time against measurements, for random descs of every operator.

A plan that has run is expected to take as long again. For other plans the server knows their work, which counts element
visits, and the cost of a visit of their kind; so plans of a kind must have similar costs per visit. ``at_most`` of the
prediction is an upper bound within a factor of 3: of 100 repeated runs, 95 take no longer, and 95 take at least a third
of it; of 100 new plans of a known kind, 90. Times are CPU times, which other processes affect little.
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
from opwire_service.engine.costs import Costs, Demand, at_most, kind_of_work
from opwire_service.execution import Stopped
from opwire_service.kernels.executable import EXECUTABLE
from tests.strategies import descs
from tests.support.profiles import request_examples

FACTOR = 3
"""Factor by which the bound may exceed the actual time."""

AGAIN, NEW = 0.05, 0.1
"""Shares of runs that may exceed the bound, and that may stay below a third of it: of repeated plans, and of new
ones."""

RUNS = 4
"""Number of runs that make a plan known, and of those compared with the prediction."""

MOST_BYTES = 1 << 25
SECONDS = 0.5
"""Seconds after which a plan is stopped and not counted."""

ALL_SECONDS, FAMILY_SECONDS = 1.5, 10.0
"""Minimum seconds for the plans of an operator, and of a family."""


@dataclass(frozen=True)
class Range:
    """What is drawn and measured for a device.

    Attributes:
        sizes: Sizes of dimensions.
        work: Minimum and maximum work. Below the minimum, the CPU runs plans inline, and nothing waits for them.
        seconds: Minimum time; below it, the cost per plan outweighs the cost per element.
    """

    sizes: tuple[int, ...]
    work: range
    seconds: float


RANGES = {
    "reference": Range((1, 3, 8, 12), range(100, 3 * 10**5), 0.002),
    "cpu": Range((1, 3, 8, 20, 64, 200), range(SMALL_WORK + 1, 3 * 10**8), 0.001),
}

FREE = 1 << 8
"""Minimum work of operators whose output can have any size, relative to the maximum."""

PACKED = {"IndicesTensor", "ROITensor", "BatchIndicesTensor"}
"""Tensors that contain positions in other tensors."""

DRAWN = settings(request_examples(300), derandomize=True, database=None, deadline=None, phases=[Phase.generate])

FAMILIES: dict[str, list[str]] = defaultdict(list)
for each in EXECUTABLE:
    FAMILIES[CATALOG[each].family].append(each)


class OutOfTime(SkipTest):
    """Ends drawing, which takes as long as measuring. Hypothesis lets it pass without shrinking."""


class Measured(NamedTuple):
    """Seconds that a plan was predicted to take after its first runs, and that it took."""

    plan: Plan
    expected: float
    runs: list[float]

    @property
    def seconds(self) -> float:
        """The typical time."""
        return float(np.median(self.runs))


class Compared(NamedTuple):
    """The time of a run relative to its prediction, and the plan."""

    ratio: float
    plan: Plan


@pytest.fixture(scope="module", params=RANGES)
def measured_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device that works on the calling thread."""
    device = ReferenceDevice() if request.param == "reference" else CpuDevice(1)
    for _ in device.warm_up([]):
        pass
    yield device
    device.close()


@pytest.mark.thorough
@pytest.mark.serial
@pytest.mark.parametrize("family", FAMILIES)
def test_new_plans_take_as_long_as_predicted(measured_device: Device, family: str) -> None:
    seconds = max(ALL_SECONDS, FAMILY_SECONDS / len(FAMILIES[family]))
    found = [each for name in FAMILIES[family] for each in measured_of(measured_device, name, seconds)]
    again = [Compared(seconds / each.expected, each.plan) for each in found for seconds in each.runs]
    assert_bounded(again, max(RUNS, few(AGAIN, len(again))))
    kinds = defaultdict(list)
    for each in found:
        kinds[kind_of_work(each.plan, measured_device.method(each.plan))].append(each)
    several = [alike for alike in kinds.values() if len(alike) > 1]
    new = [each for alike in several for each in compared(measured_device, alike)]
    # In a small kind, one unusual plan makes two others look unusual.
    assert_bounded(new, max(2, few(NEW, len(new))))


def few(share: float, count: int) -> float:
    """Returns a count that a share of ``count`` rarely exceeds, by two standard deviations."""
    return share * count + 2 * math.sqrt(share * (1 - share) * count)


def assert_bounded(found: list[Compared], most: float) -> None:
    """Checks that ``at_most`` is a bound within a factor of 3, except for ``most`` runs."""
    over = [each for each in found if each.ratio > at_most(1)]
    under = [each for each in found if FACTOR * each.ratio < at_most(1)]
    assert len(over) <= most, f"{len(over)} of {len(found)} took longer: {shown(over)}"
    assert len(under) <= most, f"{len(under)} of {len(found)} took less: {shown(under)}"


def compared(device: Device, alike: list[Measured]) -> list[Compared]:
    """Returns the cost per visit of plans of a kind, relative to the median of the others."""
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
def test_repeated_plans_take_as_long_as_before(name: str) -> None:
    plan = check(RAN[name])
    found = [measured_on(ReferenceDevice(), plan) for _ in range(3)]
    assert any(each is not None and 1 / FACTOR <= each.seconds / each.expected <= at_most(1) for each in found), found


def measured_of(device: Device, name: str, seconds: float) -> list[Measured]:
    """Measures plans of an operator that take long enough to be meaningful."""
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
    """Whether the numbers of a desc are ordinary; subnormals and infinities make everything slow."""
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
    """Rewrites a desc as people would: dimensions in any order, some repeated; packed indices; regions in pixels."""
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
    """Enlarges the output of an operator whose output can have any size, which was drawn small."""
    if desc["type"] == "RANDOM_GENERATOR":
        output = desc["desc"]["OutputTensor"]
        output["Sizes"][0] *= most // FREE
        output["Strides"] = None
    return desc


def ordered(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Returns strides without gaps in the order of the given ones, keeping zeros."""
    found, step = [0] * len(sizes), 1
    for i in sorted(range(len(sizes)), key=lambda i: (strides[i], -i)):
        if strides[i]:
            found[i], step = step, step * sizes[i]
    return found


def measured_on(device: Device, plan: Plan) -> Measured | None:
    """Runs a plan a few times; returns None if it takes too long or does not fit the device."""
    inputs = {name: filled(plan, name) for name in plan.inputs}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    costs, demand = Costs(), Demand(kind_of_work(plan), plan.work)

    def once() -> float:
        began = time.process_time()
        device.run(plan, inputs, outputs, lambda: time.process_time() - began > SECONDS)
        return max(time.process_time() - began, 1e-9)

    gc.disable()
    try:
        with device.admit(plan):
            for _ in range(RUNS):
                costs.learn("cpu", demand, once(), 0, plan)
            expected = costs.expected("cpu", demand, plan)
            runs = [once() for _ in range(RUNS)]
    except (Stopped, OpwireError):
        return None
    finally:
        gc.enable()
    # NaN results take little time to compute
    numbers = [np.isfinite(each).mean() for each in outputs.values() if each.dtype.kind == "f"]
    return Measured(plan, expected, runs) if all(share > 0.5 for share in numbers) else None


def filled(plan: Plan, name: str) -> Array:
    """Returns ordinary numbers for a tensor."""
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
    """Returns the middle half of the first image, as often as there are regions."""
    image = plan.inputs.get("InputTensor") or plan.outputs["OutputGradientTensor"]
    height, width = image.sizes[2:]
    corners = np.array([0, width / 4, height / 4, 3 * width / 4, 3 * height / 4])
    return np.broadcast_to(corners[-sizes[-1] :], sizes)


def _indices(plan: Plan, sizes: tuple[int, ...]) -> Array:
    """Returns for each element some position in its own plane."""
    plane = math.prod(plan.outputs["OutputTensor"].sizes[2:])
    planes = np.arange(math.prod(sizes[:2])).reshape(*sizes[:2], 1, 1)
    return planes * plane + np.arange(math.prod(sizes[2:])).reshape(sizes[2:]) % plane


PLACES: Mapping[tuple[str, str], Callable[[Plan, tuple[int, ...]], Array]] = {
    ("regions", "ROITensor"): _regions,
    ("regions", "BatchIndicesTensor"): lambda plan, sizes: np.zeros(sizes),
    ("max_pooling", "IndicesTensor"): _indices,
}
"""Contents of tensors with positions in others, by family."""
