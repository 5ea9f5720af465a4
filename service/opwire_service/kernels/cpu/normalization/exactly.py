"""Recomputes, with the reference's arithmetic, elements in which cancellation leaves float64 too inaccurate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...decimals import FLOAT64
from ...reference.reals import Real, rounded

Exact = Callable[..., Real]
"""Returns the real result for the numbers that it depends on."""

_PIECE = 512
"""Elements processed at once: some 10 ms, and half a MiB of numbers."""

PIECE_BYTES = 1 << 20
"""Memory for a piece, in bytes, including numbers kept from the previous piece."""


def in_pieces(count: int, stop: Stop) -> Iterator[slice]:
    """Yields pieces of ``count`` elements.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for begin in range(0, count, _PIECE):
        if stop():
            raise Stopped
        yield slice(begin, begin + _PIECE)


def exact_results(columns: list[Array], exact: Exact) -> Array:
    """Returns the results of elements, each from its row of the columns; equal rows are computed once."""
    rows = np.array(columns, np.float64).T
    # Keys of bytes tell zeros of both signs apart.
    keys = [row.tobytes() for row in np.ascontiguousarray(rows)]
    known: dict[bytes, float] = {}
    for key, row in zip(keys, rows.tolist(), strict=True):
        if key not in known:
            known[key] = float(rounded(exact(*row), FLOAT64))
    return np.array([known[key] for key in keys], np.float64)
