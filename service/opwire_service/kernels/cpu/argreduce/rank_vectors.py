"""Vectors of ranks, for loops that LLVM does not vectorize well: extremes of floats, and searches.

A vector holds 64 bytes of ranks on every processor; LLVM splits it into registers. Next to it there may be a vector of
labels, small numbers as wide as a rank, that say where each rank comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import register_model

from ..jit.element import ADDRESS, FLOAT32, INT64, intrinsic, metadata_of_written, pointer_to
from .ranks import above, rank_type, ranked

WIDE = 64
"""Size of a vector in bytes."""


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


def _vector(zero: Any) -> RankVector:
    rank = rank_type(zero)
    return RankVector(rank, 8 * WIDE // rank.bitwidth)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    for i in range(lanes):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), i))
    return vector


@intrinsic
def wide_ranks(typing: Any, address: Any, index: Any, invert: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads the ranks of contiguous elements from an index on."""
    vector = _vector(zero)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = ir.IntType(zero.bitwidth)
        first = builder.gep(pointer_to(builder, args[0], bits), [args[1]])
        packed = builder.bitcast(first, ir.VectorType(bits, vector.lanes).as_pointer())
        elements = builder.load(packed, align=zero.bitwidth // 8)
        inverted = builder.trunc(args[2], bits) if bits.width < 64 else args[2]
        return ranked(builder, zero, elements, _splat(builder, inverted, vector.lanes))

    return vector(ADDRESS, ADDRESS, INT64, zero), code


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
    vector = _vector(zero)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane, lanes = context.get_value_type(vector.lane), vector.lanes
        first = builder.gep(pointer_to(builder, args[0], lane), [args[1]])
        both = builder.load(
            builder.bitcast(first, ir.VectorType(lane, 2 * lanes).as_pointer()), align=vector.lane.bitwidth // 8
        )
        places = ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(0, 2 * lanes, 2)))
        return builder.shuffle_vector(both, ir.Constant(both.type, ir.Undefined), places)

    return vector(ADDRESS, ADDRESS, zero), code


@intrinsic
def wide_lanes(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the number of ranks in a vector."""
    lanes = _vector(zero).lanes
    return ADDRESS(zero), lambda context, builder, signature, args: context.get_constant(ADDRESS, lanes)


@intrinsic
def wide(typing: Any, rank: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Broadcasts a rank to a vector."""
    vector = _vector(zero)
    return vector(rank, zero), lambda context, builder, signature, args: _splat(builder, args[0], vector.lanes)


@intrinsic
def greatest_lane(typing: Any, vector: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the greatest rank of a vector."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, lanes = args[0], vector.lanes
        while lanes > 1:
            lanes //= 2
            places = ir.VectorType(ir.IntType(32), lanes)
            halves = [
                builder.shuffle_vector(value, value, ir.Constant(places, list(range(first, first + lanes))))
                for first in (0, lanes)
            ]
            value = builder.select(above(builder, vector.lane, *halves), *halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

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


@intrinsic
def label_all(typing: Any, number: Any, ranks: Any) -> tuple[Any, Callable[..., Any]]:
    """Broadcasts a label to all lanes of a vector."""
    labels = RankVector(types.Integer.from_bitwidth(ranks.lane.bitwidth, signed=True), ranks.lanes)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane = ir.IntType(labels.lane.bitwidth)
        return _splat(builder, builder.trunc(args[0], lane) if lane.width < 64 else args[0], labels.lanes)

    return labels(INT64, ranks), code


@intrinsic
def next_label(typing: Any, labels: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns each label plus one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(args[0], ir.Constant(args[0].type, [1] * labels.lanes))

    return labels(labels), code


def _label(comparison: str) -> Any:
    @intrinsic
    def label(typing: Any, ranks: Any, so_far: Any, labels: Any, labeled: Any) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            compare = builder.fcmp_ordered if ranks.lane == FLOAT32 else builder.icmp_signed
            return builder.select(compare(comparison, *args[:2]), *args[2:])

        return labels(ranks, ranks, labels, labels), code

    return label


label_of_greater, label_of_not_less = _label(">"), _label(">=")
"""Return, for each lane, ``labels`` where a rank is greater than, or at least, the one so far; else ``labeled``."""
