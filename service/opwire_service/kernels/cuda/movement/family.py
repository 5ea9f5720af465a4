"""The data-movement operators and the factories of their jobs."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ..job import Card, CudaJob
from . import cast, folding, identity, nonzero, padding, pick, scatter, sequence, top, view

_FAMILIES = (view, padding, cast, identity, pick, scatter, sequence, folding, top, nonzero)

JOBS: dict[str, Callable[[Plan, Card], CudaJob]] = {
    name: job for family in _FAMILIES for name, job in family.JOBS.items()
}
