"""Sums of columns that add up a group of rows in registers before adding it to the columns' totals."""

from __future__ import annotations

from typing import Any

from ..jit.compiler import inlined
from ..jit.element import prefetch
from ..jit.prefetch import rows_ahead
from ..numbers.vectors import WIDTH
from ..run.column_rows import Rows

GROUP = 8
"""Rows in a group."""


@inlined
def in_vectors(rows: Rows) -> int:
    """Returns the number of columns that fill whole vectors."""
    return rows.width // WIDTH * WIDTH


@inlined
def add_group(zero: float, address: int, rows: Rows, terms: Any, add: Any, sums: Any) -> Any:
    """Adds a group of rows to the sums of a vector of columns; a whole group is unrolled into straight-line code.

    Args:
        zero: its type is the element type.
        address: address of the vector in the first row.
        rows: the group.
        terms: the terms to add.
        add: called with ``zero``, an address, a step, the terms and the sums; returns the new sums.
        sums: the sums so far.
    """
    pitch, ahead = rows.pitch, rows_ahead(rows.pitch, GROUP)
    if rows.height == GROUP and ahead:
        for j in range(GROUP):
            prefetch(address + j * pitch + ahead)
            sums = add(zero, address + j * pitch, rows.step, terms, sums)
    elif rows.height == GROUP:
        for j in range(GROUP):
            sums = add(zero, address + j * pitch, rows.step, terms, sums)
    else:
        for j in range(rows.height):
            sums = add(zero, address + j * pitch, rows.step, terms, sums)
    return sums
