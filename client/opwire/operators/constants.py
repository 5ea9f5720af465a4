"""Tensors filled from numbers: constants, sequences and diagonals.

Source: the pages of ``DML_FILL_VALUE_CONSTANT_OPERATOR_DESC``, ``DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC``,
``DML_DIAGONAL_MATRIX_OPERATOR_DESC`` and ``DML_DIAGONAL_MATRIX1_OPERATOR_DESC``.
"""

from __future__ import annotations

from typing import Any

from ..level import FeatureLevel
from ..operator import BadExample, Example, declare
from ..rules import Undecided, like, type_named
from ..violation import Code
from .work import elements_written


def _float32(*sizes: int) -> dict[str, Any]:
    return {"DataType": "FLOAT32", "Sizes": list(sizes)}


def _band(begin: int, end: int, value: float, **changes: Any) -> dict[str, Any]:
    """Returns a desc of DIAGONAL_MATRIX1."""
    return {
        "OutputTensor": _float32(4, 5),
        "ValueDataType": "FLOAT32",
        "Value": value,
        "DiagonalFillBegin": begin,
        "DiagonalFillEnd": end,
        **changes,
    }


_TABLE = [[4, 7, 3, 7, 9], [1, 2, 8, 6, 9], [9, 4, 1, 8, 7], [4, 3, 4, 2, 4]]
_LOWER_CLEARED = [[0, 7, 3, 7, 9], [0, 0, 8, 6, 9], [0, 0, 0, 8, 7], [0, 0, 0, 0, 4]]

FAMILY = (
    declare(
        "DIAGONAL_MATRIX",
        outputs={"OutputTensor": Undecided()},
        work=elements_written,
        examples=(
            Example(
                "below_the_diagonal",
                {"OutputTensor": _float32(1, 1, 3, 2), "Offset": -1, "Value": 1},
                {},
                {"OutputTensor": [[[[0, 0], [1, 0], [0, 1]]]]},
                source="DML_DIAGONAL_MATRIX_OPERATOR_DESC, worked example",
            ),
            Example(
                "infinity_as_an_integer",
                {"OutputTensor": {"DataType": "INT32", "Sizes": [1, 1, 1, 2]}, "Offset": 0, "Value": "inf"},
                {},
                {"OutputTensor": [[[[-(2**31), 0]]]]},
            ),
        ),
        bad_examples=(
            BadExample("without_output", {"Offset": 0, "Value": 1}, Code.MISSING_FIELD, ""),
            BadExample(
                "rank_2_before_4_0",
                {"OutputTensor": _float32(3, 3), "Offset": 0, "Value": 1},
                Code.RANK_NOT_IN_LEVEL,
                "/OutputTensor/Sizes",
                level=FeatureLevel.V3_1,
            ),
        ),
    ),
    declare(
        "FILL_VALUE_CONSTANT",
        rules=(type_named("ValueDataType", "OutputTensor"),),
        outputs={"OutputTensor": Undecided()},
        work=elements_written,
        examples=(
            Example(
                "thirteens",
                {"OutputTensor": _float32(1, 1, 2, 4), "ValueDataType": "FLOAT32", "Value": 13},
                {},
                {"OutputTensor": [[[[13] * 4, [13] * 4]]]},
                source="DML_FILL_VALUE_CONSTANT_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "another_type",
                {"OutputTensor": _float32(2), "ValueDataType": "INT32", "Value": 1},
                Code.DATA_TYPES_DIFFER,
                "/ValueDataType",
            ),
        ),
    ),
    declare(
        "FILL_VALUE_SEQUENCE",
        rules=(type_named("ValueDataType", "OutputTensor"),),
        outputs={"OutputTensor": Undecided()},
        work=elements_written,
        examples=(
            Example(
                "upwards",
                {"OutputTensor": _float32(1, 1, 1, 3), "ValueDataType": "FLOAT32", "ValueStart": 3, "ValueDelta": 2},
                {},
                {"OutputTensor": [[[[3, 5, 7]]]]},
                source="DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC, worked example",
            ),
            Example(
                "downwards_in_bytes",
                {
                    "OutputTensor": {"DataType": "UINT8", "Sizes": [1, 1, 2, 2]},
                    "ValueDataType": "UINT8",
                    "ValueStart": 10,
                    "ValueDelta": -2,
                },
                {},
                {"OutputTensor": [[[[10, 8], [6, 4]]]]},
                source="DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "value_of_another_type",
                {"OutputTensor": _float32(2), "ValueDataType": "FLOAT32", "ValueStart": {"Int32": 1}, "ValueDelta": 1},
                Code.UNION_MISMATCH,
                "/ValueStart/Int32",
            ),
        ),
    ),
    declare(
        "DIAGONAL_MATRIX1",
        rules=(type_named("ValueDataType", "OutputTensor"),),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "band",
                _band(0, 3, 7),
                {},
                {"OutputTensor": [[7, 7, 7, 0, 0], [0, 7, 7, 7, 0], [0, 0, 7, 7, 7], [0, 0, 0, 7, 7]]},
                source="DML_DIAGONAL_MATRIX1_OPERATOR_DESC, worked example",
            ),
            Example(
                "upper_triangle",
                _band(-(2**31), 1, 0, InputTensor=_float32(4, 5)),
                {"InputTensor": _TABLE},
                {"OutputTensor": _LOWER_CLEARED},
                source="DML_DIAGONAL_MATRIX1_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "sizes_differ", _band(0, 1, 1, InputTensor=_float32(4, 4)), Code.SIZES_MISMATCH, "/OutputTensor/Sizes/1"
            ),
            BadExample("neither_tensor", _band(0, 1, 1, OutputTensor=None), Code.MISSING_FIELD, ""),
        ),
    ),
)
