"""Products of float64 matrices in pieces; BLAS runs on the thread that calls it, for the pool shares out the work."""

from __future__ import annotations

from functools import cache

from threadpoolctl import threadpool_limits

DEPTH = 512
"""Products of integers that are summed at a time: no call takes longer than some ms."""


@cache
def single_threaded() -> None:
    """Bounds BLAS to the calling thread, for the rest of the process."""
    threadpool_limits(1, "blas")
