"""Activations of single numbers by their documented formulas, with 60 digits; infinities and NaN as plain floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mpmath import mp, mpf

from opwire.fields.member import NestedOperator

DIGITS = 60

Formula = Callable[[Any, Mapping[str, Any]], Any]


def _sigmoid(x: Any, a: Mapping[str, Any]) -> Any:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: Any, a: Mapping[str, Any]) -> Any:
    steepness = a["Steepness"]
    return mp.log1p(mp.exp(steepness * x)) / steepness


def _celu(x: Any, a: Mapping[str, Any]) -> Any:
    alpha = a["Alpha"]
    return max(0, x) + min(0, alpha * mp.expm1(x / alpha))


def _gelu(x: Any, a: Mapping[str, Any]) -> Any:
    # erfc where 1 + erf would cancel
    return x / 2 * mp.erfc(-x / mp.sqrt(2))


def _hard_sigmoid(x: Any, a: Mapping[str, Any]) -> Any:
    return min(max(a["Alpha"] * x + a["Beta"], 0), 1)


def _shrink(x: Any, a: Mapping[str, Any]) -> Any:
    if x > a["Threshold"]:
        return x - a["Bias"]
    return x + a["Bias"] if x < -a["Threshold"] else mpf(0)


FORMULAS: dict[str, Formula] = {
    "ACTIVATION_CELU": _celu,
    "ACTIVATION_ELU": lambda x, a: x if x >= 0 else a["Alpha"] * mp.expm1(x),
    "ACTIVATION_GELU": _gelu,
    "ACTIVATION_HARD_SIGMOID": _hard_sigmoid,
    "ACTIVATION_HARD_SWISH": lambda x, a: x * _hard_sigmoid(x, a),
    "ACTIVATION_IDENTITY": lambda x, a: x,
    "ACTIVATION_LEAKY_RELU": lambda x, a: x if x >= 0 else a["Alpha"] * x,
    "ACTIVATION_LINEAR": lambda x, a: a["Alpha"] * x + a["Beta"],
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda x, a: a["Alpha"] * mp.log1p(mp.exp(a["Beta"] * x)),
    "ACTIVATION_RELU": lambda x, a: max(x, 0),
    "ACTIVATION_SCALED_ELU": lambda x, a: a["Gamma"] * (x if x > 0 else a["Alpha"] * mp.expm1(x)),
    "ACTIVATION_SCALED_TANH": lambda x, a: a["Alpha"] * mp.tanh(a["Beta"] * x),
    "ACTIVATION_SHRINK": _shrink,
    "ACTIVATION_SIGMOID": _sigmoid,
    "ACTIVATION_SOFTPLUS": _softplus,
    "ACTIVATION_SOFTSIGN": lambda x, a: x / (1 + abs(x)),
    "ACTIVATION_SWISH": lambda x, a: x / (1 + mp.exp(-a["SigmoidInputScale"] * x)),
    "ACTIVATION_TANH": lambda x, a: mp.tanh(x),
    "ACTIVATION_THRESHOLDED_RELU": lambda x, a: x if x > a["Alpha"] else mpf(0),
    "ELEMENT_WISE_CLIP": lambda x, a: max(a["Min"], min(x, a["Max"])),
}


FAR = 2000
"""Beyond 2 to this power, a number overflows or underflows every format."""


def activate(activation: NestedOperator, number: float) -> Any:
    """Applies an activation to a finite number; returns None if a parameter is not finite and any result will do."""
    values = {k: v for k, v in activation.values.items() if isinstance(v, float)}
    if activation.values.get("ScaleBias") is not None or not all(map(math.isfinite, values.values())):
        return None
    with mp.workdps(DIGITS):
        result = mpf(FORMULAS[activation.name](mpf(number), {k: mpf(v) for k, v in values.items()}))
        if result and abs(mp.mag(result)) > FAR:
            return mp.sign(result) * (mp.inf if mp.mag(result) > 0 else mpf(2) ** -FAR)
        return result
