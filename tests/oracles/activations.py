"""Activations, computed literally by the documented formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.fields.member import NestedOperator
from tests.oracles.elements import (
    Number,
    add,
    each,
    greater,
    greatest,
    is_nan,
    is_special,
    least,
    mp,
    nearest_float,
    number,
    output_type,
    over,
    real,
    times,
    to_integer,
    wrap,
)
from tests.oracles.functions import function

Attributes = Mapping[str, float]

_ONE = Fraction(1)


def _expm1(x: Number) -> Number:
    """Returns ``exp(x) - 1``."""
    if is_special(x):
        return x if x == 0 else add(function("EXP", x), -_ONE)
    return mp.expm1(real(x))


def _log_of_exp_plus_1(x: Number) -> Number:
    if is_special(x):
        return x if not x <= 0 else (mp.ln(2) if x == 0 else 0.0)
    if x > 2000:
        return real(x) + mp.exp(-real(x))
    return mp.log1p(mp.exp(real(x)))


def _sigmoid(x: Number) -> Number:
    if is_special(x) or x > -2000:
        return over(_ONE, add(_ONE, function("EXP", -x)))
    return mp.exp(real(x))


def _elu(x: Number, a: Attributes) -> Number:
    return x if not greater(_ZERO, x) and not is_nan(x) else times(number(a["Alpha"]), _expm1(x))


def _scaled_elu(x: Number, a: Attributes) -> Number:
    alpha, gamma = number(a["Alpha"]), number(a["Gamma"])
    if not greater(_ZERO, x) and not is_nan(x):
        return times(gamma, x)
    return times(gamma, times(alpha, _expm1(x)))


def _celu(x: Number, a: Attributes) -> Number:
    alpha = number(a["Alpha"])
    low = least(_ZERO, times(alpha, _expm1(over(x, alpha))))
    high = greatest(_ZERO, x)
    return add(high, low) if not (is_special(high) and high == 0) else (low if not is_special(low) or low else 0.0)


def _hard_sigmoid(x: Number, a: Attributes) -> Number:
    return least(greatest(add(times(number(a["Alpha"]), x), number(a["Beta"])), _ZERO), _ONE)


def _gelu(x: Number, a: Attributes) -> Number:
    if is_special(x):
        return times(times(Fraction(1, 2), x), add(_ONE, function("ERF", x)))
    if x < -20:
        return -(mp.mpf(2) ** -300)
    return mp.mpf(0.5) * real(x) * (1 + mp.erf(real(x) / mp.sqrt(2)))


def _shrink(x: Number, a: Attributes) -> Number:
    bias, threshold = number(a["Bias"]), number(a["Threshold"])
    if greater(x, threshold):
        return add(x, -bias)
    return add(x, bias) if greater(-threshold, x) else _ZERO


def _softplus(x: Number, a: Attributes) -> Number:
    steepness = number(a["Steepness"])
    return over(_log_of_exp_plus_1(times(steepness, x)), steepness)


_ZERO = 0.0

FORMULAS: Mapping[str, Callable[[Number, Attributes], Number]] = {
    "ELU": _elu,
    "CELU": _celu,
    "HARD_SIGMOID": _hard_sigmoid,
    "HARD_SWISH": lambda x, a: times(x, _hard_sigmoid(x, a)),
    "IDENTITY": lambda x, a: x,
    "LEAKY_RELU": lambda x, a: times(number(a["Alpha"]), x) if greater(_ZERO, x) or is_nan(x) else x,
    "LINEAR": lambda x, a: add(times(number(a["Alpha"]), x), number(a["Beta"])),
    "PARAMETRIC_SOFTPLUS": lambda x, a: times(number(a["Alpha"]), _log_of_exp_plus_1(times(number(a["Beta"]), x))),
    "RELU": lambda x, a: greatest(_ZERO, x),
    "SCALED_ELU": _scaled_elu,
    "SCALED_TANH": lambda x, a: times(number(a["Alpha"]), function("TANH", times(number(a["Beta"]), x))),
    "SIGMOID": lambda x, a: _sigmoid(x),
    "SOFTPLUS": _softplus,
    "SOFTSIGN": lambda x, a: over(x, add(_ONE, abs(x))),
    "TANH": lambda x, a: function("TANH", x),
    "THRESHOLDED_RELU": lambda x, a: (
        x if greater(x, number(a["Alpha"])) or is_nan(x) or is_nan(number(a["Alpha"])) else _ZERO
    ),
    "SHRINK": _shrink,
    "GELU": _gelu,
    "SWISH": lambda x, a: times(x, _sigmoid(times(number(a["SigmoidInputScale"]), x))),
}


def activated(activation: NestedOperator | None, x: Number) -> Number:
    """Applies an activation that is fused into an operator other than GEMM, where RELU multiplies by 0."""
    if activation is None:
        return x
    if activation.name == "ACTIVATION_RELU":
        return FORMULAS["LEAKY_RELU"](x, {"Alpha": 0.0})
    return FORMULAS[activation.name.removeprefix("ACTIVATION_")](x, activation.values)


def _one(plan: Plan, x: Any) -> Any:
    name, dtype = plan.operator.name.removeprefix("ACTIVATION_"), output_type(plan)
    if name == "IDENTITY":
        return x
    if not np.issubdtype(type(x), np.integer):
        return nearest_float(FORMULAS[name](number(float(x)), vars(plan.attributes)), dtype)
    if name == "RELU":
        return max(x, dtype.type(0))
    return to_integer(_shrink(number(int(x)), vars(plan.attributes)), dtype)


def _parameterized(plan: Plan, x: Any, slope: Any) -> Any:
    dtype = output_type(plan)
    if np.issubdtype(dtype, np.integer):
        return x if x >= 0 else wrap(int(x) * int(slope), dtype)
    return x if x >= 0 else nearest_float(times(number(float(x)), number(float(slope))), dtype)


EXPECTED = {
    **{f"ACTIVATION_{name}": each(_one, "InputTensor") for name in FORMULAS},
    "ACTIVATION_PARAMETERIZED_RELU": each(_parameterized, "InputTensor", "SlopeTensor"),
    "ACTIVATION_RELU_GRAD": each(
        lambda plan, x, gradient: gradient if x > 0 else type(x)(0), "InputTensor", "InputGradientTensor"
    ),
}
