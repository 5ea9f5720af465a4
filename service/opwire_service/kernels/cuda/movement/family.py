"""The operators that move, convert, pick and choose elements, with what makes their jobs."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ..job import CudaJob
from . import cast, folding, nonzero, pick, scatter, top, view

JOBS: dict[str, Callable[[Plan, int], CudaJob]] = {
    name: job for family in (view, cast, pick, scatter, folding, top, nonzero) for name, job in family.JOBS.items()
}
