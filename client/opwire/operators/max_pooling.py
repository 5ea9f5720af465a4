"""MAX_POOLING, MAX_POOLING1 and MAX_POOLING2: the greatest element of each window; and their inverse and gradient.

Source: the pages of the descs. An omitted output gets the size that is rounded down, with the dilated window; the pages
also allow that rounded up, and DirectML any other. The gradient must have the size that is rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..operator import BadExample, Example, Operator, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Undecided,
    Windows,
    between,
    computable,
    length,
    like,
    pooled,
    rank,
    same_leading,
    same_rank,
    same_sizes,
    same_type,
    spatial,
    window_holds_element,
    window_steps,
)
from ..rules.dimension import Dimension
from ..tensor import DataType
from ..violation import Code
from .pooling import SPATIAL_FROM
from .work import elements_visited, elements_written, windows_visited


@dataclass(frozen=True, slots=True)
class MaxPooling:
    """The attributes of the three operators, one number per spatial dimension. Dilations default to 1."""

    Strides: tuple[int, ...]
    WindowSize: tuple[int, ...]
    StartPadding: tuple[int, ...]
    EndPadding: tuple[int, ...]
    Dilations: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.Dilations:
            object.__setattr__(self, "Dilations", (1,) * len(self.WindowSize))

    def dimensions(self, sizes: tuple[int, ...]) -> Iterator[Dimension]:
        """Yields the spatial dimensions of an input, outermost first."""
        for members in zip(
            sizes[2:], self.Strides, self.WindowSize, self.StartPadding, self.EndPadding, self.Dilations, strict=True
        ):
            yield Dimension(*members)


def _work(desc: MaxPooling, tensors: Tensors) -> int:
    """Each output element visits its window, without padding."""
    images, channels, *outputs = tensors["OutputTensor"].sizes
    dimensions = desc.dimensions(tensors["InputTensor"].sizes)
    visited = [dimension.elements_visited(count) for dimension, count in zip(dimensions, outputs, strict=True)]
    work: int = images * channels * prod(visited)
    return work


def _operator(
    name: str, examples: tuple[Example, ...], bad_examples: tuple[BadExample, ...], *, indices: bool, dilated: bool
) -> Operator[MaxPooling]:
    windows = Windows(dilated=dilated)
    rules: list[Rule] = [
        spatial("WindowSize", *windows.arrays, of="InputTensor"),
        *computable(window_steps(windows), window_holds_element(windows)),
    ]
    outputs = {"OutputTensor": Derived(windows.output_sizes, like="InputTensor", enforced=SPATIAL_FROM)}
    if indices:
        rules.append(same_sizes("OutputTensor", "OutputIndicesTensor"))
        outputs["OutputIndicesTensor"] = Derived(windows.output_sizes, default=DataType.UINT32, enforced=SPATIAL_FROM)
    return declare(
        name,
        attributes=MaxPooling,
        rules=rules,
        outputs=outputs,
        work=_work,
        examples=examples,
        bad_examples=bad_examples,
    )


def _desc(sizes: list[int], window: list[int], data_type: str = "FLOAT32", **changes: object) -> dict[str, object]:
    n = len(window)
    return {
        "InputTensor": {"DataType": data_type, "Sizes": sizes},
        "DimensionCount": n,
        "Strides": [1] * n,
        "WindowSize": window,
        "StartPadding": [0] * n,
        "EndPadding": [0] * n,
        **changes,
    }


_SQUARE = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]]

_EXAMPLES = (
    Example(
        "halves_an_image",
        _desc([1, 1, 4, 4], [2, 2], Strides=[2, 2]),
        {"InputTensor": _SQUARE},
        {"OutputTensor": [[[[6, 8], [14, 16]]]]},
    ),
    Example(
        "padding_never_wins",
        _desc([1, 1, 1, 3], [1, 3], StartPadding=[0, 1], EndPadding=[0, 1]),
        {"InputTensor": [[[[-3, -2, -4]]]]},
        {"OutputTensor": [[[[-2, -2, -2]]]]},
    ),
    Example(
        "ceiling_size",
        _desc([1, 1, 1, 6], [1, 3], Strides=[1, 2], OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 1, 3]}),
        {"InputTensor": [[[[1, 2, 3, 4, 5, 6]]]]},
        {"OutputTensor": [[[[3, 5, 6]]]]},
    ),
    Example(
        "volume_of_bytes",
        _desc([1, 1, 2, 2, 2], [2, 2, 1], "INT8"),
        {"InputTensor": [[[[[1, -2], [3, 4]], [[-5, 6], [7, -128]]]]]},
        {"OutputTensor": [[[[[7, 6]]]]]},
    ),
)

_INDEX_EXAMPLES = (
    Example(
        "positions_in_the_whole_tensor",
        _desc([1, 2, 2, 2], [2, 2], OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 2, 1, 1]}),
        {"InputTensor": [[[[1, 2], [3, 0]], [[5, 9], [9, 5]]]]},
        {"OutputTensor": [[[[3]], [[9]]]], "OutputIndicesTensor": [[[[2]], [[5]]]]},
    ),
    Example(
        "positions_never_in_padding",
        _desc(
            [1, 1, 1, 3],
            [1, 2],
            StartPadding=[0, 1],
            EndPadding=[0, 1],
            OutputIndicesTensor={"DataType": "UINT64", "Sizes": [1, 1, 1, 4]},
        ),
        {"InputTensor": [[[["-Infinity", "NaN", 1]]]]},
        {
            "OutputTensor": [[[[-3.4028234663852886e38, -3.4028234663852886e38, 1, 1]]]],
            "OutputIndicesTensor": [[[[0, 0, 2, 2]]]],
        },
    ),
)

_DILATED_EXAMPLE = Example(
    "dilated_window",
    _desc([1, 1, 1, 6], [1, 2], Dilations=[1, 3], OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 1, 1, 3]}),
    {"InputTensor": [[[[9, 8, 7, 1, 8, 9]]]]},
    {"OutputTensor": [[[[9, 8, 9]]]], "OutputIndicesTensor": [[[[0, 1, 5]]]]},
)

_BAD_EXAMPLES = (
    BadExample("window_past_the_input", _desc([1, 1, 4, 4], [5, 2]), Code.MISSING_FIELD, ""),
    BadExample(
        "other_channels",
        _desc([1, 1, 4, 4], [2, 2], OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 2, 3, 3]}),
        Code.SIZES_MISMATCH,
        "/OutputTensor/Sizes/1",
    ),
    BadExample("rank_3", _desc([1, 4, 4], [2]), Code.RANK_NOT_IN_LEVEL, "/InputTensor/Sizes"),
    BadExample("counts_differ", _desc([1, 1, 4, 4], [2, 2], EndPadding=[0]), Code.COUNT_MISMATCH, "/EndPadding"),
)


def _with_dilations(examples: tuple[Example, ...]) -> tuple[Example, ...]:
    return tuple(
        Example(
            example.name,
            {**example.desc, "Dilations": [1] * len(example.desc["WindowSize"])},
            example.inputs,
            example.outputs,
        )
        for example in examples
    )


_BAD_DILATED_EXAMPLES = (
    BadExample("dilated_window_past_the_input", _desc([1, 1, 4, 4], [2, 2], Dilations=[1, 4]), Code.MISSING_FIELD, ""),
    BadExample("dilations_null", _desc([1, 1, 4, 4], [2, 2], Dilations=None), Code.MISSING_FIELD, "/Dilations"),
    BadExample(
        "indices_of_other_sizes",
        _desc(
            [1, 1, 4, 4], [2, 2], Dilations=[1, 1], OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 1, 2, 2]}
        ),
        Code.SIZES_MISMATCH,
        "/OutputIndicesTensor/Sizes",
    ),
)

_GRADIENTS = _desc(
    [1, 1, 3, 3], [2, 2], Dilations=[1, 1], InputGradientTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
)
_MOST_DIMENSIONS = 3
_WINDOWS = Windows(most=_MOST_DIMENSIONS)

_GRADIENT = declare(
    "MAX_POOLING_GRAD",
    rules=(
        same_type("InputTensor", "InputGradientTensor"),
        same_rank("InputTensor", "InputGradientTensor"),
        between(length("WindowSize"), rank("InputTensor") - SPATIAL_FROM, _MOST_DIMENSIONS),
        *computable(between(length("WindowSize"), None, rank("InputTensor") - SPATIAL_FROM)),
        window_steps(_WINDOWS),
        same_leading(SPATIAL_FROM, "InputTensor", "InputGradientTensor"),
        pooled(_WINDOWS, "InputGradientTensor", exact=True),
        *computable(window_holds_element(_WINDOWS, "InputGradientTensor")),
    ),
    outputs={"OutputGradientTensor": like("InputTensor")},
    work=windows_visited(_WINDOWS, "InputGradientTensor"),
    examples=(
        Example(
            "a_maximum_of_two_windows",
            _GRADIENTS,
            {"InputTensor": [[[[1, 2, 3], [2, 4, 2], [5, 6, 7]]]], "InputGradientTensor": [[[[1, 2], [4, 5]]]]},
            {"OutputGradientTensor": [[[[0, 0, 0], [0, 3, 0], [0, 4, 5]]]]},
            source="DML_MAX_POOLING_GRAD_OPERATOR_DESC, worked example",
        ),
    ),
    bad_examples=(
        BadExample(
            "a_gradient_of_the_whole_input",
            {**_GRADIENTS, "InputGradientTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 2]}},
            Code.SIZES_MISMATCH,
            "/InputGradientTensor/Sizes/2",
        ),
    ),
)


def _unpooled(output: list[int] | None) -> dict[str, object]:
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 2]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, 2]},
        "OutputTensor": None if output is None else {"DataType": "FLOAT32", "Sizes": output},
    }


def _unpooling_work(attributes: object, tensors: Tensors) -> int:
    """The output is filled with zeros, and each input element is moved."""
    return elements_visited(attributes, tensors) + elements_written(attributes, tensors)


_UNPOOLING = declare(
    "MAX_UNPOOLING",
    rules=(same_sizes("InputTensor", "IndicesTensor"), same_type("InputTensor", "OutputTensor")),
    outputs={"OutputTensor": Undecided()},
    work=_unpooling_work,
    examples=(
        Example(
            "zeros_elsewhere",
            _unpooled([1, 1, 2, 3]),
            {"InputTensor": [[[[8, 9]]]], "IndicesTensor": [[[[1, 5]]]]},
            {"OutputTensor": [[[[0, 8, 0], [0, 0, 9]]]]},
        ),
    ),
    bad_examples=(BadExample("output_left_out", _unpooled(None), Code.MISSING_FIELD, ""),),
)

FAMILY = (
    _operator("MAX_POOLING", _EXAMPLES, _BAD_EXAMPLES, indices=False, dilated=False),
    _operator("MAX_POOLING1", (*_EXAMPLES, *_INDEX_EXAMPLES), _BAD_EXAMPLES, indices=True, dilated=False),
    _operator(
        "MAX_POOLING2",
        (*_with_dilations(_EXAMPLES), *_with_dilations(_INDEX_EXAMPLES), _DILATED_EXAMPLE),
        _BAD_DILATED_EXAMPLES,
        indices=True,
        dilated=True,
    ),
    _UNPOOLING,
    _GRADIENT,
)
