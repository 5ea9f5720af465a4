"""Proves how far the polynomials and quotients of ``kernels.formulas.coefficients`` are from their functions.

Run it from the root of the repository: ``python -m scripts.coefficients``. It fails if a bound does not hold.

A range is cut into pieces until the bound is proven on each: the difference of the polynomial and the function, times a
common denominator, is expanded at the middle in interval arithmetic, and the magnitudes of its terms are summed.
Functions are power series at 0, shifted to the middle, except the tail of the normal distribution, which a differential
equation expands. Rounding errors are not part of this: the bounds in ``quick`` add them, and tests sample those.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import comb, factorial, inf
from typing import Any

from mpmath import iv, mpf

from opwire_service.kernels.formulas import coefficients as table

PRECISION = 400
"""Bits of the interval arithmetic."""

LEAST_CUTS, MOST_CUTS = 3, 12
"""Least and greatest number of times that a range is halved."""

Interval = Any
Series = list[Interval]
"""Coefficients, lowest power first."""

Local = Callable[[Interval, Interval], tuple[Series, Interval]]
"""Expands a function at a point: returns coefficients, and a bound on what they lack up to a distance."""


@dataclass(frozen=True)
class Claim:
    """An approximation, as a quotient of polynomials, of a quotient of functions.

    Attributes:
        approximation: the polynomials, lowest power first.
        function: what they approximate.
        low, high: the range.
    """

    approximation: tuple[Series, Series]
    function: tuple[Local, Local]
    low: float
    high: float

    def holds(self, bits: float) -> bool:
        """Returns whether the relative error is at most 2**-bits, as far as ``MOST_CUTS`` show."""
        iv.prec = PRECISION
        left = [(iv.mpf(self.low), iv.mpf(self.high), 0)]
        while left:
            low, high, cuts = left.pop()
            middle = (low + high) / 2
            if cuts >= LEAST_CUTS and self._piece(middle, (high - low) / 2) <= 2.0**-bits:
                continue
            if cuts == MOST_CUTS:
                return False
            left += [(low, middle, cuts + 1), (middle, high, cuts + 1)]
        return True

    def _piece(self, middle: Interval, radius: Interval) -> Any:
        """Returns a bound on the relative error of a piece."""
        (f, f_rest), (g, g_rest) = (each(middle, radius) for each in self.function)
        p, q = (_shifted(each, middle) for each in self.approximation)
        difference = _sum(_product(p, g), [-each for each in _product(q, f)])
        rest = _magnitude(p, radius) * g_rest + _magnitude(q, radius) * f_rest
        least = (_least(f, radius) - f_rest) * _least(q, radius)
        if least.a <= 0:
            return inf
        return ((_magnitude(difference, radius) + rest) / least).b


def _product(a: Series, b: Series) -> Series:
    found = [iv.mpf(0)] * (len(a) + len(b) - 1)
    for i, each in enumerate(a):
        for j, other in enumerate(b):
            found[i + j] += each * other
    return found


def _sum(a: Series, b: Series) -> Series:
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    return [each + (shorter[i] if i < len(shorter) else 0) for i, each in enumerate(longer)]


def _shifted(series: Series, middle: Interval) -> Series:
    """Returns the coefficients of a polynomial in the distance from a point."""
    found = list(series)
    for start in range(len(found) - 1):
        for i in range(len(found) - 2, start - 1, -1):
            found[i] += middle * found[i + 1]
    return found


def _magnitude(series: Series, radius: Interval) -> Interval:
    total = iv.mpf(0)
    for each in reversed(series):
        total = total * radius + abs(each)
    return total


def _least(series: Series, radius: Interval) -> Interval:
    return abs(series[0]) - radius * _magnitude(series[1:], radius)


def _at_zero(terms: Callable[[], Iterator[Interval]], count: int, high: float, limit: int = 0) -> Local:
    """Returns a function given by a power series at 0.

    The ratios of its terms do not grow, or are at most ``limit``; this bounds the terms from ``count`` on up to the
    magnitude ``high``.
    """

    def local(middle: Interval, radius: Interval) -> tuple[Series, Interval]:
        *kept, last, beyond = islice(terms(), count + 2)
        ratio = iv.mpf(high) * max(abs(beyond / last).b, limit)
        assert ratio.b < 1, "too few terms"
        return _shifted(kept, middle), abs(last) * iv.mpf(high) ** count / (1 - ratio)

    return local


def _one(middle: Interval, radius: Interval) -> tuple[Series, Interval]:
    return [iv.mpf(1)], iv.mpf(0)


def _terms(term: Callable[[int], Interval]) -> Callable[[], Iterator[Interval]]:
    def terms() -> Iterator[Interval]:
        k = 0
        while True:
            yield iv.mpf(term(k))
            k += 1

    return terms


def _inverse(number: int) -> Interval:
    return iv.mpf(1) / number


@dataclass(frozen=True)
class _Tail:
    """A tail of the normal distribution over its density: ``G' = slope*x*G - constant``.

    It is a Laplace transform of a positive function, so the magnitudes of its derivatives fall.

    Attributes:
        slope, constant: the differential equation.
        start: the value at 0.
    """

    slope: int
    constant: Callable[[], Interval]
    start: float

    def __call__(self, middle: Interval, radius: Interval) -> tuple[Series, Interval]:
        left = middle - radius
        return self._solved(middle, _TERMS), abs(self._solved(left, _TERMS + 1)[-1]) * radius**_TERMS

    def _solved(self, x: Interval, count: int) -> Series:
        found = [self._at(x)]
        found.append(self.slope * x * found[0] - self.constant())
        for n in range(1, count - 1):
            found.append(self.slope * (x * found[n] + found[n - 1]) / (n + 1))
        return found[:count]

    def _at(self, x: Interval) -> Interval:
        """Returns the value at a point by the power series at 0, whose large terms cancel."""
        most = self.slope * float(x.b) ** 2
        kept, iv.prec = iv.prec, PRECISION + int(most)
        even, odd, total, k = iv.mpf(self.start), -self.constant() * x, iv.mpf(0), 0
        while k < 2 * most + 10 or (abs(even) + abs(odd)).b > mpf(2) ** -PRECISION:
            total += even + odd
            square = self.slope * x * x
            even, odd, k = even * square / (k + 2), odd * square / (k + 3), k + 2
        total += 2 * (abs(even) + abs(odd)) * iv.mpf([-1, 1])  # each term is less than half of that before
        iv.prec = kept
        return +total


_TERMS = 40
_tail = _Tail(1, lambda: 1 / iv.sqrt(2 * iv.pi), 0.5)
_square_tail = _Tail(2, lambda: 2 / iv.sqrt(iv.pi), 1.0)


def _scaled_tail(middle: Interval, radius: Interval) -> tuple[Series, Interval]:
    """``(1 + 2*x) * exp(x*x) * erfc(x)``."""
    series, rest = _square_tail(middle, radius)
    factor = [1 + 2 * middle, iv.mpf(2)]
    return _product(series, factor), rest * _magnitude(factor, radius)


def _polynomial(coefficients: Sequence[float], over: Sequence[float] = (1.0,)) -> tuple[Series, Series]:
    above, below = ([iv.mpf(each) for each in reversed(part)] for part in (coefficients, over))
    return above, below


def _stepped(above: table.Stepped, below: table.Stepped) -> tuple[Series, Series]:
    return _expanded(above), _expanded(below)


def _expanded(stepped: table.Stepped) -> Series:
    found, _ = _polynomial(stepped.first)
    for moved, added in stepped.steps:
        found = _sum(_product(found, [iv.mpf(moved), iv.mpf(0), iv.mpf(1)]), [iv.mpf(added)])
    return found


def _of_quotient(coefficients: Sequence[float], middle: float) -> tuple[Series, Series]:
    """Returns a polynomial in ``(x - middle) / (x + middle)`` as a quotient of polynomials in ``x``."""
    degree, total = len(coefficients) - 1, [iv.mpf(0)]
    for power, each in enumerate(reversed(coefficients)):
        term = [iv.mpf(each)]
        for factor in (-middle,) * power + (middle,) * (degree - power):
            term = _product(term, [iv.mpf(factor), iv.mpf(1)])
        total = _sum(total, term)
    return total, [comb(degree, k) * iv.mpf(middle) ** (degree - k) for k in range(degree + 1)]


def claims() -> Mapping[str, Claim]:
    """Returns what each entry of the table approximates, and where."""
    iv.prec = PRECISION
    half, ln2 = 0.5 + 2.0**-15, iv.log(2)  # pairs of FLOAT32 may miss the nearest integer by 2**-15
    sine = _terms(lambda k: iv.mpf((-1) ** k) / factorial(2 * k + 1))
    cosine = _terms(lambda k: iv.mpf((-1) ** k) / factorial(2 * k))
    sinh = _terms(lambda k: _inverse(factorial(2 * k + 1)))
    cosh = _terms(lambda k: _inverse(factorial(2 * k)))
    artanh = _terms(lambda k: iv.mpf(2) / (2 * k + 1))
    erf = _terms(lambda k: 2 / iv.sqrt(iv.pi) * (-1) ** k / (factorial(k) * (2 * k + 1)))

    def alone(
        name: str,
        terms: Callable[[], Iterator[Interval]],
        high: float,
        count: int,
        low: float = 0.0,
        limit: int = 0,
    ) -> Claim:
        approximation = _polynomial(getattr(table, name))
        return Claim(approximation, (_at_zero(terms, count, high, limit), _one), low, high)

    power = _terms(lambda k: ln2**k / factorial(k))
    less_one = _terms(lambda k: ln2 ** (k + 1) / factorial(k + 1))
    sixteenth = _terms(lambda k: (ln2 / 16) ** k / factorial(k))
    rest = _terms(lambda k: _inverse(factorial(k + 2)))
    widest, step = float(ln2.b) / 32 * (1 + 2.0**-10), float(ln2.b) / 512 * (1 + 2.0**-8)
    near = _polynomial((*table.EXP2_OF_SIXTEENTH, 1.0))
    return {
        "EXP2": alone("EXP2", power, half, 40, low=-half),
        "EXP2_OF_SIXTEENTH": Claim(near, (_at_zero(sixteenth, 30, half), _one), -half, half),
        "EXP2M1": alone("EXP2M1", less_one, half, 40, low=-half),
        "EXP_REST": alone("EXP_REST", rest, widest, 30, low=-widest),
        "EXP_REST_OF_PAIRS": alone("EXP_REST_OF_PAIRS", rest, step, 30, low=-step),
        "EXP_REST_OF_FLOATS": alone("EXP_REST_OF_FLOATS", rest, 0.3467, 30, low=-0.3467),
        "LOG": alone("LOG", artanh, 0.02946, 40, limit=1),
        "LOG2": alone("LOG2", _terms(lambda k: 2 / ln2 / (2 * k + 1)), 0.02946, 40, limit=1),
        "LOG1P": alone("LOG1P", artanh, 1 / 9 + 2.0**-50, 60, limit=1),
        "SINH": alone("SINH", sinh, 0.12013, 20),
        "COSH": alone("COSH", cosh, 0.12013, 20),
        "SIN_OF_HALF": alone("SIN_OF_HALF", sine, 2.48, 40),
        "ATAN": alone("ATAN", _terms(lambda k: iv.mpf((-1) ** k) / (2 * k + 1)), 0.171573, 70, limit=1),
        "ASIN": alone("ASIN", _terms(lambda k: _inverse(4**k * (2 * k + 1)) * comb(2 * k, k)), 0.25, 80, limit=1),
        "ERF_NEAR": alone("ERF_NEAR", erf, 1.0, 40),
        "TAN": Claim(
            _polynomial(table.TAN, table.TAN_OVER),
            (_at_zero(sine, 30, 0.62), _at_zero(cosine, 30, 0.62)),
            0,
            0.62,
        ),
        "TANH": Claim(
            _stepped(table.TANH, table.TANH_OVER),
            (_at_zero(sinh, 50, 81.361), _at_zero(cosh, 50, 81.361)),
            0,
            81.361,
        ),
        "ERF": Claim(_stepped(table.ERF, table.ERF_OVER), (_at_zero(erf, 90, 16.0), _one), 0, 16),
        "TAIL": Claim(_stepped(table.TAIL, table.TAIL_OVER), (_tail, _one), 0, 14.85),
        "ERFC": Claim(_of_quotient(table.ERFC, table.ERFC_MIDDLE), (_scaled_tail, _one), 0, 27.3),
    }


def main() -> int:
    wrong = 0
    for name, claim in claims().items():
        holds = claim.holds(table.WITHIN[name])
        wrong += not holds
        sys.stdout.write(f"{name:18} {'within' if holds else 'not shown to be within'} 2**-{table.WITHIN[name]}\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
