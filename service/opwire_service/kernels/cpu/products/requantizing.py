"""Finishes exact integer sums: wraps them to INT32, requantizes them, or scales them to floats, with one rounding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from opwire.tensor import Array

from ...error_free import two_product
from .exact_sums import ExactSums, times

NEAR = 2.0**-30
"""Distance of a quotient from the midpoint between two integers below which it is settled."""

RADIX = 2.0**17
"""Base of the digits of sums that are too wide for float64."""

SETTLED = 1 << 12
"""Elements settled at once."""

STRIP = 1 << 15
"""Elements finished at once: some rows of a tile."""

FINISH_BYTES = 10 * 8 * STRIP
"""Memory for finishing a strip, in bytes, even if all quotients are close to midpoints."""


def strips(rows: int, columns: int) -> Iterator[slice]:
    """Yields the rows to finish at once, for a tile of ``rows`` rows and ``columns`` columns."""
    height = max(1, STRIP // columns)
    return (slice(first, min(first + height, rows)) for first in range(0, rows, height))


class Finishing(Protocol):
    """Converts sums ``[..., rows, columns]`` to output elements, given the parameters of those rows and columns."""

    def finish(self, sums: Array) -> Array: ...


class WrappedFinish(NamedTuple):
    """Wraps to INT32, modulo 2**32."""

    def finish(self, sums: Array) -> Array:
        wrapped: Array = sums.astype(np.int64).astype(np.int32)
        return wrapped


class Quantized(NamedTuple):
    """Requantizes to 8-bit integers: the sum times two scales over a third, ties to even, plus a zero point, saturated.

    Attributes:
        left, right: scales of the operands, float64: one for all, or one per row or column.
        scale, zero: scale and zero point of the output, likewise.
        dtype: type of the output.
    """

    left: Array
    right: Array
    scale: Array
    zero: Array
    dtype: Any

    def finish(self, sums: Array) -> Array:
        factors = self.left * self.right  # exact: each has 24 bits
        quotients = sums * factors / self.scale
        rounded = np.rint(quotients)
        below = np.floor(quotients)
        is_undecided = np.abs(quotients - below - 0.5) < NEAR * (1 + np.abs(quotients))
        places = np.flatnonzero(is_undecided & (np.abs(quotients) < 2**20))
        for first in range(0, len(places), SETTLED):
            part = places[first : first + SETTLED]
            picked = (_picked(each, sums.shape, part) for each in (sums, factors, self.scale))
            rounded.reshape(-1)[part] = _settled(below.reshape(-1)[part] + 0.5, *picked)
        limits = np.iinfo(self.dtype)
        rounded[np.isnan(rounded)] = 0
        found: Array = np.clip(rounded + self.zero, limits.min, limits.max).astype(self.dtype)
        return found


def _picked(numbers: Array, shape: tuple[int, ...], places: Array) -> Array:
    """Returns some of the numbers, broadcast to a shape."""
    found: Array = np.broadcast_to(numbers, shape)[np.unravel_index(places, shape)]
    return found


def _settled(middles: Array, sums: Array, factors: Array, scales: Array) -> Array:
    """Returns ``sums * factors / scales``, which are close to midpoints between two integers, rounded."""
    product, rest = two_product(sums, factors)
    beyond = np.sign((product - middles * scales) + rest) * np.sign(scales)
    return np.where(beyond == 0, np.rint(middles), middles + 0.5 * beyond)


class ScaledFinish(NamedTuple):
    """Converts to floats: the sum times two scales, plus a bias.

    Attributes:
        left, right: scales, float64: one for all, or one per row or column.
        bias: array of the sums' shape, or None.
        dtype: type of the output.
    """

    left: Array
    right: Array
    bias: Array | None
    dtype: Any

    def finish(self, sums: Array) -> Array:
        """Rounds sums of some matrices; an optional leading dimension holds digits in base ``RADIX``, lowest first."""
        digits = sums[None] if sums.ndim == 3 else sums
        values = digits[-1]
        for digit in digits[-2::-1]:
            values = values * RADIX + digit
        values = values * (self.left * self.right)
        bounds = np.abs(values) * (2.0**-50 * len(digits))
        if self.bias is not None:
            bias = self.bias.astype(np.float64)
            values, bounds = values + bias, bounds + np.abs(bias) * 2.0**-50
        found: Array = (values + bounds).astype(self.dtype)
        is_undecided = ((values - bounds).astype(self.dtype) != found) | np.isnan(bounds)
        special = is_undecided & ~np.isfinite(values)
        found[special] = values[special]
        places = np.flatnonzero(is_undecided & np.isfinite(values))
        for first in range(0, len(places), SETTLED):
            part = places[first : first + SETTLED]
            found.reshape(-1)[part] = self._exact(digits, part)
        return found

    def _exact(self, digits: Array, places: Array) -> Array:
        shape = digits.shape[1:]
        left, right = (np.broadcast_to(each, shape).reshape(-1)[places] for each in (self.left, self.right))
        sums = ExactSums(len(places))
        for power, digit in enumerate(digits):
            terms = digit.reshape(-1)[places, None] * RADIX**power
            sums.add(times(times(terms, left), right))
        if self.bias is not None:
            sums.add(np.ascontiguousarray(self.bias).reshape(-1)[places, None].astype(np.float64))
        return sums.odd()


def carried(digits: Array) -> Array:
    """Normalizes digits: all but the highest become 0 to ``RADIX - 1``."""
    for lower, higher in pairwise(digits):
        carry = np.floor(lower / RADIX)
        lower -= carry * RADIX
        higher += carry
    return digits
