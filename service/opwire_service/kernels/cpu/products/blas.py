"""Products of float64 matrices in pieces; BLAS runs on the thread that calls it, for the pool shares out the work."""

from __future__ import annotations

from functools import cache

from threadpoolctl import threadpool_limits

DEPTH = 512
"""Products that are summed at a time: the error of a sum grows with it, and no call takes longer than some ms."""


@cache
def single_threaded() -> None:
    """Bounds BLAS to the calling thread, for the rest of the process."""
    threadpool_limits(1, "blas")


def summation_error(depth: int) -> float:
    """The error of a sum of so many exact products, ``DEPTH`` at a time, in parts of the sum of their magnitudes."""
    steps = min(depth, DEPTH) + -(-depth // DEPTH)
    # Some steps more than there are stand for the rounding of the bound itself.
    return (steps + 16) * 2.0**-53
