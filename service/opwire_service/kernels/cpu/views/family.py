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
}
