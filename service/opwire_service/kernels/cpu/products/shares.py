"""Minimum number of tiles to cut work into, so that all threads have something to do."""

from __future__ import annotations

LEAST_WORK = 1 << 22
"""Number of products below which waking another thread takes longer than computing them."""


def shares(work: int, threads: int) -> int:
    """Returns the minimum number of tiles for ``work`` products: one per thread, or 1 if tiles would be too small."""
    return 1 if work < LEAST_WORK else threads
