"""Pooling by mean and by norm: averages, also of quantized data, Lp norms, and the gradient of averages.

Source: the pages of the ``DML_..._POOLING..._OPERATOR_DESC`` structs. An omitted output gets the size that is rounded
down, with the dilated window; the pages also allow that rounded up, and DirectML any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..operator import Attributes, BadExample, Example, Operator, declare
from ..rules import (
    Derived,
    Rule,
    Undecided,
    Values,
    Windows,
    between,
    computable,
    documented,
    either,
    number,
    observed,
    pooled,
    same_leading,
    same_rank,
    same_sizes,
    same_type,
    spatial,
    window_steps,
)
from ..violation import Code, Fault
from .work import windows_visited

PARAMETERS = ("InputScaleTensor", "InputZeroPointTensor", "OutputScaleTensor", "OutputZeroPointTensor")

SPATIAL_FROM = 2
"""The first spatial dimension. DirectML takes any spatial sizes of an output."""


@dataclass(frozen=True, slots=True)
class PerChannel(Rule):
    """Quantization parameters have one element, or one per channel of a tensor.

    From rank 4, the channels are dimension 1; at lower ranks they are the only dimension whose size is not 1 (opwire's
    interpretation of a page that covers only rank 4).
    """

    code = Code.SIZES_MISMATCH

    parameters: tuple[str, ...]
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        channels = values[self.of].sizes[1] if values[self.of].rank > 1 else 1
        for name in self.parameters:
            sizes = () if values[name] is None else values[name].sizes
            long = [i for i, size in enumerate(sizes) if size != 1]
            axis = 1 if len(sizes) >= 4 else next(iter(long), 0)
            for i in long:
                allowed = [1, channels] if i == axis else [1]
                if sizes[i] not in allowed:
                    message = f"size {sizes[i]} given for dimension {i} of {name}; allowed: {either(allowed)}"
                    yield Fault(self.code, (name, "Sizes", i), message, allowed)


def _rules(windows: Windows) -> tuple[Rule, ...]:
    return spatial("WindowSize", *windows.arrays, of="InputTensor"), *computable(window_steps(windows))


def _pooling(
    name: str, *rules: Rule, dilated: bool, examples: tuple[Example, ...], bad_examples: tuple[BadExample, ...]
) -> Operator[Attributes]:
    windows = Windows(dilated=dilated)
    return declare(
        name,
        rules=(*_rules(windows), *rules),
        outputs={"OutputTensor": Derived(windows.output_sizes, like="InputTensor", enforced=SPATIAL_FROM)},
        work=windows_visited(windows),
        examples=examples,
        bad_examples=bad_examples,
    )


def _desc(sizes: list[int], window: list[int], **changes: object) -> dict[str, object]:
    n = len(window)
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "DimensionCount": n,
        "Strides": [1] * n,
        "WindowSize": window,
        "StartPadding": [0] * n,
        "EndPadding": [0] * n,
        **changes,
    }


_SQUARE = [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]
_ROW = {"StartPadding": [0, 1], "EndPadding": [0, 1]}


def _averages(**dilations: object) -> tuple[Example, ...]:
    rows = (
        ("four_windows", _desc([1, 1, 3, 3], [2, 2], IncludePadding=False), _SQUARE, [[[[3, 4], [6, 7]]]]),
        ("padding_left_out", _desc([1, 1, 1, 2], [1, 2], IncludePadding=False, **_ROW), [[[[2, 6]]]], [[[[2, 4, 6]]]]),
        ("padding_included", _desc([1, 1, 1, 2], [1, 2], IncludePadding=True, **_ROW), [[[[2, 6]]]], [[[[1, 4, 3]]]]),
    )
    page = "DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC, worked example"
    return tuple(
        Example(
            name,
            {**desc, **dilations},
            {"InputTensor": source},
            {"OutputTensor": output},
            source=page if name == "four_windows" else "",
        )
        for name, desc, source, output in rows
    )


def _norms(**dilations: object) -> tuple[Example, ...]:
    desc = _desc([1, 1, 1, 3], [1, 2], **dilations)
    source: dict[str, Any] = {"InputTensor": [[[[3, -4, 0]]]]}
    return (
        Example("magnitudes", {**desc, "P": 1}, source, {"OutputTensor": [[[[7, 4]]]]}),
        Example("lengths", {**desc, "P": 2}, source, {"OutputTensor": [[[[5, 4]]]]}),
    )


def _bad_examples(**attributes: object) -> tuple[BadExample, ...]:
    return (
        BadExample("window_past_the_input", _desc([1, 1, 4, 4], [5, 2], **attributes), Code.MISSING_FIELD, ""),
        BadExample(
            "other_channels",
            _desc([1, 1, 4, 4], [2, 2], OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 2, 3, 3]}, **attributes),
            Code.SIZES_MISMATCH,
            "/OutputTensor/Sizes/1",
        ),
    )


_ONES = {"Dilations": [1, 1]}
_APART = _desc([1, 1, 1, 4], [1, 2], Dilations=[1, 2])


def _gradient_desc(sizes: list[int], source: list[int]) -> dict[str, object]:
    return {
        **{name: value for name, value in _desc(sizes, [2, 2], IncludePadding=False).items() if name != "InputTensor"},
        "InputGradientTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "OutputGradientTensor": {"DataType": "FLOAT32", "Sizes": source},
    }


def _gradient() -> Operator[Attributes]:
    windows = Windows(over="OutputGradientTensor", dilated=False)
    tensors = ("InputGradientTensor", "OutputGradientTensor")
    return declare(
        "AVERAGE_POOLING_GRAD",
        rules=(
            spatial("WindowSize", *windows.arrays, of="InputGradientTensor"),
            same_type(*tensors),
            same_rank(*tensors),
            *computable(window_steps(windows)),
            same_leading(SPATIAL_FROM, "OutputGradientTensor", "InputGradientTensor"),
            *documented(pooled(windows, "InputGradientTensor")),
        ),
        outputs={"OutputGradientTensor": Undecided()},
        work=windows_visited(windows, "InputGradientTensor"),
        examples=(
            Example(
                "shares_of_four",
                _gradient_desc([1, 1, 2, 2], [1, 1, 3, 3]),
                {"InputGradientTensor": [[[[1, 2], [3, 4]]]]},
                {"OutputGradientTensor": [[[[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]]]},
                source="DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "other_channels",
                _gradient_desc([1, 1, 2, 2], [1, 2, 3, 3]),
                Code.SIZES_MISMATCH,
                "/InputGradientTensor/Sizes/1",
            ),
            BadExample(
                "output_left_out",
                {**_gradient_desc([1, 1, 2, 2], []), "OutputGradientTensor": None},
                Code.MISSING_FIELD,
                "",
            ),
        ),
    )


def _together(which: str) -> tuple[Rule, Rule]:
    """The scale of a tensor and its zero point have the same sizes."""
    tensors = f"{which}ScaleTensor", f"{which}ZeroPointTensor"
    return same_rank(*tensors), same_sizes(*tensors)


def _quantized_desc(scale: list[int], **changes: object) -> dict[str, object]:
    return _desc(
        [1, 2, 1, 2],
        [1, 2],
        InputTensor={"DataType": "UINT8", "Sizes": [1, 2, 1, 2]},
        InputScaleTensor={"DataType": "FLOAT32", "Sizes": scale},
        OutputScaleTensor={"DataType": "FLOAT32", "Sizes": [1]},
        Dilations=[1, 1],
        IncludePadding=False,
        **changes,
    )


def _quantized() -> Operator[Attributes]:
    windows = Windows()
    return declare(
        "QUANTIZED_LINEAR_AVERAGE_POOLING",
        rules=(
            *computable(PerChannel(PARAMETERS, "InputTensor")),
            same_type("InputTensor", "InputZeroPointTensor"),
            *observed(same_type("InputTensor", "OutputZeroPointTensor"), *_together("Input"), *_together("Output")),
            *_rules(windows),
        ),
        outputs={"OutputTensor": Derived(windows.output_sizes, like="InputTensor", enforced=SPATIAL_FROM)},
        work=windows_visited(windows),
        examples=(
            Example(
                "a_scale_for_each_channel",
                _quantized_desc([1, 2, 1, 1]),
                {
                    "InputTensor": [[[[2, 4]], [[2, 4]]]],
                    "InputScaleTensor": [[[[1]], [[2]]]],
                    "OutputScaleTensor": [0.5],
                },
                {"OutputTensor": [[[[6]], [[12]]]]},
            ),
            Example(
                "zero_point_of_the_output",
                _quantized_desc([1], OutputZeroPointTensor={"DataType": "UINT8", "Sizes": [1]}),
                {
                    "InputTensor": [[[[2, 4]], [[200, 202]]]],
                    "InputScaleTensor": [1],
                    "OutputScaleTensor": [1],
                    "OutputZeroPointTensor": [100],
                },
                {"OutputTensor": [[[[103]], [[255]]]]},
            ),
        ),
        bad_examples=(
            BadExample(
                "scales_for_each_channel_and_one_zero_point",
                _quantized_desc([1, 2, 1, 1], InputZeroPointTensor={"DataType": "UINT8", "Sizes": [1, 1, 1, 1]}),
                Code.SIZES_MISMATCH,
                "/InputZeroPointTensor/Sizes",
            ),
            BadExample(
                "output_of_another_type_than_the_input",
                _quantized_desc([1], OutputTensor={"DataType": "INT8", "Sizes": [1, 2, 1, 1]}),
                Code.DATA_TYPES_DIFFER,
                "/OutputTensor/DataType",
            ),
        ),
    )


_AVERAGE_APART = Example(
    "dilated_window",
    {**_APART, "IncludePadding": False},
    {"InputTensor": [[[[1, 2, 5, 8]]]]},
    {"OutputTensor": [[[[3, 5]]]]},
)
_NORM_APART = Example(
    "dilated_window", {**_APART, "P": 2}, {"InputTensor": [[[[3, 5, 4, -12]]]]}, {"OutputTensor": [[[[5, 13]]]]}
)
_AVERAGE_REFUSED, _NORM_REFUSED = {"IncludePadding": False}, {"P": 2}

_ROOT = computable(between(number("P"), 1, None))

FAMILY = (
    _pooling("AVERAGE_POOLING", dilated=False, examples=_averages(), bad_examples=_bad_examples(**_AVERAGE_REFUSED)),
    _pooling("LP_POOLING", *_ROOT, dilated=False, examples=_norms(), bad_examples=_bad_examples(**_NORM_REFUSED)),
    _gradient(),
    _pooling(
        "LP_POOLING1",
        *_ROOT,
        dilated=True,
        examples=(*_norms(**_ONES), _NORM_APART),
        bad_examples=_bad_examples(**_ONES, **_NORM_REFUSED),
    ),
    _pooling(
        "AVERAGE_POOLING1",
        dilated=True,
        examples=(*_averages(**_ONES), _AVERAGE_APART),
        bad_examples=_bad_examples(**_ONES, **_AVERAGE_REFUSED),
    ),
    _quantized(),
)
