"""The identities: copies, which may transpose, unless elements are scaled on the way."""

from __future__ import annotations

from opwire.check import Plan

from ..elementwise import Elements
from ..job import CudaJob
from .cast import whole_copy


def job(plan: Plan, processors: int) -> CudaJob:
    """The job of a plan of an identity."""
    if getattr(plan.attributes, "ScaleBias", None) is None:
        return whole_copy(plan)
    return Elements(plan, processors)


JOBS = dict.fromkeys(("ELEMENT_WISE_IDENTITY", "ACTIVATION_IDENTITY"), job)
