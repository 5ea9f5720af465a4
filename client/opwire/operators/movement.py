"""Operators that copy or move elements: conversion, splitting and joining, padding, repetition, reversal.

Source: the pages of ``DML_CAST_OPERATOR_DESC``, ``DML_SPLIT_OPERATOR_DESC``, ``DML_JOIN_OPERATOR_DESC``,
``DML_PADDING..._OPERATOR_DESC``, ``DML_TILE_OPERATOR_DESC`` and ``DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator, declare
from ..rules import (
    Derived,
    Rule,
    Sizes,
    Undecided,
    Values,
    axis,
    equal,
    length_is,
    like,
    not_empty,
    rank,
    same_rank,
    same_sizes,
    same_type,
    size,
    sum_along,
    type_named,
)
from ..violation import Code
from .depths import DEPTHS
from .folds import FOLDS
from .slices import SLICES
from .work import elements_visited, elements_written


def _tensor(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def _joined(values: Values) -> Sizes:
    """Returns the sizes of the first tensor, with the total of all tensors along the axis."""
    tensors, along = values["InputTensors"], values["Axis"]
    total = sum(tensor.sizes[along] for tensor in tensors)
    return tuple((total,) if i == along else (size,) for i, size in enumerate(tensors[0].sizes))


def _padded(values: Values) -> Sizes:
    padding = zip(values["InputTensor"].sizes, values["StartPadding"], values["EndPadding"], strict=True)
    return tuple((start + size + end,) for size, start, end in padding)


def _repeated(values: Values) -> Sizes:
    return tuple((size * n,) for size, n in zip(values["InputTensor"].sizes, values["Repeats"], strict=True))


_PICTURE = [[[[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]]]
_EDGES = [
    [1, 1, 1, 2, 3, 4, 4, 4, 4, 4],
    [1, 1, 1, 2, 3, 4, 4, 4, 4, 4],
    [5, 5, 5, 6, 7, 8, 8, 8, 8, 8],
    [1, 1, 1, 2, 3, 4, 4, 4, 4, 4],
    *[[5, 5, 5, 6, 7, 8, 8, 8, 8, 8]] * 4,
]


def _padding(name: str, value: dict[str, Any], *rules: Rule, bad: Sequence[BadExample] = ()) -> Operator[Attributes]:
    """Declares a padding operator; ``value`` has the attributes for the padding value."""

    def desc(mode: str, start: list[int], end: list[int], **changes: Any) -> dict[str, Any]:
        source = _tensor("FLOAT32", 1, 1, 4, 4)
        return {
            "InputTensor": source,
            "PaddingMode": mode,
            **value,
            "StartPadding": start,
            "EndPadding": end,
            **changes,
        }

    return declare(
        name,
        rules=(length_is(rank("InputTensor"), "StartPadding"), *rules),
        outputs={"OutputTensor": Derived(_padded, like="InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "edges",
                desc("EDGE", [0, 0, 1, 2], [0, 0, 3, 4]),
                {"InputTensor": _PICTURE},
                {"OutputTensor": [[_EDGES]]},
                source=f"DML_{name}_OPERATOR_DESC, worked example",
            ),
            Example(
                "constant",
                desc("CONSTANT", [1], [2], InputTensor=_tensor("FLOAT32", 2)),
                {"InputTensor": [1, 2]},
                {"OutputTensor": [9, 1, 2, 9, 9]},
            ),
        ),
        bad_examples=(
            BadExample("too_few_numbers", desc("EDGE", [1, 1], [1, 1]), Code.COUNT_MISMATCH, "/StartPadding"),
            BadExample(
                "wrong_size",
                desc("EDGE", [0, 0, 1, 1], [0, 0, 1, 1], OutputTensor=_tensor("FLOAT32", 1, 1, 6, 5)),
                Code.SIZES_MISMATCH,
                "/OutputTensor/Sizes/3",
            ),
            *bad,
        ),
    )


_WRAPPED_EARLY = BadExample(
    "wrap_before_6_4",
    {
        "InputTensor": _tensor("FLOAT32", 2),
        "PaddingMode": "WRAP",
        "PaddingValue": 0,
        "StartPadding": [1],
        "EndPadding": [0],
    },
    Code.UNKNOWN_VALUE,
    "/PaddingMode",
    level=FeatureLevel.V6_3,
)
_OTHER_TYPE = BadExample(
    "value_of_another_type",
    {
        "InputTensor": _tensor("FLOAT32", 2),
        "PaddingMode": "EDGE",
        "PaddingValueDataType": "INT32",
        "PaddingValue": 0,
        "StartPadding": [1],
        "EndPadding": [0],
    },
    Code.DATA_TYPES_DIFFER,
    "/PaddingValueDataType",
)


def _split(along: int, *sizes: list[int]) -> dict[str, Any]:
    outputs = [_tensor("FLOAT32", *each) for each in sizes]
    return {"InputTensor": _tensor("FLOAT32", 1, 1, 6, 2), "OutputTensors": outputs, "Axis": along}


def _join(along: int, *sizes: list[int]) -> dict[str, Any]:
    return {"InputTensors": [_tensor("FLOAT32", *each) for each in sizes], "Axis": along}


def _reverse(along: int, *lengths: int) -> dict[str, Any]:
    return {
        "InputTensor": _tensor("FLOAT32", 1, 1, 3, 4),
        "SequenceLengthsTensor": _tensor("UINT32", *lengths),
        "Axis": along,
    }


def _tile(sizes: list[int], repeats: list[int]) -> dict[str, Any]:
    return {"InputTensor": _tensor("FLOAT32", *sizes), "Repeats": repeats}


_CAST = declare(
    "CAST",
    rules=(same_rank("InputTensor", "OutputTensor"), same_sizes("InputTensor", "OutputTensor")),
    outputs={"OutputTensor": Undecided()},
    work=elements_written,
    examples=(
        Example(
            "truncates_and_saturates",
            {"InputTensor": _tensor("FLOAT32", 4), "OutputTensor": _tensor("INT8", 4)},
            {"InputTensor": [-1.7, 300, "NaN", "-Infinity"]},
            {"OutputTensor": [-1, 127, 0, -128]},
        ),
        Example(
            "keeps_low_bits",
            {"InputTensor": _tensor("INT32", 3), "OutputTensor": _tensor("UINT16", 3)},
            {"InputTensor": [-1, 65536, 7]},
            {"OutputTensor": [65535, 0, 7]},
        ),
        Example(
            "saturates_to_8_bits",
            {"InputTensor": _tensor("INT32", 3), "OutputTensor": _tensor("INT8", 3)},
            {"InputTensor": [-1, 256, -7000]},
            {"OutputTensor": [-1, 127, -128]},
        ),
    ),
    bad_examples=(
        BadExample("without_output", {"InputTensor": _tensor("INT32", 3)}, Code.MISSING_FIELD, ""),
        BadExample(
            "other_sizes",
            {"InputTensor": _tensor("INT32", 3), "OutputTensor": _tensor("INT8", 4)},
            Code.SIZES_MISMATCH,
            "/OutputTensor/Sizes",
        ),
    ),
)

_SPLIT = declare(
    "SPLIT",
    rules=(
        axis("Axis", of="InputTensor"),
        not_empty("OutputTensors"),
        same_type("InputTensor", "OutputTensors"),
        same_rank("InputTensor", "OutputTensors"),
        same_sizes("InputTensor", "OutputTensors", but_along="Axis"),
        sum_along("Axis", "OutputTensors", "InputTensor"),
    ),
    outputs={"OutputTensors": Undecided()},
    work=elements_visited,
    examples=(
        Example(
            "rows",
            _split(2, [1, 1, 2, 2], [1, 1, 1, 2], [1, 1, 3, 2]),
            {"InputTensor": [[[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]]]},
            {"OutputTensors": [[[[[1, 2], [3, 4]]]], [[[[5, 6]]]], [[[[7, 8], [9, 10], [11, 12]]]]]},
            source="DML_SPLIT_OPERATOR_DESC, worked example",
        ),
    ),
    bad_examples=(
        BadExample("a_row_left_over", _split(2, [1, 1, 2, 2], [1, 1, 3, 2]), Code.SIZES_MISMATCH, "/OutputTensors"),
        BadExample(
            "other_columns", _split(2, [1, 1, 3, 2], [1, 1, 3, 1]), Code.SIZES_MISMATCH, "/OutputTensors/1/Sizes"
        ),
        BadExample("into_nothing", _split(2), Code.COUNT_MISMATCH, "/OutputTensors"),
    ),
)

_JOIN = declare(
    "JOIN",
    rules=(
        not_empty("InputTensors"),
        axis("Axis", of="InputTensors"),
        same_type("InputTensors"),
        same_rank("InputTensors"),
        same_sizes("InputTensors", but_along="Axis"),
    ),
    outputs={"OutputTensor": Derived(_joined, like="InputTensors")},
    work=elements_written,
    examples=(
        Example(
            "columns",
            _join(3, [1, 1, 2, 3], [1, 1, 2, 4]),
            {"InputTensors": [[[[[1, 2, 3], [4, 5, 6]]]], [[[[7, 8, 9, 10], [11, 12, 13, 14]]]]]},
            {"OutputTensor": [[[[1, 2, 3, 7, 8, 9, 10], [4, 5, 6, 11, 12, 13, 14]]]]},
            source="DML_JOIN_OPERATOR_DESC, worked example",
        ),
    ),
    bad_examples=(
        BadExample("other_rows", _join(1, [2, 3], [3, 3]), Code.SIZES_MISMATCH, "/InputTensors/1/Sizes"),
        BadExample("no_such_axis", _join(2, [2, 3]), Code.AXIS_OUT_OF_RANGE, "/Axis"),
        BadExample("of_nothing", _join(0), Code.COUNT_MISMATCH, "/InputTensors"),
        BadExample("count_disagrees", {**_join(0, [2], [3]), "InputCount": 3}, Code.COUNT_MISMATCH, "/InputCount"),
    ),
)

_TILE = declare(
    "TILE",
    rules=(length_is(rank("InputTensor"), "Repeats"),),
    outputs={"OutputTensor": Derived(_repeated, like="InputTensor")},
    work=elements_written,
    examples=(
        Example(
            "columns_twice",
            _tile([2, 2], [1, 2]),
            {"InputTensor": [[1, 2], [3, 4]]},
            {"OutputTensor": [[1, 2, 1, 2], [3, 4, 3, 4]]},
            source="DML_TILE_OPERATOR_DESC, worked example of an older edition",
        ),
    ),
    bad_examples=(
        BadExample("too_few_numbers", _tile([2, 2], [2]), Code.COUNT_MISMATCH, "/Repeats"),
        BadExample("too_many_elements", _tile([2, 2], [2**31, 2**31]), Code.TOO_MANY_ELEMENTS, ""),
    ),
)

_REVERSE = declare(
    "REVERSE_SUBSEQUENCES",
    rules=(
        same_rank("InputTensor", "SequenceLengthsTensor"),
        axis("Axis", of="InputTensor"),
        same_sizes("InputTensor", "SequenceLengthsTensor", but_along="Axis"),
        equal(size("SequenceLengthsTensor", "Axis"), 1),
    ),
    outputs={"OutputTensor": like("InputTensor")},
    work=elements_written,
    examples=(
        Example(
            "rows",
            _reverse(3, 1, 1, 3, 1),
            {
                "InputTensor": [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]],
                "SequenceLengthsTensor": [[[[2], [4], [3]]]],
            },
            {"OutputTensor": [[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]]},
            source="DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, worked example",
        ),
    ),
    bad_examples=(
        BadExample(
            "several_lengths_along_the_axis",
            _reverse(3, 1, 1, 3, 2),
            Code.SIZES_MISMATCH,
            "/SequenceLengthsTensor/Sizes",
        ),
    ),
)

FAMILY = (
    _CAST,
    _SPLIT,
    _JOIN,
    _padding("PADDING", {"PaddingValue": 9}, bad=(_WRAPPED_EARLY,)),
    _TILE,
    _REVERSE,
    _padding(
        "PADDING1",
        {"PaddingValueDataType": "FLOAT32", "PaddingValue": 9},
        type_named("PaddingValueDataType", "InputTensor"),
        bad=(_OTHER_TYPE,),
    ),
    *DEPTHS,
    *SLICES,
    *FOLDS,
)
