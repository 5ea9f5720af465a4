"""The formula primitives on integers, which wrap around, and on bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opwire.tensor import DataType

from . import interval, real
from .resolve import integer_range, saturated

WORD = 32
"""Width in which bits are shifted: places count modulo that, and those beyond the first word of 64 bits from there."""


def _places(b: int, bits: int) -> int:
    return WORD + b % WORD if bits > WORD and b >= WORD else b % WORD


def _quotient(a: int, b: int, to: DataType) -> int:
    """Truncating division. By zero it sets all bits, but negative numbers of up to 32 bits give 1."""
    if not b:
        return 1 if a < 0 and to.bits <= WORD else -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int, to: DataType) -> int:
    """The rest of a truncating division. By zero, signed numbers of up to 32 bits stay, others set all bits."""
    if not b:
        return a if to.is_signed and to.bits <= WORD else -1
    return a - b * _quotient(a, b, to)


def _floor_remainder(a: int, b: int, to: DataType) -> int:
    return a % b if b else _quotient(a, b, to)


def _mean(a: int, b: int, to: DataType) -> int:
    """Half of the sum, which wraps around in 32 bits, truncated."""
    return _quotient(wrapped(a + b, _register(to)), 2, to)


def _power(base: int, exponent: int, to: DataType) -> int:
    """Returns the power, which wraps around in 32 bits, saturated. Negative exponents truncate."""
    if exponent >= 0:
        register = _register(to)
        return saturated(wrapped(pow(base, exponent, 1 << register.bits), register), to)
    return 0 if abs(base) != 1 else base if exponent % 2 else 1


def _absolute(a: int, to: DataType) -> int:
    return saturated(abs(a), to) if to.bits < WORD else abs(a)


def _register(to: DataType) -> DataType:
    """Returns the type that integers of a type are computed in."""
    if to.bits >= WORD:
        return to
    return DataType.INT32 if to.is_signed else DataType.UINT32


_WRAPPING: Mapping[str, Any] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "minimum": lambda a, b: b if b < a else a,
    "maximum": lambda a, b: b if b > a else a,
    "negate": lambda a: -a,
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

_OF_TYPE: Mapping[str, Any] = {
    "divide": _quotient,
    "remainder": _remainder,
    "floor_remainder": _floor_remainder,
    "mean": _mean,
    "power": _power,
    "absolute": _absolute,
}
"""The primitives that depend on the type of their results."""


@dataclass(frozen=True, slots=True)
class Integers:
    """The primitives on the integers of a type. Bitwise ones take the stored bits as an unsigned integer.

    Attributes:
        data_type: data type of the results.
    """

    data_type: DataType

    def apply(self, primitive: str, *operands: int) -> int:
        """Applies a primitive other than ``select``."""
        if primitive in _OF_TYPE:
            return wrapped(_OF_TYPE[primitive](*operands, self.data_type), self.data_type)
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
