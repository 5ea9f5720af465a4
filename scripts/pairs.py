"""Proves how accurate quick functions are in pairs of FLOAT32.

Run it from the root of the repository: ``python -m scripts.pairs``. It fails if a bound in ``pairs.PAIRS`` does not
hold. The range of a function is cut into pieces; ``pair_bounds`` evaluates it on all of them. Results count where
kernels accept them as certain.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import pi

import numpy as np

from opwire.tensor import Array
from opwire_service.kernels.cuda.pair_source import LEAST
from opwire_service.kernels.formulas import pairs, quick

from .pair_bounds import Bounds, Range, U

_CUTS = 64
"""Pieces of an octave."""

_WIDTH = 1 / 128
"""Greatest width of a piece."""

_NEAREST = 2.0**-50, 2.0**-24
"""Least distances of pairs and of floats from 1, if they are not 1."""


def _pieces(low: float, high: float, *, has_one: bool, is_single: bool) -> tuple[Array, Array]:
    """Cuts a range at points in geometric progression, also of distances from 1 where that is special."""
    sizes = np.exp2(np.arange(-80 * _CUTS, 8 * _CUTS + 1) / _CUTS)
    near = np.exp2(np.arange(-50 * _CUTS, 1) / _CUTS)
    even = np.arange(-128, 128, _WIDTH)
    ends = [sizes, -sizes, even, [low, high], *((1 - near, 1 + near) if has_one else ())]
    cuts = np.unique(np.concatenate(ends))
    cuts = cuts[(cuts >= low) & (cuts <= high)]
    least, most = cuts[:-1], cuts[1:]
    kept = (least >= 1 + _NEAREST[is_single]) | (most <= 1 - _NEAREST[is_single]) if has_one else least == least
    kept &= (least >= _LEAST_OPERAND) | (most <= -_LEAST_OPERAND)
    return least[kept], most[kept]


def worst(
    function: Callable[..., Range],
    low: float,
    high: float,
    *,
    has_one: bool = False,
    is_single: bool = False,
) -> float:
    """Returns a bound on the relative error of a function of a pair with an absolute error."""
    least, most = _pieces(low, high, has_one=has_one, is_single=is_single)
    found, sides, ways = 0.0, 0, 1
    while sides < ways:
        v = Bounds(least.size, sides)
        size = np.maximum(np.abs(least), np.abs(most))
        value = function(v, Range(least, most, 0 * size, size * (0 if is_single else U)))
        is_accepted = (value.most >= LEAST) & (value.least <= 2.0**126)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(is_accepted, value.error / value.least, 0)
        found = max(found, float(relative.max()))
        sides, ways = sides + 1, 1 << v.asked
    return found


_LEAST_OPERAND = 2.0**-80
"""Bound on the magnitude of operands other than 0."""

_MOST = quick.MOST_OF_PAIRS

ENDS: Mapping[str, tuple[float, float]] = {
    **{"exp": (-_MOST, _MOST), "expm1": (-_MOST, _MOST), "log": (2.0**-59, 128), "log1p": (_LEAST_OPERAND, 1)},
    **{"tanh": (_LEAST_OPERAND, 16), "sinh": (_LEAST_OPERAND, _MOST), "cosh": (0, _MOST)},
    **{"erf": (_LEAST_OPERAND, 4), "gelu": (-13, 100), "atan": (_LEAST_OPERAND, 256)},
    **{"asin": (_LEAST_OPERAND, 1), "acos": (0, 1), "acosh": (1, 256)},
    **{"asinh": (quick.LEAST_OF_LOGARITHMS, 256), "atanh": (quick.LEAST_OF_LOGARITHMS, 1)},
}
"""The ranges that represent all: functions are odd, level, or repeat themselves beyond."""

_SPECIAL_AT_ONE = ("log", "asin", "acos", "acosh", "atanh")


def _bound_of_power() -> float:
    """Returns a bound for powers: that of the logarithm grows with its product with the exponent."""
    logarithm = worst(quick.log2_of_usual, *ENDS["log"], has_one=True, is_single=True)
    off = logarithm + 6 * U * U

    def raised(v: Bounds, product: Range) -> Range:
        value: Range = quick.exp2(v, replace(product, error=product.most * off), 1)
        return value

    return worst(raised, -quick.MOST_POWER_OF_PAIRS, quick.MOST_POWER_OF_PAIRS)


_TURNED = 8 * U * U + 2.0**-52
"""Relative error of an angle less multiples of pi or pi/2, as ``turned_back`` of ``pairs.cu`` leaves it.

With the three parts a, b and c of the angle, the remainder is accepted where it is at least 2*k*b. Then k*b is at most
half of it, and its low part at most 2u of it, so that three roundings lose less than 8u^2. What the parts leave out is
2**-76 times k or less.
"""

_OFF = 2.0**-10
"""How far a chosen multiple may be from the nearest one, of up to ``TURNS``, in turns."""


def _bound_of_turned(name: str) -> float:
    """Returns a bound for sines and tangents: for the remainder of an angle, and of each parity."""
    function, most = (quick.half_turned, pi / 2) if name != "tan" else (quick.quarter_turned, pi / 4)

    def turned(parity: int) -> Callable[[Bounds, Range], Range]:
        return lambda v, r: function(v, replace(r, error=r.most * _TURNED), parity)

    return max(worst(turned(parity), _LEAST_OPERAND, most + 2 * most * _OFF) for parity in (0, 1))


def bound(name: str) -> float:
    """Returns a bound on the relative error of a function."""
    if name == "power":
        return _bound_of_power()
    if name in ("sin", "cos", "tan"):
        return _bound_of_turned(name)
    special, is_single = name in _SPECIAL_AT_ONE, name not in pairs.OF_PAIRS
    return worst(quick.FUNCTIONS[name], *ENDS[name], has_one=special, is_single=is_single)


def main() -> int:
    wrong = 0
    for name, wanted in pairs.PAIRS.own.items():
        found = bound(name)
        wrong += found > wanted
        sys.stdout.write(f"{name:6} within 2**{np.log2(found):.2f}, wanted 2**{np.log2(wanted):.2f}\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
