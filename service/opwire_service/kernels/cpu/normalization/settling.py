"""Recomputes, with the reference's arithmetic, elements in which cancellation leaves float64 too inaccurate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...decimals import FLOAT64
from ...reference.reals import Real, rounded

Exact = Callable[..., Real]
"""Returns the real result for the numbers that it depends on."""

PIECE = 512
"""Elements processed at once: some 10 ms, and half a MiB of numbers."""

PIECE_BYTES = 1 << 20
"""Memory for a piece, in bytes, including numbers kept from the previous piece."""


def settle_each(x: Array, undecided: Array, columns: Sequence[Array], exact: Exact, stop: Stop) -> None:
    """Writes exact results where ``undecided`` is true, each from its element of the columns, which broadcast to x.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    wide = [np.broadcast_to(column, x.shape) for column in columns]
    flat = np.flatnonzero(undecided)
    for begin in range(0, flat.size, PIECE):
        if stop():
            raise Stopped
        index = np.unravel_index(flat[begin : begin + PIECE], x.shape)
        x[index] = exact_results([column[index] for column in wide], exact)


def exact_results(columns: Sequence[Array], exact: Exact) -> list[float]:
    """Returns the results of elements, each from its row of the columns; equal rows are computed once."""
    known: dict[bytes, float] = {}
    results = []
    for row in np.array(columns, np.float64).T:
        key = row.tobytes()  # tells zeros of both signs apart
        if key not in known:
            known[key] = float(rounded(exact(*row.tolist()), FLOAT64))
        results.append(known[key])
    return results
