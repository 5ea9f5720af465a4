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

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((*self.parameters, self.of))

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
    name: str,
    *rules: Rule,
    dilated: bool,
    examples: tuple[Example, ...],
    bad_examples: tuple[BadExample, ...],
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
            name=name,
            desc={**desc, **dilations},
            inputs={"InputTensor": source},
            outputs={"OutputTensor": output},
            source=page if name == "four_windows" else "",
        )
        for name, desc, source, output in rows
    )


def _norms(**dilations: object) -> tuple[Example, ...]:
    desc = _desc([1, 1, 1, 3], [1, 2], **dilations)
    source: dict[str, Any] = {"InputTensor": [[[[3, -4, 0]]]]}
    return (
        Example(name="magnitudes", desc={**desc, "P": 1}, inputs=source, outputs={"OutputTensor": [[[[7, 4]]]]}),
        Example(name="lengths", desc={**desc, "P": 2}, inputs=source, outputs={"OutputTensor": [[[[5, 4]]]]}),
    )


def _bad_examples(**attributes: object) -> tuple[BadExample, ...]:
    return (
        BadExample(
            name="window_past_the_input",
            desc=_desc([1, 1, 4, 4], [5, 2], **attributes),
            code=Code.MISSING_FIELD,
            pointer="",
        ),
        BadExample(
            name="other_channels",
            desc=_desc([1, 1, 4, 4], [2, 2], OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 2, 3, 3]}, **attributes),
            code=Code.SIZES_MISMATCH,
            pointer="/OutputTensor/Sizes/1",
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
                name="shares_of_four",
                desc=_gradient_desc([1, 1, 2, 2], [1, 1, 3, 3]),
                inputs={"InputGradientTensor": [[[[1, 2], [3, 4]]]]},
                outputs={"OutputGradientTensor": [[[[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]]]},
                source="DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                name="other_channels",
                desc=_gradient_desc([1, 1, 2, 2], [1, 2, 3, 3]),
                code=Code.SIZES_MISMATCH,
                pointer="/InputGradientTensor/Sizes/1",
            ),
            BadExample(
                name="output_left_out",
                desc={**_gradient_desc([1, 1, 2, 2], []), "OutputGradientTensor": None},
                code=Code.MISSING_FIELD,
                pointer="",
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
                name="a_scale_for_each_channel",
                desc=_quantized_desc([1, 2, 1, 1]),
                inputs={
                    "InputTensor": [[[[2, 4]], [[2, 4]]]],
                    "InputScaleTensor": [[[[1]], [[2]]]],
                    "OutputScaleTensor": [0.5],
                },
                outputs={"OutputTensor": [[[[6]], [[12]]]]},
            ),
            Example(
                name="zero_point_of_the_output",
                desc=_quantized_desc([1], OutputZeroPointTensor={"DataType": "UINT8", "Sizes": [1]}),
                inputs={
                    "InputTensor": [[[[2, 4]], [[200, 202]]]],
                    "InputScaleTensor": [1],
                    "OutputScaleTensor": [1],
                    "OutputZeroPointTensor": [100],
                },
                outputs={"OutputTensor": [[[[103]], [[255]]]]},
            ),
        ),
        bad_examples=(
            BadExample(
                name="scales_for_each_channel_and_one_zero_point",
                desc=_quantized_desc([1, 2, 1, 1], InputZeroPointTensor={"DataType": "UINT8", "Sizes": [1, 1, 1, 1]}),
                code=Code.SIZES_MISMATCH,
                pointer="/InputZeroPointTensor/Sizes",
            ),
            BadExample(
                name="output_of_another_type_than_the_input",
                desc=_quantized_desc([1], OutputTensor={"DataType": "INT8", "Sizes": [1, 2, 1, 1]}),
                code=Code.DATA_TYPES_DIFFER,
                pointer="/OutputTensor/DataType",
            ),
        ),
    )


_AVERAGE_APART = Example(
    name="dilated_window",
    desc={**_APART, "IncludePadding": False},
    inputs={"InputTensor": [[[[1, 2, 5, 8]]]]},
    outputs={"OutputTensor": [[[[3, 5]]]]},
)
_NORM_APART = Example(
    name="dilated_window",
    desc={**_APART, "P": 2},
    inputs={"InputTensor": [[[[3, 5, 4, -12]]]]},
    outputs={"OutputTensor": [[[[5, 13]]]]},
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
