"""Ranks: numbers ordered as MIN, MAX, ARGMIN, ARGMAX or max pooling require.

The rank of an integer is a signed integer of its width, that of a float a FLOAT32: NaN is above nothing, and -0 equals
+0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from opwire.tensor import DataType

from ..jit.element import FLOAT32, HALF, INT64, intrinsic

NOTHING = -(2**63)
"""Key that means no winner: all elements are NaN."""

HALF_INFINITY = 0x7C00
"""Bits of a FLOAT16 infinity. Bits of positive NaNs are above it."""

LEAST = -(2.0**128 - 2.0**104)
"""The lowest finite FLOAT32."""


def inversion(data_type: DataType, *, least: bool) -> int:
    """Returns the bits of an element to invert so that better elements have greater ranks."""
    sign = -(2 ** (data_type.bits - 1))
    if data_type.is_float:
        return sign if least else 0
    plain = 0 if data_type.is_signed else sign
    return ~plain if least else plain


def rank_type(element: Any) -> Any:
    return FLOAT32 if element == HALF else element


def rank_size(element: Any) -> int:
    """Returns the size of a rank in bytes."""
    return int(rank_type(element).bitwidth) // 8


def ranked(builder: Any, element: Any, value: Any, invert: Any) -> Any:
    """Emits the LLVM code of the rank of a value or of a vector of values; ``invert`` has the same shape."""
    value = builder.xor(builder.bitcast(value, invert.type), invert)
    if element == FLOAT32:
        return builder.bitcast(value, like(value, ir.FloatType()))
    if element == HALF:
        return builder.fpext(builder.bitcast(value, like(value, ir.HalfType())), like(value, ir.FloatType()))
    return value


def like(value: Any, scalar: Any) -> Any:
    """Returns the type with a scalar type as its element and a value's shape."""
    return ir.VectorType(scalar, value.type.count) if isinstance(value.type, ir.VectorType) else scalar


def above(builder: Any, rank: Any, one: Any, other: Any) -> Any:
    """Emits the LLVM code of whether a rank is above another one."""
    return builder.fcmp_ordered(">", one, other) if rank == FLOAT32 else builder.icmp_signed(">", one, other)


def bits_type(element: Any) -> Any:
    return ir.IntType(element.bitwidth)


@intrinsic
def rank_of(typing: Any, element: Any, invert: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the rank of an element, after inverting some of its bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = bits_type(element)
        return ranked(builder, element, args[0], builder.trunc(args[1], bits) if bits.width < 64 else args[1])

    return rank_type(element)(element, INT64), code


@intrinsic
def element_of(typing: Any, rank: Any, invert: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the element with a given rank."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = bits_type(zero)
        inverted = builder.trunc(args[1], bits) if bits.width < 64 else args[1]
        rank = builder.fptrunc(args[0], ir.HalfType()) if zero == HALF else args[0]
        value = builder.xor(builder.bitcast(rank, bits), inverted)
        return builder.bitcast(value, context.get_value_type(zero))

    return zero(rank, INT64, zero), code


@intrinsic
def lowest_rank(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the lowest rank of any number. NaN ranks no higher, so a greatest rank of -inf may be that of NaN."""
    rank = rank_type(zero)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(rank), _lowest(zero))

    return rank(zero), code


def _lowest(element: Any) -> float:
    return float("-inf") if element in (FLOAT32, HALF) else -(1 << (element.bitwidth - 1))


@intrinsic
def least_rank(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the rank of what a maximum starts from: the lowest number, for FLOAT32 the lowest finite one."""
    rank = rank_type(zero)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(rank), LEAST if zero == FLOAT32 else _lowest(zero))

    return rank(zero), code


@intrinsic
def raised(typing: Any, element: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the maximum of an element and what a maximum starts from, which is that of NaN too."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (value,) = args
        if element == FLOAT32:
            least = ir.Constant(value.type, LEAST)
            return builder.select(builder.fcmp_ordered(">", value, least), value, least)
        if element == HALF:
            magnitude = builder.and_(value, ir.Constant(value.type, 0x7FFF))
            is_nan = builder.icmp_unsigned(">", magnitude, ir.Constant(value.type, HALF_INFINITY))
            return builder.select(is_nan, ir.Constant(value.type, 0x8000 | HALF_INFINITY), value)
        return value

    return element(element), code


@intrinsic
def is_number(typing: Any, rank: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Whether a rank is not that of a NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fcmp_ordered("ord", *args[:1] * 2) if rank == FLOAT32 else ir.Constant(ir.IntType(1), 1)

    return types.boolean(rank, zero), code


@intrinsic
def is_float(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Whether elements are floats; known at compile time."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(zero in (FLOAT32, HALF)))

    return types.boolean(zero), code


@intrinsic
def greater(typing: Any, rank: Any, so_far: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the greater of two ranks, or lanes; ``so_far`` where they are equal or ``rank`` is NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(above(builder, getattr(rank, "lane", rank), *args), *args)

    return rank(rank, rank), code


@intrinsic
def key_of(typing: Any, rank: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns an integer ordered like the rank, the same for both zeros."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if rank != FLOAT32:
            return builder.sext(args[0], ir.IntType(64)) if rank.bitwidth < 64 else args[0]
        positive_zero = builder.fadd(args[0], ir.Constant(ir.FloatType(), 0.0))
        bits = builder.bitcast(positive_zero, ir.IntType(32))
        sign = builder.ashr(bits, ir.Constant(bits.type, 31))
        ordered = builder.xor(bits, builder.lshr(sign, ir.Constant(bits.type, 1)))
        return builder.sext(ordered, ir.IntType(64))

    return INT64(rank), code
