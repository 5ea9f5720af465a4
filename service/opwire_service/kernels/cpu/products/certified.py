"""Float64 results with a bound on their error, rounded where the bound decides it, and summed exactly elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import frexp, isfinite

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...activation import activated
from .exact_sums import ExactSums, times

STRIP = 1 << 14
"""Elements that are rounded at a time: they stay in the cache."""

TERMS = 1 << 16
"""Terms that are summed exactly at a time, a few ms of work."""

EXACT_BYTES = 16 * 8 * TERMS
"""What exact sums take on each thread, and what is rounded at a time besides."""

CLOSE = 2.0**-36
"""Relative error of what an activation is applied to, at most."""

ABSOLUTE = 2.0**-40
"""Error of what a softmax is applied to, at most."""

Terms = Callable[[Array, Array, slice], tuple[Array, Array]]
"""Gives for rows and columns of a tile the factors of products, each ``[elements, count]``, of a range of them."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What becomes of sums of products before they are rounded: ``alpha * sum + beta * addend``, then an activation.

    Attributes:
        alpha, beta: FLOAT32 numbers; infinities and NaN too.
        activation: of single elements, or None.
        is_open: whether the target is float64, and something else follows.
    """

    alpha: float = 1.0
    beta: float = 1.0
    activation: NestedOperator | None = None

    is_open: bool = False

    @property
    def is_rounded(self) -> bool:
        return self.activation is None and not self.is_open

    def error(self, summation_error: float) -> float:
        """The error but for that of the addend, or of the sum alone where alpha is not finite.

        Like ``summation_error`` it is in parts of the sum of the magnitudes of the products.
        """
        return abs(self.alpha) * summation_error if isfinite(self.alpha) else summation_error


PLAIN = Epilogue()
"""The sum alone."""


@dataclass(slots=True)
class SumsTile:
    """A tile of sums.

    Attributes:
        sums: float64, used up.
        row_bounds, column_bounds: ``[rows]`` and ``[matrices, columns]``; their products bound the error of
            the epilogue but for that of its addend. The rows of each matrix follow one another.
        addend: of the shape of the tile or one that broadcasts to it, any strides; or None.
        target: the output, any strides.
        terms: gives the factors of elements again.
        depth: how many products a sum has.
    """

    sums: Array
    row_bounds: Array
    column_bounds: Array
    addend: Array | None
    target: Array
    terms: Terms
    depth: int

    def bounds(self, rows: slice) -> Array:
        """Those of some rows."""
        across = self.column_bounds
        if len(across) > 1:
            across = across[np.arange(*rows.indices(len(self.sums))) // (len(self.sums) // len(across))]
        bounds: Array = self.row_bounds[rows, None] * across
        return bounds


def finish(tile: SumsTile, epilogue: Epilogue, stop: Stop) -> None:
    """Rounds a tile into its target.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    rows = max(1, STRIP // tile.sums.shape[1])
    with np.errstate(all="ignore"):
        for first in range(0, len(tile.sums), rows):
            if stop():
                raise Stopped
            _finish_rows(tile, slice(first, first + rows), epilogue, stop)


def _write_open(tile: SumsTile, rows: Array, columns: Array, values: Array, epilogue: Epilogue, stop: Stop) -> None:
    """Writes elements that bounds leave open: infinities and NaN as they are, others by their exact sums."""
    special = ~np.isfinite(values)
    tile.target[rows[special], columns[special]] = values[special]
    rows, columns = rows[~special], columns[~special]
    for part, sums in _exact(tile, rows, columns, epilogue, stop):
        tile.target[rows[part], columns[part]] = sums.odd()


def _finish_rows(tile: SumsTile, rows: slice, epilogue: Epilogue, stop: Stop) -> None:
    values, target = tile.sums[rows], tile.target[rows]
    bounds = tile.bounds(rows)
    if not isfinite(epilogue.alpha):
        _settle(tile, rows, np.abs(values) <= bounds, PLAIN, stop)
        bounds[...] = 0
    if epilogue.alpha != 1:
        values *= epilogue.alpha
    if tile.addend is not None:
        addend = np.broadcast_to(tile.addend, tile.sums.shape)[rows] * np.float64(epilogue.beta)
        values += addend
        bounds += np.abs(addend) * 2.0**-51
    if epilogue.is_rounded:
        _round(tile, rows, bounds, epilogue, stop)
        return
    _settle(tile, rows, bounds > (ABSOLUTE if epilogue.is_open else CLOSE * np.abs(values)), epilogue, stop)
    target[...] = values if epilogue.is_open else activated(epilogue.activation, values)


def _round(tile: SumsTile, rows: slice, bounds: Array, epilogue: Epilogue, stop: Stop) -> None:
    """Rounds both ends of what the sum may be; where they differ the exact sum decides."""
    values, target = tile.sums[rows], tile.target[rows]
    other = np.empty(values.shape, target.dtype)
    np.subtract(values, bounds, out=other, casting="same_kind")
    np.add(values, bounds, out=target, casting="same_kind")
    places, columns = _places(other != target)
    if places.size:
        _write_open(tile, places + rows.start, columns, values[places, columns], epilogue, stop)


def _places(mask: Array) -> tuple[Array, Array]:
    """The rows and columns where a mask is set, several times as fast as ``numpy.nonzero``."""
    rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return rows, columns


def _settle(tile: SumsTile, rows: slice, is_vague: Array, epilogue: Epilogue, stop: Stop) -> None:
    """Puts the rounded exact value in the place of those that are too vague."""
    values = tile.sums[rows]
    vague_rows, columns = _places(is_vague & np.isfinite(values))
    for part, sums in _exact(tile, vague_rows + rows.start, columns, epilogue, stop):
        values[vague_rows[part], columns[part]] = sums.nearest()


def _exact(
    tile: SumsTile, rows: Array, columns: Array, epilogue: Epilogue, stop: Stop
) -> Iterator[tuple[slice, ExactSums]]:
    """The exact results of an epilogue at some elements of a tile, but for its activation, some at a time."""
    several = max(1, TERMS // tile.depth)
    for first in range(0, len(rows), several):
        part = slice(first, first + several)
        sums = ExactSums(len(rows[part]))
        for begin in range(0, tile.depth, TERMS):
            if stop():
                raise Stopped
            left, right = tile.terms(rows[part], columns[part], slice(begin, min(begin + TERMS, tile.depth)))
            sums.add(_scaled(left * right, epilogue.alpha))
        if tile.addend is not None and epilogue is not PLAIN:
            addend = np.broadcast_to(tile.addend, tile.sums.shape)[rows[part], columns[part]]
            sums.add(addend[:, None] * np.float64(epilogue.beta))
        yield part, sums


def _scaled(terms: Array, alpha: float) -> Array:
    if abs(frexp(alpha)[0]) == 0.5:  # a power of two
        return terms * alpha
    return times(terms, np.full(len(terms), alpha))
