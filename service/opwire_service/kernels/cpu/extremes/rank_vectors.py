"""Vectors of ranks, for loops that LLVM does not vectorize well: extremes of floats, and searches.

A vector holds 64 or 16 bytes of ranks on every processor; LLVM splits it into registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import register_model

from ..jit.element import ADDRESS, INT64, intrinsic, metadata_of_written, pointer_to
from .ranks import above, high_ranked, rank_type, ranked

WIDE, NARROW = 64, 16
"""Sizes of a vector in bytes."""


class RankVector(types.Type):
    """numba's type of a vector of ranks."""

    def __init__(self, lane: Any, lanes: int) -> None:
        self.lane, self.lanes = lane, lanes
        super().__init__(f"{lane}x{lanes}")


@register_model(RankVector)
class _RankVectorModel(models.PrimitiveModel):
    """LLVM representation of a vector of ranks."""

    def __init__(self, manager: Any, vector: RankVector) -> None:
        lane = manager.lookup(vector.lane).get_value_type()
        super().__init__(manager, vector, ir.VectorType(lane, vector.lanes))  # type: ignore[no-untyped-call] # numba is untyped


def _vector(zero: Any, size: int) -> RankVector:
    rank = rank_type(zero)
    return RankVector(rank, 8 * size // rank.bitwidth)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    for i in range(lanes):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), i))
    return vector


def _ranks(size: int, rank: Callable[..., Any] = ranked) -> Any:
    @intrinsic
    def ranks(typing: Any, address: Any, index: Any, invert: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
        vector = _vector(zero, size)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            bits = ir.IntType(zero.bitwidth)
            first = builder.gep(pointer_to(builder, args[0], bits), [args[1]])
            packed = builder.bitcast(first, ir.VectorType(bits, vector.lanes).as_pointer())
            elements = builder.load(packed, align=zero.bitwidth // 8)
            inverted = builder.trunc(args[2], bits) if bits.width < 64 else args[2]
            return rank(builder, zero, elements, _splat(builder, inverted, vector.lanes))

        return vector(ADDRESS, ADDRESS, INT64, zero), code

    return ranks


wide_ranks, narrow_ranks = _ranks(WIDE), _ranks(NARROW)
"""Load the ranks of contiguous elements from an index on."""

wide_high_ranks = _ranks(WIDE, high_ranked)
"""Like ``wide_ranks``, but other elements than those above zero get some rank at most that of zero."""


@intrinsic
def store_ranks(typing: Any, address: Any, index: Any, vector: Any) -> tuple[Any, Callable[..., Any]]:
    """Stores a vector of ranks from ``index`` on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[2].type
        first = builder.gep(pointer_to(builder, args[0], kind.element), [args[1]])
        stored = builder.store(args[2], builder.bitcast(first, kind.as_pointer()), align=vector.lane.bitwidth // 8)
        stored.set_metadata("alias.scope", metadata_of_written(builder))
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, vector), code


@intrinsic
def every_other(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads every other rank from an index on, enough to fill a wide vector."""
    vector = _vector(zero, WIDE)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane, lanes = context.get_value_type(vector.lane), vector.lanes
        first = builder.gep(pointer_to(builder, args[0], lane), [args[1]])
        both = builder.load(
            builder.bitcast(first, ir.VectorType(lane, 2 * lanes).as_pointer()), align=vector.lane.bitwidth // 8
        )
        places = ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(0, 2 * lanes, 2)))
        return builder.shuffle_vector(both, ir.Constant(both.type, ir.Undefined), places)

    return vector(ADDRESS, ADDRESS, zero), code


def _lanes(size: int) -> Any:
    @intrinsic
    def lanes(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
        count = _vector(zero, size).lanes

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.get_constant(ADDRESS, count)

        return ADDRESS(zero), code

    return lanes


wide_lanes, narrow_lanes = _lanes(WIDE), _lanes(NARROW)
"""Return the number of ranks in a vector."""


def _filled(size: int) -> Any:
    @intrinsic
    def filled(typing: Any, rank: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
        vector = _vector(zero, size)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _splat(builder, args[0], vector.lanes)

        return vector(rank, zero), code

    return filled


wide, narrow = _filled(WIDE), _filled(NARROW)
"""Broadcast a rank to a vector."""


def fold_lanes(builder: Any, value: Any, is_above: Callable[[Any, Any, Any], Any]) -> Any:
    """Emits the LLVM code that reduces a vector to the lane above all others."""
    lanes = value.type.count
    while lanes > 1:
        lanes //= 2
        places = ir.VectorType(ir.IntType(32), lanes)
        halves = [
            builder.shuffle_vector(value, value, ir.Constant(places, list(range(first, first + lanes))))
            for first in (0, lanes)
        ]
        value = builder.select(is_above(builder, *halves), *halves)
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


@intrinsic
def greatest_lane(typing: Any, vector: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the greatest rank of a vector."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fold_lanes(builder, args[0], lambda builder, *halves: above(builder, vector.lane, *halves))

    return vector.lane(vector), code


@intrinsic
def equal_lanes(typing: Any, vector: Any, other: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns a bit mask of the lanes that are equal in both vectors, lane 0 in the lowest bit."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        floats = isinstance(vector.lane, types.Float)
        equal = builder.fcmp_ordered("==", *args) if floats else builder.icmp_signed("==", *args)
        bits = builder.bitcast(equal, ir.IntType(vector.lanes))
        return builder.zext(bits, ir.IntType(64)) if vector.lanes < 64 else bits

    return INT64(vector, vector), code


@intrinsic
def above_lanes(typing: Any, vector: Any, other: Any) -> tuple[Any, Callable[..., Any]]:
    """Like ``equal_lanes``, for lanes in which a rank is above that of the other vector."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(above(builder, vector.lane, *args), ir.IntType(vector.lanes))
        return builder.zext(bits, ir.IntType(64)) if vector.lanes < 64 else bits

    return INT64(vector, vector), code


@intrinsic
def ranks_of_bits(typing: Any, bits: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns ranks of elements from their bits, to which the inversion has already been applied."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ranked(builder, zero, args[0], ir.Constant(args[0].type, [0] * bits.lanes))

    return bits(bits, zero), code


@intrinsic
def first_bit(typing: Any, bits: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the index of the lowest set bit of a nonzero integer."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return INT64(INT64), code


@intrinsic
def last_bit(typing: Any, bits: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the index of the highest set bit of a nonzero integer."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(zeros.type, 63), zeros)

    return INT64(INT64), code
