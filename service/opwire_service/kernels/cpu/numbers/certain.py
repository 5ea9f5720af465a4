"""Rounding of float64 to a narrower type where a bound on the error decides it, and the elements where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array

_FRACTION = 52


def undecided(values: Array, bound: float, dtype: np.dtype[Any]) -> Array:
    """The flat positions of elements that lie so near to the middle of two floats that their errors may matter.

    Args:
        values: float64, contiguous in some order.
        bound: the relative error that each may have; an element that is 0 or not finite has none.
        dtype: of the result.
    """
    flat = values.ravel("K")
    info = np.finfo(dtype)
    dropped = _FRACTION - info.nmant
    margin = int(bound * 2.0**53) + 2
    bits = flat.view(np.int64) - ((1 << (dropped - 1)) - margin)
    bits &= (1 << dropped) - 1
    doubtful = bits <= 2 * margin
    least = float(info.smallest_normal)
    if not (flat.min(initial=np.inf) >= least or flat.max(initial=-np.inf) <= -least):
        magnitudes = np.abs(flat)
        small = np.flatnonzero(magnitudes < least)
        steps = magnitudes[small] / float(info.smallest_subnormal)
        doubtful[small] = np.abs(steps - np.floor(steps) - 0.5) <= steps * bound
    found: Array = np.flatnonzero(doubtful)
    return found[np.isfinite(flat[found])] if found.size else found
