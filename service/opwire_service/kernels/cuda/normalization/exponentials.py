"""Constants and functions of the exponentials of softmax, from the table of coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...formulas import coefficients as fitted
from ...formulas import pairs, quick
from ...formulas.writer import Number, Writer
from ..pair_source import PairSource, parts, single

STEPS_OF_PAIRS = 256
"""Powers of two in [1, 2) that softmax in pairs of floats looks up."""


def _listed(numbers: list[str]) -> str:
    return f"{{{', '.join(numbers)}}}"


def _pair(number: float) -> str:
    return _listed([single(each) for each in parts(number)])


def _powers(count: int) -> list[float]:
    return [2 ** (i / count) for i in range(count)]


MACROS: tuple[tuple[str, str | int], ...] = (
    ("POWERS_OF_TWO", _listed([each.hex() for each in _powers(16)])),
    ("SERIES", ", ".join(each.hex() for each in reversed(fitted.EXP_REST))),
)
"""The constants of ``exponential``."""

STEP = parts(math.log(2) / STEPS_OF_PAIRS)

STEPS_OF_1 = float(np.float32(STEPS_OF_PAIRS / math.log(2)))

ROUGHLY, PER_UNIT = 2.0**-46, 1.3125 * 2.0**-46
"""Relative error of exponentials in pairs: a constant, and one for each unit of the exponent's magnitude.

Proven by ``scripts/exponentials.py``.
"""

_TERM4, _TERM3, _TERM2 = map(np.float32, fitted.EXP_REST_OF_PAIRS)

OF_PAIRS: tuple[tuple[str, str | int], ...] = (
    ("STEPS", STEPS_OF_PAIRS),
    ("STEPS_OF_1", single(STEPS_OF_1)),
    ("STEP_HIGH", single(STEP[0])),
    ("STEP_LOW", single(STEP[1])),
    ("TERM3", single(float(_TERM3))),
    ("TERM4", single(float(_TERM4))),
    ("ROUGHLY", single(ROUGHLY)),
    ("PER_UNIT", single(PER_UNIT)),
    ("PAIRS_OF_POWERS", _listed([_pair(each) for each in _powers(STEPS_OF_PAIRS)])),
    ("LOGARITHM_ERROR", single(max(pairs.PAIRS.own["log"], pairs.PAIRS.own["log1p"]))),
)
"""The constants of ``exponential_pairs`` and ``softmax_pairs``."""


def logarithms() -> str:
    """Returns the logarithms of pairs that are at least 1, and of 1 plus those that are less."""
    return "\n".join(_function(each) for each in (quick.log, quick.log1p))


def _function(function: Callable[[Writer, Number], Number]) -> str:
    source = PairSource((), {})
    value = function(source, "x")
    lines = "\n".join((*source.lines, f"    return pair_of({value});"))
    return f"static __device__ Pair {function.__name__}_of_pair(Pair x) {{\n{lines}\n}}"
