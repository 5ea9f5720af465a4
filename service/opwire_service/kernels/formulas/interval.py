"""Intervals around irrational numbers, with ends of arbitrary precision, based on mpmath.

This module is stateless: mpmath's contexts are stateful and not thread-safe, so it uses the functions beneath them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from mpmath import libmp

Mpf = tuple[int, Any, int, int]
"""An mpmath float: sign, mantissa, exponent and bit count."""

_GUARD = 20
"""Guard bits: how much more precisely mpmath's functions are evaluated than the claimed precision."""


class TooWide(ArithmeticError):
    """An interval is too wide to decide; retry with more bits."""


class Interval(NamedTuple):
    """All numbers between ``low`` and ``high``. The enclosed number is irrational, so it equals neither."""

    low: Mpf
    high: Mpf

    @property
    def sign(self) -> int:
        """1 or -1.

        Raises:
            TooWide: the interval contains zero.
        """
        below, above = libmp.mpf_sign(self.low), libmp.mpf_sign(self.high)
        if below != above or not below:
            raise TooWide
        return int(below)


def enclose(number: Fraction | Interval, bits: int) -> Interval:
    """Encloses a rational number in an interval; an interval is returned as it is."""
    if isinstance(number, Interval):
        return number
    numerator, denominator = number.numerator, number.denominator
    if not denominator & (denominator - 1):
        exact = libmp.from_man_exp(numerator, 1 - denominator.bit_length())
        return Interval(exact, exact)
    low, high = (libmp.from_rational(numerator, denominator, bits, way) for way in "fc")
    return Interval(low, high)


def _widened(low: Mpf, high: Mpf, bits: int) -> Interval:
    """Returns an interval whose ends are accurate to ``bits`` bits, widened by that error."""
    error = libmp.mpf_shift(libmp.fone, -bits)
    below = libmp.mpf_mul(libmp.mpf_abs(low), error, bits, "u")
    above = libmp.mpf_mul(libmp.mpf_abs(high), error, bits, "u")
    return Interval(libmp.mpf_sub(low, below, bits, "f"), libmp.mpf_add(high, above, bits, "c"))


def add(a: Interval, b: Interval, bits: int) -> Interval:
    return Interval(libmp.mpf_add(a.low, b.low, bits, "f"), libmp.mpf_add(a.high, b.high, bits, "c"))


def negate(a: Interval) -> Interval:
    return Interval(libmp.mpf_neg(a.high), libmp.mpf_neg(a.low))


def multiply(a: Interval, b: Interval, bits: int) -> Interval:
    return _of_corners(libmp.mpf_mul, a, b, bits)


def divide(a: Interval, b: Interval, bits: int) -> Interval:
    assert b.sign  # otherwise the corners do not bound the quotient
    return _of_corners(libmp.mpf_div, a, b, bits)


def _of_corners(operation: Callable[..., Mpf], a: Interval, b: Interval, bits: int) -> Interval:
    lows = [operation(x, y, bits, "f") for x in a for y in b]
    highs = [operation(x, y, bits, "c") for x in a for y in b]
    low, high = lows[0], highs[0]
    for x, y in zip(lows, highs, strict=True):
        low = x if libmp.mpf_lt(x, low) else low
        high = y if libmp.mpf_gt(y, high) else high
    return Interval(low, high)


def compare(a: Interval, b: Interval) -> int:
    """Returns -1 or 1.

    Raises:
        TooWide: the intervals overlap.
    """
    if libmp.mpf_lt(a.high, b.low):
        return -1
    if libmp.mpf_lt(b.high, a.low):
        return 1
    raise TooWide


def _exponent(x: Mpf) -> int:
    """Returns the exponent of a power of two greater than x, by at most a factor of two."""
    return int(x[2] + x[3])


def _expm1(x: Mpf, bits: int, way: str) -> Mpf:
    if _exponent(x) < -bits:
        return x
    wide = bits + max(0, -_exponent(x))
    found: Mpf = libmp.mpf_sub(libmp.mpf_exp(x, wide, "n"), libmp.fone, bits, way)
    return found


