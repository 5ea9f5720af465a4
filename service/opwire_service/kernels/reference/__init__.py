"""The kernels of the reference device by operator: plain, one output element at a time."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ...execution import Arrays, Stop
from . import argreduce, max_pooling, reduce

Kernel = Callable[[Plan, Arrays, Arrays, Stop], None]

KERNELS: dict[str, Kernel] = {
    "REDUCE": reduce.run,
    "MAX_POOLING": max_pooling.run,
    "MAX_POOLING1": max_pooling.run,
    "MAX_POOLING2": max_pooling.run,
    "ARGMIN": argreduce.run,
    "ARGMAX": argreduce.run,
}
