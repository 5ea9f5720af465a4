"""The last step of float sums for vectors of outputs, without branches; see ``rounding``.

It reports as open whatever is out of the ordinary: infinities, NaN, and results that the error bound does not decide.
"""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.element import float64, int32
from .formats import infinity_bits, log_tolerance, narrow_vector
from .rounding import AVERAGE, L2, LOG_SUM, UNIT
from .vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    bits_doubles,
    fused_vectors,
    load_vector,
    longs_bits,
    pick,
    roots,
    spread,
    store_vector,
    to_doubles,
)

_ROOT_HALF = 0x3FE6A09E667F3BCD
"""Bits of sqrt(1/2), the lower end of the reduced range of the logarithm."""

_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
"""ln 2, split into a high and a low part."""


@inner
def logarithms(x: Vector) -> Vector:
    """Returns logarithms of positive normal numbers, with a relative error below 1e-12.

    They are 2 * artanh((m - 1) / (m + 1)) plus a multiple of ln 2.
    """
    bits = longs_bits(x) - _ROOT_HALF
    exponents = to_doubles(bits >> 52)
    m = bits_doubles((bits & 0xFFFFFFFFFFFFF) + _ROOT_HALF)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = fused_vectors(t, spread(1 / 17), spread(1 / 15))
    p = fused_vectors(t, p, spread(1 / 13))
    p = fused_vectors(t, p, spread(1 / 11))
    p = fused_vectors(t, p, spread(1 / 9))
    p = fused_vectors(t, p, spread(1 / 7))
    p = fused_vectors(t, p, spread(1 / 5))
    p = fused_vectors(t, p, spread(1 / 3))
    s = s + s
    return fused_vectors(exponents, spread(_LN2), fused_vectors(s * t, p, s))


@inner
def _bounds(
    zero: float, high: Vector, low: Vector, error: Vector, divisor: float, function: int
) -> tuple[Vector, Vector]:
    """Returns bounds of the results that allow for the roundings done here."""
    if function == LOG_SUM:
        result = logarithms(high)
        # Outside the positive normal range the logarithm is wrong; a NaN in its place leaves the element open.
        normal = (high > 1e-300) & (high < 1e300)
        doubtful = absolutes(result) * log_tolerance(zero) * high < error
        result = pick(normal, pick(doubtful, spread(math.nan), result), spread(math.nan))
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
    zero: float, sums: int, distance: int, width: int, count: int, function: int, results: int, opens: int
) -> int:
    """Rounds sums whose high parts, low parts and error bounds are ``distance`` elements apart.

    Stores each result's bits, and an integer that is nonzero if the result is open. Returns the number of vectors with
    an open result.
    """
    divisor, infinity, any_open = float64(count), infinity_bits(zero), 0
    for i in range(0, width, WIDTH):
        high, low = load_vector(sums, i, 0.0), load_vector(sums, distance + i, 0.0)
        # Adding +0 would change a sum of negative zeros.
        low = pick((low < 0.0) | (low > 0.0), low, spread(-0.0))
        least, most = _bounds(zero, high, low, load_vector(sums, 2 * distance + i, 0.0), divisor, function)
        below, above = narrow_vector(least, zero), narrow_vector(most, zero)
        special = (below & infinity) > infinity - 1
        differing = below ^ above
        store_vector(results, i, below)
        store_vector(opens, i, pick(special, spread(int32(1)), differing))
        any_open += any_of(special | (differing < 0) | (differing > 0))
    return any_open
