"""The signs of zeros are the same on all devices, and those of DirectML where its answers are known."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from opwire.check import check
from tests.support.execution import execute

INF = math.inf


class Case(NamedTuple):
    """An operator, its FLOAT32 inputs with their sizes, and the output in which all is 0, with the right signs."""

    operator: str
    inputs: dict[str, tuple[list[int], list[float]]]
    attributes: dict[str, Any]
    output: str
    right: list[float]


def _gemm(fused: str, **attributes: float) -> Case:
    inputs = {"ATensor": ([1, 1, 2, 1], [-1.0, 2.0]), "BTensor": ([1, 1, 1, 2], [3.0, -4.0])}
    activation = {"Type": fused, "Desc": attributes}
    chosen = {"TransA": 0, "TransB": 0, "Alpha": 0, "Beta": 0, "FusedActivation": activation}
    return Case("GEMM", inputs, chosen, "OutputTensor", [0.0] * 4)


def _gradient(operator: str, gradients: list[float], right: list[float]) -> Case:
    inputs = {
        "InputTensor": ([1, 1, 1, 2], [-1.0, 1.0]),
        "InputGradientTensor": ([1, 1, 1, 2], gradients),
        "MeanTensor": ([1, 1, 1, 1], [0.0]),
        "VarianceTensor": ([1, 1, 1, 1], [1.0]),
        "ScaleTensor": ([1, 1, 1, 1], [-2.0]),
    }
    return Case(operator, inputs, {"Epsilon": 0}, "OutputGradientTensor", right)


def _length(values: list[float], **attributes: object) -> Case:
    inputs = {"InputTensor": ([len(values)], values)}
    return Case("LP_NORMALIZATION", inputs, {"Axis": 0, **attributes}, "OutputTensor", [0.0] * len(values))


_RESPONSE = {"CrossChannel": False, "LocalSize": 3, "Alpha": 1, "Bias": 1}

CASES = {
    "a_product_times_0": _gemm("ACTIVATION_TANH"),
    "a_product_times_0_through_a_sign": _gemm("ACTIVATION_SOFTSIGN"),
    "elements_over_an_infinite_length": _length([-3.0, 0.0, -0.0, 2.0], P=1, Epsilon="Infinity"),
    "zeros_over_a_length": _length([-0.0, 0.0], P=2, Epsilon=1),
    "elements_too_small_for_their_length": _length([-(2.0**-149), 2.0**-149], P=1, Epsilon=1e10),
    "gradients_times_a_negative_scale": _gradient("BATCH_NORMALIZATION_GRAD", [-0.0, 0.0], [0.0, -0.0]),
    "gradients_equal_to_their_mean": _gradient("BATCH_NORMALIZATION_TRAINING_GRAD", [3.0, 3.0], [-0.0, -0.0]),
    "zeros_over_a_power": Case(
        "LOCAL_RESPONSE_NORMALIZATION",
        {"InputTensor": ([1, 1, 1, 6], [-0.0, 0.0, -0.0, 0.0, -0.0, 0.0])},
        _RESPONSE | {"Beta": 3},
        "OutputTensor",
        [-0.0, 0.0, -0.0, 0.0, -0.0, 0.0],
    ),
    "zeros_over_an_infinite_power": Case(
        "LOCAL_RESPONSE_NORMALIZATION",
        {"InputTensor": ([1, 1, 1, 2], [-0.0, 0.0])},
        _RESPONSE | {"Bias": 2, "Beta": "Infinity"},
        "OutputTensor",
        [-0.0, 0.0],
    ),
    "elements_equal_to_their_mean": Case(
        "MEAN_VARIANCE_NORMALIZATION1",
        {"InputTensor": ([1, 1, 1, 3], [-1.0, -1.0, -1.0]), "ScaleTensor": ([1, 1, 1, 1], [-1.0])}
        | {"BiasTensor": ([1, 1, 1, 1], [0.0])},
        {"Axes": [3], "NormalizeVariance": True, "Epsilon": 1},
        "OutputTensor",
        [0.0, 0.0, 0.0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_zeros_have_the_right_signs(device, name):
    case = CASES[name]
    tensors = {key: {"DataType": "FLOAT32", "Sizes": sizes} for key, (sizes, _) in case.inputs.items()}
    plan = check({"type": case.operator, "desc": tensors | case.attributes})
    found = execute(device, plan, {key: np.array(row, np.float32).tobytes() for key, (_, row) in case.inputs.items()})
    answer = found[case.output].ravel()
    assert not answer.any()
    assert np.array_equal(np.signbit(answer), np.signbit(case.right))
