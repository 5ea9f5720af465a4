"""Convolutions and transposed convolutions.

Source: ``DML_CONVOLUTION_OPERATOR_DESC``, ``DML_CONVOLUTION_INTEGER_OPERATOR_DESC`` and
``DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC``; DirectMLX.h for the sizes of FORWARD and ONNX Runtime for those of
BACKWARD. DirectML enforces neither, and lets the numbers of spatial dimensions differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ..enums import ConvolutionDirection
from ..operator import Attributes, BadExample, Example, Tensors, declare
from ..rules import (
    Derived,
    Output,
    OutputRule,
    Rule,
    Sizes,
    Values,
    at_least,
    between,
    computable,
    divides,
    documented,
    either,
    equal,
    length,
    number,
    observed,
    one_element,
    same_rank,
    same_sizes,
    same_type,
    shapes,
    size,
    spatial,
    when,
)
from ..tensor import BufferTensorDesc, DataType
from ..violation import Code, Fault
from .work import STEP, elements_written

FORWARD, BACKWARD = ConvolutionDirection.FORWARD, ConvolutionDirection.BACKWARD

_ARRAYS = ("Strides", "Dilations", "StartPadding", "EndPadding", "OutputPadding")

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

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", *_ARRAYS[:4]))

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

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", *_ARRAYS[:4]))

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(_dimensions(values)[: len(values["StartPadding"])]):
            if dimension.backward[0] < 1:
                cut = dimension.start + dimension.end
                yield Fault(self.code, ("StartPadding", i), f"{cut} elements of padding leave no output")


@dataclass(frozen=True, slots=True)
class OutputPaddingFits(Rule):
    """In each of the last dimensions, the padding of the output is less than its size."""

    code = Code.OUT_OF_RANGE

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("OutputTensor", "OutputPadding"))

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

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "FilterTensor", "OutputTensor", *_ARRAYS[:4]))

    def faults(self, values: Values) -> Iterator[Fault]:
        output, sizes = values["OutputTensor"].sizes, _sizes(values)
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

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.tensor, self.filters))

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


def _sizes(values: Values) -> Sizes:
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
class _Rankless(Output):
    """An output of any allowed rank.

    Attributes:
        derived: the output as it is derived.
    """

    derived: Derived

    def rule(self, values: Values) -> OutputRule | None:
        found = self.derived.rule(values)
        return None if found is None else _RanklessRule(*found)


def _page_alone(*rules: Rule) -> tuple[Rule, ...]:
    """Returns rules that the documentation states and DirectML does not enforce, though opwire needs them."""
    return *documented(*rules), *computable(*rules)


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
        observed(between(length("Strides"), 1, MOST_DIMENSIONS)),
        _page_alone(spatial(*_ARRAYS, of="InputTensor")),
        computable(at_least(1, "Strides", "Dilations")),
        divides(number("GroupCount"), size("FilterTensor", 0)),
        when("Direction", FORWARD, equal(size("FilterTensor", 1) * number("GroupCount"), size("InputTensor", 1))),
        when("Direction", FORWARD, *computable(FilterFits())),
        when("Direction", BACKWARD, equal(size("FilterTensor", 0), size("InputTensor", 1))),
        when("Direction", BACKWARD, *computable(PaddingLeavesOutput())),
        when("Direction", FORWARD, shapes(BiasTensor=(1, size("FilterTensor", 0), ...))),
        when("Direction", BACKWARD, shapes(BiasTensor=(1, size("FilterTensor", 1) * number("GroupCount"), ...))),
        observed(OutputPaddingFits()),
        computable(FiltersFillOutput()),
    ),
    outputs={"OutputTensor": Derived(_sizes, like="InputTensor", enforced=2)},
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
            outputs={"OutputTensor": [[[[-0.0, -0.0], [-0.0, -0.0]]]]},
        ),
        Example(
            name="output_padding",
            desc=_desc(
                [1, 1, 3],
                [1, 1, 1],
                "BACKWARD",
                Strides=[2],
                OutputPadding=[1],
                OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 6]},
                BiasTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 1]},
            ),
            inputs={"InputTensor": [[[1, 2, 3]]], "FilterTensor": [[[10]]], "BiasTensor": [[[5]]]},
            outputs={"OutputTensor": [[[15, 5, 25, 5, 35, 0]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            name="output_of_padding",
            desc=_desc([1, 1, 3, 3], [1, 1, 2, 2], OutputPadding=[2, 0]),
            code=Code.OUT_OF_RANGE,
            pointer="/OutputPadding/0",
        ),
    ),
)

_PARAMETER = {"DataType": "UINT8", "Sizes": [1, 1, 1, 1]}
_GROUPS = (
    *_page_alone(
        same_rank("InputTensor", "FilterTensor"),
        same_rank("InputTensor", "OutputTensor"),
        spatial(*_ARRAYS[:4], of="InputTensor"),
    ),
    *computable(at_least(1, "Strides", "Dilations")),
    divides(number("GroupCount"), size("FilterTensor", 0)),
    equal(size("FilterTensor", 1) * number("GroupCount"), size("InputTensor", 1)),
    *computable(FilterFits(), FiltersFillOutput()),
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
        same_type("InputTensor", "InputZeroPointTensor"),
        same_type("FilterTensor", "FilterZeroPointTensor"),
        _GROUPS,
        one_element("InputZeroPointTensor"),
        PerFilter("FilterZeroPointTensor"),
    ),
    outputs={"OutputTensor": _Rankless(Derived(_sizes, default=DataType.INT32))},
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

_SCALED = tuple((f"{name}ScaleTensor", f"{name}ZeroPointTensor") for name in ("Input", "Filter", "Output"))

_QUANTIZED = declare(
    "QUANTIZED_LINEAR_CONVOLUTION",
    rules=(
        documented(same_rank("InputTensor", "BiasTensor")),
        same_type("InputTensor", "InputZeroPointTensor"),
        same_type("FilterTensor", "FilterZeroPointTensor"),
        _GROUPS,
        one_element("InputScaleTensor", "InputZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor"),
        PerFilter("FilterScaleTensor"),
        observed(*(same_rank(*pair) for pair in _SCALED), same_sizes("FilterScaleTensor", "FilterZeroPointTensor")),
        shapes(BiasTensor=(1, size("FilterTensor", 0), ...)),
    ),
    outputs={"OutputTensor": _Rankless(Derived(_sizes, like="OutputZeroPointTensor", default="InputTensor"))},
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
            name="zero_point_of_another_rank",
            desc=_quantized([1, 1, 3, 3], [1, 1, 2, 2], InputZeroPointTensor={"DataType": "UINT8", "Sizes": [1]}),
            code=Code.RANKS_DIFFER,
            pointer="/InputZeroPointTensor/Sizes",
        ),
    ),
)

FAMILY = (_FLOATS, _INTEGER, _QUANTIZED)
