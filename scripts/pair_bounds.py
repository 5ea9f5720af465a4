"""Bounds the errors of operations in pairs of FLOAT32, as ``pairs.cu`` performs them, on many intervals at once.

Every operation adds the errors it inherits, what it rounds, and what it leaves out. A polynomial adds its distance from
the function, which ``scripts/coefficients.py`` proves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opwire.tensor import Array
from opwire_service.kernels.cuda.pair_source import parts
from opwire_service.kernels.formulas import coefficients as table
from opwire_service.kernels.formulas.writer import Number

U = 2.0**-24
"""Relative error of a rounded float."""

INVERSE, ROOT = 2.0**-23, 2.0**-22.9
"""Relative errors of the approximate inverses."""

TINY = 2.0**-148
"""Bound on the absolute error of subnormal parts."""

_WIDER = 2.0**-48
"""Exceeds the relative error of a float64 operation of this proof, many times."""


@dataclass(frozen=True)
class Range:
    """What is known of a number, for each piece.

    Attributes:
        low, high: the interval of the number without errors.
        error: bound on the error.
        rest: bound on the magnitude of the low part; 0 for a float.
        near: how far a number rounded to this integer may be from it; None for others.
        total: whether it stands for 1 plus a number as computed, whose rounding is corrected later.
    """

    low: Array
    high: Array
    error: Array
    rest: Array
    near: Array | None = None
    total: Array | None = None
    rebased: Array | None = None

    @property
    def most(self) -> Array:
        """The greatest magnitude of the number as computed."""
        return np.maximum(np.abs(self.low), np.abs(self.high)) * (1 + _WIDER) + self.error

    @property
    def least(self) -> Array:
        """The least magnitude of the number as computed."""
        inside = (self.low <= 0) & (self.high >= 0)
        least = np.minimum(np.abs(self.low), np.abs(self.high)) * (1 - _WIDER) - self.error
        return np.where(inside, 0, np.maximum(least, 0))

    @property
    def is_single(self) -> bool:
        return not np.any(self.rest)


def _interval(*ends: Array) -> tuple[Array, Array]:
    """Returns the interval of numbers, a little wider."""
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    return low - np.abs(low) * _WIDER, high + np.abs(high) * _WIDER


def _range(ends: tuple[Array, Array], error: Any, rest: Any) -> Range:
    zero = np.zeros_like(ends[0])
    return Range(*ends, zero + np.asarray(error) * (1 + _WIDER), zero + np.asarray(rest) * (1 + _WIDER))


@dataclass(frozen=True)
class Truth:
    """A condition, and where it holds."""

    yes: Array


@dataclass(frozen=True)
class Powers:
    """Integers of pieces, as exponents or turns."""

    low: Array
    high: Array

    def __neg__(self) -> Powers:
        return Powers(-self.high, -self.low)


WITHIN: Mapping[tuple[float, ...], float] = {
    (table.expanded(polynomial) if isinstance(polynomial, table.Stepped) else polynomial): table.WITHIN[name]
    for name in table.WITHIN
    if isinstance(polynomial := getattr(table, name), tuple)
}
"""How accurate the polynomials and the numerators of quotients are, as bits."""


class Bounds:
    """Implementation of ``formulas.writer.Writer`` with the bounds of ``pairs.cu``, for many pieces at once."""

    has_sixteenths = False
    is_narrow = True

    def __init__(self, pieces: int, sides: int) -> None:
        """``sides``: bits that say how the conditions turn out, in order, that hold for parts of a piece only."""
        self._zero = np.zeros(pieces)
        self._sides = sides
        self.asked = 0

    def _side(self) -> int:
        self.asked += 1
        side, self._sides = self._sides & 1, self._sides >> 1
        return side

    def given(self, low: Array, high: Array) -> Range:
        return Range(low, high, self._zero, self._zero)

    def number(self, number: float) -> Range:
        """A constant stands for a real number of which it is the nearest float64."""
        high, low = parts(number)
        left = abs(number - high - low) + (abs(number) * 2.0**-53 if low else 0)
        whole = self._zero + number
        return _range((whole, whole), left if np.isfinite(number) else 0, abs(low))

    def add(self, a: Range, b: Range) -> Range:
        ends = _interval(a.low + b.low, a.high + b.high)
        total = np.maximum(np.abs(ends[0]), np.abs(ends[1])) + a.error + b.error
        if a.total is not None:  # the number as computed, less one
            return replace(_range(ends, 2 * U * U * total, U * total), rebased=a.total)
        lost = np.zeros_like(total)
        if a.is_single != b.is_single:
            lost = 2 * U * U * total
        elif not a.is_single:
            low = a.rest + b.rest
            lost = U * low + U * (low + U * total)
        if a.is_single and (a.low == 1).all() and (a.high == 1).all():  # only where the error is corrected
            lost = np.minimum(2 * U * U * total, U * (np.minimum(U * total, b.most) + U * b.most))
            return replace(_range(ends, 0, U * total), total=lost)
        return _range(ends, a.error + b.error + lost, U * total)

    def subtract(self, a: Range, b: Range) -> Range:
        if b.rebased is not None:  # what rounding 1 plus a number lost
            return _range((-b.rebased, b.rebased), a.error + 8 * U * b.rebased + 8 * U * U * a.most, U * b.rebased)
        return self.add(a, self.negate(b))

    def _loose(self, a: Range, b: Range) -> tuple[tuple[Array, Array], Array, Array]:
        """Returns the interval of a product, its error, and a bound on its low part."""
        ends = _interval(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        inherited = a.most * b.error + b.most * a.error
        if _is_power(a) or _is_power(b):
            return ends, inherited + TINY, a.most * b.rest + b.most * a.rest
        high_a, high_b = a.most + a.rest, b.most + b.rest
        rest, lost = U * high_a * high_b, a.rest * b.rest
        for part in (high_a * b.rest, high_b * a.rest):
            rest = rest + part
            lost = lost + np.where(part > 0, U * rest, 0)
        return ends, inherited + lost + 3 * TINY, rest * (1 + 2 * U)

    def multiply(self, a: Range, b: Range) -> Range:
        ends, error, rest = self._loose(a, b)
        total = np.maximum(np.abs(ends[0]), np.abs(ends[1])) + error
        return _range(ends, error, np.minimum(rest, U * total * (1 + 4 * U)))

    def fused(self, a: Range, b: Range, c: Range) -> Range:
        product, error, rest = self._loose(a, b)
        found = self._added(product, error, rest, c, is_tidy=_is_power(a) or _is_power(b))
        for k, scale in ((c, 1.0), (a, b.most)):  # the rest of a number less the nearest integer
            if k.near is not None:
                reach = (0.5 + k.near) * scale
                found = replace(found, low=np.maximum(found.low, -reach), high=np.minimum(found.high, reach))
        return found

    multiply_add = fused

    def _added(
        self,
        product: tuple[Array, Array],
        error: Array,
        rest: Array,
        c: Range,
        *,
        is_loose: bool = False,
        is_tidy: bool = False,
    ) -> Range:
        ends = _interval(product[0] + c.low, product[1] + c.high)
        total = np.maximum(np.abs(ends[0]), np.abs(ends[1])) + error + c.error + rest + c.rest
        low = rest + c.rest
        lost = np.where(low > 0, (0 if c.is_single else U * low) + U * (low + U * total) + TINY, 0)
        if is_tidy and c.is_single:
            lost = np.minimum(lost, 2 * U * U * total + TINY)
        after = low * (1 + U) + U * total
        return _range(ends, error + c.error + lost, after * (1 + U) if is_loose else U * total * (1 + 4 * U))

    def horner(self, coefficients: Sequence[float], x: Range) -> Range:
        singles = table.SINGLES.get(tuple(coefficients), 0)
        first, *rest = coefficients
        result = self._single(first) if singles else self.number(first)
        for coefficient in rest[: max(singles - 1, 0)]:
            result = self._single_step(result, x, self._single(coefficient))
        for coefficient in rest[max(singles - 1, 0) :]:
            added = self.number(coefficient)
            if singles:
                product, error, low = self._loose(result, x)
                most = np.maximum(np.abs(product[0]), np.abs(product[1])) + error + low
                assert (most <= added.least - added.rest).all(), "terms do not rise"
                result = self._added(product, error, low, added, is_loose=True)
            elif first == 1 and result.is_single:
                result = self.add(x, added)
            else:
                product, error, low = self._loose(result, x)
                result = self._added(product, error, low, added, is_loose=True)
        total = result.most + result.rest
        approximation = result.most * 2.0 ** -WITHIN.get(tuple(coefficients), 1000.0)
        return replace(result, error=result.error + approximation, rest=U * total * (1 + 4 * U))

    def _single(self, number: float) -> Range:
        whole = self._zero + number
        return _range((whole, whole), abs(number - parts(number)[0]), 0)

    def _single_step(self, value: Range, x: Range, added: Range) -> Range:
        """The low part of ``x`` is left out."""
        ends = _interval(value.low * x.low, value.low * x.high, value.high * x.low, value.high * x.high)
        ends = _interval(ends[0] + added.low, ends[1] + added.high)
        error = value.error * (x.most + x.rest) + value.most * (x.error + x.rest) + added.error
        error = error + U * (np.maximum(np.abs(ends[0]), np.abs(ends[1])) + error) + TINY
        return _range(ends, error, 0)

    def ratio(self, a: Range, b: Range) -> Range:
        least = b.least
        assert (least > 2.0**-100).all(), "a divisor may be too small"
        ends = _interval(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high)
        most = (a.most + a.rest) / (least - b.rest)  # of the quotient
        off = most * (INVERSE + 2 * U)  # of the first quotient from that of the high parts
        rest = off + a.rest / least
        rounded = U * (off + rest)
        rest = rest + b.rest / least * (most + off)
        rounded = rounded + U * rest
        corrected = rest * (INVERSE + 3 * U + 2 * b.rest / least)
        inherited = (a.error + most * b.error) / (least - b.error)
        return _range(ends, inherited + (rounded + corrected) * (1 + 8 * U) + 2 * TINY, U * most * (1 + 8 * U))

    divide = ratio

    def root(self, x: Range) -> Range:
        least = x.least
        assert (least > 2.0**-100).all(), "a radicand may be too small"
        ends = _interval(np.sqrt(np.maximum(x.low, 0)), np.sqrt(x.high))
        most, smallest = np.sqrt(x.most + x.rest), np.sqrt(least)
        off = ROOT + U * (1 + ROOT)  # relative, of the first root
        rest = 2 * off + off**2 + x.rest / least  # over the radicand, relative
        rounded = U * (2 * off + off**2) + U * rest
        lost = most * (rounded / 2 + rest / 2 * (ROOT + 3 * U + off) + rest**2 / 8 * (1 + rest)) + TINY
        inherited = x.error / (smallest + np.sqrt(np.maximum(x.low, 0)))
        return _range(ends, inherited * (1 + 2 * rest) + lost, U * most * (1 + 8 * U))

    def negate(self, a: Range) -> Range:
        return replace(a, low=-a.high, high=-a.low)

    def absolute(self, a: Range) -> Range:
        low = np.where(a.low >= 0, a.low, np.where(a.high <= 0, -a.high, 0))
        return replace(a, low=low, high=np.maximum(np.abs(a.low), np.abs(a.high)))

    def sign_of(self, size: Range, sign: Range) -> Range:
        assert (sign.low >= 0).all(), "odd functions are checked for positive arguments"
        return size

    def compare(self, how: str, a: Range, b: Range) -> Truth:
        if how in (">", ">="):
            return self.compare("<" if how == ">" else "<=", b, a)
        error = a.error + b.error
        return self._decided(a.high + error < b.low, a.low - error > b.high)

    def _decided(self, yes: Array, no: Array) -> Truth:
        if (yes | no).all():
            return Truth(yes)
        return Truth(yes | ~no if self._side() else yes)

    def is_usual(self, a: Range) -> Truth:
        return Truth(self._zero == 0)

    def of_positive(self, x: Range, value: Range) -> Range:
        return value

    def not_(self, a: Truth) -> Truth:
        return Truth(~a.yes)

    def choose(self, condition: Truth, yes: Range, no: Range) -> Range:
        return Range(*(np.where(condition.yes, getattr(yes, each), getattr(no, each)) for each in _FIELDS))

    def limited(self, x: Range, most: float) -> Range:
        return replace(x, low=np.clip(x.low, -most, most), high=np.clip(x.high, -most, most))

    def at_most(self, x: Range, most: float) -> Range:
        return replace(x, low=np.minimum(x.low, most), high=np.minimum(x.high, most))

    def unless_negative(self, a: Range) -> Range:
        is_zero = a.high <= 0
        parts_of = (np.where(is_zero, 0, each) for each in (a.error, a.rest))
        return Range(np.maximum(a.low, 0), np.maximum(a.high, 0), *parts_of)

    def nearest_product(self, a: Range, b: Range) -> tuple[Range, Powers]:
        """Rounding the product of the high parts may miss the nearest integer by the product's error."""
        ends, error, rest = self._loose(a, b)
        off = error + rest + 2.0**-40
        low, high = np.round(ends[0] - off), np.round(ends[1] + off)
        assert (high - low <= 1).all(), "pieces are too large"
        assert (off <= 2.0**-15).all(), "an integer is too far for the polynomials"
        k = high if (low < high).any() and self._side() else low
        return replace(self.given(k, k), near=off), Powers(k, k)

    def exponent_added(self, a: Range, exponent: Powers) -> Range:
        assert (exponent.high <= 127).all(), "a power of two is infinite"
        low, high = (np.exp2(np.maximum(each, -127)) for each in (exponent.low, exponent.high))  # if less, rejected
        ends = np.minimum(a.low * low, a.low * high), np.maximum(a.high * low, a.high * high)
        return Range(*ends, a.error * high + 2 * TINY, a.rest * high)

    def exponent_taken(self, a: Range, exponent: Powers) -> Range:
        return self.exponent_added(a, -exponent)

    def two_to_sixteenths(self, sixteenths: Number) -> Range:
        raise NotImplementedError("without has_sixteenths nobody asks")

    def split(self, x: Range) -> tuple[Range, Range]:
        low, high = map(_exponent, (x.low, x.high))
        exponent = high if (low < high).any() and self._side() else low
        scale = np.exp2(-exponent)
        fraction = _interval(x.low * scale - 1, x.high * scale - 1)
        fraction = np.maximum(fraction[0], _LOWEST - 1), np.minimum(fraction[1], 2 * _LOWEST - 1)
        return _range(fraction, x.error * scale, U * np.maximum(*map(np.abs, fraction))), self.given(exponent, exponent)

    def of_odd(self, number: Number, odd: Range, even: Range) -> Range:
        return odd if number else even

    def sign_changed(self, a: Range, turns: Number) -> Range:
        return a


_FIELDS = ("low", "high", "error", "rest")

_LOWEST = float(np.uint32(0x3F3504F4).view(np.float32))
"""The least significand that ``split`` returns."""


def _exponent(x: Array) -> Array:
    significand, exponent = np.frexp(x)
    return exponent - (significand < _LOWEST) + 0.0


def _is_power(a: Range) -> bool:
    return bool(a.is_single and (a.low == a.high).all() and (np.abs(np.frexp(a.low)[0]) == 0.5).all())
