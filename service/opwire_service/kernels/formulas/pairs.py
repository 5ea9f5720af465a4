"""How accurate quick functions are in pairs of FLOAT32; ``cuda/pair_source.py`` writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from . import quick
from .bounds import Precision
from .quick import MOST_OF_PAIRS, STEEP
from .slopes import LEVEL
from .writer import Number, Writer

TURNS = 2.0**15
"""Largest angle that sines and tangents take: multiples of pi or pi/2 are chosen within 2**-10 of the nearest."""

PAIRS = Precision(
    42,
    math.inf,
    {
        **{"exp": 2.0**-38.2, "expm1": 2.0**-38.3, "log": 2.0**-40.4, "log1p": 2.0**-40.9},
        **{"tanh": 2.0**-38.5, "sinh": 2.0**-38, "cosh": 2.0**-38.2, "erf": 2.0**-38.9, "gelu": 2.0**-36.8},
        **{"atan": 2.0**-40.9, "asin": 2.0**-39, "acos": 2.0**-40},
        **{"sin": 2.0**-41, "cos": 2.0**-41, "tan": 2.0**-40.4},
        **{"asinh": 2.0**-40.2, "acosh": 2.0**-40.1, "atanh": 2.0**-40, "power": 2.0**-34.6},
    },
    {
        **{**dict.fromkeys(LEVEL, 1.0), "gelu": 220.0, "log": STEEP},
        **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), MOST_OF_PAIRS),
    },
    24,
)
"""Error bounds in pairs of FLOAT32, of the functions that keep one; proven by ``scripts/pairs.py``."""


OF_PAIRS = ("exp", "expm1", "log", "log1p", "tanh", "sinh", "cosh", "gelu")
"""The functions whose bounds hold for operands that are pairs; others take the elements of tensors."""


class PairWriter(Writer, Protocol):
    """Emits code for numbers that are pairs or floats."""

    def turned_back(self, x: Number, angle: float, more: float = 0.0) -> tuple[Number, Number]:
        """A float minus ``k - more`` times pi or pi/2, and the integer ``k``, for which that is nearly the least."""
        ...


def sin(v: PairWriter, x: Number) -> Number:
    return quick.half_turned(v, *v.turned_back(x, math.pi))


def cos(v: PairWriter, x: Number) -> Number:
    """The sine of the angle plus a quarter turn."""
    return quick.half_turned(v, *v.turned_back(x, math.pi, 0.5))


def tan(v: PairWriter, x: Number) -> Number:
    return quick.quarter_turned(v, *v.turned_back(x, math.pi / 2))


_TURNING: Mapping[str, Callable[..., Number]] = {"sin": sin, "cos": cos, "tan": tan}

FUNCTIONS: Mapping[str, Callable[..., Number]] = {**quick.FUNCTIONS, **_TURNING}

LAST: Mapping[str, Callable[..., Number]] = {**quick.LAST, **_TURNING}
"""The functions where their result is only rounded."""


def undecided(v: Writer, name: str, operands: Sequence[Number]) -> list[Number]:
    """Returns the conditions under which a function may exceed its bound."""
    if name in _TURNING:
        return [v.not_(v.compare("<=", v.absolute(operands[0]), v.number(TURNS)))]
    return quick.undecided(v, name, operands)
