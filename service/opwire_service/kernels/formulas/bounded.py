"""Formulas in float64 with an error bound per element, for the few elements that a uniform bound leaves undecided.

Exact operations add nothing to the bound. This separates ties from values close to a tie, and the infinities and NaN
of the formula itself from those caused by the limited range of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array

from ..error_free import to_odd, two_product, two_sum
from . import float64
from .bounds import FUNCTION, UNIT
from .float64 import FUNCTIONS
from .slopes import COMPARISONS, DISTANCES, SLOPES, VALUE, X
from .sums import of_sum

_LEAST = 2.0**-1070
"""Margin for results that become subnormal."""

_BEYOND = 1e300
"""Error of an infinity produced by overflow. It is finite, so the value still compares as beyond any float64."""


class Bounded(NamedTuple):
    """Values with bounds on their absolute errors; a bound is infinite where none is known.

    Where ``rest`` is nonzero, the real value is exactly ``value + rest``.
    """

    value: Any
    error: Any
    rest: Any = 0.0


def evaluate(expression: Expression, tensors: Mapping[str, Array]) -> Bounded:
    """Evaluates a resolved expression of exact 1-dimensional float64 arrays; truth values are 0 and 1."""
    match expression:
        case InputElement(name):
            return Bounded(tensors[name], 0.0)
        case Constant(value):
            return Bounded(np.float64(value), 0.0)
        case Operation(primitive, operands):
            rule: Callable[..., Bounded] = _RULES.get(primitive, _function)
            found = [evaluate(operand, tensors) for operand in operands]
            bounded = _with_rest(primitive, rule(primitive, *found), found)
            return bounded if primitive in _MOVING else _told(primitive, bounded, found)
    raise TypeError(expression)


def settle(
    expression: Expression, tensors: Mapping[str, Array], rounded: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Returns the rounded elements of a resolved expression and a mask of those whose rounding is undecided."""
    (size,) = np.broadcast_shapes((1,), *(array.shape for array in tensors.values()))
    value, error, rest = (np.broadcast_to(each, size) for each in evaluate(expression, tensors))
    if rest.any() and rounded(value[:1]).dtype.kind == "f":
        value, error = to_odd(np.array(value), rest), np.where(rest != 0, 0.0, error)
    low, high = rounded(value - 2 * error), rounded(value + 2 * error)  # at least one ULP away
    differ = low.view(f"<u{low.itemsize}") != high.view(f"<u{high.itemsize}")
    return rounded(value), (differ & (error != 0)) | ~np.isfinite(error)


def covers(expression: Expression) -> bool:
    """Returns whether ``evaluate`` supports all operations of an expression; bitwise and logical ones it does not."""
    if not isinstance(expression, Operation):
        return True
    is_known = expression.primitive in _RULES or expression.primitive in SLOPES
    return is_known and all(map(covers, expression.operands))


def _told(primitive: str, result: Bounded, operands: list[Bounded]) -> Bounded:
    """Distinguishes genuine NaN and infinities from those caused by float64's range."""
    value, error, rest = result
    if np.all(np.isfinite(value)):
        return result
    of_finite = reduce(np.logical_and, (np.isfinite(each.value) for each in operands))
    is_exact = reduce(np.logical_and, map(_is_exact, operands))
    of_nan = reduce(np.logical_or, (np.isnan(each.value) & _is_exact(each) for each in operands))
    error = np.where(np.isnan(value) & ~of_finite, np.where(is_exact | of_nan, 0.0, np.inf), error)
    poles = {"divide": operands[-1].value == 0, "power": operands[0].value == 0}
    is_pole = poles.get(primitive, np.bool_(primitive in _POLES))
    return Bounded(value, np.where(np.isinf(value) & of_finite & ~is_pole, np.maximum(error, _BEYOND), error), rest)


def _with_rest(primitive: str, result: Bounded, operands: list[Bounded]) -> Bounded:
    """Refines the result of a function where the rounding residue of its operand is known."""
    first, *others = operands
    if not np.any(first.rest) or not all(np.all(_is_exact(each)) for each in others):
        return result
    found = of_sum(primitive, first.value, first.rest, *(each.value for each in others))
    if found is None:
        return result
    value, error, serves = found
    serves = serves & (np.asarray(first.rest) != 0)
    return Bounded(np.where(serves, value, result.value), np.where(serves, error, result.error))


def _is_exact(a: Bounded) -> Any:
    return np.asarray(a.error) == 0


def _is_infinite(a: Bounded) -> Any:
    """Returns where the real value is infinite."""
    return np.isinf(a.value) & _is_exact(a)


