"""Formulas that NumPy computes in the tensors' own type: integers and bits, and floats that are rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array

from ...formulas import float64
from ...formulas.integers import WORD
from .code import AS_STORED

Function = Callable[..., Any]


def _is_nonzero(a: Any) -> bool:
    return isinstance(a, np.generic) and bool(a != 0)


def _least(a: Any, b: Any, out: Array | None = None) -> Any:
    """Float minimum: the first of equal values, and never a NaN if the other is a number."""
    found = np.fmin(a, b, out=out)
    if _is_nonzero(a) or _is_nonzero(b) or np.all(found):
        return found
    return _into(np.where((a <= b) | (b != b), a, b), out)  # equal zeros may differ in sign


def _greatest(a: Any, b: Any, out: Array | None = None) -> Any:
    if isinstance(a, np.generic) and a == 0 and not np.signbit(a):
        found = np.fmax(b, a, out=out)
        found += a  # -0 becomes 0
        return found
    found = np.fmax(a, b, out=out)
    if _is_nonzero(a) or _is_nonzero(b) or np.all(found):
        return found
    return _into(np.where((a >= b) | (b != b), a, b), out)


def _into(found: Any, out: Array | None) -> Any:
    if out is None:
        return found
    out[...] = found
    return out


def _mean(a: Array, b: Array) -> Any:
    half = a.dtype.type(0.5)
    total = (a + b) * half  # exact unless it is subnormal, and then the sum is exact
    return np.where(np.isinf(total), a * half + b * half, total)


def _remainder(a: Array, b: Array) -> Any:
    return np.where(np.isinf(b), b.dtype.type(np.nan), np.fmod(a, b))


def _floor_remainder(a: Array, b: Array) -> Any:
    return np.where(np.isinf(b), b.dtype.type(np.nan), np.mod(a, b))


def _sign(a: Array) -> Any:
    return (a > 0).astype(a.dtype) - (a < 0)


TRUTHS = frozenset(["equal", "less", "less_equal", "greater", "greater_equal", "not_", "and_", "or_", "xor"])
"""Primitives that return truth values."""

_AS_IN_FLOAT64 = """
    add subtract multiply divide negate absolute ceil floor truncate round_even round_away sqrt
    equal less less_equal greater greater_equal select
"""

FLOATS: Mapping[str, Function] = {
    **{name: float64.FUNCTIONS[name] for name in _AS_IN_FLOAT64.split()},
    "not_": np.logical_not,
    "sign": _sign,
    "minimum": _least,
    "maximum": _greatest,
    "mean": _mean,
    "remainder": _remainder,
    "floor_remainder": _floor_remainder,
    AS_STORED: lambda a: a,  # NumPy rounds each result to its operands' type
}


def _quotient(a: Array, b: Array) -> Any:
    """Quotient truncated toward zero."""
    if a.dtype.itemsize < 8:
        # A non-integer quotient of 32-bit integers is farther from any integer than float64's rounding error.
        found = a.astype(np.float64)
        found /= b.astype(np.float64)
        if a.dtype == np.int32:
            wraps = found == 2.0**31  # INT_MIN / -1
            if wraps.any():
                found[wraps] = -(2.0**31)
        return _by_zero(a, b, found.astype(np.uint32 if a.dtype == np.uint32 else np.int32).astype(a.dtype, copy=False))
    whole = np.floor_divide(a, b)
    if a.dtype.kind == "i":
        whole += (whole < 0) & (whole * b != a)
    return _by_zero(a, b, whole)


def _by_zero(a: Array, b: Array, found: Any) -> Any:
    """Returns quotients where the divisor is not zero; else all bits set, or 1 for negative numbers up to 32 bits."""
    if np.all(b):
        return found
    every = np.array(-1, np.int64).astype(b.dtype)
    return np.where(b == 0, every if a.dtype.itemsize == 8 else np.where(a < 0, b.dtype.type(1), every), found)


def _integer_remainder(a: Array, b: Array) -> Any:
    found = np.fmod(a, b)
    is_kept = a.dtype.kind == "i" and a.dtype.itemsize < 8
    return np.where(b == 0, a, found) if is_kept else _by_zero(a, b, found)


def _register(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type that integers of a type are computed in."""
    return dtype if dtype.itemsize >= 4 else np.dtype(f"{dtype.kind}4")


