# No annotations on overloads: numba compares their signatures.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
"""Exact sums of FLOAT16 in 32-bit arithmetic: the sum modulo 2**32 in fixed point, and an approximate sum in FLOAT32.

In units of 2**-24 a term is an integer, below 2**31 if the term is below 128 (``LIMIT``). Sums of these integers modulo
2**32 are exact. The candidates for the true sum have the same remainder and are 2**32 units (256.0) apart, so the
FLOAT32 sum picks the right one if its error is below 128. If each term takes part in ``depth`` additions, that error is
at most ``depth * 2**-24 * terms * 128`` to first order; hence the bound ``MOST`` on ``depth * terms``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba.extending import overload

from ..jit.compiler import inner
from ..jit.element import FLOAT32, float32, int32, load, prefetch, size_of, store
from ..jit.prefetch import AHEAD
from ..numbers.vectors import (
    WIDTH,
    Vector,
    bits_singles,
    elements,
    fused_vectors,
    greatest_of,
    ints_to_doubles,
    load_vector,
    pick,
    single_bits,
    singles,
    spread,
    store_vector,
    total_of,
    truncated,
    widened,
)
from ..run.column_rows import Rows, column_address, walk_neighbors
from ..run.geometry import Tile
from .column_groups import GROUP, add_group, in_vectors
from .parameters import MAGNITUDE, SIGNED, SQUARES
from .sum_terms import Terms, term, terms_of

LIMIT = 0x43000000
"""Bits of 128 as a FLOAT32, the exclusive bound of the terms' magnitudes."""

MOST = 15 << 20
"""Maximum of ``depth * terms``, slightly below 2**24 to cover the higher-order error."""

_UNITS = float32(2.0**24)
"""Fixed-point units in 1."""

_TO_INTEGER = 1.5 * 2.0**52
"""Adding and subtracting it rounds a float64 to an integer."""

Sums = tuple[Vector, Vector, Vector]
"""A vector of sums: remainders modulo 2**32, FLOAT32 sums, and the largest magnitudes of the terms."""


@inner
def fits_fixed_point(zero: float, terms: Terms) -> bool:
    """Whether terms are FLOAT16 elements (known at compile time) or their magnitudes."""
    return size_of(zero) == 2 and terms.kind != SQUARES


@inner
def _add(zero: float, address: int, step: int | None, terms: Terms, sums: Sums) -> Sums:
    """Adds a vector of contiguous terms.

    The mask is applied after the conversion, which takes half as long when elements go to it straight from memory.
    """
    bits = single_bits(singles(elements(address, step, zero)))
    if terms.kind == MAGNITUDE:
        # The mask for the bits of a FLOAT16 converted to FLOAT32.
        bits = bits & int32(terms.mask << 16 | 0xFFFF)
    value, magnitude = bits_singles(bits), bits & 0x7FFFFFFF
    greatest = pick(magnitude > sums[2], magnitude, sums[2])
    return sums[0] + truncated(value * _UNITS), fused_vectors(value, _UNITS, sums[1]), greatest


@inner
def exact_sums(remainders: Vector, about: Vector) -> Vector:
    """Combines remainders and approximate sums into exact float64 sums; a FLOAT32 sum of -0 means all terms are -0."""
    near, remainder = widened(about), ints_to_doubles(remainders)
    times = ((near - remainder) * 2.0**-32 + _TO_INTEGER) - _TO_INTEGER
    exact = (remainder + times * 2.0**32) * 2.0**-24
    return pick((exact < 0.0) | (exact > 0.0) | (near < 0.0) | (near > 0.0), exact, near)


@inner
def _add_run(zero: float, address: int, vectors: int, row: int, terms: Terms, greatest: Vector) -> Sums:
    sums = spread(int32(0)), spread(float32(-0.0)), greatest
    for _ in range(vectors):
        prefetch(address + AHEAD)
        sums = _add(zero, address, None, terms, sums)
        address += row
    return sums


@inner
def add_fixed_point_run(zero: float, address: int, vectors: int, row: int, terms: Terms, greatest: Vector) -> Sums:
    """Returns the sums of whole contiguous vectors; ``greatest`` holds the largest magnitudes so far."""
    if terms.kind == MAGNITUDE:
        return _add_run(zero, address, vectors, row, Terms(terms.mask, MAGNITUDE), greatest)
    return _add_run(zero, address, vectors, row, Terms(terms.mask, SIGNED), greatest)


