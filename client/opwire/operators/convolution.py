"""Convolutions and transposed convolutions.

Source: ``DML_CONVOLUTION_OPERATOR_DESC``, ``DML_CONVOLUTION_INTEGER_OPERATOR_DESC`` and
``DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC``; DirectMLX.h for the sizes of FORWARD and ONNX Runtime for those of
BACKWARD.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from ..enums import ConvolutionDirection
from ..operator import Attributes, BadExample, Example, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Sizes,
    Values,
    divides,
    equal,
    number,
    one_element,
    same_rank,
    same_type,
    shapes,
    size,
    spatial,
    when,
)
from ..tensor import DataType
from ..violation import Code, Fault
from .work import STEP, elements_written

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
        """Number of positions that the dilated filter spans."""
        return 1 + (self.filter - 1) * self.dilation

    @property
    def padded(self) -> int:
        return self.size + self.start + self.end

    @property
    def forward(self) -> Sequence[int]:
        """The size of the output: the number of filter positions that fit."""
        return ((self.padded - self.covered) // self.stride + 1,)

    @property
    def backward(self) -> range:
        """The allowed sizes of a transposed output, which differ in how far it extends beyond the last filter."""
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
    """The dilated filter is no larger than the padded input."""

    code = Code.WINDOW_TOO_LARGE

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", *_ARRAYS[:4]))

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)):
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

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", *_ARRAYS[:4]))

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)):
            if not dimension.backward:
                cut = dimension.start + dimension.end
                yield Fault(self.code, ("StartPadding", i), f"{cut} elements of padding leave no output")


@dataclass(frozen=True, slots=True)
class PerFilter(Rule):
    """A parameter has one element, or one per filter: in the second dimension at rank 4, in any one at lower ranks."""

    code = Code.SIZES_MISMATCH

    tensor: str
    filters: str = "FilterTensor"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.tensor, self.filters))

    def faults(self, values: Values) -> Iterator[Fault]:
        desc = values[self.tensor]
        if desc is None:
            return
        several = sorted({1, values[self.filters].sizes[0]})
        free = True
        for i, given in enumerate(desc.sizes):
            allowed = several if (free if desc.rank < 4 else i == 1) else [1]
            if given not in allowed:
                listed = " or ".join(map(str, allowed))
                message = f"size {given} given for dimension {i} of {self.tensor}; allowed: {listed}"
                yield Fault(self.code, (self.tensor, "Sizes", i), message, allowed)
            free = free and given == 1


def _forward(values: Values) -> Sizes:
    """Returns the output sizes of a convolution that is not transposed."""
    spatial = (dimension.forward for dimension in _dimensions(values))
    return ((values["InputTensor"].sizes[0],), (values["FilterTensor"].sizes[0],), *spatial)


def _sizes(values: Values) -> Sizes:
    if values["Direction"] is FORWARD:
        return _forward(values)
    source, kernel = values["InputTensor"].sizes, values["FilterTensor"].sizes
    channels = kernel[1] * values["GroupCount"]
    return ((source[0],), (channels,), *(dimension.backward for dimension in _dimensions(values)))


def _work(attributes: Attributes, tensors: Tensors) -> int:
    """Each output element visits its filter; in a transposed convolution, each input element does.

    A transposed convolution computes outputs that are a stride apart together, with a fixed cost per such group.
    """
    forward = getattr(attributes, "Direction", FORWARD) is FORWARD
    visiting = tensors["OutputTensor" if forward else "InputTensor"]
    taps: int = prod(tensors["FilterTensor"].sizes[1:])
    visits: int = elements_written(attributes, tensors) + int(visiting.element_count) * taps
    if forward:
        return visits
    spatial = zip(tensors["FilterTensor"].sizes[2:], attributes.Strides, strict=True)
    phases: int = prod(min(window, stride) for window, stride in spatial)
    return visits + STEP * phases


def _desc(sizes: list[int], kernel: list[int], direction: str = "FORWARD", **changes: Any) -> dict[str, Any]:
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

_FLOATS = declare(
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
)

_PARAMETER = {"DataType": "UINT8", "Sizes": [1, 1, 1, 1]}
_GROUPS = (
    spatial(*_ARRAYS[:4], of="InputTensor"),
    divides(number("GroupCount"), size("FilterTensor", 0)),
    equal(size("FilterTensor", 1) * number("GroupCount"), size("InputTensor", 1)),
    FilterFits(),
)


def _bytes(sizes: list[int], kernel: list[int], **changes: Any) -> dict[str, Any]:
    desc = _desc(sizes, kernel, **changes)
    kept = {name: value for name, value in desc.items() if name not in ("Mode", "Direction", "OutputPadding")}
    types = {name: {**desc[name], "DataType": "UINT8"} for name in ("InputTensor", "FilterTensor")}
    return {**kept, **types}


def _quantized(sizes: list[int], kernel: list[int], **changes: Any) -> dict[str, Any]:
    names = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
    scales = {name: {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1]} for name in names}
    return {**_bytes(sizes, kernel), **scales, **changes}


_ONES = [[[[1, 1], [1, 1]]]]

_INTEGER = declare(
    "CONVOLUTION_INTEGER",
    rules=(
        same_rank("InputTensor", "FilterTensor"),
        same_type("InputTensor", "InputZeroPointTensor"),
        same_type("FilterTensor", "FilterZeroPointTensor"),
        _GROUPS,
        one_element("InputZeroPointTensor"),
        PerFilter("FilterZeroPointTensor"),
    ),
    outputs={"OutputTensor": Derived(_forward, default=DataType.INT32)},
    work=_work,
    examples=(
        Example(
            name="zero_point_and_padding",
            desc=_bytes([1, 1, 3, 3], [1, 1, 2, 2], InputZeroPointTensor=_PARAMETER, StartPadding=[1, 0]),
            inputs={"InputTensor": _SQUARE, "FilterTensor": _ONES, "InputZeroPointTensor": [[[[1]]]]},
            outputs={"OutputTensor": [[[[1, 3], [8, 12], [20, 24]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            name="channels_do_not_meet",
            desc=_bytes([1, 3, 3, 3], [1, 2, 2, 2]),
            code=Code.SIZES_MISMATCH,
            pointer="/FilterTensor/Sizes",
        ),
        BadExample(
            name="zero_point_of_each_channel",
            desc=_bytes([1, 2, 3, 3], [1, 2, 2, 2], InputZeroPointTensor={"DataType": "UINT8", "Sizes": [1, 2, 1, 1]}),
            code=Code.SIZES_MISMATCH,
            pointer="/InputZeroPointTensor/Sizes",
        ),
    ),
)

_QUANTIZED = declare(
    "QUANTIZED_LINEAR_CONVOLUTION",
    rules=(
        same_rank("InputTensor", "FilterTensor", "BiasTensor"),
        same_type("InputTensor", "InputZeroPointTensor"),
        same_type("FilterTensor", "FilterZeroPointTensor"),
        _GROUPS,
        one_element("InputScaleTensor", "InputZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor"),
        PerFilter("FilterScaleTensor"),
        PerFilter("FilterZeroPointTensor"),
        shapes(BiasTensor=(1, size("FilterTensor", 0), ...)),
    ),
    outputs={"OutputTensor": Derived(_forward, like="OutputZeroPointTensor", default="InputTensor")},
    work=_work,
    examples=(
        Example(
            name="with_bias",
            desc=_quantized([1, 1, 3, 3], [1, 1, 2, 2], BiasTensor={"DataType": "INT32", "Sizes": [1, 1, 1, 1]}),
            inputs={
                "InputTensor": _SQUARE,
                "FilterTensor": _ONES,
                "BiasTensor": [[[[-4]]]],
                "InputScaleTensor": [[[[0.5]]]],
                "FilterScaleTensor": [[[[1]]]],
                "OutputScaleTensor": [[[[2]]]],
            },
            outputs={"OutputTensor": [[[[2, 3], [5, 6]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            name="scale_of_each_row",
            desc=_quantized(
                [1, 1, 3, 3], [2, 1, 2, 2], FilterScaleTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 2, 1]}
            ),
            code=Code.SIZES_MISMATCH,
            pointer="/FilterScaleTensor/Sizes/2",
        ),
        BadExample(
            name="filter_too_long",
            desc=_quantized([1, 1, 3, 3], [1, 1, 2, 4]),
            code=Code.WINDOW_TOO_LARGE,
            pointer="/FilterTensor/Sizes/3",
        ),
    ),
)

FAMILY = (_FLOATS, _INTEGER, _QUANTIZED)
