"""How many tiles work is cut into at least, so that all threads have something to do."""

from __future__ import annotations

LEAST_WORK = 1 << 22
"""Products for which it takes longer to wake another thread than to compute them."""


def shares(work: int, threads: int) -> int:
    """The least number of tiles of so many products, if they do not get too small: one for each thread."""
    return 1 if work < LEAST_WORK else threads
