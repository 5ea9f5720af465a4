"""Vectors of columns: the best rank of each, and the name of the rows that it comes from.

A name stands for one row, or for ``GROUP`` rows: then there is but one step for each element, and which of the rows it
is has to be looked for in the end.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.element import integer_zero, of_bits
from .names import name_all, name_of_greater, next_name
from .rank_memory import store_ranks
from .ranks import greater, is_half, lowest_rank, rank_of
from .vectors import Vector, above_lanes, wide, wide_high_ranks, wide_lanes, wide_ranks

GROUP = 4
"""Rows of a name."""

_LEAST, _MANY = 8, 256
"""The least and the most rows that a column's best rank stays in a register for."""

_NEAR = 1 << 14
"""Rows of more bytes would be in each other's way in the nearest cache."""


@inner
def rows_at_once(row: int) -> int:
    """For how many rows, so many bytes apart, a column's best rank stays in a register: some groups."""
    return min(_MANY, max(_LEAST, _NEAR // max(abs(row), 1)) // GROUP * GROUP)


@inner
def name_neighbours(
    zero: int, address: int, row: int, rows: int, width: int, best: int, names: int, invert: int, name: int, group: int
) -> None:
    """Takes rows of columns without gaps, a vector at least, named ``name`` and following, into best ranks and names.

    Rows are some groups, of 1 or ``GROUP``, or else part of one.
    """
    lanes = wide_lanes(zero)
    i = 0
    while i < width:
        # Columns that are taken twice do not win against themselves.
        j = min(i + lanes, width - lanes)
        i = min(i, width - lanes)
        if group == 1:
            _name_two(zero, address, row, rows, 1, i, j, best, names, invert, name)
        elif rows % GROUP:
            _name_two(zero, address, row, 1, rows, i, j, best, names, invert, name)
        else:
            _name_two(zero, address, row, rows // GROUP, GROUP, i, j, best, names, invert, name)
        i += 2 * lanes


@inlined
def _name_two(
    zero: int,
    address: int,
    row: int,
    groups: int,
    group: int,
    i: int,
    j: int,
    best: int,
    names: int,
    invert: int,
    name: int,
) -> None:
    """Takes rows of the vectors of columns from ``i`` and from ``j`` on."""
    if is_half(zero):
        rank_zero = lowest_rank(zero)
        a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, j, 0, rank_zero)
        if _above_zero(a, zero) and _above_zero(b, zero):
            _rows_of_two(zero, address, row, groups, group, i, j, best, names, invert, name, True)
            return
    _rows_of_two(zero, address, row, groups, group, i, j, best, names, invert, name, False)


@inlined
def _above_zero(ranks: Vector, zero: int) -> bool:
    return above_lanes(ranks, wide(rank_of(of_bits(0, zero), 0), zero)) == (1 << wide_lanes(zero)) - 1


@inlined
def _rows_of_two(
    zero: int,
    address: int,
    row: int,
    groups: int,
    group: int,
    i: int,
    j: int,
    best: int,
    names: int,
    invert: int,
    name: int,
    high: bool,
) -> None:
    rank_zero = lowest_rank(zero)
    named = integer_zero(rank_zero)
    a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, j, 0, rank_zero)
    named_a, named_b = wide_ranks(names, i, 0, named), wide_ranks(names, j, 0, named)
    this = name_all(name, a)
    for _ in range(groups):
        c, d = a, b
        for _ in range(group):
            c = greater(_ranks(zero, address, i, invert, high), c)
            d = greater(_ranks(zero, address, j, invert, high), d)
            address += row
        named_a, named_b = name_of_greater(c, a, this, named_a), name_of_greater(d, b, this, named_b)
        a, b = c, d
        this = next_name(this)
    store_ranks(best, i, a)
    store_ranks(best, j, b)
    store_ranks(names, i, named_a)
    store_ranks(names, j, named_b)


@inlined
def _ranks(zero: int, address: int, index: int, invert: int, high: bool) -> Vector:
    if high:
        return wide_high_ranks(address, index, invert, zero)
    return wide_ranks(address, index, invert, zero)
