"""Vectors of names: of each lane of a vector of ranks, where the rank comes from. They are integers of its width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ..jit.element import INT64, intrinsic
from .ranks import above
from .vectors import Vector, fold_lanes


@intrinsic
def name_all(typing: Any, number: Any, ranks: Any) -> tuple[Any, Callable[..., Any]]:
    """One name for all lanes of a vector."""
    names = Vector(types.Integer.from_bitwidth(ranks.lane.bitwidth, signed=True), ranks.lanes)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane, lanes = ir.IntType(names.lane.bitwidth), names.lanes
        name = builder.trunc(args[0], lane) if lane.width < 64 else args[0]
        vector = builder.insert_element(
            ir.Constant(ir.VectorType(lane, lanes), ir.Undefined), name, ir.Constant(ir.IntType(32), 0)
        )
        return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

    return names(INT64, ranks), code


@intrinsic
def next_name(typing: Any, names: Any) -> tuple[Any, Callable[..., Any]]:
    """Each name and one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(args[0], ir.Constant(args[0].type, [1] * names.lanes))

    return names(names), code


@intrinsic
def name_of_greater(typing: Any, ranks: Any, so_far: Any, names: Any, named: Any) -> tuple[Any, Callable[..., Any]]:
    """Of each lane the name of what ``greater`` takes: ``named`` where ranks are equal or the first one is NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(above(builder, ranks.lane, *args[:2]), *args[2:])

    return names(ranks, ranks, names, names), code


@intrinsic
def name_of_equal(typing: Any, ranks: Any, others: Any, names: Any, otherwise: Any) -> tuple[Any, Callable[..., Any]]:
    """Of each lane the name where two ranks are equal."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        floats = isinstance(ranks.lane, types.Float)
        equal = builder.fcmp_ordered("==", *args[:2]) if floats else builder.icmp_signed("==", *args[:2])
        return builder.select(equal, *args[2:])

    return names(ranks, ranks, names, names), code


@intrinsic
def least_name(typing: Any, names: Any) -> tuple[Any, Callable[..., Any]]:
    """The least of the names of all lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = fold_lanes(builder, args[0], lambda builder, *halves: builder.icmp_signed("<", *halves))
        return builder.sext(name, ir.IntType(64)) if names.lane.bitwidth < 64 else name

    return INT64(names), code
