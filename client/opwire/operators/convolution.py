"""Convolutions and transposed convolutions.

Source: ``DML_CONVOLUTION_OPERATOR_DESC``, ``DML_CONVOLUTION_INTEGER_OPERATOR_DESC`` and
``DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC``; DirectMLX.h for the sizes of FORWARD and ONNX Runtime for those of
BACKWARD. DirectML enforces neither, and lets the numbers of spatial dimensions differ.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..operator import Attributes, BadExample, Example, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    at_least,
    between,
    computable,
    divides,
    documented,
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
from ..tensor import DataType
from ..violation import Code
from .filters import (
    ARRAYS,
    BACKWARD,
    FORWARD,
    MOST_DIMENSIONS,
    FilterFits,
    FiltersFillOutput,
    OutputPaddingFits,
    PaddingLeavesOutput,
    PerFilter,
    Rankless,
    output_sizes,
)
from .work import STEP, elements_written


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
        _page_alone(spatial(*ARRAYS, of="InputTensor")),
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
    outputs={"OutputTensor": Derived(output_sizes, like="InputTensor", enforced=2)},
    work=_work,
    examples=(
        Example(
            "four_windows",
            _desc([1, 1, 3, 3], [1, 1, 2, 2]),
            {"InputTensor": _SQUARE, "FilterTensor": _HALVES},
            {"OutputTensor": [[[[6, 8], [12, 14]]]]},
        ),
        Example(
            "activated",
            _desc([1, 1, 3, 3], [1, 1, 2, 2], FusedActivation={"Type": "ACTIVATION_RELU"}),
            {"InputTensor": _SQUARE, "FilterTensor": [[[[-1, 0], [0, 0]]]]},
            {"OutputTensor": [[[[-0.0, -0.0], [-0.0, -0.0]]]]},
        ),
        Example(
            "output_padding",
            _desc(
                [1, 1, 3],
                [1, 1, 1],
                "BACKWARD",
                Strides=[2],
                OutputPadding=[1],
                OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 6]},
                BiasTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 1]},
            ),
            {"InputTensor": [[[1, 2, 3]]], "FilterTensor": [[[10]]], "BiasTensor": [[[5]]]},
            {"OutputTensor": [[[15, 5, 25, 5, 35, 0]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            "output_of_padding",
            _desc([1, 1, 3, 3], [1, 1, 2, 2], OutputPadding=[2, 0]),
            Code.OUT_OF_RANGE,
            "/OutputPadding/0",
        ),
    ),
)

_PARAMETER = {"DataType": "UINT8", "Sizes": [1, 1, 1, 1]}
_GROUPS = (
    *_page_alone(
        same_rank("InputTensor", "FilterTensor"),
        same_rank("InputTensor", "OutputTensor"),
        spatial(*ARRAYS[:4], of="InputTensor"),
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
    outputs={"OutputTensor": Rankless(Derived(output_sizes, default=DataType.INT32))},
    work=_work,
    examples=(
        Example(
            "zero_point_and_padding",
            _bytes([1, 1, 3, 3], [1, 1, 2, 2], InputZeroPointTensor=_PARAMETER, StartPadding=[1, 0]),
            {"InputTensor": _SQUARE, "FilterTensor": _ONES, "InputZeroPointTensor": [[[[1]]]]},
            {"OutputTensor": [[[[1, 3], [8, 12], [20, 24]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            "channels_do_not_meet", _bytes([1, 3, 3, 3], [1, 2, 2, 2]), Code.SIZES_MISMATCH, "/FilterTensor/Sizes"
        ),
        BadExample(
            "zero_point_of_each_channel",
            _bytes([1, 2, 3, 3], [1, 2, 2, 2], InputZeroPointTensor={"DataType": "UINT8", "Sizes": [1, 2, 1, 1]}),
            Code.SIZES_MISMATCH,
            "/InputZeroPointTensor/Sizes",
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
    outputs={"OutputTensor": Rankless(Derived(output_sizes, like="OutputZeroPointTensor", default="InputTensor"))},
    work=_work,
    examples=(
        Example(
            "with_bias",
            _quantized([1, 1, 3, 3], [1, 1, 2, 2], BiasTensor={"DataType": "INT32", "Sizes": [1, 1, 1, 1]}),
            {
                "InputTensor": _SQUARE,
                "FilterTensor": _ONES,
                "BiasTensor": [[[[-4]]]],
                "InputScaleTensor": [[[[0.5]]]],
                "FilterScaleTensor": [[[[1]]]],
                "OutputScaleTensor": [[[[2]]]],
            },
            {"OutputTensor": [[[[2, 3], [5, 6]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            "scale_of_each_row",
            _quantized([1, 1, 3, 3], [2, 1, 2, 2], FilterScaleTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 2, 1]}),
            Code.SIZES_MISMATCH,
            "/FilterScaleTensor/Sizes/2",
        ),
        BadExample(
            "zero_point_of_another_rank",
            _quantized([1, 1, 3, 3], [1, 1, 2, 2], InputZeroPointTensor={"DataType": "UINT8", "Sizes": [1]}),
            Code.RANKS_DIFFER,
            "/InputZeroPointTensor/Sizes",
        ),
    ),
)

FAMILY = (_FLOATS, _INTEGER, _QUANTIZED)
