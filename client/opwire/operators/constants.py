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
                name="below_the_diagonal",
                desc={"OutputTensor": _float32(1, 1, 3, 2), "Offset": -1, "Value": 1},
                inputs={},
                outputs={"OutputTensor": [[[[0, 0], [1, 0], [0, 1]]]]},
                source="DML_DIAGONAL_MATRIX_OPERATOR_DESC, worked example",
            ),
            Example(
                name="infinity_as_an_integer",
                desc={"OutputTensor": {"DataType": "INT32", "Sizes": [1, 1, 1, 2]}, "Offset": 0, "Value": "inf"},
                inputs={},
                outputs={"OutputTensor": [[[[-(2**31), 0]]]]},
            ),
        ),
        bad_examples=(
            BadExample(name="without_output", desc={"Offset": 0, "Value": 1}, code=Code.MISSING_FIELD, pointer=""),
            BadExample(
                name="rank_2_before_4_0",
                desc={"OutputTensor": _float32(3, 3), "Offset": 0, "Value": 1},
                level=FeatureLevel.V3_1,
                code=Code.RANK_NOT_IN_LEVEL,
                pointer="/OutputTensor/Sizes",
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
                name="thirteens",
                desc={"OutputTensor": _float32(1, 1, 2, 4), "ValueDataType": "FLOAT32", "Value": 13},
                inputs={},
                outputs={"OutputTensor": [[[[13] * 4, [13] * 4]]]},
                source="DML_FILL_VALUE_CONSTANT_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                name="another_type",
                desc={"OutputTensor": _float32(2), "ValueDataType": "INT32", "Value": 1},
                code=Code.DATA_TYPES_DIFFER,
                pointer="/ValueDataType",
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
                name="upwards",
                desc={
                    "OutputTensor": _float32(1, 1, 1, 3),
                    "ValueDataType": "FLOAT32",
                    "ValueStart": 3,
                    "ValueDelta": 2,
                },
                inputs={},
                outputs={"OutputTensor": [[[[3, 5, 7]]]]},
                source="DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC, worked example",
            ),
            Example(
                name="downwards_in_bytes",
                desc={
                    "OutputTensor": {"DataType": "UINT8", "Sizes": [1, 1, 2, 2]},
                    "ValueDataType": "UINT8",
                    "ValueStart": 10,
                    "ValueDelta": -2,
                },
                inputs={},
                outputs={"OutputTensor": [[[[10, 8], [6, 4]]]]},
                source="DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                name="value_of_another_type",
                desc={
                    "OutputTensor": _float32(2),
                    "ValueDataType": "FLOAT32",
                    "ValueStart": {"Int32": 1},
                    "ValueDelta": 1,
                },
                code=Code.UNION_MISMATCH,
                pointer="/ValueStart/Int32",
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
                name="band",
                desc=_band(0, 3, 7),
                inputs={},
                outputs={"OutputTensor": [[7, 7, 7, 0, 0], [0, 7, 7, 7, 0], [0, 0, 7, 7, 7], [0, 0, 0, 7, 7]]},
                source="DML_DIAGONAL_MATRIX1_OPERATOR_DESC, worked example",
            ),
            Example(
                name="upper_triangle",
                desc=_band(-(2**31), 1, 0, InputTensor=_float32(4, 5)),
                inputs={"InputTensor": _TABLE},
                outputs={"OutputTensor": _LOWER_CLEARED},
                source="DML_DIAGONAL_MATRIX1_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                name="sizes_differ",
                desc=_band(0, 1, 1, InputTensor=_float32(4, 4)),
                code=Code.SIZES_MISMATCH,
                pointer="/OutputTensor/Sizes/1",
            ),
            BadExample(
                name="neither_tensor", desc=_band(0, 1, 1, OutputTensor=None), code=Code.MISSING_FIELD, pointer=""
            ),
        ),
    ),
)
