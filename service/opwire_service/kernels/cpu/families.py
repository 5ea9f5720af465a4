"""The kernels of the CPU device by operator."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from .extremes import family as argreduce
from .jit.compiler import Kernel
from .pooling import family as max_pooling
from .reduce import family as reduce
from .run import sharing
from .run.job import Job

PREPARE: dict[str, Callable[[Plan], Job]] = {
    "REDUCE": reduce.prepare,
    "MAX_POOLING": max_pooling.prepare,
    "MAX_POOLING1": max_pooling.prepare,
    "MAX_POOLING2": max_pooling.prepare,
    "ARGMIN": argreduce.prepare,
    "ARGMAX": argreduce.prepare,
}
"""What makes a plan ready."""

ALWAYS = sharing.KERNELS
"""What every plan may need."""

KERNELS: tuple[Kernel, ...] = (*ALWAYS, *argreduce.KERNELS, *reduce.KERNELS, *max_pooling.KERNELS)
"""All of them."""

COMPILING = "opwire_service.kernels.cpu.compiling"
"""The module that compiles them in a process of its own."""
