"""Element-wise logic: comparisons, connectives, tests for NaN and infinity, and selection by a condition.

Source: the pages of the ``DML_ELEMENT_WISE_LOGICAL_..._OPERATOR_DESC`` structs, and of IF, IS_INFINITY and IS_NAN. The
output of a comparison is UINT32 unless given, as it is the only data type at the first levels.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ..formulas import INPUT, A, B, Expression, InputElement, absolute, call, chosen, select
from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator, declare
from ..rules import Derived, like, same_rank, same_sizes, sizes_of
from ..tensor import DataType
from ..violation import Code
from .elementwise import alike, binary, typed_vectors, unary
from .work import elements_written

_NOT, _EQUAL = call("not_"), call("equal")

_TRUTH = ([0, 0, 1, 7], [0, 2, 0, 5])
_NUMBERS: tuple[list[Any], list[Any]] = ([1, 2, 3, "NaN", -0.0], [2, 2, 2, "NaN", 0])


def _pair(data_type: str, pair: tuple[list[Any], list[Any]], output: list[int]) -> Example:
    a, b = pair
    return typed_vectors("pairs", {"ATensor": (data_type, a), "BTensor": (data_type, b)}, output)


def _tensors(**types: str) -> dict[str, Any]:
    return {f"{name}Tensor": {"DataType": data_type, "Sizes": [1, 1, 2, 2]} for name, data_type in types.items()}


def _connective(name: str, formula: Expression, output: list[int]) -> Operator[Attributes]:
    """Declares an operator whose inputs and output are truth values of one data type."""
    bad = (
        BadExample(
            "bytes_before_2_0",
            _tensors(A="UINT8", B="UINT8"),
            Code.DATA_TYPE_NOT_IN_LEVEL,
            "/ATensor/DataType",
            level=FeatureLevel.V1_0,
        ),
        BadExample(
            "other_output",
            _tensors(A="UINT8", B="UINT8", Output="UINT32"),
            Code.DATA_TYPES_DIFFER,
            "/OutputTensor/DataType",
        ),
    )
    return binary(name, formula=formula, examples=(_pair("UINT8", _TRUTH, output),), bad_examples=bad)


def _comparison(name: str, formula: Expression, output: list[int]) -> Operator[Attributes]:
    """Declares an operator with inputs of any data type, and truth values as its output."""
    bad = (
        BadExample("types_differ", _tensors(A="FLOAT32", B="FLOAT16"), Code.DATA_TYPES_DIFFER, "/BTensor/DataType"),
        BadExample(
            "float_output",
            _tensors(A="FLOAT32", B="FLOAT32", Output="FLOAT32"),
            Code.DATA_TYPE_NOT_IN_LEVEL,
            "/OutputTensor/DataType",
        ),
    )
    truth = Derived(sizes_of("ATensor"), default=DataType.UINT32)
    examples = (_pair("FLOAT32", _NUMBERS, output),)
    return binary(name, formula=formula, output=truth, examples=examples, bad_examples=bad)


def _test(
    name: str, formula: Expression, default: DataType, *examples: Example, **attributes: str
) -> Operator[Attributes]:
    """Declares a test for a property of floats."""
    bad = (
        BadExample(
            "integers", {**_tensors(Input="INT32"), **attributes}, Code.DATA_TYPE_NOT_IN_LEVEL, "/InputTensor/DataType"
        ),
        BadExample(
            "signed_output",
            {**_tensors(Input="FLOAT32", Output="INT8"), **attributes},
            Code.DATA_TYPE_NOT_IN_LEVEL,
            "/OutputTensor/DataType",
        ),
    )
    truth = Derived(sizes_of("InputTensor"), default=default)
    return unary(name, formula=formula, output=truth, examples=examples, bad_examples=bad)


_INFINITIES = {"InputTensor": ("FLOAT32", ["Infinity", "-Infinity", "NaN", 1])}

_IF = declare(
    "ELEMENT_WISE_IF",
    rules=(
        alike("ATensor", "BTensor"),
        same_rank("ATensor", "ConditionTensor", sizes=True),
        same_sizes("ATensor", "ConditionTensor"),
    ),
    outputs={"OutputTensor": like("ATensor")},
    work=elements_written,
    formula=select(InputElement("ConditionTensor"), A, B),
    examples=(
        typed_vectors(
            "page",
            {
                "ConditionTensor": ("UINT8", [1, 0, 1, 1]),
                "ATensor": ("FLOAT32", [1, 2, 3, 4]),
                "BTensor": ("FLOAT32", [9, 8, 7, 6]),
            },
            [1, 8, 3, 4],
        ),
    ),
    bad_examples=(
        BadExample(
            "float_condition",
            _tensors(Condition="FLOAT32", A="FLOAT32", B="FLOAT32"),
            Code.DATA_TYPE_NOT_IN_LEVEL,
            "/ConditionTensor/DataType",
        ),
        BadExample(
            "types_differ",
            _tensors(Condition="UINT8", A="FLOAT32", B="INT32"),
            Code.DATA_TYPES_DIFFER,
            "/BTensor/DataType",
        ),
    ),
)

FAMILY = (
    _connective("ELEMENT_WISE_LOGICAL_AND", call("and_")(A, B), [0, 0, 0, 1]),
    _comparison("ELEMENT_WISE_LOGICAL_EQUALS", call("equal")(A, B), [0, 1, 0, 0, 1]),
    _comparison("ELEMENT_WISE_LOGICAL_GREATER_THAN", A > B, [0, 0, 1, 0, 0]),
    _comparison("ELEMENT_WISE_LOGICAL_LESS_THAN", A < B, [1, 0, 0, 0, 0]),
    unary(
        "ELEMENT_WISE_LOGICAL_NOT",
        formula=_NOT(INPUT),
        examples=(typed_vectors("nonzero_is_true", {"InputTensor": ("UINT32", [0, 1, 7])}, [1, 0, 0]),),
        bad_examples=(
            BadExample("floats", _tensors(Input="FLOAT32"), Code.DATA_TYPE_NOT_IN_LEVEL, "/InputTensor/DataType"),
        ),
    ),
    _connective("ELEMENT_WISE_LOGICAL_OR", call("or_")(A, B), [0, 1, 1, 1]),
    _connective("ELEMENT_WISE_LOGICAL_XOR", call("xor")(A, B), [0, 1, 1, 0]),
    _test(
        "ELEMENT_WISE_IS_NAN",
        _NOT(_EQUAL(INPUT, INPUT)),
        DataType.UINT32,
        typed_vectors("not_infinity", {"InputTensor": ("FLOAT32", ["NaN", "Infinity", 0])}, [1, 0, 0]),
    ),
    _IF,
    _test(
        "ELEMENT_WISE_IS_INFINITY",
        chosen(
            "InfinityMode",
            EITHER=_EQUAL(absolute(INPUT), inf),
            POSITIVE=_EQUAL(INPUT, inf),
            NEGATIVE=_EQUAL(INPUT, -inf),
        ),
        DataType.UINT8,
        typed_vectors("either", _INFINITIES, [1, 1, 0, 0], InfinityMode="EITHER"),
        typed_vectors("negative", _INFINITIES, [0, 1, 0, 0], InfinityMode="NEGATIVE"),
        InfinityMode="EITHER",
    ),
    _comparison("ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL", A >= B, [0, 1, 1, 0, 1]),
    _comparison("ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL", A <= B, [1, 1, 0, 0, 1]),
)
