"""Normalizations of infinities, and of values whose powers underflow every float."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import Array
from tests.support.execution import execute, run

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
    "a_length_that_epsilon_cancels": ("LP_NORMALIZATION", [3, -4, 0], LENGTH | {"Epsilon": -25}, [INF, -INF, NAN]),
    "less_than_nothing_left": ("LP_NORMALIZATION", [3, -4, 0], LENGTH | {"Epsilon": -25.000002}, [NAN, NAN, NAN]),
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
def test_infinite_inputs_give_the_documented_results(device, name):
    operator, values, fields, right = CASES[name]
    [answer] = run(device, operator, np.array(values, np.float32), **fields).values()
    assert np.array_equal(answer.ravel(), np.array(right, np.float32), equal_nan=True)


def gradients(device, operator: str, values: list[float], came_back: list[float]) -> dict[str, Array]:
    """Returns the gradients of a row with mean 0, variance 1 and scale 1."""
    inputs = {"InputTensor": values, "InputGradientTensor": came_back}
    inputs |= {"MeanTensor": [0], "VarianceTensor": [1], "ScaleTensor": [1]}
    tensors = {name: {"DataType": "FLOAT32", "Sizes": [1, 1, 1, len(row)]} for name, row in inputs.items()}
    plan = check({"type": operator, "desc": {**tensors, "Epsilon": 0}})
    return execute(device, plan, {name: np.array(row, np.float32).tobytes() for name, row in inputs.items()})


def test_gradients_of_infinities_with_both_signs(device):
    found = gradients(device, "BATCH_NORMALIZATION_GRAD", [INF, INF, INF], [1, 1, -2])
    assert found["OutputGradientTensor"].ravel().tolist() == [1, 1, -2]
    assert np.isnan(found["OutputScaleGradientTensor"]).all()
    assert found["OutputBiasGradientTensor"].ravel().tolist() == [0]


def test_an_infinite_gradient_reaches_all_elements(device):
    # The mean product of gradients and deviations from the given mean is infinite, and so is the mean gradient.
    found = gradients(device, "BATCH_NORMALIZATION_TRAINING_GRAD", [3, -1, -1, 3], [INF, 1, 1, 1])
    right = np.array([NAN, NAN, NAN, -INF], np.float32)
    assert np.array_equal(found["OutputGradientTensor"].ravel(), right, equal_nan=True)


def test_an_infinite_element_makes_gradients_infinite(device):
    # The given mean is finite, so only the deviation of the infinite element is infinite.
    found = gradients(device, "BATCH_NORMALIZATION_TRAINING_GRAD", [1, -INF], [3, -1])
    assert found["OutputGradientTensor"].ravel().tolist() == [-INF, INF]


def test_negative_zero_variance_and_epsilon_count_as_zero(device):
    """Zeros of real numbers have no sign, so quotients by their sum keep the sign of the numerator."""
    inputs: dict[str, list[float]] = {"InputTensor": [1, -1, 0, 2], "MeanTensor": [0], "VarianceTensor": [-0.0]}
    inputs |= {"ScaleTensor": [1], "BiasTensor": [0]}
    tensors = {name: {"DataType": "FLOAT32", "Sizes": [1, 1, 1, len(row)]} for name, row in inputs.items()}
    plan = check({"type": "BATCH_NORMALIZATION", "desc": {**tensors, "Spatial": True, "Epsilon": -0.0}})
    found = execute(device, plan, {name: np.array(row, np.float32).tobytes() for name, row in inputs.items()})
    right = np.array([INF, -INF, NAN, INF], np.float32)
    assert np.array_equal(found["OutputTensor"].ravel(), right, equal_nan=True)


@pytest.mark.parametrize(("variance", "right"), [(0, INF), (-1, NAN), (NAN, NAN), (INF, 3), (2.0**-140, 2.0**70 + 3)])
def test_extreme_variances_of_one_long_channel(device, variance, right):
    inputs: dict[str, list[float]] = {"InputTensor": [2] * 72, "MeanTensor": [1], "VarianceTensor": [variance]}
    inputs |= {"ScaleTensor": [1], "BiasTensor": [3]}
    tensors = {name: {"DataType": "FLOAT32", "Sizes": [1, 1, 1, len(row)]} for name, row in inputs.items()}
    plan = check({"type": "BATCH_NORMALIZATION", "desc": {**tensors, "Spatial": True, "Epsilon": 0}})
    found = execute(device, plan, {name: np.array(row, np.float32).tobytes() for name, row in inputs.items()})
    answer = found["OutputTensor"]
    assert np.array_equal(answer, np.full_like(answer, right), equal_nan=True)


def response(value: float, beta: float, bias: float) -> float:
    """Returns the power in the response to a single element, in Python floats."""
    total = value * value + bias
    exponent = math.log(total) * beta if total != 1 else 0.0
    return INF if exponent > 700 else math.exp(exponent)


@pytest.mark.parametrize(("beta", "bias"), [(64, 1e-30), (1000, 0.5), (3e38, 0.5), (-3e38, 2), (2.5, 1e-38)])
def test_zeros_divided_by_underflowing_powers_are_zero(device, beta, bias):
    fields = RESPONSE | {"LocalSize": 1, "Bias": bias, "Beta": beta}
    [answer] = run(device, "LOCAL_RESPONSE_NORMALIZATION", np.zeros((1, 2, 1, 1), np.float32), **fields).values()
    assert answer.ravel().tolist() == [0, 0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("beta", "infinite"), [(0.75, 7), (0.75, 1), (100, None), (-1000, 7), (1e6, None)])
def test_unusual_responses_rarely_need_exact_arithmetic(cpu_device, beta, infinite):
    """Exact arithmetic would take minutes for that many elements."""
    values = np.random.default_rng(1).standard_normal((1, 20, 100, 100)).astype(np.float32)
    if infinite is not None:
        values.ravel()[::infinite] = INF
    tensor = {"DataType": "FLOAT32", "Sizes": list(values.shape)}
    fields = RESPONSE | {"LocalSize": 5, "Alpha": 1 / abs(beta), "Beta": beta, "Bias": 1}
    plan = check({"type": "LOCAL_RESPONSE_NORMALIZATION", "desc": {"InputTensor": tensor, **fields}})
    end = time.monotonic() + 20
    outputs = {"OutputTensor": np.empty_like(values)}
    cpu_device.run(plan, {"InputTensor": values}, outputs, lambda: time.monotonic() > end)


TIMED: dict[str, dict[str, object]] = {
    "LOCAL_RESPONSE_NORMALIZATION": {"LocalSize": 5, "Alpha": 1e-4, "Beta": 3, "Bias": 0, "CrossChannel": True},
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": {"LocalSize": 5, "Alpha": 1e-4, "Beta": 3, "Bias": 0, "CrossChannel": False},
    "MEAN_VARIANCE_NORMALIZATION1": {"Axes": [1, 2, 3], "NormalizeVariance": True, "Epsilon": 1e30},
    "MEAN_VARIANCE_NORMALIZATION2": {"Axes": [1, 3], "UseMean": True, "UseVariance": True, "Epsilon": 1e30},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TIMED)
def test_unusual_attributes_do_not_lead_to_exact_arithmetic(cpu_device, name):
    """Exact arithmetic would take a minute for that many elements."""
    values = np.random.default_rng(1).standard_normal((2, 20, 40, 40)).astype(np.float32)
    names = ["InputTensor", *(["InputGradientTensor"] if name.endswith("GRAD") else [])]
    tensors = {each: {"DataType": "FLOAT32", "Sizes": list(values.shape)} for each in names}
    plan = check({"type": name, "desc": tensors | TIMED[name]})
    [output] = plan.outputs
    end = time.monotonic() + 10
    cpu_device.run(plan, dict.fromkeys(names, values), {output: np.empty_like(values)}, lambda: time.monotonic() > end)


@pytest.mark.parametrize("bias", [0.5, 1, 2])
@pytest.mark.parametrize("beta", [INF, -INF, 1e30, -1e30, 1000.0, -1000.0])
def test_responses_with_steep_powers(device, beta, bias):
    values = np.array([0.5, -0.25, 1.5, -3, 1e19], np.float32).reshape(5, 1, 1, 1)
    with np.errstate(all="ignore"):
        right = np.array([np.float64(x) / response(float(x), beta, bias) for x in values.ravel()]).astype(np.float32)
    number = {INF: "Infinity", -INF: "-Infinity"}.get(beta, beta)
    fields = RESPONSE | {"LocalSize": 1, "Bias": bias, "Beta": number}
    [answer] = run(device, "LOCAL_RESPONSE_NORMALIZATION", values, **fields).values()
    np.testing.assert_allclose(answer.ravel(), right, rtol=1e-6)
    assert np.array_equal(np.signbit(answer.ravel()), np.signbit(right))


@pytest.mark.parametrize("times", [1, 8])
def test_deviations_times_an_infinite_scale_keep_their_exact_signs(device, times):
    """The exact mean is 1, which float64 misses beside such large elements."""
    row = np.tile(np.array([1e16, 1, -1e16, 3], np.float32), times)
    tensors = {"InputTensor": [2, row.size], "ScaleTensor": [1, 1]}
    desc = {name: {"DataType": "FLOAT32", "Sizes": sizes} for name, sizes in tensors.items()}
    fields = {"Axes": [1], "UseMean": True, "UseVariance": True, "Epsilon": 0}
    plan = check({"type": "MEAN_VARIANCE_NORMALIZATION2", "desc": desc | fields})
    inputs = {"InputTensor": np.tile(row, 2), "ScaleTensor": np.array([INF], np.float32)}
    found = execute(device, plan, {name: array.tobytes() for name, array in inputs.items()})
    assert np.array_equal(found["OutputTensor"].ravel(), np.tile([INF, NAN, -INF, INF], 2 * times), equal_nan=True)
