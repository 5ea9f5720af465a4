"""How accurate quick functions are in pairs of FLOAT32; ``cuda/pair_source.py`` writes them."""

from __future__ import annotations

import math

from .bounds import Precision
from .quick import MOST_OF_PAIRS, STEEP
from .slopes import LEVEL

PAIRS = Precision(
    42,
    math.inf,
    {
        **{"exp": 2.0**-38.2, "expm1": 2.0**-38.3, "log": 2.0**-40.4, "log1p": 2.0**-40.9},
        **{"tanh": 2.0**-38.5, "sinh": 2.0**-38, "cosh": 2.0**-38.2, "erf": 2.0**-38.9, "gelu": 2.0**-37.5},
        **{"atan": 2.0**-40.9, "asin": 2.0**-39, "acos": 2.0**-40},
        **{"asinh": 2.0**-40.2, "acosh": 2.0**-40.1, "atanh": 2.0**-40, "power": 2.0**-34.6},
    },
    {
        **{**dict.fromkeys(LEVEL, 1.0), "gelu": 220.0, "log": STEEP},
        **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), MOST_OF_PAIRS),
    },
    24,
)
"""Error bounds in pairs of FLOAT32, of the functions that keep one; proven by ``scripts/pairs.py``."""


OF_PAIRS = ("exp", "expm1", "log", "log1p", "tanh", "sinh", "cosh")
"""The functions whose bounds hold for operands that are pairs; others take the elements of tensors."""
