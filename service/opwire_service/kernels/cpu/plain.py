"""Float sums in float64 at the speed of memory, with a bound on their error.

Adding n terms of magnitude at most ``peak`` so that no term takes part in more than ``depth`` additions errs by at most
``depth * UNIT * n * peak`` to first order (Higham, Accuracy and Stability, 4.2); for terms that are not negative their
sum takes the place of ``n * peak``. The second order is below the first times ``depth * UNIT`` < 2**-20, for which
``SLACK`` allows.
"""

from __future__ import annotations

from . import geometry as g
from .compiler import inner
from .element import bits_float, float64, int32, load, store
from .formats import peak_bits
from .geometry import advance, at
from .rounding import UNIT, two_sum
from .terms import EXACT_TERMS, IS_EXACT, SQUARE, sixteen, term

SLACK = 1.001

GROUP = 16
"""Rows that are added up in registers before their sum goes to the column's total."""

LANES, FEW_LANES = 128, 32
"""A run is added up as a matrix of so many columns; as many terms make a run long enough for the first."""

LONG_RUN = GROUP * LANES

SCRATCH = 2 * LANES
"""Places of 8 bytes that ``run_sum`` needs."""


@inner
def _group(
    zero: float, address: int, row: int, width: int, step: int, sums: int, peaks: int, mask: int, square: bool
) -> None:
    for i in range(width):
        total = sixteen(zero, address, row, i * step, mask, square)
        store(sums, i, load(sums, i, 0.0) + total)
        if not square:
            peak = load(peaks, i, int32(0))
            for j in range(GROUP):
                peak = max(peak, peak_bits(load(address + j * row, i * step, zero)))
            store(peaks, i, int32(peak))


@inner
def _row(zero: float, address: int, width: int, step: int, sums: int, peaks: int, mask: int, square: bool) -> None:
    for i in range(width):
        store(sums, i, load(sums, i, 0.0) + term(zero, address, i * step, mask, square))
        if not square:
            peak = max(load(peaks, i, int32(0)), peak_bits(load(address, i * step, zero)))
            store(peaks, i, int32(peak))


@inner
def _rows(
    zero: float,
    address: int,
    row: int,
    rows: int,
    width: int,
    step: int,
    sums: int,
    peaks: int,
    mask: int,
    square: bool,
) -> int:
    i = 0
    while i + GROUP <= rows:
        _group(zero, address + i * row, row, width, step, sums, peaks, mask, square)
        i += GROUP
    while i < rows:
        _row(zero, address + i * row, width, step, sums, peaks, mask, square)
        i += 1
    return rows // GROUP + rows % GROUP + 4


@inner
def add_rows(
    zero: float,
    address: int,
    row: int,
    rows: int,
    width: int,
    step: int,
    sums: int,
    peaks: int,
    mask: int,
    square: bool,
) -> int:
    """Adds each of some rows, ``row`` bytes apart, to the sums of their columns; returns the depth of that."""
    if step == 1:
        if square:
            return _rows(zero, address, row, rows, width, 1, sums, peaks, mask, True)
        return _rows(zero, address, row, rows, width, 1, sums, peaks, mask, False)
    return _rows(zero, address, row, rows, width, step, sums, peaks, mask, square)


@inner
def clear(sums: int, peaks: int, width: int) -> None:
    """Sums begin at -0, which alone changes no sum of zeros."""
    for i in range(width):
        store(sums, i, -0.0)
        store(peaks, i, int32(0))


@inner
def error_bound(total: float, count: int, peak: int, depth: int, exact: bool, square: bool) -> float:
    """See the module's text; ``peak`` is given as bits."""
    if exact:
        return 0.0
    largest = total if square else count * float64(bits_float(int32(peak)))
    return (SLACK * UNIT) * depth * largest


@inner
def _short_sum(
    zero: float, address: int, count: int, step: int, mask: int, square: bool, exact: bool
) -> tuple[float, float]:
    total = -0.0
    peak = int32(0)
    for i in range(count):
        total += term(zero, address, i * step, mask, square)
        peak = int32(max(peak, peak_bits(load(address, i * step, zero))))
    return total, error_bound(total, count, peak, count, exact, square)


@inner
def run_sum(
    zero: float, address: int, count: int, step: int, mask: int, square: bool, exact: bool, scratch: int
) -> tuple[float, float]:
    """The sum of a run of terms and a bound on its error."""
    if count < FEW_LANES:
        return _short_sum(zero, address, count, step, mask, square, exact)
    width = LANES if count >= LONG_RUN else FEW_LANES
    sums, peaks = scratch, scratch + 8 * LANES
    clear(sums, peaks, width)
    rows = count // width
    row = advance(0, width * step, zero)
    depth = add_rows(zero, address, row, rows, width, step, sums, peaks, mask, square)
    rest = count - rows * width
    if rest:
        add_rows(zero, address + rows * row, row, 1, rest, step, sums, peaks, mask, square)
    peak = int32(0)
    if not square:
        for i in range(width):
            peak = int32(max(peak, load(peaks, i, int32(0))))
    half = width // 2
    while half:
        for i in range(half):
            store(sums, i, load(sums, i, 0.0) + load(sums, half + i, 0.0))
        depth += 1
        half //= 2
    total = load(sums, 0, 0.0)
    return total, error_bound(total, count, peak, depth + 1, exact, square)


RUN_TERMS = 1 << 15
"""The most terms that are added up before their sum goes, without error, to the total of the unit."""


@inner
def plain_sum(zero: float, base: int, geometry: int, begin: int, end: int, scratch: int) -> tuple[float, float, float]:
    """High and low part of the sum of terms ``begin`` to ``end``, and a bound on its error."""
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    mask, square, exact = at(geometry, g.MASK), at(geometry, SQUARE) != 0, at(geometry, IS_EXACT) != 0
    most = EXACT_TERMS if exact else RUN_TERMS
    high, low, error, cut_off = -0.0, 0.0, 0.0, 0.0
    pieces = 0
    i = begin
    while i < end:
        run = i // run_size
        size = min(min(run_size - (i - run * run_size), end - i), most)
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        part, part_error = run_sum(zero, address, size, step, mask, square, exact, scratch)
        high, rest = two_sum(high, part)
        low += rest
        cut_off += abs(rest)
        error += part_error
        pieces += 1
        i += size
    return merged(high, low, error, cut_off, pieces, exact)


@inner
def merged(
    high: float, low: float, error: float, cut_off: float, pieces: int, exact: bool
) -> tuple[float, float, float]:
    """A sum of pieces: ``low`` added up what rounding cut off, ``cut_off`` the magnitudes of that."""
    if high - high != 0.0:
        return high, 0.0, 0.0  # infinite or NaN: there is nothing to correct
    if not exact:
        # Adding up low parts, and bounds, rounds as well.
        error = error * (1.0 + pieces * 2 * UNIT) + 2 * pieces * UNIT * cut_off
    if low != 0.0:
        high, low = two_sum(high, low)
    return high, low, error
