"""Gradients against finite differences of their operators, computed without rounding.

All numbers have few bits, so outputs are exact, and so are differences between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.tensor import Array
from tests.support.execution import execute


def run(device: Any, plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return execute(device, plan, {name: np.ascontiguousarray(array).tobytes() for name, array in inputs.items()})


def desc_of(shape: tuple[int, ...]) -> dict[str, object]:
    return {"DataType": "FLOAT32", "Sizes": list(shape)}


def small(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def slopes(
    device: Any, operator: dict[str, Any], inputs: dict[str, Array], moved: str, weights: Array, h: float
) -> Array:
    """Returns how the weighted sum of an operator's outputs changes with each element of an input."""
    plan = check(operator)
    found = np.zeros(inputs[moved].shape)
    for place in np.ndindex(found.shape):
        sums = []
        for step in (h, -h):
            changed = inputs[moved].copy()
            changed[place] += step
            output = run(device, plan, inputs | {moved: changed})["OutputTensor"]
            sums.append((output.astype(np.float64) * weights).sum())
        found[place] = (sums[0] - sums[1]) / (2 * h)
    return found


POOLINGS = [
    {"WindowSize": [2, 4], "Strides": [1, 2], "StartPadding": [1, 0], "EndPadding": [0, 1]},
    {"WindowSize": [2, 2], "Strides": [2, 1], "StartPadding": [0, 0], "EndPadding": [0, 0]},
]


@pytest.mark.parametrize("window", POOLINGS)
def test_average_pooling_gradients_match_finite_differences(device, window):
    shape = (1, 2, 4, 5)
    members = {**window, "IncludePadding": True}
    operator = {"type": "AVERAGE_POOLING", "desc": {"InputTensor": desc_of(shape), **members}}
    gradient = small(check(operator).outputs["OutputTensor"].sizes, 1)
    tensors = {"InputGradientTensor": desc_of(gradient.shape), "OutputGradientTensor": desc_of(shape)}
    back = {"type": "AVERAGE_POOLING_GRAD", "desc": {**tensors, **members}}
    found = run(device, check(back), {"InputGradientTensor": gradient})["OutputGradientTensor"]
    right = slopes(device, operator, {"InputTensor": small(shape, 2)}, "InputTensor", gradient, 1)
    assert (found == right).all()


@pytest.mark.parametrize("window", POOLINGS)
def test_max_pooling_gradients_match_finite_differences(device, window):
    shape = (1, 2, 4, 5)
    members = {**window, "Dilations": [1, 1]}
    operator = {"type": "MAX_POOLING2", "desc": {"InputTensor": desc_of(shape), **members}}
    gradient = small(check(operator).outputs["OutputTensor"].sizes, 3)
    source = np.random.default_rng(4).permutation(40).astype(np.float32).reshape(shape)  # all distinct
    tensors = {"InputTensor": desc_of(shape), "InputGradientTensor": desc_of(gradient.shape)}
    back = {"type": "MAX_POOLING_GRAD", "desc": {**tensors, **members}}
    found = run(device, check(back), {"InputTensor": source, "InputGradientTensor": gradient})["OutputGradientTensor"]
    assert (found == slopes(device, operator, {"InputTensor": source}, "InputTensor", gradient, 0.25)).all()


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize(
    ("scales", "output"), [([1.0, 2.0], (3, 8)), ([0.5, 4.0], (2, 13)), ([2.0, 0.5], (5, 2)), ([1.6, 0.8], (5, 3))]
)
def test_resampling_gradients_match_finite_differences(device, mode, scales, output):
    shape = (3, 4)
    members = {"InterpolationMode": mode, "Scales": scales}
    forward, backward = (
        {f"{into}PixelOffsets": [0.5, 0.25], f"{out}PixelOffsets": [-0.5, 0.5]}
        for into, out in (("Input", "Output"), ("Output", "Input"))
    )
    tensors = {"InputTensor": desc_of(shape), "OutputTensor": desc_of(output)}
    gradient = small(output, 5)
    names = {"InputGradientTensor": desc_of(output), "OutputGradientTensor": desc_of(shape)}
    back = check({"type": "RESAMPLE_GRAD", "desc": {**names, **members, **backward}})
    found = run(device, back, {"InputGradientTensor": gradient})
    operator = {"type": "RESAMPLE1", "desc": {**tensors, **members, **forward}}
    right = slopes(device, operator, {"InputTensor": small(shape, 6)}, "InputTensor", gradient, 1)
    # Scales other than powers of two have weights of 24 bits, so the last bits of the differences are off.
    assert np.allclose(found["OutputGradientTensor"], right, rtol=0, atol=0 if scales[0] != 1.6 else 1e-5)


def region_descs(function: str, mode: str, channels: int, to_corners: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    common = {
        "InputTensor": desc_of((1, channels, 8, 8)),
        "ROITensor": desc_of((2, 4)),
        "BatchIndicesTensor": {"DataType": "UINT32", "Sizes": [2]},
        **{"ReductionFunction": function, "InterpolationMode": mode, "SpatialScaleX": 0.5, "SpatialScaleY": 1},
        **{"InputPixelOffset": 0.5, "OutputPixelOffset": -0.5, "AlignRegionsToCorners": to_corners},
        **{"MinimumSamplesPerOutput": 2, "MaximumSamplesPerOutput": 2},
    }
    crop = (2, channels, 2, 1)
    forward = {**common, "OutputTensor": desc_of(crop), "OutOfBoundsInputValue": 0}
    outputs = {"OutputGradientTensor": desc_of((1, channels, 8, 8)), "OutputROIGradientTensor": desc_of((2, 4))}
    backward = {**common, "InputGradientTensor": desc_of(crop), **outputs}
    return forward, backward


CORNERS = np.array([[1.25, 1.125, 9.25, 5.125], [10.5, 2.25, 2.5, 6.25]], np.float32)
"""Samples are inside and not at integers; the second region is mirrored."""


@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
def test_region_gradients_match_finite_differences(device, function, mode):
    forward, backward = region_descs(function, mode, 2, to_corners=False)
    images = np.random.default_rng(7).permutation(128).astype(np.float32).reshape(1, 2, 8, 8)
    inputs = {"InputTensor": images, "ROITensor": CORNERS, "BatchIndicesTensor": np.zeros(2, np.uint32)}
    gradient = small((2, 2, 2, 1), 8)
    back = check({"type": "ROI_ALIGN_GRAD", "desc": backward})
    found = run(device, back, {**inputs, "InputGradientTensor": gradient})
    operator = {"type": "ROI_ALIGN1", "desc": forward}
    right = slopes(device, operator, inputs, "InputTensor", gradient, 2.0**-6)
    assert (found["OutputGradientTensor"] == right).all()
    moved = slopes(device, operator, inputs, "ROITensor", gradient, 2.0**-6)
    assert (found["OutputROIGradientTensor"] == (moved if mode == "LINEAR" else 0 * moved)).all()
