"""NumPy's BLAS for float64 matrices, on the calling thread only, because the pool distributes the work."""

from __future__ import annotations

from functools import cache

from threadpoolctl import threadpool_limits

DEPTH = 512
"""Products of integers summed at once, so that no call takes longer than some milliseconds."""


@cache
def single_threaded() -> None:
    """Limits BLAS to the calling thread, for the lifetime of the process."""
    threadpool_limits(1, "blas")
