"""Elements of normalizations in which so much cancels that float64 leaves too little, by the reference's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...decimals import FLOAT64
from ...reference.reals import Real, rounded

Exact = Callable[..., Real]
"""The real result for the numbers that it depends on."""

_PIECE = 512
"""Elements that are done at a time: some 10 ms, and numbers of half a MiB."""

PIECE_BYTES = 1 << 20
"""What a piece of them takes, with the numbers that it keeps of the piece before."""


def in_pieces(count: int, stop: Stop) -> Iterator[slice]:
    """The pieces in which as many elements are done.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for begin in range(0, count, _PIECE):
        if stop():
            raise Stopped
        yield slice(begin, begin + _PIECE)


def exact_results(columns: list[Array], exact: Exact) -> Array:
    """The results of elements, each by the numbers in its row of the columns; equal rows are done once."""
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    known: dict[tuple[Any, ...], float] = {}
    for key in keys:
        if key not in known:
            known[key] = float(rounded(exact(*key), FLOAT64))
    return np.array([known[key] for key in keys], np.float64)
