"""The filters of convolutions: where they fit, and the sizes of what they compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ..enums import ConvolutionDirection
from ..rules import Derived, Output, OutputRule, Rule, Sizes, Values, either
from ..tensor import BufferTensorDesc
from ..violation import Code, Fault

FORWARD, BACKWARD = ConvolutionDirection.FORWARD, ConvolutionDirection.BACKWARD

ARRAYS = ("Strides", "Dilations", "StartPadding", "EndPadding", "OutputPadding")

MOST_DIMENSIONS = 3
"""The maximum number of spatial dimensions that CONVOLUTION takes, whatever the rank."""


class _Dimension(NamedTuple):
    """One spatial dimension of a convolution."""

    size: int
    filter: int
    stride: int
    dilation: int
    start: int
    end: int

    @property
    def covered(self) -> int:
        """Number of positions that the dilated filter spans."""
        return 1 + (self.filter - 1) * self.dilation

    @property
    def padded(self) -> int:
        return self.size + self.start + self.end

    @property
    def forward(self) -> Sequence[int]:
        """The size of the output: the number of filter positions that fit; less than 1 if there is none."""
        return ((self.padded - self.covered) // self.stride + 1 if self.stride else 0,)

    @property
    def backward(self) -> Sequence[int]:
        """The sizes of a transposed output, which differ in how far it extends beyond the last filter.

        Less than 1 if there is none.
        """
        least = (self.size - 1) * self.stride + self.covered - self.start - self.end
        return range(max(least, 1), least + max(self.stride, self.dilation)) or (0,)


_UNSTATED = (1, 1, 0, 0)
"""The stride, dilation and paddings of a dimension for which none are given."""


def _last(given: Sequence[int], count: int, missing: int) -> Sequence[int]:
    """Returns the last numbers of an array, preceded by others if there are too few."""
    if len(given) == count:
        return given
    return [*[missing] * (count - len(given)), *given[max(len(given) - count, 0) :]]


def _dimensions(values: Values) -> tuple[_Dimension, ...]:
    """Returns the spatial dimensions. If their numbers differ, the last ones belong together."""
    arrays = (values["Strides"], values["Dilations"], values["StartPadding"], values["EndPadding"])
    return _aligned(values["InputTensor"].sizes[2:], values["FilterTensor"].sizes[2:], *arrays)


@lru_cache(maxsize=8)  # several rules of a desc read the same dimensions
def _aligned(source: tuple[int, ...], kernel: tuple[int, ...], *arrays: tuple[int, ...]) -> tuple[_Dimension, ...]:
    count = max(len(source), len(kernel))
    numbers = (_last(given, count, missing) for given, missing in zip(arrays, _UNSTATED, strict=True))
    return tuple(map(_Dimension, _last(source, count, 1), _last(kernel, count, 1), *numbers))


@dataclass(frozen=True, slots=True)
class FilterFits(Rule):
    """The dilated filter is no larger than the padded input."""

    code = Code.WINDOW_TOO_LARGE
    members = ("InputTensor", "FilterTensor", *ARRAYS[:4])

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)[-values["FilterTensor"].rank + 2 :]):
            if dimension.covered > dimension.padded:
                message = (
                    f"the dilated filter spans {dimension.covered} positions, and the padded input has only "
                    f"{dimension.padded}"
                )
                yield Fault(self.code, ("FilterTensor", "Sizes", i + 2), message)


@dataclass(frozen=True, slots=True)
class PaddingLeavesOutput(Rule):
    """The padding of a transposed convolution, which is cropped from its output, leaves at least one element."""

    code = Code.OUT_OF_RANGE
    members = ("InputTensor", "FilterTensor", *ARRAYS[:4])

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)[: len(values["StartPadding"])]):
            if dimension.backward[0] < 1:
                cut = dimension.start + dimension.end
                yield Fault(self.code, ("StartPadding", i), f"{cut} elements of padding leave no output")


@dataclass(frozen=True, slots=True)
class OutputPaddingFits(Rule):
    """In each of the last dimensions, the padding of the output is less than its size."""

    code = Code.OUT_OF_RANGE
    members = ("OutputTensor", "OutputPadding")

    def faults(self, values: Values) -> Iterator[Fault]:
        padding = values["OutputPadding"]
        sizes = _last(values["OutputTensor"].sizes, len(padding), 1)
        for i, (given, whole) in enumerate(zip(padding, sizes, strict=True)):
            if given >= whole:
                message = f"{given} given for OutputPadding[{i}]; it must be less than the output's size, {whole}"
                yield Fault(self.code, ("OutputPadding", i), message)


@dataclass(frozen=True, slots=True)
class FiltersFillOutput(Rule):
    """Each dimension of the output has as many elements as there are positions of the filter."""

    code = Code.SIZES_MISMATCH
    members = ("InputTensor", "FilterTensor", "OutputTensor", *ARRAYS[:4])

    def faults(self, values: Values) -> Iterator[Fault]:
        output, sizes = values["OutputTensor"].sizes, output_sizes(values)
        for i, (given, allowed) in enumerate(zip(output, sizes, strict=False)):
            if given not in allowed and allowed[0] > 0:
                message = f"size {given} given for dimension {i} of OutputTensor; it would be {allowed[0]}"
                yield Fault(self.code, ("OutputTensor", "Sizes", i), message)


@dataclass(frozen=True, slots=True)
class PerFilter(Rule):
    """A parameter has one element or, at rank 2 and higher, one per filter, in the second dimension."""

    code = Code.SIZES_MISMATCH

    tensor: str
    filters: str = "FilterTensor"

    def faults(self, values: Values) -> Iterator[Fault]:
        desc = values[self.tensor]
        if desc is None:
            return
        several = sorted({1, values[self.filters].sizes[0]})
        for i, given in enumerate(desc.sizes):
            allowed = several if i == 1 else [1]
            if given not in allowed:
                message = f"size {given} given for dimension {i} of {self.tensor}; allowed: {either(allowed)}"
                yield Fault(self.code, (self.tensor, "Sizes", i), message, allowed)


def output_sizes(values: Values) -> Sizes:
    source, kernel = values["InputTensor"].sizes, values["FilterTensor"].sizes
    spatial = _dimensions(values)
    if values.get("Direction", FORWARD) is FORWARD:
        return _padded(values, source[0], kernel[0], *(dimension.forward for dimension in spatial))
    channels = kernel[1] * values["GroupCount"]
    return _padded(values, source[0], channels, *(dimension.backward for dimension in spatial))


def _padded(values: Values, batch: int, channels: int, *spatial: Sequence[int]) -> Sizes:
    """Returns the sizes of an output; the padding of more than its spatial dimensions adds to the ones before."""
    padding = values.get("OutputPadding", ())
    if len(padding) <= len(spatial):
        return (batch,), (channels,), *spatial
    before = (0, 0, *padding[: len(padding) - len(spatial)])[-2:]
    return (batch + before[0],), (channels + before[1],), *spatial


class _RanklessRule(OutputRule):
    """Requirements on an output whose rank need not be that of the input."""

    __slots__ = ()

    def faults(self, name: str, output: BufferTensorDesc) -> Iterator[Fault]:
        """Yields what is wrong with a given output, other than its rank."""
        spatial = len(output.sizes) - len(self.sizes)
        sizes = (*self.sizes[:2], *((1,),) * spatial, *self.sizes[2:])[: output.rank]
        yield from OutputRule(sizes, self.data_type, self.same_as, enforced=2).faults(name, output)


@dataclass(frozen=True, slots=True)
class Rankless(Output):
    """An output of any allowed rank.

    Attributes:
        derived: the output as it is derived.
    """

    derived: Derived

    def rule(self, values: Values) -> OutputRule | None:
        found = self.derived.rule(values)
        return None if found is None else _RanklessRule(*found)
