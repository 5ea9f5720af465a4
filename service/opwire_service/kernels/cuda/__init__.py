"""The kernels of the CUDA device by operator: each makes the job of a plan, which says what to launch."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from . import argreduce, max_pooling, reduce
from .job import CudaJob

JOBS: dict[str, Callable[[Plan, int], CudaJob]] = {
    "REDUCE": reduce.job,
    "MAX_POOLING": max_pooling.job,
    "MAX_POOLING1": max_pooling.job,
    "MAX_POOLING2": max_pooling.job,
    "ARGMIN": argreduce.job,
    "ARGMAX": argreduce.job,
}
"""Operator -> job of a plan for a card with so many multiprocessors."""
