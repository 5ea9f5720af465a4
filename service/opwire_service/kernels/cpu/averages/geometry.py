"""The loops of sums of windows: those of pooling, and what becomes of the sums.

Windows of a pooling gather elements of the input. In the gradient the roles change: each element of the output gathers
the windows that have it, which are neighbours along each dimension.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..pooling import geometry as p
from ..run.geometry import at

# Slots between those of pooling.
KIND = 13  # what is added up
FUNCTION = 14  # what becomes of a sum
BACKWARD = 15  # whether outputs gather windows
WHOLE = 16  # elements of a window, if padding counts as well; otherwise 0
WEIGHT = 17  # the most that the weights of a sum add up to
DIVISOR = 18  # of every sum, or 0 if it is the number of elements
LEAST_COMMON = 9  # of a dimension: a multiple of the sizes of all windows, of which each has a part; 0 for weights of 1

SIGNED, MAGNITUDE, SQUARES = 0, 1, 2
"""Elements, their magnitudes or their squares."""


@inner
def windows_of(geometry: int, dimension: int, out: int) -> tuple[int, int, int]:
    """What an output gathers along a dimension: the first position of the input, how many, and how far apart."""
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
    """The weight of a window in the gradient: an integer."""
    whole = at(geometry, dimension + LEAST_COMMON)
    if whole == 0:
        return 1.0
    begin = window * at(geometry, dimension + p.STRIDE) - at(geometry, dimension + p.START)
    end = min(begin + at(geometry, dimension + p.WINDOW), at(geometry, dimension + p.OUT))
    return float(whole // max(1, end - max(begin, 0)))
