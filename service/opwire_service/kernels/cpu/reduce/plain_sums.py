"""Float sums in float64 at memory speed, with an error bound.

Adding n terms such that each takes part in at most ``depth`` additions has an error of at most ``depth * UNIT`` times
the sum of their magnitudes, to first order (Higham, Accuracy and Stability, 4.2). The second-order error is below
``depth * UNIT`` < 2**-20 times that. For nonnegative terms the sum of magnitudes is the sum itself. Otherwise it is at
most the square root of n times the sum of squares, which one fused operation in FLOAT32 accumulates for twice as many
elements as float64 would. Rounding, up to 2**14 times per term, lowers that sum by less than 0.1 %, and underflow by at
most ``UNDERFLOW`` per term; ``SLACK`` covers the rest. Squares that overflow, and terms so small that ``UNDERFLOW``
matters, leave the sum open.
"""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.element import float32, float64, prefetch, size_of
from ..jit.prefetch import AHEAD
from ..numbers.formats import more_squares, values
from ..numbers.rounding import UNIT, two_sum
from ..numbers.vectors import WIDTH, Vector, bits_doubles, elements, fused_vectors, longs_bits, roots, spread, total_of
from ..run import geometry as g
from ..run.geometry import advance, at, run_from
from . import parameters as p
from .fixed_point import fits_fixed_point, fixed_point_total
from .parameters import MAGNITUDE, SIGNED, SINGLES, SQUARES
from .single_sums import ERROR, single_total
from .sum_terms import Terms, term, terms_of

SLACK = 1.002
"""Safety factor for the error terms that the bound neglects."""

UNDERFLOW = 2.0**-149
"""Maximum loss of a FLOAT32 square by underflow."""

RUN_TERMS = 1 << 13
"""Maximum number of terms added before their sum goes, without error, to the total; for FLOAT16 see ``EXACT_TERMS``."""


@inner
def add_vector(
    zero: float, address: int, step: int | None, terms: Terms, sums: tuple[Vector, Vector]
) -> tuple[Vector, Vector]:
    """Adds a vector of terms to the sums, and to the sums of squares if the error bound needs them."""
    total, squares = sums
    bits = elements(address, step, zero)
    if terms.kind == SQUARES:
        x = values(bits)
        return fused_vectors(x, x, total), squares
    if terms.kind == MAGNITUDE:
        # Converting elements straight from memory takes two thirds of the time.
        narrow = 64 - 8 * size_of(zero)
        return total + bits_doubles(longs_bits(values(bits)) & (terms.mask << narrow | (1 << narrow) - 1)), squares
    return total + values(bits), more_squares(squares, bits)


@inner
def add_run(zero: float, address: int, vectors: int, row: int, step: int | None, terms: Terms) -> tuple[Vector, Vector]:
    """Returns the sums of vectors of terms that are ``row`` bytes apart, and of their squares."""
    sums = spread(-0.0), spread(float32(0.0))
    for _ in range(vectors):
        prefetch(address + AHEAD)
        sums = add_vector(zero, address, step, terms, sums)
        address += row
    return sums


@inner
def _add_vectors(
    zero: float, address: int, vectors: int, row: int, step: int | None, terms: Terms
) -> tuple[float, float]:
    total, squares = add_run(zero, address, vectors, row, step, terms)
    return total_of(total), float64(total_of(squares))


DEPTH = 2 * WIDTH
"""Additions a term takes part in besides those of whole vectors: folding a vector, and the terms that fill none."""


@inner
def error_bound(total: float, squares: float, count: int, depth: int, exact: bool, kind: int) -> float:
    """Returns the error bound derived in the module docstring."""
    if exact:
        return 0.0
    factor, n = (SLACK * UNIT) * depth, float64(count)
    if kind in (MAGNITUDE, SQUARES):
        return factor * total
    return factor * math.sqrt(n * (squares + n * UNDERFLOW))


@inner
def error_bounds(totals: Vector, squares: Vector, count: float, depth: int, exact: bool, kind: int) -> Vector:
    """Like ``error_bound``, for a vector of sums."""
    if exact:
        return spread(0.0)
    factor = (SLACK * UNIT) * depth
    if kind in (MAGNITUDE, SQUARES):
        return totals * factor
    return roots((squares + count * UNDERFLOW) * count) * factor


@inner
def _run(
    zero: float, address: int, count: int, stride: int, step: int | None, terms: Terms, exact: bool
) -> tuple[float, float]:
    """Returns the sum of a run of terms ``stride`` elements apart, and its error bound."""
    kind = terms.kind
    vectors = count // WIDTH
    row = advance(0, WIDTH * stride, zero)
    if step is not None:
        # Gathering the terms dominates, so specializing by kind would not pay off.
        total, squares = _add_vectors(zero, address, vectors, row, step, terms)
    elif kind == SQUARES:
        total, squares = _add_vectors(zero, address, vectors, row, step, Terms(terms.mask, SQUARES))
    else:
        done, total, squares = False, 0.0, 0.0
        if kind == SINGLES and count == vectors * WIDTH:
            done, total = single_total(zero, address, vectors)
            if done:
                return total, total * ERROR
        if fits_fixed_point(zero, terms):
            done, total = fixed_point_total(zero, address, vectors, row, terms)
        if not done and kind == MAGNITUDE:
            total, squares = _add_vectors(zero, address, vectors, row, step, Terms(terms.mask, MAGNITUDE))
        elif not done:
            total, squares = _add_vectors(zero, address, vectors, row, step, Terms(terms.mask, SIGNED))
    rest = -0.0
    for i in range(vectors * WIDTH, count):
        x = term(zero, address, i * stride, terms)
        rest += x
        squares += x * x
    total += rest
    return total, error_bound(total, squares, count, vectors + DEPTH, exact, kind)


@inner
def plain_sum(zero: float, base: int, geometry: int, begin: int, end: int) -> tuple[float, float, float]:
    """Returns the high and low part of the sum of terms ``begin`` to ``end``, and its error bound."""
    step = at(geometry, g.STEP)
    terms, exact = terms_of(geometry), at(geometry, p.IS_EXACT) != 0
    high, low, error, cut_off = -0.0, 0.0, 0.0, 0.0
    pieces = 0
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        size = min(size, RUN_TERMS)
        if step == 1:
            part, part_error = _run(zero, address, size, 1, None, terms, exact)
        else:
            part, part_error = _run(zero, address, size, step, step, terms, exact)
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
    """Finishes a sum of pieces, given the accumulated rounding errors (``low``) and their magnitudes (``cut_off``)."""
    if high - high != 0.0:
        return high, 0.0, 0.0  # infinite or NaN: nothing to correct
    if not exact:
        # adding up low parts and bounds rounds as well
        error = error * (1.0 + pieces * 2 * UNIT) + 2 * pieces * UNIT * cut_off
    if low != 0.0:
        high, low = two_sum(high, low)
    return high, low, error
