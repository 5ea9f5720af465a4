"""Float64 results with an error bound: rounded where the bound decides the result, and summed exactly elsewhere."""

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
"""Elements rounded at once, few enough to stay in the cache."""

TERMS = 1 << 16
"""Terms summed exactly at once, a few ms of work."""

EXACT_BYTES = 16 * 8 * TERMS
"""Memory of exact sums and of a strip on each thread, in bytes."""

CLOSE = 2.0**-36
"""Maximum relative error of an activation's argument."""

ABSOLUTE = 2.0**-40
"""Maximum absolute error of a softmax's argument."""

Terms = Callable[[Array, Array, slice], tuple[Array, Array]]
"""For some rows and columns of a tile, returns the factors of a range of products, each ``[elements, count]``."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operations on sums of products before they are rounded: ``alpha * sum + beta * addend``, then an activation.

    Attributes:
        alpha, beta: FLOAT32 numbers, possibly infinite or NaN.
        activation: an element-wise activation, or None.
        is_open: whether the target is float64 and more operations follow.
    """

    alpha: float = 1.0
    beta: float = 1.0
    activation: NestedOperator | None = None

    is_open: bool = False

    @property
    def is_rounded(self) -> bool:
        return self.activation is None and not self.is_open

    def error(self, summation_error: float) -> float:
        """Returns the error without that of the addend, or that of the sum alone where alpha is not finite.

        Like ``summation_error``, it is relative to the sum of the products' magnitudes.
        """
        return abs(self.alpha) * summation_error if isfinite(self.alpha) else summation_error


PLAIN = Epilogue()
"""The sum alone."""


@dataclass(slots=True)
class SumsTile:
    """A tile of sums.

    Attributes:
        sums: float64; overwritten.
        row_bounds, column_bounds: ``[rows]`` and ``[matrices, columns]``; their products bound the error of the
            epilogue without that of its addend. The rows of each matrix are consecutive.
        addend: broadcasts to the shape of the tile, any strides; or None.
        target: the output, any strides.
        terms: returns the factors of elements again.
        depth: number of products in a sum.
    """

    sums: Array
    row_bounds: Array
    column_bounds: Array
    addend: Array | None
    target: Array
    terms: Terms
    depth: int

    def bounds(self, rows: slice) -> Array:
        """Returns the error bounds of some rows."""
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
    """Writes elements that bounds leave open: infinities and NaN as they are, others from their exact sums."""
    special = ~np.isfinite(values)
    tile.target[rows[special], columns[special]] = values[special]
    rows, columns = rows[~special], columns[~special]
    for part, sums in _exact(tile, rows, columns, epilogue, stop):
        tile.target[rows[part], columns[part]] = sums.odd()


def _finish_rows(tile: SumsTile, rows: slice, epilogue: Epilogue, stop: Stop) -> None:
    values, target = tile.sums[rows], tile.target[rows]
    bounds = tile.bounds(rows)
    if not isfinite(epilogue.alpha):
        _settle(tile, rows, ~(np.abs(values) > bounds), PLAIN, stop)
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
    _settle(tile, rows, ~(bounds <= (ABSOLUTE if epilogue.is_open else CLOSE * np.abs(values))), epilogue, stop)
    values += 0.0  # no sum is -0
    target[...] = values if epilogue.is_open else activated(epilogue.activation, values)


def _round(tile: SumsTile, rows: slice, bounds: Array, epilogue: Epilogue, stop: Stop) -> None:
    """Rounds both ends of each sum's error interval; where they differ, the exact sum decides."""
    values, target = tile.sums[rows], tile.target[rows]
    other = np.empty(values.shape, target.dtype)
    np.subtract(values, bounds, out=other, casting="same_kind")
    np.add(values, bounds, out=target, casting="same_kind")
    places, columns = _places(other != target)
    if places.size:
        _write_open(tile, places + rows.start, columns, values[places, columns], epilogue, stop)


def _places(mask: Array) -> tuple[Array, Array]:
    """Returns the rows and columns where a mask is set, several times as fast as ``numpy.nonzero``."""
    rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return rows, columns


def _settle(tile: SumsTile, rows: slice, is_vague: Array, epilogue: Epilogue, stop: Stop) -> None:
    """Replaces values that are too inaccurate with the rounded exact ones."""
    values = tile.sums[rows]
    vague_rows, columns = _places(is_vague & np.isfinite(values))
    for part, sums in _exact(tile, vague_rows + rows.start, columns, epilogue, stop):
        values[vague_rows[part], columns[part]] = sums.nearest()


def _exact(
    tile: SumsTile, rows: Array, columns: Array, epilogue: Epilogue, stop: Stop
) -> Iterator[tuple[slice, ExactSums]]:
    """Yields the exact results of an epilogue, without its activation, for parts of some elements of a tile."""
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
