"""Loop geometry of sums over windows: that of pooling, and the function applied to the sums.

The windows of a pooling gather elements of the input. In the gradient the roles are reversed: each output element
gathers the windows that contain it, which are adjacent along each dimension.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..pooling import geometry as p
from ..run.geometry import at

# Slots between those of pooling.
KIND = 13  # kind of the terms
FUNCTION = 14  # function applied to a sum
BACKWARD = 15  # whether outputs gather windows
WHOLE = 16  # elements of a window, if padding counts as well; otherwise 0
WEIGHT = 17  # maximum sum of the weights of a sum
DIVISOR = 18  # divisor of every sum, or 0 if it is the number of elements
LEAST_COMMON = 9  # per dimension: common multiple of all window sizes, of which each gets a share; 0 for weights of 1

SIGNED, MAGNITUDE, SQUARES = 0, 1, 2
"""Kinds of terms: elements, magnitudes or squares."""


@inner
def windows_of(geometry: int, dimension: int, out: int) -> tuple[int, int, int]:
    """Returns what an output gathers along a dimension: the first input position, how many, and their distance."""
    if at(geometry, BACKWARD):
        reach, stride = out + at(geometry, dimension + p.START), at(geometry, dimension + p.STRIDE)
        first = max(0, -((at(geometry, dimension + p.WINDOW) - 1 - reach) // stride))
        last = min(at(geometry, dimension + p.SIZE) - 1, reach // stride)
        return first, max(0, last - first + 1), 1
    first = p.first_tap(geometry, dimension, out)
    count = max(0, p.taps_end(geometry, dimension, out) - first)
    return p.position(geometry, dimension, out, first), count, at(geometry, dimension + p.DILATION)


@inner
def weight_of(geometry: int, dimension: int, window: int) -> float:
    """Returns the weight of a window in the gradient: an integer."""
    whole = at(geometry, dimension + LEAST_COMMON)
    if whole == 0:
        return 1.0
    begin = window * at(geometry, dimension + p.STRIDE) - at(geometry, dimension + p.START)
    end = min(begin + at(geometry, dimension + p.WINDOW), at(geometry, dimension + p.OUT))
    return float(whole // max(1, end - max(begin, 0)))
