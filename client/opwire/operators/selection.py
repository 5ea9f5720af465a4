"""The greatest elements, one-hot vectors, and the coordinates of non-zero elements.

Source: the pages of ``DML_TOP_K_OPERATOR_DESC``, ``DML_TOP_K1_OPERATOR_DESC``, ``DML_ONE_HOT_OPERATOR_DESC`` and
``DML_NONZERO_COORDINATES_OPERATOR_DESC``.
"""

from __future__ import annotations

from itertools import dropwhile
from math import prod
from typing import Any

from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import (
    Derived,
    Sizes,
    Undecided,
    Values,
    axis,
    below,
    between,
    documented,
    elements,
    equal,
    number,
    same_rank,
    same_sizes,
    same_type,
    size,
)
from ..tensor import DataType
from ..violation import Code
from .work import elements_visited, elements_written


def _selected(values: Values) -> Sizes:
    """Returns the sizes of the input, with K along the axis."""
    along = values["Axis"]
    return tuple((values["K"],) if i == along else (size,) for i, size in enumerate(values["InputTensor"].sizes))


def _sorting(attributes: Attributes, tensors: Tensors) -> int:
    """Sequences are sorted, with about log2(length) comparisons per element."""
    sequence: int = tensors["InputTensor"].sizes[attributes.Axis]
    return elements_visited(attributes, tensors) * sequence.bit_length()


_ROWS = [[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]]
_TIES = [[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]]
_Answer = tuple[str, list[Any], int, list[Any], list[Any], dict[str, Any]]


def _top(name: str, *examples: _Answer, **attributes: Any) -> Operator[Attributes]:
    """Declares an operator. Each example has a name, the input, K, the values, the indices and attributes."""

    def desc(count: int, **changes: Any) -> dict[str, Any]:
        tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 4]}
        return {"InputTensor": tensor, "Axis": 3, "K": count, **attributes, **changes}

    return declare(
        name,
        # The page requires K to be less than the size; a full sort is accepted too.
        rules=(axis("Axis", of="InputTensor"), between(number("K"), None, size("InputTensor", "Axis"))),
        outputs={
            "OutputValueTensor": Derived(_selected, like="InputTensor"),
            "OutputIndexTensor": Derived(_selected, default=DataType.UINT32),
        },
        work=_sorting,
        examples=tuple(
            Example(
                title,
                desc(count, **changes),
                {"InputTensor": source},
                {"OutputValueTensor": [[values]], "OutputIndexTensor": [[indices]]},
                source=f"DML_{name}_OPERATOR_DESC, worked example",
            )
            for title, source, count, values, indices, changes in examples
        ),
        bad_examples=(
            BadExample("more_than_there_are", desc(5), Code.OUT_OF_RANGE, "/K"),
            BadExample("no_such_axis", desc(1, Axis=4), Code.AXIS_OUT_OF_RANGE, "/Axis"),
        ),
    )


_GREATEST: _Answer = ("greatest", _ROWS, 2, [[11, 10], [9, 8], [7, 6]], [[3, 2], [2, 3], [3, 2]], {})
_FIRST: _Answer = ("ties_by_index", _TIES, 3, [[3, 2, 2], [5, 5, 4], [6, 6, 6]], [[3, 1, 2], [2, 3, 1], [0, 1, 2]], {})
_LEAST: _Answer = (
    "least",
    _TIES,
    3,
    [[1, 2, 2], [3, 4, 5], [6, 6, 6]],
    [[0, 1, 2]] * 3,
    {"AxisDirection": "INCREASING"},
)


def _one_hot(indices: list[int], values: list[int], output: list[int] | None, **changes: Any) -> dict[str, Any]:
    return {
        "IndicesTensor": {"DataType": "UINT32", "Sizes": indices},
        "ValuesTensor": {"DataType": "FLOAT32", "Sizes": values},
        "OutputTensor": None if output is None else {"DataType": "FLOAT32", "Sizes": output},
        "Axis": len(indices) - 1,
        **changes,
    }


def _counts(values: Values) -> Sizes:
    return tuple((1,) for _ in values["InputTensor"].sizes)


def _coordinates(values: Values) -> Sizes:
    """Returns sizes with a row per element; rows may omit the coordinates of leading dimensions of size 1."""
    sizes = values["InputTensor"].sizes
    effective = max(1, len(list(dropwhile(lambda size: size == 1, sizes))))
    return (*((1,),) * (len(sizes) - 2), (prod(sizes),), range(len(sizes), effective - 1, -1))


