"""How far ahead of their use elements are asked for, where the processor does not foresee them by itself."""

from __future__ import annotations

from .compiler import inner

AHEAD = 4096
"""Bytes, within a run of neighbours."""

NEAR = 1024
"""Bytes between rows of columns up to which the next rows are asked for.

Wider rows are long enough to be foreseen, and where they lie a power of two apart the nearest cache holds no more.
"""


@inner
def rows_at_once(row: int, group: int) -> int:
    """Rows whose part in a vector of columns is taken before the next vector's: a group, or two if they are near."""
    return 2 * group if 0 < row <= NEAR else group


@inner
def rows_ahead(row: int, rows: int) -> int:
    """Bytes from a group of ``rows`` rows, ``row`` bytes apart, to what is asked for meanwhile; 0 for nothing new."""
    return rows * row if 0 < row <= NEAR else 0
