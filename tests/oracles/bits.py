"""Bit shifts, logic and bit counts, on strings of 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opwire.check import Plan
from tests.oracles import Oracle
from tests.oracles.elements import each, output_type

_PAIR = ("ATensor", "BTensor")


def _digits(x: Any) -> str:
    """Returns the stored bits, highest first."""
    return "".join(f"{byte:08b}" for byte in reversed(x.tobytes()))


def _stored(digits: str, dtype: np.dtype[Any]) -> Any:
    return np.frombuffer(bytes(int(digits[i : i + 8], 2) for i in range(len(digits) - 8, -1, -8)), dtype)[0]


def _digit_by_digit(rule: Callable[..., bool], *names: str) -> Oracle:
    def one(plan: Plan, *elements: Any) -> Any:
        digits = zip(*map(_digits, elements), strict=True)
        return _stored("".join(str(int(rule(*(x == "1" for x in column)))) for column in digits), output_type(plan))

    return each(one, *names)


def _places(b: Any) -> int:
    """Returns the number that the lowest 5 digits mean, and 32 more if a number of 64 digits has any others."""
    digits = _digits(b)
    return int(digits[-5:], 2) + (32 if len(digits) == 64 and "1" in digits[:-5] else 0)


def _left(plan: Plan, a: Any, b: Any) -> Any:
    digits, places = _digits(a), _places(b)
    return _stored((digits + "0" * places)[-len(digits) :], output_type(plan))


def _right(plan: Plan, a: Any, b: Any) -> Any:
    digits, places = _digits(a), _places(b)
    return _stored(("0" * places + digits)[: len(digits)], output_type(plan))


EXPECTED = {
    "ELEMENT_WISE_BIT_SHIFT_LEFT": each(_left, *_PAIR),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": each(_right, *_PAIR),
    "ELEMENT_WISE_BIT_AND": _digit_by_digit(lambda a, b: a and b, *_PAIR),
    "ELEMENT_WISE_BIT_OR": _digit_by_digit(lambda a, b: a or b, *_PAIR),
    "ELEMENT_WISE_BIT_XOR": _digit_by_digit(lambda a, b: a != b, *_PAIR),
    "ELEMENT_WISE_BIT_NOT": _digit_by_digit(lambda a: not a, "InputTensor"),
    "ELEMENT_WISE_BIT_COUNT": each(lambda plan, x: output_type(plan).type(_digits(x).count("1")), "InputTensor"),
}
