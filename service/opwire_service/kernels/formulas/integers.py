"""The formula primitives on integers, which wrap around, and on bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opwire.tensor import DataType

from . import interval, real
from .resolve import SCALED, integer_range, saturated

WORD = 32
"""Width in which bits are shifted: places count modulo that, and those beyond the first word of 64 bits from there."""


def _places(b: int, bits: int) -> int:
    return WORD + b % WORD if bits > WORD and b >= WORD else b % WORD


def _quotient(a: int, b: int) -> int:
    """Truncating division; division by zero sets all bits."""
    if not b:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b) if b else -1


def _floor_remainder(a: int, b: int) -> int:
    return a % b if b else -1


def _power(base: int, exponent: int, bits: int) -> int:
    """Returns the power modulo 2**bits. Negative exponents truncate; zero to a negative power has all bits set."""
    if exponent >= 0:
        return pow(base, exponent, 1 << bits)
    if base in (1, -1):
        return base if exponent % 2 else 1
    return 0 if base else -1


_WRAPPING: Mapping[str, Any] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _quotient,
    "remainder": _remainder,
    "floor_remainder": _floor_remainder,
    "mean": lambda a, b: _quotient(a + b, 2),
    "minimum": lambda a, b: b if b < a else a,
    "maximum": lambda a, b: b if b > a else a,
    "negate": lambda a: -a,
    "absolute": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "equal": lambda a, b: int(a == b),
    "less": lambda a, b: int(a < b),
    "less_equal": lambda a, b: int(a <= b),
    "greater": lambda a, b: int(a > b),
    "greater_equal": lambda a, b: int(a >= b),
    "not_": lambda a: int(not a),
    "and_": lambda a, b: int(bool(a) and bool(b)),
    "or_": lambda a, b: int(bool(a) or bool(b)),
    "xor": lambda a, b: int(bool(a) != bool(b)),
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "bit_not": lambda a: ~a,
    "bit_count": int.bit_count,
}


@dataclass(frozen=True, slots=True)
class Integers:
    """The primitives on the integers of a type. Bitwise ones take the stored bits as an unsigned integer.

    Attributes:
        data_type: data type of the results.
    """

    data_type: DataType

    def apply(self, primitive: str, *operands: int) -> int:
        """Applies a primitive other than ``select``."""
        if primitive == SCALED:
            return scaled(operands[0], operands[1], operands[2], self.data_type)
        if primitive == "power":
            base, exponent = operands
            return wrapped(_power(base, exponent, self.data_type.bits), self.data_type)
        if primitive in ("shift_left", "shift_right"):
            a, b = operands
            places = _places(b, self.data_type.bits)
            return wrapped(a << places if primitive == "shift_left" else a >> places, self.data_type)
        return wrapped(_WRAPPING[primitive](*operands), self.data_type)


def wrapped(value: int, data_type: DataType) -> int:
    """Wraps a value around to the range of a type."""
    least, _ = integer_range(data_type)
    return (value - least) % (1 << data_type.bits) + least


def scaled(value: int, scale: float, bias: float, data_type: DataType) -> int:
    """``value * scale + bias``, truncated, then saturated; NaN gives 0."""
    product = real.multiply(real.number(value), real.number(scale), 0)
    found = real.add(product, real.number(bias), 0)
    return truncated(found, data_type)


def truncated(value: real.Number, data_type: DataType) -> int:
    """Converts a number to an integer: truncated, then saturated; NaN becomes 0.

    Raises:
        TooWide: an interval contains an integer.
    """
    if isinstance(value, interval.Interval):
        low, high = map(interval.whole, value)
        if low != high:
            raise interval.TooWide
        return saturated(low, data_type)
    return saturated(value, data_type)
