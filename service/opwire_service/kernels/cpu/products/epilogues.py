"""What follows sums of products before they are rounded, evaluated with NumPy where the kernels do not support it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.tensor import Array

from ....execution import Stop, Stopped
from ...activation import activated
from .rounding import SLACK

STRIP = 1 << 14
"""Elements evaluated at once, few enough to stay in the cache."""

STRIP_BYTES = 16 * 8 * STRIP
"""Memory to evaluate a strip, in bytes."""

CLOSE = 2.0**-36
"""Maximum relative error of an activation's argument."""

ABSOLUTE = 2.0**-40
"""Maximum absolute error of a softmax's argument."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operations on sums of products before they are rounded: ``alpha * sum + beta * addend``, then an activation.

    Attributes:
        alpha, beta: FLOAT32 numbers, possibly infinite or NaN.
        activation: an element-wise activation, or None.
        is_unrounded: whether the target is float64 and more operations follow.
    """

    alpha: float = 1.0
    beta: float = 1.0
    activation: NestedOperator | None = None
    is_unrounded: bool = False

    @property
    def is_rounded(self) -> bool:
        return self.activation is None and not self.is_unrounded

    def error(self, summation_error: float) -> float:
        """Returns the error without that of the addend, or that of the sum alone where alpha is not finite.

        Like ``summation_error``, it is relative to the sum of the products' magnitudes.
        """
        return abs(self.alpha) * summation_error if isfinite(self.alpha) else summation_error


@dataclass(slots=True)
class SumsTile:
    """A tile of sums.

    Attributes:
        sums: ``[matrices * rows, columns]`` in float64; overwritten.
        row_bounds, column_bounds: ``[matrices * rows]`` and ``[matrices, columns]``; their products bound the error of
            the epilogue without that of its addend.
        addend: ``[matrices, rows, columns]``, or None.
        target: the output, of the shape of the sums.
        settle: replaces the sums at some rows and columns with exact results of the epilogue, without its activation;
            where alpha is not finite, with the exact sums.
    """

    sums: Array
    row_bounds: Array
    column_bounds: Array
    addend: Array | None
    target: Array
    settle: Callable[[Array, Array], object]

    def evaluate(self, epilogue: Epilogue, stop: Stop) -> None:
        """Writes the target.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        height = max(1, STRIP // self.sums.shape[1])
        with np.errstate(all="ignore"):
            for first in range(0, len(self.sums), height):
                if stop():
                    raise Stopped
                self._evaluate_rows(np.arange(first, min(first + height, len(self.sums))), epilogue)

    def _evaluate_rows(self, rows: Array, epilogue: Epilogue) -> None:
        values = self.sums[rows[0] : rows[-1] + 1]
        matrices, own = np.divmod(rows, len(self.sums) // len(self.column_bounds))
        bounds = self.row_bounds[rows, None] * self.column_bounds[matrices]
        if not isfinite(epilogue.alpha):
            self._settle(rows, ~(np.abs(values) > bounds))
        values *= epilogue.alpha
        if self.addend is not None:
            addend = self.addend[matrices, own] * np.float64(epilogue.beta)
            values += addend
            bounds += np.abs(addend) * SLACK
        if isfinite(epilogue.alpha):
            self._settle(rows, ~(bounds <= (ABSOLUTE if epilogue.is_unrounded else CLOSE * np.abs(values))))
        values += 0.0  # no sum is -0
        self.target[rows[0] : rows[-1] + 1] = activated(epilogue.activation, values)

    def _settle(self, rows: Array, is_undecided: Array) -> None:
        is_undecided &= np.isfinite(self.sums[rows[0] : rows[-1] + 1])
        # Several times as fast as numpy.nonzero.
        found, columns = np.divmod(np.flatnonzero(is_undecided), is_undecided.shape[1])
        if found.size:
            self.settle(rows[found], columns)
