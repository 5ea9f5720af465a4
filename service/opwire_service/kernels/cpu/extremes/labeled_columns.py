"""Vectors of columns with the best rank of each, and a label for the rows it comes from.

A label stands for one row or for ``GROUP`` rows. The latter takes a single step per element, but the row within the
group must be searched for at the end.
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
"""Rows per label."""

_LEAST, _MANY = 8, 256
"""Minimum and maximum number of rows for which a column's best rank stays in a register."""

_NEAR = 1 << 14
"""Maximum size of such rows, in bytes: more would compete for the same sets of the L1 cache."""


@inner
def labeled_rows_at_once(row: int) -> int:
    """Returns for how many rows of a given pitch a column's best rank stays in a register: a multiple of ``GROUP``."""
    return min(_MANY, max(_LEAST, _NEAR // max(abs(row), 1)) // GROUP * GROUP)


class Winners(NamedTuple):
    """The buffers in which a kernel keeps the winners of columns.

    Attributes:
        best: address of the best ranks.
        labels: address of the labels of their rows.
        invert: bits of elements to invert.
    """

    best: int
    labels: int
    invert: int


@inner
def label_neighbors(zero: int, rows: Rows, winners: Winners, label: int, group: int) -> None:
    """Updates the winners with rows of at least a vector of contiguous columns; labels start at ``label``.

    The rows are whole groups, of 1 or ``GROUP`` rows, or part of one group.
    """
    lanes, width = wide_lanes(zero), rows.width
    i = 0
    while i < width:
        # Columns visited twice do not win against themselves.
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
    """Processes groups of rows for the vectors of columns starting at ``i`` and ``j``."""
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
    """Like ``_label_two``; ``high`` means that all best ranks are above that of zero."""
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
