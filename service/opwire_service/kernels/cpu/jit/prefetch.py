"""Prefetch distances, for access patterns that the hardware prefetcher does not foresee."""

from __future__ import annotations

from .compiler import inner

AHEAD = 4096
"""Prefetch distance within a run of contiguous elements, in bytes."""

NEAR = 1024
"""Largest row pitch, in bytes, at which the next rows of columns are prefetched.

Wider rows are long enough for the hardware prefetcher, and rows a power of two apart compete for the same sets of the
L1 cache.
"""


@inner
def rows_ahead(row: int, rows: int) -> int:
    """Returns the prefetch distance, in bytes, from a group of rows with pitch ``row``; 0 prefetches nothing new."""
    return rows * row if 0 < row <= NEAR else 0
