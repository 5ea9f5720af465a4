"""The work of a plan, against the visits of a plain loop over the elements it reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from opwire.check import Plan, check
from opwire.operators.max_pooling import MaxPooling
from opwire.schema import CATALOG
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.reference import VISITS_PER_TURN, ReferenceDevice
from opwire_service.kernels.executable import EXECUTABLE
from tests.oracles import oracle
from tests.strategies.operators import cases
from tests.support.profiles import examples

SLACK = 3
"""Allowed ratio of the work to the visits."""


def visits(plan: Plan) -> int:
    """Counts the elements that a plain loop reads."""
    if CATALOG[plan.operator.name].family == "max_pooling":
        return sum(1 for _ in _pooled(plan))
    source = plan.inputs.get("InputTensor") or next(iter(plan.inputs.values()))
    return sum(1 for _ in itertools.product(*map(range, source.sizes)))


COUNTED = [
    name
    for name, operator in EXECUTABLE.items()
    if CATALOG[name].family in ("reduce", "argreduce")
    or (CATALOG[name].family == "max_pooling" and operator.attributes is MaxPooling)
]
"""Operators whose cost such a loop predicts: those that read each element or window."""


def _pooled(plan: Plan) -> Iterator[oracle.Coordinate]:
    """Yields the input coordinates in each window."""
    sizes = plan.inputs["InputTensor"].sizes
    for coordinate in itertools.product(*map(range, plan.outputs["OutputTensor"].sizes)):
        for offsets in itertools.product(*map(range, plan.attributes.WindowSize)):
            place = oracle.window_position(plan.attributes, coordinate[2:], offsets)
            if all(0 <= at < size for at, size in zip(place, sizes[2:], strict=True)):
                yield (*coordinate[:2], *place)


@pytest.mark.parametrize("name", COUNTED)
def test_work_bounds_the_visits(name):
    @examples(40)
    @given(cases((name,)))
    def is_a_bound(case):
        plan = check(case.operator, case.level)
        counted = visits(plan)
        assert counted <= plan.work <= SLACK * counted

    is_a_bound()


@pytest.mark.parametrize("strides", [None, [0, 0, 0, 0], [0, 0, 9, 1]])
@pytest.mark.parametrize(
    ("window", "stride", "padding", "dilation"), [(5, 1, 4, 1), (2, 3, 8, 8), (9, 9, 8, 1), (3, 2, 0, 4), (1, 1, 0, 1)]
)
def test_windows_clipped_by_padding_are_counted_exactly(window, stride, padding, dilation, strides):
    tensor = {"DataType": "FLOAT32", "Sizes": [2, 3, 9, 9], **({"Strides": strides} if strides else {})}
    desc = {"InputTensor": tensor, "WindowSize": [window] * 2, "Strides": [stride] * 2, "Dilations": [dilation] * 2}
    plan = check({"type": "MAX_POOLING2", "desc": desc | {"StartPadding": [padding] * 2, "EndPadding": [padding] * 2}})
    assert plan.work == visits(plan)


def test_windows_of_padding_cost_nothing():
    wide = 2**31
    desc = {"WindowSize": [1, wide], "Strides": [1, 1], "StartPadding": [0, wide - 1], "EndPadding": [0, wide - 1]}
    plan = check({"type": "MAX_POOLING", "desc": {"InputTensor": {"DataType": "UINT8", "Sizes": [1, 1, 1, 5]}, **desc}})
    # Each of the five elements is in as many windows as a window has elements.
    assert plan.work == 5 * wide


def test_without_axes_each_element_is_visited_once():
    tensor = {"DataType": "FLOAT32", "Sizes": [4, 5], "Strides": [0, 0]}
    plan = check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "AxisCount": 0, "Axes": []}})
    assert plan.work == 20


def on_cpu(desc: dict[str, Any], name: str = "MAX_POOLING") -> tuple[int, int]:
    """Returns the work of a plan, and the visits it costs on the CPU."""
    plan, device = check({"type": name, "desc": desc}), CpuDevice(1)
    try:
        return plan.work, device.visits(plan)
    finally:
        device.close()


def pooled(sizes: list[int], window: list[int]) -> dict[str, Any]:
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    zeros = [0] * len(window)
    return {
        "InputTensor": tensor,
        "WindowSize": window,
        "Strides": [1] * len(window),
        "StartPadding": zeros,
        "EndPadding": zeros,
    }


def test_windows_that_share_lines_cost_the_cpu_less_than_their_elements():
    work, visits = on_cpu(pooled([1, 1, 512, 512], [64, 64]))
    assert visits < work / 64
    assert on_cpu(pooled([1, 1, 512, 512], [64, 65]))[1] < 2 * visits


def test_short_lines_cost_the_cpu_more_than_their_elements():
    work, visits = on_cpu(pooled([64, 64, 64, 1], [1, 1]))
    assert visits > 32 * work
    _, long = on_cpu(pooled([64, 64, 1, 64], [1, 1]))
    assert visits > 16 * long


def test_plans_without_a_cpu_cost_cost_their_work():
    tensor = {"DataType": "FLOAT32", "Sizes": [1 << 12]}
    assert on_cpu({"InputTensor": tensor}, "ELEMENT_WISE_EXP") == (1 << 12, 1 << 12)


def test_the_reference_counts_its_outputs():
    plan = check({"type": "ELEMENT_WISE_EXP", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [4]}}})
    assert ReferenceDevice().visits(plan) == 4 * (1 + VISITS_PER_TURN)


def method_on_cpu(operator: dict[str, Any]) -> tuple[str, int, int]:
    """Returns how the CPU computes a plan, its work, and its cost."""
    plan, device = check(operator), CpuDevice(1)
    try:
        return device.method(plan), plan.work, device.visits(plan)
    finally:
        device.close()


def test_reference_fallbacks_cost_as_much_as_on_the_reference():
    desc = {
        "ReductionFunction": "MAX",
        "InterpolationMode": "LINEAR",
        "SpatialScaleX": 1,
        "SpatialScaleY": 1,
        "OutOfBoundsInputValue": 0,
        "MinimumSamplesPerOutput": 1,
        "MaximumSamplesPerOutput": 2,
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 8, 8]},
        "ROITensor": {"DataType": "FLOAT32", "Sizes": [3, 4]},
        "BatchIndicesTensor": {"DataType": "UINT32", "Sizes": [3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3, 1, 4, 4]},
    }
    operator = {"type": "ROI_ALIGN", "desc": desc}
    plan = check(operator)
    assert method_on_cpu(operator) == ("reference", plan.work, ReferenceDevice().visits(plan))


def test_functions_of_long_rows_are_compiled_and_of_tiny_tiles_are_not():
    def method(sizes: list[int], strides: list[int] | None) -> str:
        tensor = {"DataType": "FLOAT32", "Sizes": sizes, "Strides": strides}
        return method_on_cpu({"type": "ACTIVATION_GELU", "desc": {"InputTensor": tensor}})[0]

    assert method([64, 20, 64, 9], None) == "compiled"
    assert method([64, 20, 1, 64, 3, 3], [3, 576, 3, 0, 192, 1]) == ""


@pytest.mark.parametrize("name", ["ACTIVATION_HARDMAX1", "ACTIVATION_SOFTMAX1", "ACTIVATION_LOG_SOFTMAX1"])
def test_the_reference_counts_blocks(name):
    def visits(axes: list[int]) -> int:
        tensor = {"DataType": "FLOAT32", "Sizes": [64, 1, 64]}
        return ReferenceDevice().visits(check({"type": name, "desc": {"InputTensor": tensor, "Axes": axes}}))

    # A block of one element needs no exponential, but is still a block.
    long, alone = visits([2]), visits([1])
    assert alone > 4 * long if "HARDMAX" in name else alone < long / 4


def test_the_reference_counts_tuples_of_indices():
    def visits(indexed: int) -> int:
        desc = {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [8, 8, 64]},
            "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 64, indexed]},
            "InputDimensionCount": 3,
            "IndicesDimensionCount": 2,
        }
        return ReferenceDevice().visits(check({"type": "GATHER_ND", "desc": desc}))

    # As many tuples, each addressing 64 elements or one.
    assert visits(3) < visits(2) < 10 * visits(3)


def gradient_of_regions(*outputs: str) -> Plan:
    tensors = {"OutputGradientTensor": [2, 3, 8, 8], "OutputROIGradientTensor": [4, 4]}
    desc = {
        "ReductionFunction": "AVERAGE",
        "InterpolationMode": "NEAREST_NEIGHBOR",
        "SpatialScaleX": 1,
        "SpatialScaleY": 1,
        "InputPixelOffset": 0,
        "OutputPixelOffset": 0,
        "MinimumSamplesPerOutput": 2,
        "MaximumSamplesPerOutput": 2,
        "AlignRegionsToCorners": False,
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3, 8, 8]},
        "InputGradientTensor": {"DataType": "FLOAT32", "Sizes": [4, 3, 4, 4]},
        "ROITensor": {"DataType": "FLOAT32", "Sizes": [4, 4]},
        "BatchIndicesTensor": {"DataType": "UINT32", "Sizes": [4]},
        **{name: {"DataType": "FLOAT32", "Sizes": tensors[name]} for name in outputs},
    }
    return check({"type": "ROI_ALIGN_GRAD", "desc": desc})


def test_region_gradients_visit_only_requested_outputs():
    of_images, of_regions = gradient_of_regions("OutputGradientTensor"), gradient_of_regions("OutputROIGradientTensor")
    samples = 4 * 3 * 4 * 4 * (2 * 2)
    assert of_regions.work == samples
    assert of_images.work == samples + 2 * 3 * 8 * 8
    both = gradient_of_regions("OutputGradientTensor", "OutputROIGradientTensor")
    assert both.work == of_images.work + of_regions.work
