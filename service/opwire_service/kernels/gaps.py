"""Where the weights of a convolution meet a 0 of padding, or of the gaps between elements.

As in DirectML, 0 times a weight that is infinite or NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..execution import Stop, Stopped
from .convolutions import ConvolutionGeometry, Line


class Gaps:
    """The outputs of a convolution for which weights meet a 0."""

    def __init__(self, geometry: ConvolutionGeometry) -> None:
        self._geometry = geometry

    @property
    def may_exist(self) -> bool:
        """Whether there may be any such output."""
        return not all(map(self._is_met, self._geometry.lines))

    @property
    def scratch_bytes(self) -> int:
        """The memory to fill them."""
        geometry = self._geometry
        taps = prod(line.window for line in geometry.lines)
        weights: int = geometry.groups * geometry.filters * geometry.channels * taps
        return weights + 40 * max(line.target for line in geometry.lines)

    def _is_met(self, line: Line) -> bool:
        """Returns whether all weights meet elements at both ends of a dimension, and no element is next to a gap."""
        if self._geometry.is_transposed:
            return line.stride == 1 and (line.window - 1) * line.dilation <= line.start <= line.size - line.target
        last = (line.target - 1) * line.stride + (line.window - 1) * line.dilation - line.start
        return line.start == 0 and last < line.size

    def fill(self, kernel: Array, target: Array, value: Any, stop: Stop) -> bool:
        """Writes a value to the outputs for which an infinite or NaN weight meets a 0; returns whether a weight is.

        Args:
            kernel: the filter, not mirrored.
            target: the output without its own padding.
            value: what NaN becomes.
            stop: polled regularly.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        is_finite = np.isfinite(kernel)
        if is_finite.all():
            return False
        for channel, taps in self._unusual(is_finite):
            if stop():
                raise Stopped
            for axis, (line, places) in enumerate(zip(self._geometry.lines, taps, strict=True)):
                missed = np.flatnonzero(~self._met(line, places.tolist()))
                outputs: tuple[Any, ...] = (slice(None), channel, *(slice(None),) * axis, missed)
                target[outputs] = value
        return True

    def _met(self, line: Line, taps: Sequence[int]) -> Array:
        """Returns for which outputs along a dimension all these weights meet elements."""
        places, found = np.arange(line.target), np.ones(line.target, bool)
        for tap in taps:
            if self._geometry.is_transposed:
                at = places + (line.start - tap * line.dilation)
                found &= (at % line.stride == 0) & (at >= 0) & (at < line.size * line.stride)
            else:
                at = places * line.stride + (tap * line.dilation - line.start)
                found &= (at >= 0) & (at < line.size)
        return found

    def _unusual(self, is_finite: Array) -> Iterator[tuple[int, list[Array]]]:
        """Yields the output channels with weights that are infinite or NaN, and their places along each dimension."""
        unusual: Array = np.logical_not(is_finite, out=is_finite)
        if self._geometry.is_transposed:
            unusual = unusual.reshape(self._geometry.groups, -1, *unusual.shape[1:])
        unusual = unusual.any(axis=1).reshape(-1, *is_finite.shape[2:])
        if self._geometry.is_mirrored:
            unusual = np.flip(unusual, tuple(range(1, unusual.ndim)))
        for channel in np.flatnonzero(unusual.any(axis=tuple(range(1, unusual.ndim)))).tolist():
            yield channel, [np.unique(places) for places in np.nonzero(unusual[channel])]