def _log(x: Mpf, bits: int, way: str) -> Mpf:
    found: Mpf
    if _exponent(x) == -1:  # mpmath 1.4 mistakes numbers near 1/4 for numbers near 1
        double = libmp.mpf_log(libmp.mpf_shift(x, 1), bits + _GUARD, "n")
        found = libmp.mpf_sub(double, libmp.mpf_ln2(bits + _GUARD, "n"), bits, way)
    else:
        found = libmp.mpf_log(x, bits, way)
    return found


def _log1p(x: Mpf, bits: int, way: str) -> Mpf:
    if _exponent(x) < -bits:
        return x
    return _log(libmp.mpf_add(x, libmp.fone), bits, way)  # the sum is exact, and the logarithm accurate


_RISING: Mapping[str, Any] = {
    "sqrt": libmp.mpf_sqrt,
    "exp": libmp.mpf_exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "asin": libmp.mpf_asin,
    "atan": libmp.mpf_atan,
    "sinh": libmp.mpf_sinh,
    "tanh": libmp.mpf_tanh,
    "asinh": libmp.mpf_asinh,
    "acosh": libmp.mpf_acosh,
    "atanh": libmp.mpf_atanh,
    "erf": libmp.mpf_erf,
}

_FALLING: Mapping[str, Any] = {"acos": libmp.mpf_acos, "erfc": libmp.mpf_erfc}

_LIMITS: Mapping[str, tuple[Mpf, Mpf]] = {
    "expm1": (libmp.fnone, libmp.finf),
    "tanh": (libmp.fnone, libmp.fone),
    "erf": (libmp.fnone, libmp.fone),
    "erfc": (libmp.fzero, libmp.ftwo),
}
"""Rational limits that functions approach but never reach; no finite precision would show that."""

_OTHERS: Mapping[str, Any] = {
    "sin": libmp.mpf_sin,
    "cos": libmp.mpf_cos,
    "tan": libmp.mpf_tan,
    "cosh": libmp.mpf_cosh,
}
"""Functions that are not monotonic; supported for single numbers only."""


def function(name: str, x: Interval, bits: int) -> Interval:
    """Applies a function to an interval on which it is defined throughout."""
    wide = bits + _GUARD + _lost(name, x)
    if name in _OTHERS:
        assert x.low == x.high
        value = _OTHERS[name](x.low, wide, "n")
        return _widened(value, value, bits)
    low, high = (x.low, x.high) if name in _RISING else (x.high, x.low)
    compute = _RISING.get(name) or _FALLING[name]
    first = compute(low, wide, "n")
    found = _widened(first, first if low == high else compute(high, wide, "n"), bits)
    return _within(found, *_LIMITS[name]) if name in _LIMITS else found


def _within(found: Interval, least: Mpf, most: Mpf) -> Interval:
    """Clips an interval to two limits."""
    low = least if libmp.mpf_lt(found.low, least) else found.low
    return Interval(low, most if libmp.mpf_gt(found.high, most) else found.high)


def _lost(name: str, x: Interval) -> int:
    """Returns how many bits mpmath's function loses near the argument where it is zero."""
    if name not in ("acos", "acosh"):
        return 0
    distance = libmp.mpf_sub(x.low, libmp.fone)
    return 0 if distance == libmp.fzero else max(0, -_exponent(distance))


def atan2(y: Interval, x: Interval, bits: int) -> Interval:
    """Returns the angle of a point with rational coordinates."""
    assert y.low == y.high
    assert x.low == x.high
    angle = libmp.mpf_atan2(y.low, x.low, bits + _GUARD, "n")
    return _widened(angle, angle, bits)


def power(base: Interval, exponent: Interval, bits: int) -> Interval:
    """Raises a positive base to a power."""
    # The product needs as many correct fractional bits, hence the logarithm more.
    wide = bits + max(0, _exponent(exponent.low), _exponent(exponent.high)) + 32
    product = multiply(function("log", base, wide), exponent, wide)
    wide = bits + max(0, _exponent(product.low), _exponent(product.high))
    return function("exp", product, bits)


def pi(bits: int) -> Interval:
    value = libmp.mpf_pi(bits + _GUARD, "n")
    return _widened(value, value, bits)


def whole(x: Mpf) -> int:
    """Truncates an end to an integer; ends beyond all integer types stay beyond them."""
    if _exponent(x) > 100:
        return -(1 << 100) if x[0] else 1 << 100
    value: Any = libmp.to_int(x)
    return int(value)
