"""The expected outputs of operators in plain Python: a module per family, sharing no arithmetic with the package.

A module has ``EXPECTED``, which maps operators to functions that compute the outputs of a plan. It may have ``INPUTS``,
which draws inputs for operators that need particular ones, such as indices that are within bounds.
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
    """What an output must be close to.

    Attributes:
        numbers: An array of objects: exact or far more precise results as fractions, ``mpmath`` numbers or floats;
            None matches any result.
        ulps: Allowed distance of an element from its number, in ULPs of the output's type; with one half, the element
            must be the nearest float, ties to even.
    """

    numbers: Array
    ulps: Fraction = Fraction(1, 2)


Answer = Array | Reals
"""Exact bits (any NaN for NaN), or numbers with an error bound."""

Oracle = Callable[[Plan, Mapping[str, Array]], Mapping[str, Answer]]
"""Returns the expected outputs of a plan for logical inputs, packed."""

DrawInputs = Callable[[Any, Plan], Mapping[str, Array]]
"""Draws some logical inputs of a plan; the others are drawn as for any operator."""


def oracle_of(operator: str) -> Oracle | None:
    """Returns the oracle of an operator, by its name without the prefix."""
    found: Oracle | None = _table(operator, "EXPECTED").get(operator)
    return found


def inputs_of(operator: str) -> DrawInputs | None:
    """Returns the function that draws an operator's inputs, or None if any inputs will do."""
    found: DrawInputs | None = _table(operator, "INPUTS").get(operator)
    return found


def _table(operator: str, name: str) -> Mapping[str, Any]:
    module = f"{__name__}.{CATALOG[operator].family}"
    table: Mapping[str, Any] = getattr(import_module(module), name, {}) if find_spec(module) else {}
    return table


_FAR = 1 << 14
"""An exponent of two beyond every float."""


def fraction_of(number: Any) -> Fraction | None:
    """Converts a finite number to a fraction; returns None for NaN and infinities."""
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
    """Returns the size of one ULP at a number."""
    info = np.finfo(dtype)
    least = Fraction(float(info.smallest_subnormal))
    if not number:
        return least
    exponent = (abs(number.numerator).bit_length() - number.denominator.bit_length()) - 1
    while Fraction(2) ** (exponent + 1) <= abs(number):
        exponent += 1
    return max(least, Fraction(2) ** (exponent - info.nmant))
