"""Float sums with the error of every addition kept, for the sums that the plain bound does not decide.

What the additions cut off is added up apart (Ogita, Rump and Oishi, Sum2). If nothing was cut off the sum is exact;
that settles the ties between integers. Otherwise the error is at most UNIT times the number of additions times the sum
of the magnitudes cut off.
"""

from __future__ import annotations

from . import geometry as g
from .compiler import inner
from .element import load, store
from .geometry import advance, at
from .plain import SLACK, merged
from .rounding import UNIT, two_sum
from .terms import SQUARE, term

LANES = 32
"""Sums that run side by side. Each has three places in the scratch memory: sum, rest, magnitude of the rest."""


@inner
def _chunk(zero: float, address: int, count: int, step: int, mask: int, square: bool, scratch: int) -> None:
    rests, magnitudes = scratch + 8 * LANES, scratch + 16 * LANES
    for i in range(count):
        total, rest = two_sum(load(scratch, i, 0.0), term(zero, address, i * step, mask, square))
        store(scratch, i, total)
        store(rests, i, load(rests, i, 0.0) + rest)
        store(magnitudes, i, load(magnitudes, i, 0.0) + abs(rest))


@inner
def _run(zero: float, address: int, count: int, step: int, mask: int, square: bool, scratch: int) -> int:
    chunks = count // LANES
    for i in range(chunks):
        _chunk(zero, advance(address, i * LANES * step, zero), LANES, step, mask, square, scratch)
    rest = count - chunks * LANES
    if rest:
        _chunk(zero, advance(address, chunks * LANES * step, zero), rest, step, mask, square, scratch)
        chunks += 1
    return chunks


@inner
def compensated_sum(
    zero: float, base: int, geometry: int, begin: int, end: int, scratch: int
) -> tuple[float, float, float]:
    """High and low part of the sum of terms ``begin`` to ``end``, and a bound on its error, 0 if it is exact."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    mask, square = at(geometry, g.MASK), at(geometry, SQUARE) != 0
    for i in range(3 * LANES):
        store(scratch, i, -0.0)
    chunks = 0
    i = begin
    while i < end:
        run = i // run_size
        size = min(run_size - (i - run * run_size), end - i)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        chunks += _run(zero, address, size, step, mask, square, scratch)
        i += size
    high, low, cut_off = -0.0, 0.0, 0.0
    for i in range(LANES):
        high, rest = two_sum(high, load(scratch, i, 0.0))
        low += rest + load(scratch, LANES + i, 0.0)
        cut_off += abs(rest) + load(scratch, 2 * LANES + i, 0.0)
    return merged(high, low, SLACK * UNIT * chunks * cut_off, cut_off, 2 * LANES, False)