def _has_sign(a: Bounded) -> Any:
    """Returns where the real value has the sign of the computed one."""
    return _is_exact(a) | (np.abs(a.value) > a.error)


def _is_number(a: Bounded) -> Any:
    return np.isfinite(a.value) & np.isfinite(a.error)


def _rounding(value: Array, is_exact: Array) -> Array:
    return np.where(is_exact | ~np.isfinite(value), 0.0, np.abs(value) * UNIT + _LEAST)


def _sum(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    total, rest = two_sum(a.value, b.value if primitive == "add" else -b.value)
    is_sure = (_is_infinite(a) & _is_number(b)) | (_is_infinite(b) & _is_number(a))
    error = np.where(is_sure, 0.0, a.error + b.error + _rounding(total, rest == 0))
    return Bounded(total, error, np.where(_is_exact(a) & _is_exact(b) & np.isfinite(total), rest, 0.0))


def _product(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    product = a.value * b.value
    carried = 1.01 * (_carried(a.value, b.error) + _carried(b.value, a.error))
    is_exact: Any = np.False_
    if not np.all(carried):  # with an inherited error, an exact product gains nothing
        _, rest = two_product(a.value, b.value)
        is_exact = (rest == 0) & ((np.abs(product) > 1e-200) | (product == 0))
    is_sure = (_is_infinite(a) & _has_sign(b)) | (_is_infinite(b) & _has_sign(a))
    return Bounded(product, np.where(is_sure, 0.0, carried + _rounding(product, is_exact)))


def _carried(factor: Any, error: Any) -> Any:
    if np.ndim(error) == 0:
        return np.abs(factor) * error if error else 0.0
    return np.where(error == 0, 0.0, np.abs(factor) * error)


def _quotient(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    quotient = a.value / b.value
    back, rest = two_product(quotient, b.value)
    is_exact = (back == a.value) & (rest == 0)
    size = np.abs(b.value) - b.error
    carried = np.where(np.asarray(a.error + b.error) == 0, 0.0, (a.error + np.abs(quotient) * b.error) / size)
    carried = np.where((size <= 0) & (np.asarray(b.error) > 0), np.inf, carried)
    is_sure = (_is_infinite(a) & _has_sign(b)) | (_is_infinite(b) & _is_number(a) & _has_sign(a))
    return Bounded(quotient, np.where(is_sure, 0.0, 1.01 * carried + _rounding(quotient, is_exact)))


def _compare(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    error = np.asarray(a.error + b.error)
    undecided = ~(np.abs(a.value - b.value) > error) & (error > 0)
    return Bounded(FUNCTIONS[primitive](a.value, b.value), np.where(undecided, np.inf, 0.0))


def _select(primitive: str, condition: Bounded, yes: Bounded, no: Bounded) -> Bounded:
    error = np.where(condition.value, yes.error, no.error)
    rest = np.where(_is_exact(condition), np.where(condition.value, yes.rest, no.rest), 0.0)
    return Bounded(np.where(condition.value, yes.value, no.value), np.maximum(error, condition.error), rest)


def _extreme(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    value = FUNCTIONS[primitive](a.value, b.value)
    is_clear = np.abs(a.value - b.value) > a.error + b.error
    rest = np.where(is_clear, np.where(value == a.value, a.rest, b.rest), 0.0)
    return Bounded(value, np.maximum(a.error, b.error), rest)


def _same(primitive: str, a: Bounded) -> Bounded:
    value = FUNCTIONS[primitive](a.value)
    return Bounded(value, a.error, np.where(value == a.value, a.rest, -np.asarray(a.rest)))


def _step(primitive: str, a: Bounded) -> Bounded:
    """Functions with integer values."""
    reach = 2 * a.error  # at least one ULP
    low, high = FUNCTIONS[primitive](a.value - reach), FUNCTIONS[primitive](a.value + reach)
    value = FUNCTIONS[primitive](a.value)
    error = np.where((low == high) & np.isfinite(value), 0.0, np.maximum(high - value, value - low))
    return Bounded(value, np.where(_is_exact(a), 0.0, np.where(np.isinf(value), a.error, error)))


def _mean(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    return _product("multiply", _sum("add", a, b), Bounded(np.float64(0.5), 0.0))


def _remainder(primitive: str, a: Bounded, b: Bounded) -> Bounded:
    """Remainders of exact operands; they round only where the divisor is added."""
    value = FUNCTIONS[primitive](a.value, b.value)
    is_exact = value == FUNCTIONS["remainder"](a.value, b.value)
    return Bounded(value, _rounding(value, is_exact))


def _power(primitive: str, x: Bounded, y: Bounded) -> Bounded:
    value = FUNCTIONS[primitive](x.value, y.value)
    growth = np.abs(y.value) * x.error / np.abs(x.value)
    carried = np.where(growth > 0.01, np.inf, np.abs(value) * growth)
    error = np.abs(value) * FUNCTION + _LEAST + 2 * np.where(np.asarray(x.error) == 0, 0.0, carried)
    square = _product("multiply", x, x)
    is_square = y.value == 2
    is_special = (x.value == 0) | (x.value == 1) | ~np.isfinite(x.value) | ~np.isfinite(y.value)
    error = np.where((y.value == 0) | (is_special & _is_exact(x)), 0.0, np.where(y.value == 1, x.error, error))
    # A clear overflow, whatever the error.
    error = np.where(np.isinf(value) & np.isfinite(x.value) & (growth <= 0.01), 0.0, error)
    is_known = _is_exact(y)
    is_square &= is_known
    error = np.where(is_known, error, _of_inexact_exponent(x, y, value, growth))
    return Bounded(np.where(is_square, square.value, value), np.where(is_square, square.error, error))


def _of_inexact_exponent(x: Bounded, y: Bounded, value: Any, growth: Any) -> Any:
    """Returns the error of powers of positive numbers; for others, even whether the exponent is whole is undecided."""
    growth = growth + np.abs(np.log(np.abs(x.value))) * y.error
    is_small = (x.value - x.error > 0) & np.isfinite(x.value) & np.isfinite(y.value) & (growth <= 0.01)
    return np.where(is_small, np.abs(value) * (FUNCTION + 2 * growth) + _LEAST, np.inf)


def _plane(primitive: str, y: Bounded, x: Bounded) -> Bounded:
    value = FUNCTIONS[primitive](y.value, x.value)
    return Bounded(value, np.abs(value) * FUNCTION + _LEAST)


_POLES = frozenset(("log", "log1p", "atanh"))
"""Functions that are infinite at a finite argument."""

_AT_ZERO = frozenset(SLOPES) - {"acos", "acosh"}
_AT_ONE = frozenset(("log", "acos", "acosh"))
_AT_INFINITY = frozenset(SLOPES) - {"atan"}
"""Functions whose values at that argument are exact in float64."""


def _function(primitive: str, x: Bounded) -> Bounded:
    value = FUNCTIONS[primitive](x.value)
    own = np.abs(value) * FUNCTION + _LEAST
    if primitive == "erfc":
        own = own + np.abs(value) * 8 * UNIT * x.value * x.value
    for functions, is_there in ((_AT_ZERO, x.value == 0), (_AT_ONE, x.value == 1), (_AT_INFINITY, np.isinf(x.value))):
        if primitive in functions:
            own = np.where(is_there, 0.0, own)
    if np.ndim(x.error) == 0 and x.error == 0:
        return Bounded(value, np.where(np.isfinite(value), own, 0.0))
    there = {X.name: x.value, VALUE.name: value}
    grown = 2 * np.abs(float64.evaluate(SLOPES[primitive], there)) * x.error
    if primitive == "tan":
        grown = np.where(x.error * np.abs(value) > 0.01, np.inf, grown)
    distance = float64.evaluate(DISTANCES[primitive], there) if primitive in DISTANCES else np.inf
    grown = np.where(np.asarray(x.error) * 8 >= distance, np.inf, grown)
    grown = np.where(np.asarray(x.error) == 0, 0.0, grown)
    return Bounded(value, np.where(np.isfinite(value) | (grown == np.inf), own + grown, 0.0))


_RULES: Mapping[str, Callable[..., Bounded]] = {
    "add": _sum,
    "subtract": _sum,
    "multiply": _product,
    "divide": _quotient,
    "select": _select,
    "mean": _mean,
    "power": _power,
    "atan2": _plane,
    **dict.fromkeys(("remainder", "floor_remainder"), _remainder),
    **dict.fromkeys(("minimum", "maximum"), _extreme),
    **dict.fromkeys(("absolute", "negate"), _same),
    **dict.fromkeys(("ceil", "floor", "truncate", "round_even", "round_away", "sign"), _step),
    **dict.fromkeys(COMPARISONS, _compare),
}

_MOVING = frozenset(name for name, rule in _RULES.items() if rule in (_select, _extreme, _same, _compare))
"""Primitives that only move or compare values, without rounding."""
