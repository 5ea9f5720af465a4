"""Vectors of columns: the best rank of each, and a label that says which rows it comes from.

A label stands for one row, or for ``GROUP`` rows: then there is but one step for each element, and which of the rows it
is has to be looked for in the end.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inlined, inner
from ..jit.element import integer_zero, of_bits
from ..run.column_rows import Rows
from .labels import label_all, label_of_greater, next_label
from .rank_vectors import RankVector, above_lanes, store_ranks, wide, wide_high_ranks, wide_lanes, wide_ranks
from .ranks import greater, is_half, lowest_rank, rank_of

GROUP = 4
"""Rows of a label."""

_LEAST, _MANY = 8, 256
"""The least and the most rows that a column's best rank stays in a register for."""

_NEAR = 1 << 14
"""Rows of more bytes would be in each other's way in the nearest cache."""


@inner
def labelled_rows_at_once(row: int) -> int:
    """For how many rows, so many bytes apart, a column's best rank stays in a register: some groups."""
    return min(_MANY, max(_LEAST, _NEAR // max(abs(row), 1)) // GROUP * GROUP)


class Winners(NamedTuple):
    """Where a kernel keeps the winners of columns.

    Attributes:
        best: the address of the best ranks.
        labels: the address of the labels of their rows.
        invert: the bits of elements to invert.
    """

    best: int
    labels: int
    invert: int


@inner
def label_neighbours(zero: int, rows: Rows, winners: Winners, label: int, group: int) -> None:
    """Takes rows of columns side by side, a vector of them at least, into the winners; labels begin with ``label``.

    Rows are some groups, of 1 or ``GROUP``, or else part of one.
    """
    lanes, width = wide_lanes(zero), rows.width
    i = 0
    while i < width:
        # Columns that are taken twice do not win against themselves.
        j = min(i + lanes, width - lanes)
        i = min(i, width - lanes)
        if group == 1:
            _label_two(zero, rows, winners, label, i, j, rows.height, 1)
        elif rows.height % GROUP:
            _label_two(zero, rows, winners, label, i, j, 1, rows.height)
        else:
            _label_two(zero, rows, winners, label, i, j, rows.height // GROUP, GROUP)
        i += 2 * lanes


@inlined
def _label_two(zero: int, rows: Rows, winners: Winners, label: int, i: int, j: int, groups: int, group: int) -> None:
    """Takes groups of rows of the vectors of columns from ``i`` and from ``j`` on."""
    if is_half(zero):
        best, rank_zero = winners.best, lowest_rank(zero)
        a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, j, 0, rank_zero)
        if _above_zero(a, zero) and _above_zero(b, zero):
            _groups_of_two(zero, rows, winners, label, i, j, groups, group, True)
            return
    _groups_of_two(zero, rows, winners, label, i, j, groups, group, False)


@inlined
def _above_zero(ranks: RankVector, zero: int) -> bool:
    return above_lanes(ranks, wide(rank_of(of_bits(0, zero), 0), zero)) == (1 << wide_lanes(zero)) - 1


@inlined
def _groups_of_two(
    zero: int, rows: Rows, winners: Winners, label: int, i: int, j: int, groups: int, group: int, high: bool
) -> None:
    """Like ``_label_two``; ``high`` says that all best ranks are above that of zero."""
    address, (best, labels, invert) = rows.address, winners
    rank_zero = lowest_rank(zero)
    label_zero = integer_zero(rank_zero)
    a, b = wide_ranks(best, i, 0, rank_zero), wide_ranks(best, j, 0, rank_zero)
    labels_a, labels_b = wide_ranks(labels, i, 0, label_zero), wide_ranks(labels, j, 0, label_zero)
    this = label_all(label, a)
    for _ in range(groups):
        c, d = a, b
        for _ in range(group):
            c = greater(_ranks(zero, address, i, invert, high), c)
            d = greater(_ranks(zero, address, j, invert, high), d)
            address += rows.pitch
        labels_a, labels_b = label_of_greater(c, a, this, labels_a), label_of_greater(d, b, this, labels_b)
        a, b = c, d
        this = next_label(this)
    store_ranks(best, i, a)
    store_ranks(best, j, b)
    store_ranks(labels, i, labels_a)
    store_ranks(labels, j, labels_b)


@inlined
def _ranks(zero: int, address: int, index: int, invert: int, high: bool) -> RankVector:
    if high:
        return wide_high_ranks(address, index, invert, zero)
    return wide_ranks(address, index, invert, zero)
