"""What operators answer, in plain Python: a module a family, named as it; none shares arithmetic with the package.

A module has ``EXPECTED``, which says for each of its operators what the outputs of a plan must hold, and may have
``INPUTS``, which draws the inputs of those whose answers few inputs show: indices that lie inside, say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.schema import CATALOG
from opwire.tensor import Array


@dataclass(frozen=True)
class Reals:
    """What an output must be near to.

    Attributes:
        numbers: the exact or far more precise results, an array of objects: fractions, ``mpmath`` numbers, floats;
            None where any answer will do.
        ulps: how far an element may be from its number, in units of the last place of the output's type; at one half
            it must be the nearest float, of two the even one.
    """

    numbers: Array
    ulps: Fraction = Fraction(1, 2)


Answer = Array | Reals
"""The very bits (any NaN for NaN), or numbers with a bound."""

Oracle = Callable[[Plan, Mapping[str, Array]], Mapping[str, Answer]]
"""The outputs of a plan for logical inputs, packed."""

DrawInputs = Callable[[Any, Plan], Mapping[str, Array]]
"""Draws logical inputs for a plan, those that it does not name are drawn as for any operator."""


def oracle_of(operator: str) -> Oracle | None:
    """The oracle of an operator type, by its name without the prefix."""
    found: Oracle | None = _table(operator, "EXPECTED").get(operator)
    return found


def inputs_of(operator: str) -> DrawInputs | None:
    """What draws the inputs of an operator type, if any inputs do not do."""
    found: DrawInputs | None = _table(operator, "INPUTS").get(operator)
    return found


def _table(operator: str, name: str) -> Mapping[str, Any]:
    module = f"{__name__}.{CATALOG[operator].family}"
    table: Mapping[str, Any] = getattr(import_module(module), name, {}) if find_spec(module) else {}
    return table


_FAR = 1 << 14
"""Powers of two beyond every float."""


def fraction_of(number: Any) -> Fraction | None:
    """A finite number as a fraction; None for NaN and infinities."""
    if isinstance(number, int | Fraction):
        return Fraction(number)
    if hasattr(number, "_mpf_"):
        sign, mantissa, exponent, _ = number._mpf_
        if mantissa or not exponent:
            near = max(-_FAR, min(int(exponent), _FAR))
            return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** near
        return None
    return Fraction(float(number)) if math.isfinite(number) else None


def spacing(number: Fraction, dtype: np.dtype[Any]) -> Fraction:
    """One unit of the last place at a number."""
    info = np.finfo(dtype)
    least = Fraction(float(info.smallest_subnormal))
    if not number:
        return least
    exponent = (abs(number.numerator).bit_length() - number.denominator.bit_length()) - 1
    while Fraction(2) ** (exponent + 1) <= abs(number):
        exponent += 1
    return max(least, Fraction(2) ** (exponent - info.nmant))
