"""Rounding from float64 to a narrower type: finds the elements for which an error bound does not decide the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array

_FRACTION = 52
"""Fraction bits of a float64."""


def undecided(values: Array, bound: float, dtype: np.dtype[Any]) -> Array:
    """Returns the flat positions of elements so close to a midpoint of floats that their error may change the rounding.

    Args:
        values: float64 array, contiguous in some order.
        bound: relative error bound of each element; zeros and non-finite elements are exact.
        dtype: type of the result.
    """
    flat = values.ravel("K")
    info = np.finfo(dtype)
    dropped = _FRACTION - info.nmant
    margin = int(bound * 2.0**53) + 2
    bits = flat.view(np.int64) - ((1 << (dropped - 1)) - margin)
    bits &= (1 << dropped) - 1
    is_undecided = bits <= 2 * margin
    least = float(info.smallest_normal)
    if not (flat.min(initial=np.inf) >= least or flat.max(initial=-np.inf) <= -least):
        magnitudes = np.abs(flat)
        small = np.flatnonzero(magnitudes < least)
        steps = magnitudes[small] / float(info.smallest_subnormal)
        is_undecided[small] = np.abs(steps - np.floor(steps) - 0.5) <= steps * bound
    found: Array = np.flatnonzero(is_undecided)
    return found[np.isfinite(flat[found])] if found.size else found
