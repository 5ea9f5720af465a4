"""Sums of columns that add up a group of rows in registers before it goes to the totals of the columns."""

from __future__ import annotations

from typing import Any

from ..jit.compiler import inlined
from ..jit.element import prefetch
from ..jit.prefetch import rows_ahead
from ..numbers.vectors import WIDTH
from ..run.column_rows import Rows

GROUP = 8
"""Rows of a group."""


@inlined
def in_vectors(rows: Rows) -> int:
    """How many columns fill whole vectors."""
    return rows.width // WIDTH * WIDTH


@inlined
def add_group(zero: float, address: int, rows: Rows, terms: Any, add: Any, sums: Any) -> Any:
    """Adds a group of rows to the sums of a vector of columns; a whole group is one straight line of code.

    Args:
        address: of the vector in the first row.
        add: takes a ``zero``, an address, a step, the terms and sums; returns the next sums.
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
