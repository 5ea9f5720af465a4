"""CONVOLUTION: filters that slide over an input, or transposed, over an output.

Source: ``DML_CONVOLUTION_OPERATOR_DESC``, DirectMLX.h for the sizes of FORWARD and ONNX Runtime for those of BACKWARD.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ..enums import ConvolutionDirection
from ..operator import Attributes, Example, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Sizes,
    Values,
    divides,
    equal,
    number,
    same_rank,
    same_type,
    shapes,
    size,
    spatial,
    when,
)
from ..violation import Code, Fault
from .work import elements_written

FORWARD, BACKWARD = ConvolutionDirection.FORWARD, ConvolutionDirection.BACKWARD

_ARRAYS = ("Strides", "Dilations", "StartPadding", "EndPadding", "OutputPadding")


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
        """Positions that the dilated filter covers."""
        return 1 + (self.filter - 1) * self.dilation

    @property
    def padded(self) -> int:
        return self.size + self.start + self.end

    @property
    def forward(self) -> Sequence[int]:
        """The size of the output: as many filters as fit."""
        return ((self.padded - self.covered) // self.stride + 1,)

    @property
    def backward(self) -> range:
        """The sizes that a transposed output may have; the declared one says how far beyond the last filter it goes."""
        least = (self.size - 1) * self.stride + self.covered - self.start - self.end
        return range(max(least, 1), least + max(self.stride, self.dilation))


def _dimensions(values: Values) -> list[_Dimension]:
    arrays = [values[name] for name in _ARRAYS[:4]]
    source, kernel = values["InputTensor"].sizes[2:], values["FilterTensor"].sizes[2:]
    if any(len(each) != len(source) for each in (kernel, *arrays)):
        return []
    return [_Dimension(*members) for members in zip(source, kernel, *arrays, strict=True)]


@dataclass(frozen=True, slots=True)
class FilterFits(Rule):
    """The dilated filter is no longer than the padded input."""

    code = Code.WINDOW_TOO_LARGE

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", *_ARRAYS[:4]))

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)):
            if dimension.covered > dimension.padded:
                message = (
                    f"the filter covers {dimension.covered} positions with its dilation, and the input has "
                    f"{dimension.padded} with its padding"
                )
                yield Fault(self.code, ("FilterTensor", "Sizes", i + 2), message)


@dataclass(frozen=True, slots=True)
class PaddingLeavesOutput(Rule):
    """The padding of a transposed convolution, which is cut off its output, leaves some of that."""

    code = Code.OUT_OF_RANGE

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", *_ARRAYS[:4]))

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)):
            if not dimension.backward:
                cut = dimension.start + dimension.end
                yield Fault(self.code, ("StartPadding", i), f"{cut} elements of padding leave nothing of the output")


def _sizes(values: Values) -> Sizes:
    source, kernel = values["InputTensor"].sizes, values["FilterTensor"].sizes
    if values["Direction"] is FORWARD:
        return ((source[0],), (kernel[0],), *(dimension.forward for dimension in _dimensions(values)))
    channels = kernel[1] * values["GroupCount"]
    return ((source[0],), (channels,), *(dimension.backward for dimension in _dimensions(values)))


def _work(attributes: Attributes, tensors: Tensors) -> int:
    """Each element of the output visits its filter; transposed, each of the input."""
    visiting = tensors["OutputTensor" if attributes.Direction is FORWARD else "InputTensor"]
    taps: int = prod(tensors["FilterTensor"].sizes[1:])
    return elements_written(attributes, tensors) + int(visiting.element_count) * taps


def _desc(sizes: list[int], kernel: list[int], direction: str = "FORWARD", **changes: object) -> dict[str, object]:
    n = len(sizes) - 2
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "FilterTensor": {"DataType": "FLOAT32", "Sizes": kernel},
        "Mode": "CROSS_CORRELATION",
        "Direction": direction,
        "DimensionCount": n,
        "Strides": [1] * n,
        "Dilations": [1] * n,
        "StartPadding": [0] * n,
        "EndPadding": [0] * n,
        "OutputPadding": [0] * n,
        "GroupCount": 1,
        **changes,
    }


_SQUARE = [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]
_HALVES = [[[[0.5, 0.5], [0.5, 0.5]]]]

FAMILY = (
    declare(
        "CONVOLUTION",
        rules=(
            same_type("InputTensor", "FilterTensor", "BiasTensor"),
            same_rank("InputTensor", "FilterTensor", "BiasTensor"),
            spatial(*_ARRAYS, of="InputTensor"),
            divides(number("GroupCount"), size("FilterTensor", 0)),
            when("Direction", FORWARD, equal(size("FilterTensor", 1) * number("GroupCount"), size("InputTensor", 1))),
            when("Direction", FORWARD, FilterFits()),
            when("Direction", BACKWARD, equal(size("FilterTensor", 0), size("InputTensor", 1))),
            when("Direction", BACKWARD, PaddingLeavesOutput()),
            shapes(BiasTensor=(1, size("OutputTensor", 1), ...)),
        ),
        outputs={"OutputTensor": Derived(_sizes, like="InputTensor")},
        work=_work,
        examples=(
            Example(
                name="four_windows",
                desc=_desc([1, 1, 3, 3], [1, 1, 2, 2]),
                inputs={"InputTensor": _SQUARE, "FilterTensor": _HALVES},
                outputs={"OutputTensor": [[[[6, 8], [12, 14]]]]},
            ),
            Example(
                name="activated",
                desc=_desc([1, 1, 3, 3], [1, 1, 2, 2], FusedActivation={"Type": "ACTIVATION_RELU"}),
                inputs={"InputTensor": _SQUARE, "FilterTensor": [[[[-1, 0], [0, 0]]]]},
                outputs={"OutputTensor": [[[[0, 0], [0, 0]]]]},
            ),
        ),
    ),
)
