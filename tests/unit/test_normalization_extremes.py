"""Normalizations of infinities, and of what is so small that its powers are beyond all floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from tests.execution import execute, run

INF, NAN, TINY = math.inf, math.nan, 2.0**-149

LENGTH: dict[str, Any] = {"Axis": 0, "P": 2, "Epsilon": 0}
RESPONSE: dict[str, Any] = {"CrossChannel": False, "LocalSize": 3, "Alpha": 1, "Beta": 1, "Bias": 0}
VARIANCE: dict[str, Any] = {"Axes": [0], "UseMean": False, "UseVariance": True, "Epsilon": 0}

CASES = {
    "over_an_infinite_epsilon": ("LP_NORMALIZATION", [1], LENGTH | {"Epsilon": "Infinity"}, [0]),
    "a_length_as_infinite_as_epsilon": (
        "LP_NORMALIZATION",
        [INF, 1],
        LENGTH | {"P": 1, "Epsilon": "Infinity"},
        [NAN, 0],
    ),
    "squares_of_both_infinities": ("LP_NORMALIZATION", [INF, -INF, 1], LENGTH, [NAN, NAN, 0]),
    "a_response_to_both_infinities": ("LOCAL_RESPONSE_NORMALIZATION", [[[[-INF, 0, INF]]]], RESPONSE, [NAN, 0, NAN]),
    "a_variance_about_zero": ("MEAN_VARIANCE_NORMALIZATION2", [INF, -INF, 1], VARIANCE, [NAN, NAN, 0]),
    "zero_over_a_power_of_next_to_nothing": (
        "LOCAL_RESPONSE_NORMALIZATION",
        [[[[TINY, 0]]]],
        RESPONSE | {"Beta": 10},
        [INF, 0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_follows_from_infinities(device, name):
    operator, values, fields, right = CASES[name]
    [answer] = run(device, operator, np.array(values, np.float32), **fields).values()
    assert np.array_equal(answer.ravel(), np.array(right, np.float32), equal_nan=True)


def test_gradients_of_infinities_of_both_signs(device):
    of_one = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1]}
    of_row = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 3]}
    inputs = {"InputTensor": [INF, INF, INF], "InputGradientTensor": [1, 1, -2]}
    statistics = {"MeanTensor": [0], "VarianceTensor": [1], "ScaleTensor": [1]}
    tensors = {**dict.fromkeys(inputs, of_row), **dict.fromkeys(statistics, of_one)}
    plan = check({"type": "BATCH_NORMALIZATION_GRAD", "desc": {**tensors, "Epsilon": 0}})
    buffers = {name: np.array(values, np.float32).tobytes() for name, values in {**inputs, **statistics}.items()}
    found = execute(device, plan, buffers)
    assert found["OutputGradientTensor"].ravel().tolist() == [1, 1, -2]
    assert np.isnan(found["OutputScaleGradientTensor"]).all()
    assert found["OutputBiasGradientTensor"].ravel().tolist() == [0]
