"""Loop geometry of sums over windows: that of pooling, and the function applied to the sums.

The windows of a pooling gather elements of the input. In the gradient the roles are reversed: each output element
gathers the windows that contain it, which are adjacent along each dimension.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..run.windows import Axis, Windows, first_tap, position, taps_end

SIGNED, MAGNITUDE, SQUARES = 0, 1, 2
"""Kinds of terms: elements, magnitudes or squares."""


class Sums(Windows):
    """Sums over windows.

    The ``common`` of an axis is a common multiple of all window sizes, of which each gets a share; 0 for weights of 1.
    """

    kind: int  # of the terms
    function: int  # applied to a sum
    backward: bool  # whether outputs gather windows
    whole: int  # elements of a window, if padding counts as well; otherwise 0
    weight: int  # maximum sum of the weights of a sum
    divisor: int  # of every sum, or 0 if it is the number of elements


@inner
def windows_of(geometry: Sums, axis: Axis, out: int) -> tuple[int, int, int]:
    """Returns what an output gathers along a dimension: the first input position, how many, and their distance."""
    if geometry.backward:
        reach = out + axis.start
        first = max(0, -((axis.window - 1 - reach) // axis.stride))
        last = min(axis.size - 1, reach // axis.stride)
        return first, max(0, last - first + 1), 1
    first = first_tap(axis, out)
    count = max(0, taps_end(axis, out) - first)
    return position(axis, out, first), count, axis.dilation


@inner
def weight_of(axis: Axis, window: int) -> float:
    """Returns the weight of a window in the gradient: an integer."""
    if axis.common == 0:
        return 1.0
    begin = window * axis.stride - axis.start
    end = min(begin + axis.window, axis.out)
    return float(axis.common // max(1, end - max(begin, 0)))
