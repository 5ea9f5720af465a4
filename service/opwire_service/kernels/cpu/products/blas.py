"""Products of float64 matrices in pieces; BLAS runs on the thread that calls it, for the pool shares out the work."""

from __future__ import annotations

from functools import cache

import numpy as np
from threadpoolctl import threadpool_limits

from opwire.tensor import Array

DEPTH = 512
"""Products that are summed at a time: the error of a sum grows with it, and no call takes longer than some ms."""


@cache
def single_threaded() -> None:
    """Bounds BLAS to the calling thread, for the rest of the process."""
    threadpool_limits(1, "blas")


def doubles(view: Array) -> Array:
    """A copy of a matrix in float64, in the order of its memory, so that neither copy nor product goes against it."""
    *batch, rows, columns = view.shape
    if abs(view.strides[-2]) < abs(view.strides[-1]) and rows > 1:
        copy = np.empty((*batch, columns, rows)).swapaxes(-1, -2)
    else:
        copy = np.empty(view.shape)
    np.copyto(copy, view)
    return copy


def summation_error(depth: int) -> float:
    """The error of a sum of so many exact products, ``DEPTH`` at a time, in parts of the sum of their magnitudes."""
    steps = min(depth, DEPTH) + -(-depth // DEPTH)
    # Some steps more than there are stand for the rounding of the bound itself.
    return (steps + 16) * 2.0**-53


def row_norms(matrix: Array) -> Array:
    """The Euclidean norms of the rows, an einsum's error below the truth at most."""
    return np.sqrt(np.einsum("...ij,...ij->...i", matrix, matrix))


def column_norms(matrix: Array) -> Array:
    """Those of the columns."""
    return np.sqrt(np.einsum("...ij,...ij->...j", matrix, matrix))
