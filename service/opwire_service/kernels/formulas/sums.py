"""Functions of an unevaluated sum of two floats, the second being the rounding residue of the first.

The residue matters where a function amplifies it: near its zeros, at the ends of its domain, and at large angles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .bounds import FUNCTION
from .float64 import FUNCTIONS

_NEAR_ONE = frozenset(("log", "acosh", "power"))
"""Functions computed from the distance to 1, as long as that is below one half."""

_STEPS = frozenset(("ceil", "floor", "truncate", "round_even", "round_away", "sign"))
"""Functions that change only at multiples of one half."""

_MOST_STEPS = 2.0**51
"""Below this, the residue is at most a quarter."""


def _angles(t: Any, r: Any) -> tuple[Any, Any]:
    """Returns sine and cosine; the error of each is below 4 times that of a function."""
    sin_t, cos_t, sin_r, cos_r = FUNCTIONS["sin"](t), np.cos(t), FUNCTIONS["sin"](r), np.cos(r)
    return sin_t * cos_r + cos_t * sin_r, cos_t * cos_r - sin_t * sin_r


def _sin(t: Any, r: Any) -> tuple[Any, Any]:
    return _angles(t, r)[0], 4 * FUNCTION


def _cos(t: Any, r: Any) -> tuple[Any, Any]:
    return _angles(t, r)[1], 4 * FUNCTION


def _tan(t: Any, r: Any) -> tuple[Any, Any]:
    sine, cosine = _angles(t, r)
    value, off = sine / cosine, 5 * FUNCTION
    return value, np.where(np.abs(cosine) > 2 * off, 2 * off * (1 + np.abs(value)) / np.abs(cosine), np.inf)


def _relative(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Wraps a function with the error of a few roundings and two function calls."""

    def with_error(t: Any, r: Any) -> tuple[Any, Any]:
        value = function(t, r)
        return value, 4 * FUNCTION * np.abs(value)

    return with_error


def _acosh(t: Any, r: Any) -> Any:
    h = (t - 1) + r
    return np.log1p(h + np.sqrt(h * (h + 2)))


def _acos(t: Any, r: Any) -> Any:
    return 2 * np.arctan2(np.sqrt((1 - t) - r), np.sqrt((1 + t) + r))


def _asin(t: Any, r: Any) -> Any:
    return np.arctan2(t, np.sqrt(((1 - t) - r) * ((1 + t) + r)))


def _atanh(t: Any, r: Any) -> Any:
    a = np.abs(t)
    return np.copysign(0.5 * np.log1p(2 * a / ((1 - a) - np.copysign(r, r * t))), t)


def _power(t: Any, r: Any, y: Any) -> tuple[Any, Any]:
    exponent = y * np.log1p((t - 1) + r)
    value = np.exp(exponent)
    return value, np.where(np.isinf(exponent), 0.0, 4 * FUNCTION * (1 + np.abs(exponent)) * value)


_FUNCTIONS: Mapping[str, Callable[..., tuple[Any, Any]]] = {
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "log": _relative(lambda t, r: np.log1p((t - 1) + r)),
    "acosh": _relative(_acosh),
    "acos": _relative(_acos),
    "asin": _relative(_asin),
    "atanh": _relative(_atanh),
    "power": _power,
}


def of_sum(primitive: str, t: Any, r: Any, *others: Any) -> tuple[Any, Any, Any] | None:
    """Returns values of a function, bounds on their errors, and a mask of where they are usable.

    Args:
        primitive: the function.
        t: the first part of its first operand.
        r: the second part; the values are usable only where it is nonzero.
        others: further operands, exact.

    Returns:
        None for functions that do not amplify errors.
    """
    if primitive in _STEPS:
        is_between = 2 * t == np.floor(2 * t)
        value = FUNCTIONS[primitive](np.where(is_between, t + np.copysign(0.25, r), t))
        return value, np.zeros(np.shape(value)), np.abs(t) < _MOST_STEPS
    if primitive not in _FUNCTIONS:
        return None
    value, error = _FUNCTIONS[primitive](t, r, *others)
    serves = np.abs(t - 1) < 0.5 if primitive in _NEAR_ONE else np.bool_(True)
    return value, np.where(np.isnan(value), 0.0, error), serves