def fixed_point_total(zero: Any, address: Any, vectors: Any, row: Any, terms: Any) -> Any:
    """Returns whether the sum of whole contiguous vectors is exact, and the sum."""


@overload(fixed_point_total, inline="always")
def _fixed_point_total(zero, address, vectors, row, terms):
    if zero == FLOAT32:  # avoids compiling unused code
        return lambda zero, address, vectors, row, terms: (False, 0.0)
    return lambda zero, address, vectors, row, terms: _total(zero, address, vectors, row, terms)


@inner
def _total(zero: float, address: int, vectors: int, row: int, terms: Terms) -> tuple[bool, float]:
    sums = add_fixed_point_run(zero, address, vectors, row, terms, spread(int32(0)))
    return greatest_of(sums[2]) < LIMIT, total_of(exact_sums(sums[0], sums[1]))


class _FixedPointState(NamedTuple):
    """The terms, and the addresses of remainders, FLOAT32 sums, and float64 sums of columns outside vectors."""

    terms: Terms
    remainders: int
    about: int
    rest: int


class _State(NamedTuple):
    """The largest magnitudes so far, and the number of additions a term has taken part in."""

    greatest: Vector
    depth: int


@inner
def _add_vectors(zero: float, rows: Rows, terms: Terms, remainders: int, about: int, greatest: Vector) -> Vector:
    """Adds a group of rows to whole vectors of columns."""
    for i in range(0, in_vectors(rows), WIDTH):
        nothing = spread(int32(0)), spread(float32(-0.0)), greatest
        sums = add_group(zero, column_address(zero, rows, i), rows, terms, _add, nothing)
        store_vector(remainders, i, load_vector(remainders, i, int32(0)) + sums[0])
        store_vector(about, i, load_vector(about, i, float32(0.0)) + sums[1])
        greatest = sums[2]
    return greatest


@inner
def _take(zero: float, rows: Rows, memory: _FixedPointState, state: _State) -> _State:
    terms, remainders, about, rest = memory
    if terms.kind == MAGNITUDE:
        greatest = _add_vectors(zero, rows, Terms(terms.mask, MAGNITUDE), remainders, about, state.greatest)
    else:
        greatest = _add_vectors(zero, rows, Terms(terms.mask, SIGNED), remainders, about, state.greatest)
    for i in range(in_vectors(rows), rows.width):
        total = load(rest, i, 0.0)
        for j in range(rows.height):
            total += term(zero, rows.address + j * rows.pitch, i, terms)
        store(rest, i, total)
    return _State(greatest, state.depth + 1)


def fixed_point_columns(zero: Any, geometry: Any, tile: Any, sums: Any, about: Any, left: Any) -> Any:
    """Computes the sums of contiguous columns and returns whether they are exact.

    Args:
        zero: its type is the element type.
        geometry: address of the geometry.
        tile: the columns and their segment.
        sums: address for the sums in float64.
        about, left: scratch buffers of one 32-bit number per column.
    """


@overload(fixed_point_columns, inline="always")
def _fixed_point_columns(zero, geometry, tile, sums, about, left):
    if zero == FLOAT32:
        return lambda zero, geometry, tile, sums, about, left: False
    return lambda zero, geometry, tile, sums, about, left: _columns(zero, geometry, tile, sums, about, left)


@inner
def _columns(zero: float, geometry: int, tile: Tile, sums: int, about: int, left: int) -> bool:
    width = tile.width
    for i in range(0, width, WIDTH):
        store_vector(sums, i, spread(-0.0))
        store_vector(about, i, spread(float32(-0.0)))
        store_vector(left, i, spread(int32(0)))
    memory, state = _FixedPointState(terms_of(geometry), left, about, sums), _State(spread(int32(0)), GROUP)
    greatest, depth = walk_neighbors(zero, geometry, tile, GROUP, _take, memory, state)
    if greatest_of(greatest) >= LIMIT or depth * (tile.last - tile.first) > MOST:
        return False
    for i in range(0, width // WIDTH * WIDTH, WIDTH):
        exact = exact_sums(load_vector(left, i, int32(0)), load_vector(about, i, float32(0.0)))
        store_vector(sums, i, exact)
    return True
