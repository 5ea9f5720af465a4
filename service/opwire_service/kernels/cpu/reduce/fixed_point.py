# What numba compares must have no annotations.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
"""Sums of FLOAT16 without error in numbers of 32 bits: what they leave modulo 2**32, and about how much they are.

In units of 2**-24 a term is an integer, below 2**31 if it is below ``LIMIT``. Sums of such integers modulo 2**32 have
no error. Of the numbers that leave the same remainder, 256 apart, the sum is the one next to a sum in FLOAT32 if that
errs by less than 128. For terms that take part in ``depth`` additions it errs by at most ``depth * 2**-24 * terms *
LIMIT`` to first order, so ``MOST`` bounds ``depth * terms``.
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
from ..run.column_rows import Rows, column_address, walk_neighbours
from ..run.geometry import Tile
from .column_groups import GROUP, add_group, in_vectors
from .parameters import MAGNITUDE, SIGNED, SQUARES
from .sum_terms import Terms, term, terms_of

LIMIT = 0x43000000
"""The bits of 128 as a FLOAT32."""

MOST = 15 << 20

_UNITS = float32(2.0**24)
_TO_INTEGER = 1.5 * 2.0**52
"""What is added to it, and taken away again, is rounded to an integer."""

Sums = tuple[Vector, Vector, Vector]
"""Sixteen sums: remainders, FLOAT32, and the greatest magnitude among the terms."""


@inner
def fits_fixed_point(zero: float, terms: Terms) -> bool:
    """Whether terms are FLOAT16, which is known when a kernel is compiled, or their magnitudes."""
    return size_of(zero) == 2 and terms.kind != SQUARES


@inner
def _add(zero: float, address: int, step: int | None, terms: Terms, sums: Sums) -> Sums:
    """Adds sixteen terms, which lie side by side.

    The mask comes after the conversion, which takes half as long if elements go from memory right into it.
    """
    bits = single_bits(singles(elements(address, step, zero)))
    if terms.kind == MAGNITUDE:
        # The mask for the bits of what was a FLOAT16.
        bits = bits & int32(terms.mask << 16 | 0xFFFF)
    value, magnitude = bits_singles(bits), bits & 0x7FFFFFFF
    greatest = pick(magnitude > sums[2], magnitude, sums[2])
    return sums[0] + truncated(value * _UNITS), fused_vectors(value, _UNITS, sums[1]), greatest


@inner
def exact_sums(remainders: Vector, about: Vector) -> Vector:
    """The sums as float64. A sum in FLOAT32 is -0 if all terms are."""
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
    """The sums of whole vectors of neighbours; ``greatest`` is what other terms have left."""
    if terms.kind == MAGNITUDE:
        return _add_run(zero, address, vectors, row, Terms(terms.mask, MAGNITUDE), greatest)
    return _add_run(zero, address, vectors, row, Terms(terms.mask, SIGNED), greatest)


def fixed_point_total(zero: Any, address: Any, vectors: Any, row: Any, terms: Any) -> Any:
    """Whether the sum of whole vectors of neighbours is right, and that sum."""


@overload(fixed_point_total, inline="always")
def _fixed_point_total(zero, address, vectors, row, terms):
    if zero == FLOAT32:  # nothing is compiled in vain
        return lambda zero, address, vectors, row, terms: (False, 0.0)
    return lambda zero, address, vectors, row, terms: _total(zero, address, vectors, row, terms)


@inner
def _total(zero: float, address: int, vectors: int, row: int, terms: Terms) -> tuple[bool, float]:
    sums = add_fixed_point_run(zero, address, vectors, row, terms, spread(int32(0)))
    return greatest_of(sums[2]) < LIMIT, total_of(exact_sums(sums[0], sums[1]))


class _Memory(NamedTuple):
    """What is added up, and where: the columns' remainders and FLOAT32 sums, and those of columns in no vector."""

    terms: Terms
    remainders: int
    about: int
    rest: int


class _State(NamedTuple):
    """The greatest magnitude so far, and how many additions a term has taken part in."""

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
def _take(zero: float, rows: Rows, memory: _Memory, state: _State) -> _State:
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
    """Leaves the sums of the terms of columns that lie side by side, and tells whether they are right.

    Args:
        about, left: memory for as many numbers of 32 bits as there are columns.
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
    memory, state = _Memory(terms_of(geometry), left, about, sums), _State(spread(int32(0)), GROUP)
    greatest, depth = walk_neighbours(zero, geometry, tile, GROUP, _take, memory, state)
    if greatest_of(greatest) >= LIMIT or depth * (tile.last - tile.first) > MOST:
        return False
    for i in range(0, width // WIDTH * WIDTH, WIDTH):
        exact = exact_sums(load_vector(left, i, int32(0)), load_vector(about, i, float32(0.0)))
        store_vector(sums, i, exact)
    return True
