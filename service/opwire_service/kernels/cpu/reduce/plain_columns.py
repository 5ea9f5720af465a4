"""Plain sums of adjacent columns: each column's sum, and the sum of its squares, stays in the cache."""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inner
from ..jit.element import float32, load, store
from ..numbers.vectors import WIDTH, load_vector, spread, store_vector
from ..run.column_rows import Rows, column_address, stride_of, walk
from ..run.geometry import Tile
from .column_groups import GROUP, add_group, in_vectors
from .parameters import MAGNITUDE, SIGNED, SQUARES
from .plain_sums import add_vector
from .sum_terms import Terms, term, terms_of


class _PlainState(NamedTuple):
    """The terms to add, and the addresses of the columns' sums and of the sums of their squares."""

    terms: Terms
    sums: int
    squares: int


@inner
def clear(sums: int, squares: int, width: int) -> None:
    """Initializes sums; a sum starts at -0, the only identity that preserves sums of negative zeros."""
    for i in range(0, width, WIDTH):
        store_vector(sums, i, spread(-0.0))
        store_vector(squares, i, spread(float32(0.0)))


@inner
def _add_vectors(zero: float, rows: Rows, terms: Terms, sums: int, squares: int) -> None:
    """Adds a group of rows to whole vectors of columns."""
    for i in range(0, in_vectors(rows), WIDTH):
        nothing = spread(-0.0), spread(float32(0.0))
        total, square = add_group(zero, column_address(zero, rows, i), rows, terms, add_vector, nothing)
        store_vector(sums, i, load_vector(sums, i, 0.0) + total)
        store_vector(squares, i, load_vector(squares, i, float32(0.0)) + square)


@inner
def _add_rest(zero: float, rows: Rows, memory: _PlainState) -> None:
    """Adds a group of rows to the columns that do not fill a vector."""
    for i in range(in_vectors(rows), rows.width):
        total, square = -0.0, 0.0
        for j in range(rows.height):
            x = term(zero, rows.address + j * rows.pitch, i * stride_of(rows), memory.terms)
            total += x
            square += x * x
        store(memory.sums, i, load(memory.sums, i, 0.0) + total)
        store(memory.squares, i, load(memory.squares, i, float32(0.0)) + float32(square))


@inner
def _take(zero: float, rows: Rows, memory: _PlainState, groups: int) -> int:
    terms, sums, squares = memory
    if rows.step is not None:
        _add_vectors(zero, rows, terms, sums, squares)
    elif terms.kind == SQUARES:
        _add_vectors(zero, rows, Terms(terms.mask, SQUARES), sums, squares)
    elif terms.kind == MAGNITUDE:
        _add_vectors(zero, rows, Terms(terms.mask, MAGNITUDE), sums, squares)
    else:
        _add_vectors(zero, rows, Terms(terms.mask, SIGNED), sums, squares)
    _add_rest(zero, rows, memory)
    return groups + 1


@inner
def add_columns(zero: float, geometry: int, tile: Tile, sums: int, squares: int) -> int:
    """Computes each column's sum and sum of squares; returns the number of additions that a term takes part in."""
    clear(sums, squares, tile.width)
    memory = _PlainState(terms_of(geometry), sums, squares)
    return walk(zero, geometry, tile, GROUP, _take, memory, GROUP)