def _saturated(found: Array, dtype: np.dtype[Any]) -> Any:
    limits = np.iinfo(dtype)
    return found if found.dtype == dtype else np.clip(found, limits.min, limits.max).astype(dtype)


def _integer_mean(a: Array, b: Array) -> Any:
    register = _register(a.dtype)
    total = (a.astype(register) + b.astype(register)).astype(np.int64)
    return ((total + (total < 0)) >> 1).astype(a.dtype)


def _integer_absolute(a: Array) -> Any:
    return _saturated(np.abs(a.astype(_register(a.dtype))), a.dtype)


def _power(base: Array, exponent: Array) -> Any:
    """Power modulo 2**32, or 2**64, saturated; with negative exponents truncated."""
    base, exponent = np.broadcast_arrays(base, exponent)
    factor, rest = base.astype(_register(base.dtype)), np.maximum(exponent, 0).astype(np.uint64)
    result = np.ones_like(factor)
    while rest.any():
        result = np.where(rest & np.uint64(1), result * factor, result)
        factor, rest = factor * factor, rest >> np.uint64(1)
    found = _saturated(result, base.dtype)
    if exponent.dtype.kind == "u":
        return found
    one = base.dtype.type(1)
    truncated = np.where(base == one, one, base.dtype.type(0))
    if base.dtype.kind == "i":
        truncated = np.where(base == -one, np.where((exponent & 1) == 1, -one, one), truncated)
    return np.where(exponent < 0, truncated, found)


def _shift(function: Function) -> Function:
    def shifted(a: Array, b: Array) -> Any:
        width = a.dtype.itemsize * 8
        places = b % b.dtype.type(WORD)
        if width > WORD:
            places += np.where(b < WORD, b.dtype.type(0), b.dtype.type(WORD))
        return np.where(places < width, function(a, places), a.dtype.type(0))

    return shifted


INTEGERS: Mapping[str, Function] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _quotient,
    "remainder": _integer_remainder,
    "floor_remainder": lambda a, b: _by_zero(a, b, np.mod(a, b)),
    "mean": _integer_mean,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "power": _power,
    "negate": np.negative,
    "absolute": _integer_absolute,
    "sign": _sign,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "not_": np.logical_not,
    "and_": np.logical_and,
    "or_": np.logical_or,
    "xor": np.logical_xor,
    "select": np.where,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.bitwise_not,
    "bit_count": np.bitwise_count,
    "shift_left": _shift(np.left_shift),
    "shift_right": _shift(np.right_shift),
}

ON_BITS = frozenset(("bit_and", "bit_or", "bit_xor", "bit_not", "bit_count", "shift_left", "shift_right"))
"""Primitives that operate on the stored bits of any type."""


def evaluate(
    expression: Expression, tensors: Mapping[str, Array], functions: Mapping[str, Function], constant: Function
) -> Any:
    """Evaluates a resolved expression.

    Args:
        expression: expression over ``functions``.
        tensors: arrays by name.
        functions: the primitives.
        constant: converts a number to a constant.
    """
    match expression:
        case InputElement(name):
            return tensors[name]
        case Constant(value):
            return constant(value)
        case Operation(primitive, operands):
            return functions[primitive](*(evaluate(operand, tensors, functions, constant) for operand in operands))
    raise TypeError(expression)


def evaluate_into(
    expression: Expression,
    tensors: Mapping[str, Array],
    functions: Mapping[str, Function],
    constant: Function,
    target: Array,
) -> None:
    """Like ``evaluate``, writing to an array."""
    if isinstance(expression, Operation) and _writes(functions[expression.primitive]):
        operands = [evaluate(operand, tensors, functions, constant) for operand in expression.operands]
        function = functions[expression.primitive]
        if isinstance(function, np.ufunc):
            function(*operands, out=target, casting="unsafe")
        else:
            function(*operands, out=target)
        return
    target[...] = evaluate(expression, tensors, functions, constant)


def _writes(function: Function) -> bool:
    """Whether a function supports ``out``."""
    return isinstance(function, np.ufunc) or function in (_least, _greatest)


def is_one_pass(expression: Expression, functions: Mapping[str, Function]) -> bool:
    """Whether there are no intermediate results, so that tiles need not fit into a cache."""
    return isinstance(expression, InputElement) or (
        isinstance(expression, Operation)
        and isinstance(functions[expression.primitive], np.ufunc)
        and not any(isinstance(operand, Operation) for operand in expression.operands)
    )
