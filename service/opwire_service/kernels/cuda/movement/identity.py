"""The identities: formulas of elements, or copies where neighbours do not lie side by side."""

from __future__ import annotations

from opwire.check import Plan

from .. import elementwise
from ..job import CudaJob
from .cast import whole_copy


def job(plan: Plan, processors: int) -> CudaJob:
    """The job of a plan of an identity."""
    elements = elementwise.job(plan, processors)
    if elements.gathers and getattr(plan.attributes, "ScaleBias", None) is None:
        return whole_copy(plan)
    return elements


JOBS = dict.fromkeys(("ELEMENT_WISE_IDENTITY", "ACTIVATION_IDENTITY"), job)
