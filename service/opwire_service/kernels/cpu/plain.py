"""Float sums in float64 at the speed of memory, with a bound on their error.

Adding n terms of magnitude at most ``peak`` so that no term takes part in more than ``depth`` additions errs by at most
``depth * UNIT * n * peak`` to first order (Higham, Accuracy and Stability, 4.2); for terms that are not negative their
sum takes the place of ``n * peak``. The second order is below the first times ``depth * UNIT`` < 2**-20, for which
``SLACK`` allows.
"""

from __future__ import annotations

from . import geometry as g
from .compiler import inner
from .element import bits_float, float64, int32, larger, load, read, store
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
        store(sums, i, load(sums, i, 0.0) + sixteen(zero, address, row, i * step, mask, square))
    if not square:
        # A loop of its own, because as many peaks as sums fit into half a vector.
        for i in range(width):
            peak = load(peaks, i, int32(0))
            for j in range(GROUP):
                peak = larger(peak, peak_bits(read(address + j * row, i * step, zero)))
            store(peaks, i, peak)


@inner
def _row(zero: float, address: int, width: int, step: int, sums: int, peaks: int, mask: int, square: bool) -> None:
    for i in range(width):
        store(sums, i, load(sums, i, 0.0) + term(zero, address, i * step, mask, square))
        if not square:
            store(peaks, i, larger(load(peaks, i, int32(0)), peak_bits(read(address, i * step, zero))))


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
        peak = larger(peak, peak_bits(read(address, i * step, zero)))
    return total, error_bound(total, count, peak, count, exact, square)


@inner
def _matrix_sums(
    zero: float, address: int, count: int, step: int, mask: int, square: bool, width: int, scratch: int
) -> tuple[int, int]:
    """Adds up a run as a matrix of ``width`` columns; returns the depth and the greatest peak."""
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
            peak = larger(peak, load(peaks, i, int32(0)))
    return depth + 1, peak


@inner
def _fold(sums: int, width: int) -> None:
    """Adds the four quarters of 4 * ``width`` sums, to as many as fit a vector or several."""
    for i in range(width):
        left = load(sums, i, 0.0) + load(sums, width + i, 0.0)
        right = load(sums, 2 * width + i, 0.0) + load(sums, 3 * width + i, 0.0)
        store(sums, i, left + right)


@inner
def run_sum(
    zero: float, address: int, count: int, step: int, mask: int, square: bool, exact: bool, scratch: int
) -> tuple[float, float]:
    """The sum of a run of terms and a bound on its error."""
    if count < FEW_LANES:
        return _short_sum(zero, address, count, step, mask, square, exact)
    if count >= LONG_RUN:
        depth, peak = _matrix_sums(zero, address, count, step, mask, square, LANES, scratch)
        _fold(scratch, FEW_LANES)
    else:
        depth, peak = _matrix_sums(zero, address, count, step, mask, square, FEW_LANES, scratch)
    _fold(scratch, 8)
    _fold(scratch, 2)
    total = load(scratch, 0, 0.0) + load(scratch, 1, 0.0)
    return total, error_bound(total, count, peak, depth + _FOLD_DEPTH, exact, square)


_FOLD_DEPTH = 7
"""Of folding ``LANES`` sums to one."""


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