def _searching(attributes: Attributes, tensors: Tensors) -> int:
    """Each element is visited, and each coordinate is written once."""
    return elements_visited(attributes, tensors) + int(tensors["OutputCoordinatesTensor"].element_count)


_NONZERO = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 4]}}

FAMILY = (
    _top("TOP_K", _GREATEST, _FIRST),
    declare(
        "ONE_HOT",
        rules=(
            documented(same_rank("IndicesTensor", "ValuesTensor")),
            axis("Axis", of="IndicesTensor"),
            equal(size("IndicesTensor", "Axis"), 1),
            between(elements("ValuesTensor"), 2, None),
            same_type("ValuesTensor", "OutputTensor"),
            same_rank("IndicesTensor", "OutputTensor"),
            same_sizes("IndicesTensor", "OutputTensor", but_along="Axis"),
        ),
        outputs={"OutputTensor": Undecided()},
        work=elements_written,
        examples=(
            Example(
                "rows",
                _one_hot([1, 1, 3, 1], [1, 1, 1, 2], [1, 1, 3, 4]),
                {"IndicesTensor": [[[[0], [3], [2]]]], "ValuesTensor": [[[[0, 1]]]]},
                {"OutputTensor": [[[[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]]]},
                source="DML_ONE_HOT_OPERATOR_DESC, worked example",
            ),
            Example(
                "negative_and_too_large",
                _one_hot(
                    [1, 1, 3, 1], [1, 1, 1, 2], [1, 1, 3, 4], IndicesTensor={"DataType": "INT32", "Sizes": [1, 1, 3, 1]}
                ),
                {"IndicesTensor": [[[[-3], [100], [3]]]], "ValuesTensor": [[[[0, 1]]]]},
                {"OutputTensor": [[[[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]]]},
                source="DML_ONE_HOT_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample("without_output", _one_hot([3, 1], [1, 2], None), Code.MISSING_FIELD, ""),
            BadExample("one_value", _one_hot([3, 1], [1, 1], [3, 4]), Code.OUT_OF_RANGE, "/ValuesTensor/Sizes"),
            BadExample(
                "several_indices_along_the_axis",
                _one_hot([3, 2], [1, 2], [3, 4]),
                Code.SIZES_MISMATCH,
                "/IndicesTensor/Sizes",
            ),
        ),
    ),
    _top("TOP_K1", _GREATEST, _FIRST, _LEAST, AxisDirection="DECREASING"),
    declare(
        "NONZERO_COORDINATES",
        rules=(
            below(
                FeatureLevel.V4_0,
                same_rank("InputTensor", "OutputCountTensor"),
                same_rank("InputTensor", "OutputCoordinatesTensor"),
            ),
        ),
        outputs={
            "OutputCountTensor": Derived(_counts, default=DataType.UINT32, leading_ones=True),
            "OutputCoordinatesTensor": Derived(_coordinates, default=DataType.UINT32, leading_ones=True),
        },
        work=_searching,
        examples=(
            Example(
                "coordinates",
                {**_NONZERO, "OutputCoordinatesTensor": {"DataType": "UINT32", "Sizes": [1, 1, 8, 3]}},
                {"InputTensor": [[[[1, 0, 0, 2], [-0.0, 3.5, 0, -5.2]]]]},
                {
                    "OutputCountTensor": [[[[4]]]],
                    "OutputCoordinatesTensor": [
                        [[[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]]
                    ],
                },
                source="DML_NONZERO_COORDINATES_OPERATOR_DESC, worked example; undefined elements are 0",
            ),
        ),
        bad_examples=(
            BadExample(
                "too_few_coordinates",
                {**_NONZERO, "OutputCoordinatesTensor": {"DataType": "UINT32", "Sizes": [1, 1, 8, 1]}},
                Code.SIZES_MISMATCH,
                "/OutputCoordinatesTensor/Sizes/3",
            ),
            BadExample(
                "other_rank_before_4_0",
                {**_NONZERO, "OutputCountTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, 1, 1]}},
                Code.RANKS_DIFFER,
                "/OutputCountTensor/Sizes",
                level=FeatureLevel.V3_1,
            ),
        ),
    ),
)
