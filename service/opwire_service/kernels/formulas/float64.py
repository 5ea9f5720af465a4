"""The formula primitives in float64, with NumPy: functions within 4 ULPs, exact operations exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array

from .erf import erf, erfc

Function = Callable[..., Any]


def _minimum(a: Array, b: Array) -> Array:
    return np.where((a <= b) | np.isnan(b), a, b)


def _maximum(a: Array, b: Array) -> Array:
    return np.where((a >= b) | np.isnan(b), a, b)


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, whole), x)


def _sin(x: Array) -> Array:
    """Computes the sine from the tangent of half the angle; NumPy vectorizes the tangent but not the sine."""
    t = np.tan(x * 0.5)
    sine: Array = (t + t) / (t * t + 1)
    return sine


def _power(x: Array, y: Array) -> Array:
    if np.size(y) == 1 and np.all(y == 0.5):  # NumPy uses the square root, which differs from C's pow
        return np.sqrt(np.where(x == -np.inf, np.inf, x)) + 0.0
    return np.power(x, y)


def _sign(x: Array) -> Array:
    return (x > 0).astype(np.float64) - (x < 0)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(np.isinf(b), np.nan, np.fmod(a, b))


def _floor_remainder(a: Array, b: Array) -> Array:
    return np.where(np.isinf(b), np.nan, np.mod(a, b))


FUNCTIONS: Mapping[str, Function] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "remainder": _remainder,
    "floor_remainder": _floor_remainder,
    "mean": lambda a, b: a * 0.5 + b * 0.5,
    "minimum": _minimum,
    "maximum": _maximum,
    "power": _power,
    "atan2": np.arctan2,
    "negate": np.negative,
    "absolute": np.abs,
    "sign": _sign,
    "ceil": np.ceil,
    "floor": np.floor,
    "truncate": np.trunc,
    "round_even": np.rint,
    "round_away": _round_away,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": _sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "erfc": erfc,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "select": np.where,
}
"""The primitives on real numbers; truth values are booleans."""


def evaluator(expression: Expression) -> Callable[[Mapping[str, Array]], Any]:
    """Returns a function that evaluates a resolved expression of float64 arrays by name, with broadcasting."""
    match expression:
        case InputElement(name):
            return itemgetter(name)
        case Constant(value):
            number = np.float64(value)
            return lambda tensors: number
        case Operation(primitive, operands):
            function, given = FUNCTIONS[primitive], [evaluator(operand) for operand in operands]
            return lambda tensors: function(*[operand(tensors) for operand in given])
    raise TypeError(expression)


def evaluate(expression: Expression, tensors: Mapping[str, Array]) -> Any:
    """Evaluates an expression once, see ``evaluator``."""
    return evaluator(expression)(tensors)
