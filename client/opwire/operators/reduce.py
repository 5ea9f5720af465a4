"""REDUCE: twelve functions over axes.

Source: ``DML_REDUCE_OPERATOR_DESC`` and ``DML_REDUCE_FUNCTION``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..enums import ReduceFunction
from ..level import FeatureLevel
from ..operator import BadExample, Example, declare
from ..rules import Chosen, Derived, axes, reduced, when
from ..violation import Code
from .axes import distinct
from .indices import IndexFits, index_output
from .work import elements_visited

ARG_FUNCTIONS = frozenset({ReduceFunction.ARGMAX, ReduceFunction.ARGMIN})
"""Deprecated since 3_0 in favor of the operators of the same name; still accepted."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """The attributes of REDUCE."""

    Function: ReduceFunction
    Axes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "Axes", distinct(self.Axes))


def _desc(
    function: str, sizes: list[int], axes: list[int], data_type: str = "FLOAT32", **changes: object
) -> dict[str, object]:
    return {
        "Function": function,
        "InputTensor": {"DataType": data_type, "Sizes": sizes},
        "AxisCount": len(axes),
        "Axes": axes,
        **changes,
    }


def _example(name: str, desc: dict[str, object], source: object, answer: object, page: str = "") -> Example:
    return Example(name, desc, {"InputTensor": source}, {"OutputTensor": answer}, source=page)


# The documented 3x3 example; 21 is the sum of this table (the page's comment misprints one element).
_TABLE = [[1, 2, 3], [3, 0, 4], [2, 4, 2]]
_PAGE = "DML_REDUCE_OPERATOR_DESC, worked example"

_EXAMPLES = (
    _example("sum_along_columns", _desc("SUM", [3, 3], [0]), _TABLE, [[6, 6, 9]], _PAGE),
    _example("sum_along_rows", _desc("SUM", [3, 3], [1]), _TABLE, [[6], [7], [8]], _PAGE),
    _example("sum_over_both_axes", _desc("SUM", [3, 3], [0, 1]), _TABLE, [[21]], _PAGE),
    _example("average_with_an_axis_given_twice", _desc("AVERAGE", [2, 2], [1, 1]), [[1, 3], [5, 7]], [[2], [6]]),
    _example("sum_is_exact", _desc("SUM", [4], [0]), [1e30, 1, -1e30, 1e-8], [1.0]),
    _example("sum_wraps", _desc("SUM", [2], [0], "INT32"), [2147483647, 1], [-2147483648]),
    _example(
        "sum_of_repeats",
        _desc("SUM", [1], [1], InputTensor={"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [1, 0]}),
        [[1, 1, 1], [2, 2, 2]],
        [[3], [6]],
    ),
    _example("average_of_halves", _desc("AVERAGE", [1, 4], [1], "FLOAT16"), [[65504] * 4], [[65504]]),
    _example("multiply_without_overflow", _desc("MULTIPLY", [3], [0]), [1e30, 1e30, 1e-30], [1e30]),
    _example("l1", _desc("L1", [2, 2], [1]), [[-1, 2], [3, -4]], [[3], [7]]),
    _example("l1_of_the_lowest_integer", _desc("L1", [1], [0], "INT32"), [-2147483648], [-2147483648]),
    _example("l2", _desc("L2", [2, 2], [1]), [[3, 4], [-6, 8]], [[5], [10]]),
    _example("sum_square_of_each", _desc("SUM_SQUARE", [3], []), [1, 2, -3], [1, 4, 9]),
    _example("log_sum", _desc("LOG_SUM", [2, 2], [1]), [[0.25, 0.75], [1, -1]], [[0], ["-Infinity"]]),
    _example(
        "log_sum_exp_is_shifted",
        _desc("LOG_SUM_EXP", [3, 1], [1]),
        [[100], [-100], ["-Infinity"]],
        [[100], [-100], ["-Infinity"]],
    ),
    _example("max_skips_nan", _desc("MAX", [2, 2], [1]), [["NaN", -5], ["NaN", "NaN"]], [[-5], ["NaN"]]),
    _example("min_of_bytes", _desc("MIN", [2, 2], [0, 1], "INT8"), [[5, -128], [127, 0]], [[-128]]),
    _example("argmax_by_function", _desc("ARGMAX", [3, 3], [1]), _TABLE, [[2], [2], [1]]),
    _example("argmin_by_function", _desc("ARGMIN", [3, 3], [0]), _TABLE, [[0, 1, 2]]),
)

_BAD_EXAMPLES = (
    BadExample(
        "average_of_integers",
        _desc("AVERAGE", [3, 3], [1], "INT32"),
        Code.DATA_TYPE_NOT_IN_LEVEL,
        "/InputTensor/DataType",
    ),
    BadExample(
        "rank_3_before_3_0",
        _desc("SUM", [1, 3, 3], [1]),
        Code.RANK_NOT_IN_LEVEL,
        "/InputTensor/Sizes",
        level=FeatureLevel.V2_1,
    ),
    BadExample(
        "types_differ",
        _desc("SUM", [3, 3], [1], OutputTensor={"DataType": "FLOAT16", "Sizes": [3, 1]}),
        Code.DATA_TYPES_DIFFER,
        "/OutputTensor/DataType",
    ),
    BadExample("count_disagrees", _desc("SUM", [3, 3], [0, 1], AxisCount=1), Code.COUNT_MISMATCH, "/AxisCount"),
    BadExample("misspelt_field", _desc("SUM", [3, 3], [1], Axis=[1]), Code.UNKNOWN_FIELD, "/Axis"),
    BadExample("no_such_function", _desc("MEDIAN", [3, 3], [1]), Code.UNKNOWN_VALUE, "/Function"),
    BadExample(
        "output_repeats",
        _desc("SUM", [3, 3], [1], OutputTensor={"DataType": "FLOAT32", "Sizes": [3, 1], "Strides": [0, 1]}),
        Code.OUTPUT_OVERLAPS,
        "/OutputTensor/Strides",
    ),
)

FAMILY = (
    declare(
        "REDUCE",
        attributes=Reduce,
        rules=(axes("Axes", of="InputTensor"), when("Function", ARG_FUNCTIONS, IndexFits())),
        outputs={
            "OutputTensor": Chosen(
                "Function", ARG_FUNCTIONS, index_output(), Derived(reduced("InputTensor", "Axes"), like="InputTensor")
            )
        },
        work=elements_visited,
        examples=_EXAMPLES,
        bad_examples=_BAD_EXAMPLES,
    ),
)
