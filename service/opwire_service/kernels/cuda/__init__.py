"""The kernels of the CUDA device, by operator. Each one turns a plan into a job, which says what to launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opwire.check import Plan

from . import argreduce, elementwise, max_pooling, reduce
from .cumulative import family as cumulative
from .job import Card, CudaJob
from .movement import family as movement
from .normalization import response, softmax, statistics
from .pooling import averages, gradient, unpool
from .products import convolution, gemm, integers
from .quantization import linear, sums
from .resampling import gradient as resampling_gradient
from .resampling import regions, resample

_FAMILIES = (
    argreduce,
    reduce,
    max_pooling,
    elementwise,
    movement,
    cumulative,
    softmax,
    statistics,
    averages,
    gradient,
    linear,
    sums,
    resample,
    resampling_gradient,
    response,
    unpool,
    regions,
    gemm,
    convolution,
    integers,
)

_BY_FAMILY: tuple[Mapping[str, Callable[[Plan, Card], CudaJob]], ...] = tuple(family.JOBS for family in _FAMILIES)

JOBS: dict[str, Callable[[Plan, Card], CudaJob]] = {name: job for jobs in _BY_FAMILY for name, job in jobs.items()}
"""Maps an operator to the factory of its job, given a plan and the card."""

MULTIPLYING = frozenset(name for family in (gemm, convolution, integers) for name in family.JOBS)
"""Operators whose jobs multiply matrices with cuBLAS."""
