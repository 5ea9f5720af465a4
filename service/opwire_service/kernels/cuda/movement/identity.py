"""The identity operators: elementwise formulas, or copies where adjacent elements are not contiguous."""

from __future__ import annotations

from opwire.check import Plan

from .. import elementwise
from ..job import Card, CudaJob
from .cast import whole_copy


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of an identity plan."""
    elements = elementwise.job(plan, card)
    if elements.gathers and getattr(plan.attributes, "ScaleBias", None) is None:
        return whole_copy(plan)
    return elements


JOBS = dict.fromkeys(("ELEMENT_WISE_IDENTITY", "ACTIVATION_IDENTITY"), job)
