"""The copies and constants that implement each data-movement operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ..reference.casts import stored
from . import phases
from .view import Phases, View, copy


class Movement(NamedTuple):
    """Copies between tensors, numbered from 0: inputs, then outputs, then the constants.

    Attributes:
        item: bytes per element.
        phases: the copies.
        constants: constant elements that are written.
    """

    item: int
    phases: Phases
    constants: Array | None = None


def _copies(make: Callable[[Plan], Phases]) -> Callable[[Plan], Movement]:
    """Returns the movement factory of an operator that needs no constants."""

    def movement(plan: Plan) -> Movement:
        return Movement(_item(plan), make(plan))

    return movement


def _item(plan: Plan) -> int:
    """Returns the bytes per element."""
    return next(iter(plan.outputs.values())).data_type.bits // 8


def _padding(plan: Plan) -> Movement:
    value = stored(plan.attributes.PaddingValue, plan.outputs["OutputTensor"].data_type)
    return Movement(_item(plan), phases.padding(plan), value)


def _slice_grad(plan: Plan) -> Movement:
    return Movement(_item(plan), phases.slice_grad(plan), np.zeros((), f"<u{_item(plan)}"))


def _fill(plan: Plan) -> Movement:
    return Movement(_item(plan), phases.fill(plan), _value(plan))


def _band(plan: Plan) -> Movement:
    return Movement(_item(plan), phases.band(plan), _value(plan))


def _value(plan: Plan) -> Array:
    """Returns the plan's fill value, followed by zero."""
    value = stored(plan.attributes.Value, plan.outputs["OutputTensor"].data_type)
    return np.array([value, 0], value.dtype)


def overwritten(plan: Plan) -> Movement:
    """Returns the movement of a scatter along an axis of one element, which every index means."""
    names = list(plan.inputs)
    updates = View.of(names.index("UpdatesTensor"), plan.inputs["UpdatesTensor"])
    return Movement(_item(plan), [[copy(updates, View.of(len(names), plan.outputs["OutputTensor"]))]])


MOVEMENTS: dict[str, Callable[[Plan], Movement]] = {
    "SPLIT": _copies(phases.split),
    "JOIN": _copies(phases.join),
    "TILE": _copies(phases.tile),
    "SLICE": _copies(phases.slice_),
    "SLICE1": _copies(phases.slice1),
    "SLICE_GRAD": _slice_grad,
    "SPACE_TO_DEPTH": _copies(phases.space_to_depth),
    "SPACE_TO_DEPTH1": _copies(phases.space_to_depth),
    "DEPTH_TO_SPACE": _copies(phases.depth_to_space),
    "DEPTH_TO_SPACE1": _copies(phases.depth_to_space),
    "PADDING": _padding,
    "PADDING1": _padding,
    "FILL_VALUE_CONSTANT": _fill,
    "DIAGONAL_MATRIX": _band,
    "DIAGONAL_MATRIX1": _band,
}
"""Movement factories, by operator."""
