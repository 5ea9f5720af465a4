"""The last step of float sums for vectors of outputs, without branches; see ``rounding``.

It reports whatever is out of the ordinary as undecided: infinities, NaN, and results too close for the error bound.
"""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.element import float64, int32
from .formats import infinity_bits, log_tolerance, narrow_vector
from .functions import logarithms
from .rounding import AVERAGE, L2, LOG_SUM, UNIT
from .vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    load_vector,
    pick,
    roots,
    spread,
    store_vector,
)


@inner
def _bounds(
    zero: float, high: Vector, low: Vector, error: Vector, divisor: float, function: int
) -> tuple[Vector, Vector]:
    """Returns bounds of the results that allow for the roundings done here."""
    if function == LOG_SUM:
        result = logarithms(high)
        # Outside the positive normal range the logarithm is wrong; a NaN in its place leaves the element undecided.
        normal = (high > 1e-300) & (high < 1e300)
        is_undecided = absolutes(result) * log_tolerance(zero) * high < error
        result = pick(normal, pick(is_undecided, spread(math.nan), result), spread(math.nan))
        return result, result
    margin = error * (1 + 2.0**-20) + absolutes(high) * (4 * UNIT)
    least, most = high + (low - margin), high + (low + margin)
    if function == L2:
        least, most = roots(least), roots(most)
    elif function == AVERAGE:
        least, most = least / divisor, most / divisor
    return least - absolutes(least) * (2 * UNIT), most + absolutes(most) * (2 * UNIT)


@inner
def round_all(
    zero: float, sums: int, distance: int, width: int, count: int, function: int, results: int, undecided: int
) -> int:
    """Rounds sums whose high parts, low parts and error bounds are ``distance`` elements apart.

    Stores each result's bits, and an integer that is nonzero if the result is undecided. Returns the number of vectors
    with an undecided result.
    """
    divisor, infinity, any_undecided = float64(count), infinity_bits(zero), 0
    for i in range(0, width, WIDTH):
        high, low = load_vector(sums, i, 0.0), load_vector(sums, distance + i, 0.0)
        # Adding +0 would change a sum of negative zeros.
        low = pick((low < 0.0) | (low > 0.0), low, spread(-0.0))
        least, most = _bounds(zero, high, low, load_vector(sums, 2 * distance + i, 0.0), divisor, function)
        below, above = narrow_vector(least, zero), narrow_vector(most, zero)
        special = (below & infinity) > infinity - 1
        differing = below ^ above
        store_vector(results, i, below)
        store_vector(undecided, i, pick(special, spread(int32(1)), differing))
        any_undecided += any_of(special | (differing < 0) | (differing > 0))
    return any_undecided
