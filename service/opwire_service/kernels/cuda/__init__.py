"""The kernels of the CUDA device by operator: each makes the job of a plan, which says what to launch."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from . import argreduce, elementwise, max_pooling, reduce
from .job import CudaJob
from .products import convolution, gemm, integers

_FAMILIES = (argreduce, reduce, max_pooling, elementwise, gemm, convolution, integers)

JOBS: dict[str, Callable[[Plan, int], CudaJob]] = {
    name: job for family in _FAMILIES for name, job in family.JOBS.items()
}
"""Operator -> job of a plan for a card with so many multiprocessors."""
