"""Ranks: numbers whose order is the one that MIN, MAX, ARGMIN, ARGMAX or max pooling asks for.

Of an integer the rank is a signed integer of its width, of a FLOAT32 itself: NaN is then above nothing, and -0 equals
+0. Of a FLOAT16, of which processors compare few at a time, it is an integer of 16 bits: NaN has one below that of
-inf, and both zeros have the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from opwire.tensor import DataType

from ..jit.element import FLOAT32, HALF, INT16, INT64, intrinsic

NOTHING = -(2**63)
"""The key of no winner: all elements are NaN."""

HALF_INFINITY = 0x7C00
"""The bits of the greatest FLOAT16. Those of positive NaN come after it."""

_OFFSET = 0x7FFF - HALF_INFINITY
"""The rank of FLOAT16 zeros: that of infinity is the last one, so that ranks of positive NaN start over below -inf."""


def inversion(data_type: DataType, *, least: bool) -> int:
    """The bits of an element to invert so that its rank is the greater the better it is."""
    sign = -(2 ** (data_type.bits - 1))
    if data_type.is_float:
        return sign if least else 0
    plain = 0 if data_type.is_signed else sign
    return ~plain if least else plain


def rank_type(element: Any) -> Any:
    return INT16 if element == HALF else element


def rank_size(element: Any) -> int:
    """Bytes of a rank."""
    return int(rank_type(element).bitwidth) // 8


def ranked(builder: Any, element: Any, value: Any, invert: Any) -> Any:
    """The LLVM code of the rank of a value, or of a vector of them; ``invert`` is a like value of bits."""
    value = builder.xor(builder.bitcast(value, invert.type), invert)
    if element == FLOAT32:
        return builder.bitcast(value, like(value, ir.FloatType()))
    if element == HALF:
        sign = builder.ashr(value, _constant(value, 15))
        ones_complement = builder.xor(value, builder.lshr(sign, _constant(value, 1)))
        return builder.add(builder.sub(ones_complement, sign), _constant(value, _OFFSET))
    return value


def high_ranked(builder: Any, element: Any, value: Any, invert: Any) -> Any:
    """The LLVM code of the rank of a value above zero, in fewer steps; of any other one it is at most that of zero."""
    if element != HALF:
        return ranked(builder, element, value, invert)
    # That of a positive NaN wraps.
    value = builder.xor(builder.bitcast(value, invert.type), invert)
    return builder.add(value, _constant(value, _OFFSET))


def _constant(value: Any, number: int) -> Any:
    """A number, as often as a value has one."""
    return ir.Constant(value.type, [number] * value.type.count if isinstance(value.type, ir.VectorType) else number)


def like(value: Any, scalar: Any) -> Any:
    """The type of as many scalars as a value has."""
    return ir.VectorType(scalar, value.type.count) if isinstance(value.type, ir.VectorType) else scalar


def above(builder: Any, rank: Any, one: Any, other: Any) -> Any:
    """The LLVM code of whether a rank of a type is above another one."""
    return builder.fcmp_ordered(">", one, other) if rank == FLOAT32 else builder.icmp_signed(">", one, other)


def bits_type(element: Any) -> Any:
    return ir.IntType(element.bitwidth)


@intrinsic
def rank_of(typing: Any, element: Any, invert: Any) -> tuple[Any, Callable[..., Any]]:
    """The rank of an element, of whose bits some are inverted."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = bits_type(element)
        return ranked(builder, element, args[0], builder.trunc(args[1], bits) if bits.width < 64 else args[1])

    return rank_type(element)(element, INT64), code


@intrinsic
def element_of(typing: Any, rank: Any, invert: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """The element that has a rank; of infinities too, of NaN never. Of the zeros of FLOAT16 it is the positive one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = bits_type(zero)
        inverted = builder.trunc(args[1], bits) if bits.width < 64 else args[1]
        if zero == HALF:
            value = builder.sub(args[0], ir.Constant(bits, _OFFSET))
            sign = builder.ashr(value, ir.Constant(bits, 15))
            magnitude = builder.sub(builder.xor(value, sign), sign)
            element = builder.xor(builder.or_(magnitude, builder.shl(sign, ir.Constant(bits, 15))), inverted)
            return builder.select(builder.icmp_signed("==", value, ir.Constant(bits, 0)), value, element)
        value = builder.xor(builder.bitcast(args[0], bits), inverted)
        return builder.bitcast(value, context.get_value_type(zero))

    return zero(rank, INT64, zero), code


@intrinsic
def lowest_rank(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """The rank that none is below. NaN has none: a greatest rank of -inf leaves open whether there is an element."""
    rank = rank_type(zero)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(rank), _lowest(zero))

    return rank(zero), code


def _lowest(element: Any) -> float:
    if element == HALF:
        return _OFFSET - HALF_INFINITY
    return float("-inf") if element == FLOAT32 else -(1 << (element.bitwidth - 1))


@intrinsic
def is_number(typing: Any, rank: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Whether a rank is not that of NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if zero == FLOAT32:
            return builder.fcmp_ordered("ord", args[0], args[0])
        return builder.icmp_signed(">=", args[0], ir.Constant(args[0].type, _lowest(zero)))

    return types.boolean(rank, zero), code


@intrinsic
def is_float(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Whether elements are floats, which is known when a kernel is compiled."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(zero in (FLOAT32, HALF)))

    return types.boolean(zero), code


@intrinsic
def is_half(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Whether elements are FLOAT16, whose ranks do not tell the sign of a zero."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(zero == HALF))

    return types.boolean(zero), code


@intrinsic
def greater(typing: Any, rank: Any, so_far: Any) -> tuple[Any, Callable[..., Any]]:
    """The greater of two ranks, or in each lane of two vectors; ``so_far`` where they are equal or ``rank`` is NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(above(builder, getattr(rank, "lane", rank), *args), *args)

    return rank(rank, rank), code


@intrinsic
def lesser(typing: Any, rank: Any, so_far: Any) -> tuple[Any, Callable[..., Any]]:
    """The lesser of two ranks that are integers, or in each lane of two vectors."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.icmp_signed("<", *args), *args)

    return rank(rank, rank), code


@intrinsic
def key_of(typing: Any, rank: Any) -> tuple[Any, Callable[..., Any]]:
    """An integer in the order of ranks; it is the same for both zeros."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if rank != FLOAT32:
            return builder.sext(args[0], ir.IntType(64)) if rank.bitwidth < 64 else args[0]
        positive_zero = builder.fadd(args[0], ir.Constant(ir.FloatType(), 0.0))
        bits = builder.bitcast(positive_zero, ir.IntType(32))
        sign = builder.ashr(bits, ir.Constant(bits.type, 31))
        ordered = builder.xor(bits, builder.lshr(sign, ir.Constant(bits.type, 1)))
        return builder.sext(ordered, ir.IntType(64))

    return INT64(rank), code


@intrinsic
def rank_of_key(typing: Any, key: Any, rank: Any) -> tuple[Any, Callable[..., Any]]:
    """The rank, of the type of another one, that has a key; of zeros the positive one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if rank != FLOAT32:
            return builder.trunc(args[0], context.get_value_type(rank)) if rank.bitwidth < 64 else args[0]
        ordered = builder.trunc(args[0], ir.IntType(32))
        sign = builder.ashr(ordered, ir.Constant(ordered.type, 31))
        bits = builder.xor(ordered, builder.lshr(sign, ir.Constant(sign.type, 1)))
        return builder.bitcast(bits, ir.FloatType())

    return rank(INT64, rank), code
