"""NaN and infinities reach only the results that depend on them; the bits of all others stay the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given

from opwire.check import Plan, check
from opwire.tensor import Array
from opwire_service.devices import load
from opwire_service.devices.base import Device
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.kernels.executable import EXECUTABLE
from tests.support.execution import never_stop, skip_unless_executed
from tests.support.poisoning import POISONABLE, faults, poisoned_plans
from tests.support.profiles import request_examples

REFERENCE = ReferenceDevice()

SMALL, LARGE = ((1, 2, 17), 400), ((1, 2, 3, 8, 20, 33), 6000)
"""Sizes of dimensions, and most elements and visits, in every run and in the long one."""


@pytest.fixture(
    scope="module", params=["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.timeout(600)])]
)
def quick_device(request: pytest.FixtureRequest, cpu_device: Device) -> Iterator[Device]:
    """A device that takes short cuts."""
    if request.param == "cpu":
        yield cpu_device
        return
    made = load(request.param)
    yield made
    made.close()


def assert_unspoiled(device: Device, name: str, sizes: tuple[int, ...], most: int, count: int) -> None:
    if not device.executes(name):
        pytest.skip(f"{device.name} does not run {name}")

    @request_examples(count)
    @given(poisoned_plans(EXECUTABLE[name], sizes, most))
    def holds(each):
        found = list(faults(device, REFERENCE, each))
        assert not found, found[0]

    holds()


@pytest.mark.parametrize("name", POISONABLE)
def test_poison_reaches_no_other_results(quick_device, name):
    assert_unspoiled(quick_device, name, *SMALL, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", POISONABLE)
def test_poison_reaches_no_other_results_of_larger_tensors(quick_device, name):
    assert_unspoiled(quick_device, name, *LARGE, 10)


ROWS, ROW = 600, (1e16, 1, -1e16, 3)


def normalization(name: str) -> tuple[Plan, dict[str, Array]]:
    """Returns a plan and inputs with many rows, in each of which two results cancel nearly completely."""
    sizes = [1, ROWS, 1, len(ROW)]
    each, all_alike = [1, ROWS, 1, 1], {"ScaleTensor": 1e17, "BiasTensor": -1e17}
    shapes = dict.fromkeys(all_alike, each)
    attributes: dict[str, object] = {"Epsilon": 0}
    if name == "BATCH_NORMALIZATION":
        all_alike |= {"MeanTensor": 2**-30, "VarianceTensor": 1}
        shapes |= dict.fromkeys(("MeanTensor", "VarianceTensor"), each)
        attributes["Spatial"] = True
    if "TRAINING" not in name and name != "BATCH_NORMALIZATION":
        attributes |= {"Axes": [3]} | ({"NormalizeVariance": True} if name[-1] == "1" else {"UseMean": True})
        attributes |= {} if name[-1] == "1" else {"UseVariance": True}
    if name != "BATCH_NORMALIZATION":
        all_alike["BiasTensor"] = 0
    inputs = {key: np.full(shapes[key], number, np.float32) for key, number in all_alike.items()}
    inputs["InputTensor"] = np.tile(np.array(ROW, np.float32), (ROWS, 1)).reshape(sizes)
    tensors = {key: {"DataType": "FLOAT32", "Sizes": list(array.shape)} for key, array in inputs.items()}
    return check({"type": name, "desc": tensors | attributes}), inputs


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize(
    "name",
    [
        "BATCH_NORMALIZATION",
        "BATCH_NORMALIZATION_TRAINING",
        "MEAN_VARIANCE_NORMALIZATION1",
        "MEAN_VARIANCE_NORMALIZATION2",
    ],
)
def test_a_poisoned_row_does_not_spoil_the_others(quick_device, name, poison):
    plan, inputs = normalization(name)
    skip_unless_executed(quick_device, plan)

    def outputs() -> dict[str, Array]:
        made = {key: np.empty(desc.sizes, np.float32) for key, desc in plan.outputs.items()}
        quick_device.run(plan, inputs, made, never_stop)
        return made

    before = outputs()
    inputs["InputTensor"][0, 0] = poison
    after = outputs()
    for key, output in before.items():
        assert np.array_equal(after[key][:, 1:].view(np.uint32), output[:, 1:].view(np.uint32))
