"""The geometry of convolutions as matrix products: filters times the columns of elements under each window.

A transposed convolution is split into phases: outputs that are a multiple of the stride apart meet the same filter
elements. Each phase is a convolution of stride 1, so both directions share one computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import ConvolutionDirection, ConvolutionMode
from opwire.tensor import Array


class PhaseDimension(NamedTuple):
    """One spatial dimension of a phase.

    Attributes:
        size: size of the input.
        first, stride, length: the phase's outputs, as start, step and count.
        tap, apart, taps: the phase's filter elements, likewise.
        base, step, turn: output ``j`` and tap ``t`` meet input element ``base + j * step + t * turn``.
    """

    size: int
    first: int
    stride: int
    length: int
    tap: int
    apart: int
    taps: int
    base: int
    step: int
    turn: int

    @property
    def outputs(self) -> slice:
        return slice(self.first, self.first + (self.length - 1) * self.stride + 1, self.stride)

    @property
    def filter(self) -> slice:
        return slice(self.tap, self.tap + (self.taps - 1) * self.apart + 1, self.apart)

    @property
    def met(self) -> PhaseDimension:
        """The dimension without the taps at its ends that only ever meet padding; at least one is left."""
        lowest, highest = -(self.base + (self.length - 1) * self.step), self.size - 1 - self.base
        if self.turn < 0:
            lowest, highest = -highest, -lowest
        turn = abs(self.turn)
        first = min(max(0, -(-lowest // turn)), self.taps - 1)
        end = max(first + 1, min(self.taps, highest // turn + 1))
        return self._replace(tap=self.tap + first * self.apart, taps=end - first, base=self.base + first * self.turn)


class Line(NamedTuple):
    """A spatial dimension: sizes of the input, the filter and the output, and how the filter slides along it."""

    size: int
    window: int
    target: int
    stride: int
    dilation: int
    start: int


class ConvolutionGeometry:
    """The sizes of a convolution and its partition into phases.

    Attributes:
        groups: number of groups.
        filters: output channels per group.
        channels: input channels per group.
        images: batch size.
        is_whole: whether every output belongs to a phase; the others consist of the bias alone.
        inner: sizes of the output without its own padding, whose elements are the activation of 0.
        margins: the boxes of that padding, none of which overlap, each as a slice of every spatial dimension.
        lines: the spatial dimensions.
        is_transposed, is_mirrored: whether the convolution is backward, and whether its filter is mirrored.
    """

    def __init__(self, plan: Plan) -> None:
        attributes = plan.attributes
        self.is_transposed = getattr(attributes, "Direction", None) is ConvolutionDirection.BACKWARD
        self.is_mirrored = getattr(attributes, "Mode", None) is ConvolutionMode.CONVOLUTION
        source, kernel = plan.inputs["InputTensor"].sizes, plan.inputs["FilterTensor"].sizes
        target = plan.outputs["OutputTensor"].sizes
        self.groups, self.images = attributes.GroupCount, source[0]
        self.channels, self.filters = source[1] // self.groups, target[1] // self.groups
        arrays = (getattr(attributes, name) for name in ("Strides", "Dilations", "StartPadding"))
        padding = getattr(attributes, "OutputPadding", (0,) * (len(target) - 2))
        self.inner = tuple(whole - pad for whole, pad in zip(target[2:], padding, strict=True))
        self.margins = list(_margins(target[2:], self.inner))
        sizes = zip(source[2:], kernel[2:], self.inner, *arrays, strict=True)
        self.lines = [Line(*members) for members in sizes]
        self._counts = [
            min(window, stride // gcd(stride, dilation)) if self.is_transposed else 1
            for _, window, _, stride, dilation, _ in self.lines
        ]
        self.is_whole = not self.is_transposed or all(
            count == stride for count, (_, _, _, stride, _, _) in zip(self._counts, self.lines, strict=True)
        )

    @property
    def phases(self) -> int:
        """Upper bound on the number of phases; some may have no outputs."""
        return prod(self._counts)

    @property
    def longest(self) -> list[tuple[int, int]]:
        """The maximum numbers of taps and of outputs of any phase, for each dimension."""
        if not self.is_transposed:
            return [(window, target) for _, window, target, *_ in self.lines]
        return [
            (-(-window // (stride // gcd(stride, dilation))), -(-target // stride))
            for _, window, target, stride, dilation, _ in self.lines
        ]

    def phase(self, number: int) -> tuple[PhaseDimension, ...] | None:
        """Returns the dimensions of a phase, or None if it has no outputs."""
        lines = []
        for count, line in zip(self._counts, self.lines, strict=True):
            number, tap = divmod(number, count)
            found = _phase(tap, *line) if self.is_transposed else _forward(*line)
            if found is None:
                return None
            lines.append(found)
        return tuple(lines)

    def filters_of(self, kernel: Array, phase: tuple[PhaseDimension, ...]) -> Array:
        """Returns a view of the filter for one phase, ``[groups, filters, *taps, channels]``."""
        spatial = tuple(range(3, kernel.ndim + 1))
        view = np.flip(kernel, tuple(range(2, kernel.ndim))) if self.is_mirrored else kernel
        split = (self.groups, -1, *view.shape[1:])
        own, shared = (2, 1) if self.is_transposed else (1, 2)
        return view.reshape(split).transpose(0, own, *spatial, shared)[
            (slice(None), slice(None), *(line.filter for line in phase))
        ]


def _margins(whole: Sequence[int], inner: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Yields boxes that make up what lies behind the inner sizes."""
    for i, (size, kept) in enumerate(zip(whole, inner, strict=True)):
        if kept < size:
            ends = *inner[:i], size, *whole[i + 1 :]
            yield tuple(slice(kept if j == i else 0, end) for j, end in enumerate(ends))


def _forward(size: int, window: int, target: int, stride: int, dilation: int, start: int) -> PhaseDimension:
    return PhaseDimension(size, 0, 1, target, 0, 1, window, -start, stride, dilation)


def _phase(
    tap: int, size: int, window: int, target: int, stride: int, dilation: int, start: int
) -> PhaseDimension | None:
    """Returns one dimension of the phase whose first filter element is ``tap``, or None if it has no outputs."""
    first = (tap * dilation - start) % stride
    if first >= target:
        return None
    common = gcd(stride, dilation)
    apart = stride // common
    base = (first + start - tap * dilation) // stride
    count = -(-(target - first) // stride)
    return PhaseDimension(
        size, first, stride, count, tap, apart, -(-(window - tap) // apart), base, 1, -(dilation // common)
    )
