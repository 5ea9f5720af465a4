"""What functions do to the error of their operand: their slopes, and where their domains end."""

from __future__ import annotations

from collections.abc import Mapping

from opwire.formulas import Constant, Expression, InputElement, absolute, call, sqrt

X, VALUE = InputElement("x"), InputElement("value")
"""The operand, and the value of the function there."""

_ONE = Constant(1)
_OF_ERF = call("exp")(-X * X) * 1.2
_INSIDE, _OUTSIDE = _ONE - X * X, X * X - 1

SLOPES: Mapping[str, Expression] = {
    "sqrt": Constant(0.5) / VALUE,
    "exp": VALUE,
    "expm1": VALUE + 1,
    "log": _ONE / X,
    "log1p": _ONE / (X + 1),
    "sin": _ONE,
    "cos": _ONE,
    "tan": VALUE * VALUE + 1,
    "asin": _ONE / sqrt(_INSIDE),
    "acos": _ONE / sqrt(_INSIDE),
    "atan": _ONE / (X * X + 1),
    "sinh": call("cosh")(X),
    "cosh": absolute(call("sinh")(X)) + 1e-9,
    "tanh": _ONE - VALUE * VALUE + 1e-15,
    "asinh": _ONE / sqrt(X * X + 1),
    "acosh": _ONE / sqrt(_OUTSIDE),
    "atanh": _ONE / _INSIDE,
    "erf": _OF_ERF,
    "erfc": _OF_ERF,
}
"""Bounds on the magnitude of derivatives."""

_TO_ONE = absolute(_ONE - absolute(X))

DISTANCES: Mapping[str, Expression] = {
    **dict.fromkeys(("log", "sqrt"), absolute(X)),
    "log1p": absolute(X + 1),
    "acosh": absolute(X - 1),
    **dict.fromkeys(("asin", "acos", "atanh"), _TO_ONE),
}
"""Distances of the operand from the end of the domain, where slopes change fast."""

LEVEL = ("sqrt", "tanh", "erf", "asinh", "atan")
"""Functions that never amplify a relative error."""

COMPARISONS: Mapping[str, str] = {"equal": "==", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
"""Comparisons, and their symbols in C and LLVM."""
