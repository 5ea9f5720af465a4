"""Plain sums of whole rows, in groups: all rows of a group are read before any is folded.

Folding a vector takes as long as reading a kilobyte, but it is latency-bound; the folds of sixteen rows overlap.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import float32, float64, int32, store
from ..numbers.vectors import WIDTH, greatest_of, load_vector, spread, store_vector, total_of
from ..run import geometry as g
from ..run.geometry import advance, at
from . import parameters as p
from .fixed_point import LIMIT, add_fixed_point_run, exact_sums, fits_fixed_point
from .parameters import MAGNITUDE, SIGNED, SINGLES, SQUARES
from .plain_sums import DEPTH, RUN_TERMS, add_run, error_bounds
from .single_sums import ERROR, add_single_run, are_positive, is_accurate
from .sum_terms import Terms, term, terms_of

MEMORY = 2 * WIDTH * WIDTH
"""Scratch space for a group, in int64: for each row one vector of float64 and two of 32-bit numbers."""

_SECOND, _THIRD = 8 * WIDTH * WIDTH, 12 * WIDTH * WIDTH
"""Byte offsets of the 32-bit vectors."""


@inner
def are_whole(geometry: int) -> bool:
    """Whether rows are short contiguous runs, each in one segment."""
    count = at(geometry, g.COUNT)
    return (
        at(geometry, g.SEGMENTS) == 1
        and at(geometry, g.STEP) == 1
        and at(geometry, g.RUN) == count
        and WIDTH <= count <= RUN_TERMS
    )


@inner
def _row(zero: float, source: int, geometry: int, unit: int) -> int:
    return advance(source, g.kept_source(geometry, unit), zero)


@inner
def _read_rows(zero: float, source: int, geometry: int, begin: int, end: int, terms: Terms, memory: int) -> None:
    """Stores the vectors of sums of some rows, and those of the sums of squares."""
    vectors = at(geometry, g.COUNT) // WIDTH
    across, squares = advance(0, WIDTH, zero), memory + _SECOND
    for unit in range(begin, end):
        address, place = _row(zero, source, geometry, unit), (unit - begin) * WIDTH
        total, square = add_run(zero, address, vectors, across, None, terms)
        store_vector(memory, place, total)
        store_vector(squares, place, square)


@inner
def _read_fixed_point(zero: float, source: int, geometry: int, begin: int, end: int, memory: int) -> bool:
    """Like ``_read_rows``, without squares, in fixed point; returns whether the terms allow it."""
    vectors, across, terms = at(geometry, g.COUNT) // WIDTH, advance(0, WIDTH, zero), terms_of(geometry)
    remainders, about, greatest = memory + _SECOND, memory + _THIRD, spread(int32(0))
    for unit in range(begin, end):
        address, place = _row(zero, source, geometry, unit), (unit - begin) * WIDTH
        sums = add_fixed_point_run(zero, address, vectors, across, terms, greatest)
        greatest = sums[2]
        store_vector(remainders, place, sums[0])
        store_vector(about, place, sums[1])
    for place in range(0, (end - begin) * WIDTH, WIDTH):
        exact = exact_sums(load_vector(remainders, place, int32(0)), load_vector(about, place, float32(0.0)))
        store_vector(memory, place, exact)
    return greatest_of(greatest) < LIMIT


@inner
def _read_singles(zero: float, source: int, geometry: int, begin: int, end: int, memory: int) -> bool:
    """Like ``_read_fixed_point``, in FLOAT32 where that is accurate enough."""
    count, signs, enough = at(geometry, g.COUNT), spread(int32(0)), True
    if at(geometry, p.KIND) != SINGLES or count % WIDTH:
        return False
    for unit in range(begin, end):
        sums = add_single_run(zero, _row(zero, source, geometry, unit), count // WIDTH, signs)
        signs = sums[1]
        store_vector(memory, (unit - begin) * WIDTH, sums[0])
    for place in range(0, (end - begin) * WIDTH, WIDTH):
        enough = enough & is_accurate(zero, total_of(load_vector(memory, place, 0.0)))
    return enough and are_positive(signs)


@inner
def _read(zero: float, source: int, geometry: int, begin: int, end: int, memory: int) -> None:
    terms = terms_of(geometry)
    mask, kind = terms
    if fits_fixed_point(zero, terms) and _read_fixed_point(zero, source, geometry, begin, end, memory):
        return
    if kind == SQUARES:
        _read_rows(zero, source, geometry, begin, end, Terms(mask, SQUARES), memory)
    elif kind == MAGNITUDE:
        _read_rows(zero, source, geometry, begin, end, Terms(mask, MAGNITUDE), memory)
    else:
        _read_rows(zero, source, geometry, begin, end, Terms(mask, SIGNED), memory)


@inner
def add_rows(
    zero: float, source: int, geometry: int, begin: int, end: int, sums: int, distance: int, memory: int
) -> None:
    """Stores the sum of each row, as high part, low part and error bound ``distance`` apart.

    Args:
        zero: its type is the element type.
        source: address of the input.
        geometry: address of the geometry.
        begin, end: range of rows.
        sums: address for the results.
        distance: int64 slots between the parts of a result.
        memory: scratch buffer of ``MEMORY`` + 16 slots.
    """
    count, terms = at(geometry, g.COUNT), terms_of(geometry)
    exact, depth = at(geometry, p.IS_EXACT) != 0, count // WIDTH + DEPTH
    squares = memory + 8 * MEMORY
    for first in range(begin, end, WIDTH):
        last, place = min(first + WIDTH, end), first - begin
        in_singles = _read_singles(zero, source, geometry, first, last, memory)
        if not in_singles:
            _read(zero, source, geometry, first, last, memory)
        for i in range(last - first):
            total = total_of(load_vector(memory, i * WIDTH, 0.0))
            square = float64(total_of(load_vector(memory + _SECOND, i * WIDTH, float32(0.0))))
            for j in range(count // WIDTH * WIDTH, count):
                x = term(zero, _row(zero, source, geometry, first + i), j, terms)
                total += x
                square += x * x
            store(sums, place + i, total)
            store(squares, i, square)
        totals = load_vector(sums, place, 0.0)
        if in_singles:
            bounds = totals * ERROR
        else:
            bounds = error_bounds(totals, load_vector(squares, 0, 0.0), float64(count), depth, exact, terms.kind)
        store_vector(sums, distance + place, spread(0.0))
        store_vector(sums, 2 * distance + place, bounds)
