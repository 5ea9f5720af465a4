"""Settles float sums that an error bound leaves undecided.

First by a compensated sum, which adds up the rounding errors of the additions separately (Sum2 of Ogita, Rump and
Oishi). If no addition rounded, it is exact, which settles ties between integers. Otherwise its error is at most UNIT
times the number of additions times the sum of the errors' magnitudes. What that leaves undecided is added up exactly.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import address_of, int8, store
from ..numbers.accumulator import LIMBS, add_value, clear_limbs, high_and_low, propagate_carries
from ..numbers.formats import put
from ..numbers.rounding import UNIT, rounded, two_sum
from ..numbers.vectors import WIDTH, Vector, absolutes, number, spread
from ..run.geometry import advance, run_from
from .geometry import FloatReduction
from .sums import term, terms

SETTLED = 1 << 24
"""Maximum number of terms that a kernel settles: some milliseconds, and 0.1 s if they must be added exactly."""

_SLACK = 1.002
"""Safety factor for the error terms that the bound neglects."""

_Sum = tuple[Vector, Vector, Vector]
"""A vector of sums: totals, accumulated rounding errors, and the accumulated magnitudes of those errors."""


@inlined
def _add_vectors(zero: float, address: int, count: int, pitch: int, step: int | None, kind: int, sums: _Sum) -> _Sum:
    """Adds vectors of terms that are ``pitch`` bytes apart."""
    total, low, lost = sums
    for i in range(count):
        total, rest = two_sum(total, terms(zero, address + i * pitch, step, kind))
        low, lost = low + rest, lost + absolutes(rest)
    return total, low, lost


@inner
def _compensated(zero: float, base: int, geometry: FloatReduction) -> tuple[float, float, float]:
    """Returns high and low part of a sum, and an error bound, 0 if it is exact."""
    step, kind = geometry.step, geometry.kind
    sums, pitch = (spread(-0.0), spread(0.0), spread(0.0)), advance(0, WIDTH * step, zero)
    high, low, lost = -0.0, 0.0, 0.0
    additions, i, end = 0, 0, geometry.count
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        if step == 1:
            sums = _add_vectors(zero, address, vectors, pitch, None, kind, sums)
        else:
            sums = _add_vectors(zero, address, vectors, pitch, step, kind, sums)
        for j in range(vectors * WIDTH, size):
            high, rest = two_sum(high, term(zero, address, j * step, kind))
            low, lost = low + rest, lost + abs(rest)
        additions += vectors + WIDTH
        i += size
    for j in range(WIDTH):
        high, rest = two_sum(high, number(sums[0], j))
        low, lost = low + (rest + number(sums[1], j)), lost + abs(rest) + number(sums[2], j)
    if high - high != 0.0:
        return high, 0.0, 0.0  # infinite or NaN
    if low != 0.0:
        high, low = two_sum(high, low)
    return high, low, _SLACK * UNIT * (additions + 4 * WIDTH) * lost


@inner
def _exact(zero: float, base: int, geometry: FloatReduction, limbs: int) -> tuple[float, float]:
    step, kind = geometry.step, geometry.kind
    clear_limbs(limbs)
    i, end = 0, geometry.count
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        for j in range(size):
            add_value(limbs, term(zero, address, j * step, kind))
        i += size
    propagate_carries(limbs)
    return high_and_low(limbs)


@kernel
def settle(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """Writes the sum of the terms from ``source`` on to ``target``; sets the flag at ``states`` if it is too long."""
    count, function = geometry.count, geometry.function
    if count > SETTLED:
        store(states, 0, int8(1))
        return
    high, low, error = _compensated(zero, source, geometry)
    decided, bits = rounded(high, low, error, count, function, zero)
    if decided:
        put(target, 0, bits, zero)
        return
    memory = np.empty(LIMBS, np.int64)
    high, low = _exact(zero, source, geometry, address_of(memory))
    _, bits = rounded(high, low, 0.0, count, function, zero)
    put(target, 0, bits, zero)
    memory[0] = 0  # keeps the buffer alive until here
