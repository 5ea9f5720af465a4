"""Exact sums of a group's elements, squares and products, and the statistics derived from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opwire.tensor import Array

from ..exact import FloatFormat, integer_sum
from .reals import NAN, ZERO, Real, divide, real


@dataclass(frozen=True)
class Moments:
    """The sums of a group of elements.

    Attributes:
        count: number of elements.
        total: sum of the elements.
        squares: sum of their squares.
    """

    count: int
    total: Real
    squares: Real

    @property
    def mean(self) -> Real:
        return divide(self.total, Fraction(self.count))

    def spread(self, about: Real) -> Real:
        """Returns the mean squared deviation from ``about``, the mean or 0; NaN if that is not finite."""
        if not isinstance(about, Fraction) or not isinstance(self.total, Fraction):
            return divide(self.squares, Fraction(self.count)) if about == 0 else NAN
        assert isinstance(self.squares, Fraction)
        return (self.squares - 2 * about * self.total) / self.count + about**2


def moments(chunks: Iterable[Array], of: FloatFormat) -> Moments:
    """Returns the moments of a group."""
    count, total, squares, special, special_squares = 0, 0, 0, 0.0, 0.0
    for values in chunks:
        count += values.size
        finite = np.isfinite(values)
        if not finite.all():
            for value in np.unique(values[~finite]).tolist():
                special += value
                special_squares += value * value
        elif not special:
            integers, shifts = of.parts(values)
            total += integer_sum(integers, shifts)
            squares += integer_sum(integers**2, 2 * shifts)
    if special:
        return Moments(count, real(special), real(special_squares))
    unit = Fraction(2) ** of.unit
    return Moments(count, total * unit, squares * unit**2)


def sum_of_products(pairs: Iterable[tuple[Array, Array]], of: FloatFormat) -> Real:
    """Returns the sum of the elementwise products of two groups."""
    total, special = 0, 0.0
    for left, right in pairs:
        if np.isfinite(left).all() and np.isfinite(right).all():
            (a, shift_a), (b, shift_b) = of.parts(left), of.parts(right)
            total += integer_sum(a * b, shift_a + shift_b)
        else:
            with np.errstate(invalid="ignore"):
                products = left.astype(np.float64) * right.astype(np.float64)
            for value in np.unique(products[~np.isfinite(products)]).tolist():
                special += value
    return real(special) if special else total * (Fraction(2) ** of.unit) ** 2 if total else ZERO
