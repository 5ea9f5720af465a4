"""The kernel that converts floats to integers or other floats: vectorized, where NumPy converts one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..jit.compiler import inlined, kernel
from ..jit.element import (
    FLOAT64,
    choose,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    intrinsic,
    read,
    store,
    uint64,
)
from ..jit.records import Record
from ..numbers.halves import half_bits, number_of, odd

HALVES, SINGLES, DOUBLES, INTEGERS_8, INTEGERS_16, INTEGERS_32, SIGNED_64, UNSIGNED_64 = range(8)
"""Target codes. For small integers the range replaces the signedness."""


class Target(Record):
    """The type to convert to."""

    code: int
    least: float  # the range of integers of up to 32 bits
    greatest: float


@intrinsic
def _truncated(typing: Any, number: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Converts a FLOAT64 within an integer type's range to that type, dropping the fraction."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = builder.fptosi if zero.signed else builder.fptoui
        return to(args[0], context.get_value_type(zero))

    return zero(FLOAT64, zero), code


@inlined
def _bounded(number: float, least: float, greatest: float) -> float:
    """Clamps a number; NaN becomes 0. Branch-free, so that LLVM vectorizes it."""
    number = choose(number == number, number, 0.0)
    number = choose(number > least, number, least)
    return choose(number < greatest, number, greatest)


@inlined
def _narrow(zero: float, source: int, target: int, geometry: Target, begin: int, end: int, to: Any) -> None:
    """Converts to integers whose range FLOAT64 represents exactly."""
    least, greatest = geometry.least, geometry.greatest
    for i in range(begin, end):
        number = _bounded(float64(number_of(read(source, i, zero))), least, greatest)
        store(target, i, to(_truncated(number, int64(0))))


@inlined
def _wide(zero: float, source: int, target: int, begin: int, end: int, least: float, beyond: float, most: Any) -> None:
    """Converts to 64-bit integers; ``most`` is the greatest one, and ``beyond`` is one more."""
    below = beyond - beyond / 2**53
    for i in range(begin, end):
        number = float64(number_of(read(source, i, zero)))
        converted = _truncated(_bounded(number, least, below), most)
        store(target, i, choose(number >= beyond, most, converted))


@inlined
def _convert(zero: float, source: int, target: int, geometry: Target, begin: int, end: int) -> None:
    which = geometry.code
    if which == HALVES:
        for i in range(begin, end):
            store(target, i, half_bits(odd(float64(number_of(read(source, i, zero))))))
    elif which == SINGLES:
        for i in range(begin, end):
            store(target, i, float32(number_of(read(source, i, zero))))
    elif which == DOUBLES:
        for i in range(begin, end):
            store(target, i, float64(number_of(read(source, i, zero))))
    elif which == INTEGERS_8:
        _narrow(zero, source, target, geometry, begin, end, int8)
    elif which == INTEGERS_16:
        _narrow(zero, source, target, geometry, begin, end, int16)
    elif which == INTEGERS_32:
        _narrow(zero, source, target, geometry, begin, end, int32)
    elif which == SIGNED_64:
        _wide(zero, source, target, begin, end, -(2.0**63), 2.0**63, int64((1 << 63) - 1))
    else:
        _wide(zero, source, target, begin, end, 0.0, 2.0**64, uint64((1 << 64) - 1))


@kernel
def convert(zero: float, source: int, target: int, _states: int, geometry: Target, begin: int, end: int) -> None:
    """Converts contiguous floats of 16 or 32 bits."""
    _convert(zero, source, target, geometry, begin, end)


@kernel
def convert_doubles(zero: int, source: int, target: int, _states: int, geometry: Target, begin: int, end: int) -> None:
    """Converts contiguous floats of 64 bits; its ``zero`` is an integer, as shared kernels support no FLOAT64 one."""
    _convert(float64(0), source, target, geometry, begin, end)
