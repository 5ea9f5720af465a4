"""Which copies the operators are that move elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...reference.casts import converted
from ..run.job import Job
from . import phases
from .job import KERNELS as KERNELS
from .job import CopyJob
from .view import Phases


def _copies(make: Callable[[Plan], Phases]) -> Callable[[Plan], Job]:
    """Prepares an operator that needs no constants."""

    def prepare(plan: Plan) -> Job:
        return CopyJob(_item(plan), make(plan))

    return prepare


def _item(plan: Plan) -> int:
    """Bytes of an element."""
    return next(iter(plan.outputs.values())).data_type.bits // 8


def _prepare_padding(plan: Plan) -> Job:
    value = converted(plan.attributes.PaddingValue, plan.outputs["OutputTensor"].data_type)
    return CopyJob(_item(plan), phases.padding(plan), value)


def _prepare_slice_grad(plan: Plan) -> Job:
    return CopyJob(_item(plan), phases.slice_grad(plan), _zero(plan))


def _prepare_fill(plan: Plan) -> Job:
    return CopyJob(_item(plan), phases.fill(plan), _value(plan))


def _prepare_diagonal(plan: Plan) -> Job:
    offset = plan.attributes.Offset
    return CopyJob(_item(plan), phases.band(plan, offset, offset + 1), _value(plan))


def _prepare_band(plan: Plan) -> Job:
    ends = plan.attributes.DiagonalFillBegin, plan.attributes.DiagonalFillEnd
    return CopyJob(_item(plan), phases.band(plan, *ends), _value(plan))


def _value(plan: Plan) -> Array:
    """The value of a plan, and zero."""
    value = converted(plan.attributes.Value, plan.outputs["OutputTensor"].data_type)
    return np.array([value, 0], value.dtype)


def _zero(plan: Plan) -> Array:
    return np.zeros((), f"<u{_item(plan)}")


PREPARE = {
    "SPLIT": _copies(phases.split),
    "JOIN": _copies(phases.join),
    "TILE": _copies(phases.tile),
    "SLICE": _copies(phases.slice_),
    "SLICE1": _copies(phases.slice1),
    "SLICE_GRAD": _prepare_slice_grad,
    "SPACE_TO_DEPTH": _copies(phases.space_to_depth),
    "SPACE_TO_DEPTH1": _copies(phases.space_to_depth),
    "DEPTH_TO_SPACE": _copies(phases.depth_to_space),
    "DEPTH_TO_SPACE1": _copies(phases.depth_to_space),
    "PADDING": _prepare_padding,
    "PADDING1": _prepare_padding,
    "FILL_VALUE_CONSTANT": _prepare_fill,
    "DIAGONAL_MATRIX": _prepare_diagonal,
    "DIAGONAL_MATRIX1": _prepare_band,
}
