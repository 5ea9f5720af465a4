"""Vectors of labels: for each lane of a vector of ranks, a small number that says where the rank comes from.

Labels are integers as wide as a rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ..jit.element import INT64, intrinsic
from .rank_vectors import RankVector, fold_lanes
from .ranks import above


@intrinsic
def label_all(typing: Any, number: Any, ranks: Any) -> tuple[Any, Callable[..., Any]]:
    """Broadcasts a label to all lanes of a vector."""
    labels = RankVector(types.Integer.from_bitwidth(ranks.lane.bitwidth, signed=True), ranks.lanes)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane, lanes = ir.IntType(labels.lane.bitwidth), labels.lanes
        label = builder.trunc(args[0], lane) if lane.width < 64 else args[0]
        vector = builder.insert_element(
            ir.Constant(ir.VectorType(lane, lanes), ir.Undefined), label, ir.Constant(ir.IntType(32), 0)
        )
        return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

    return labels(INT64, ranks), code


@intrinsic
def next_label(typing: Any, labels: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns each label plus one."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(args[0], ir.Constant(args[0].type, [1] * labels.lanes))

    return labels(labels), code


@intrinsic
def label_of_greater(typing: Any, ranks: Any, so_far: Any, labels: Any, labeled: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the labels of what ``greater`` returns: ``labeled`` where ranks are equal or the first one is NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(above(builder, ranks.lane, *args[:2]), *args[2:])

    return labels(ranks, ranks, labels, labels), code


@intrinsic
def label_of_equal(typing: Any, ranks: Any, others: Any, labels: Any, otherwise: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns, for each lane, ``labels`` where two ranks are equal, else ``otherwise``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        floats = isinstance(ranks.lane, types.Float)
        equal = builder.fcmp_ordered("==", *args[:2]) if floats else builder.icmp_signed("==", *args[:2])
        return builder.select(equal, *args[2:])

    return labels(ranks, ranks, labels, labels), code


@intrinsic
def least_label(typing: Any, labels: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the least label of all lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        label = fold_lanes(builder, args[0], lambda builder, *halves: builder.icmp_signed("<", *halves))
        return builder.sext(label, ir.IntType(64)) if labels.lane.bitwidth < 64 else label

    return INT64(labels), code
