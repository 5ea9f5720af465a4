"""Sums of float64 arrays with what rounding them left out."""

from __future__ import annotations

from opwire.tensor import Array


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sums and the rests (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
