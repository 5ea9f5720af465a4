"""Element-wise bit operations: shifts, logic and counts.

Source: the pages of the ``DML_ELEMENT_WISE_BIT_..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from typing import Any

from ..formulas import INPUT, A, B, Expression, call
from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator
from ..rules import Derived, sizes_of
from ..tensor import DataType
from ..violation import Code
from .elementwise import binary, typed_vectors, unary

_A, _B = [0b1100, 0b1010, 255], [0b1010, 0b0101, 15]


def _bytes(name: str, a: list[int], b: list[int], output: list[int]) -> Example:
    return typed_vectors(name, {"ATensor": ("UINT8", a), "BTensor": ("UINT8", b)}, output)


def _two(a: str, b: str, *, sizes: list[int] | None = None) -> dict[str, Any]:
    return {"ATensor": {"DataType": a, "Sizes": [3]}, "BTensor": {"DataType": b, "Sizes": sizes or [3]}}


def _shift(name: str, formula: Expression, *examples: Example) -> Operator[Attributes]:
    bad = (
        BadExample("signed", _two("INT32", "INT32"), Code.DATA_TYPE_NOT_IN_LEVEL, "/ATensor/DataType"),
        BadExample("types_differ", _two("UINT32", "UINT8"), Code.DATA_TYPES_DIFFER, "/BTensor/DataType"),
    )
    return binary(name, formula=formula, examples=examples, bad_examples=bad)


def _logic(name: str, formula: Expression, output: list[int]) -> Operator[Attributes]:
    bad = (
        BadExample("one_for_all", _two("UINT8", "UINT8", sizes=[1]), Code.SIZES_MISMATCH, "/BTensor/Sizes"),
        BadExample(
            "floats_before_4_1",
            _two("FLOAT32", "FLOAT32"),
            Code.DATA_TYPE_NOT_IN_LEVEL,
            "/ATensor/DataType",
            level=FeatureLevel.V4_0,
        ),
    )
    return binary(name, formula=formula, examples=(_bytes("bytes", _A, _B, output),), bad_examples=bad)


FAMILY = (
    _shift(
        "ELEMENT_WISE_BIT_SHIFT_LEFT",
        call("shift_left")(A, B),
        _bytes("bytes", [1, 3, 255, 1, 3], [0, 2, 4, 8, 33], [1, 12, 240, 0, 6]),
    ),
    _shift(
        "ELEMENT_WISE_BIT_SHIFT_RIGHT",
        call("shift_right")(A, B),
        _bytes("bytes", [1, 12, 255, 255, 12], [0, 2, 4, 8, 33], [1, 3, 15, 0, 6]),
    ),
    _logic("ELEMENT_WISE_BIT_AND", call("bit_and")(A, B), [0b1000, 0, 15]),
    _logic("ELEMENT_WISE_BIT_OR", call("bit_or")(A, B), [0b1110, 0b1111, 255]),
    _logic("ELEMENT_WISE_BIT_XOR", call("bit_xor")(A, B), [0b0110, 0b1111, 240]),
    unary(
        "ELEMENT_WISE_BIT_NOT",
        formula=call("bit_not")(INPUT),
        examples=(typed_vectors("page", {"InputTensor": ("UINT8", [0, 128, 42, 255])}, [255, 127, 213, 0]),),
        bad_examples=(
            BadExample(
                "other_type",
                {
                    "InputTensor": {"DataType": "UINT8", "Sizes": [4]},
                    "OutputTensor": {"DataType": "UINT32", "Sizes": [4]},
                },
                Code.DATA_TYPES_DIFFER,
                "/OutputTensor/DataType",
            ),
        ),
    ),
    unary(
        "ELEMENT_WISE_BIT_COUNT",
        formula=call("bit_count")(INPUT),
        output=Derived(sizes_of("InputTensor"), default=DataType.UINT32),
        examples=(
            typed_vectors("page", {"InputTensor": ("UINT32", [0, 123, 456, 789])}, [0, 6, 4, 5]),
            typed_vectors("stored_width", {"InputTensor": ("INT8", [-1, 1, -128])}, [8, 1, 1]),
        ),
        bad_examples=(
            BadExample(
                "signed_counts",
                {
                    "InputTensor": {"DataType": "UINT8", "Sizes": [4]},
                    "OutputTensor": {"DataType": "INT32", "Sizes": [4]},
                },
                Code.DATA_TYPE_NOT_IN_LEVEL,
                "/OutputTensor/DataType",
            ),
        ),
    ),
)
