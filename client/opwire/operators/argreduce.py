"""ARGMIN and ARGMAX: the position of the least or greatest element along axes.

Source: ``DML_ARGMIN_OPERATOR_DESC`` and ``DML_ARGMAX_OPERATOR_DESC``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..enums import AxisDirection
from ..level import FeatureLevel
from ..operator import BadExample, Example, Operator, declare
from ..rules import axes
from ..violation import Code
from .axes import distinct
from .indices import IndexFits, index_output
from .work import elements_visited


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """The attributes of ARGMIN and ARGMAX."""

    Axes: tuple[int, ...]
    AxisDirection: AxisDirection

    def __post_init__(self) -> None:
        object.__setattr__(self, "Axes", distinct(self.Axes))


# The documented 3x3 example of both pages.
_TABLE = [[1, 2, 3], [3, 0, 4], [2, 5, 2]]
_TIES = [1, 2, 3, 2, 1]


def _desc(sizes: list[int], axes: list[int], direction: str = "INCREASING", **changes: object) -> dict[str, object]:
    return {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "AxisCount": len(axes),
        "Axes": axes,
        "AxisDirection": direction,
        **changes,
    }


def _examples(name: str, first: list[int], second: list[int], both: int, ties: tuple[int, int]) -> tuple[Example, ...]:
    page = f"DML_{name}_OPERATOR_DESC, worked example"
    table = {"InputTensor": _TABLE}
    return (
        Example("along_columns", _desc([3, 3], [0]), table, {"OutputTensor": [first]}, source=page),
        Example("along_rows", _desc([3, 3], [1]), table, {"OutputTensor": [[i] for i in second]}, source=page),
        Example(
            "over_both_axes",
            _desc([3, 3], [0, 1], OutputTensor={"DataType": "INT64", "Sizes": [1, 1]}),
            table,
            {"OutputTensor": [[both]]},
            source=page,
        ),
        Example("first_of_equals", _desc([5], [0]), {"InputTensor": _TIES}, {"OutputTensor": [ties[0]]}),
        Example("last_of_equals", _desc([5], [0], "DECREASING"), {"InputTensor": _TIES}, {"OutputTensor": [ties[1]]}),
        Example(
            "nan_is_skipped",
            _desc([2, 3], [1]),
            {"InputTensor": [["NaN", 7, 7], ["NaN", "NaN", "NaN"]]},
            {"OutputTensor": [[1], [0]]},
        ),
        Example("no_axes", _desc([3], []), {"InputTensor": [3, 1, 2]}, {"OutputTensor": [0, 0, 0]}),
        Example("axis_given_twice", _desc([3, 3], [0, 0]), table, {"OutputTensor": [first]}),
    )


_BAD_EXAMPLES = (
    BadExample("axis_past_the_rank", _desc([3, 3], [2]), Code.AXIS_OUT_OF_RANGE, "/Axes/0"),
    BadExample(
        "float_indices",
        _desc([3, 3], [1], OutputTensor={"DataType": "FLOAT32", "Sizes": [3, 1]}),
        Code.DATA_TYPE_NOT_IN_LEVEL,
        "/OutputTensor/DataType",
    ),
    BadExample(
        "axis_not_reduced",
        _desc([3, 3], [1], OutputTensor={"DataType": "UINT32", "Sizes": [3, 3]}),
        Code.SIZES_MISMATCH,
        "/OutputTensor/Sizes/1",
    ),
    BadExample(
        "int64_before_4_1",
        _desc([3, 3], [1], InputTensor={"DataType": "INT64", "Sizes": [3, 3]}),
        Code.DATA_TYPE_NOT_IN_LEVEL,
        "/InputTensor/DataType",
        level=FeatureLevel.V3_0,
    ),
    BadExample("sideways", _desc([3, 3], [1], "SIDEWAYS"), Code.UNKNOWN_VALUE, "/AxisDirection"),
)


def _operator(name: str, examples: tuple[Example, ...]) -> Operator[ArgReduce]:
    return declare(
        name,
        attributes=ArgReduce,
        rules=(axes("Axes", of="InputTensor"), IndexFits()),
        outputs={"OutputTensor": index_output()},
        work=elements_visited,
        examples=examples,
        bad_examples=_BAD_EXAMPLES,
    )


FAMILY = (
    _operator("ARGMIN", _examples("ARGMIN", [0, 1, 2], [0, 1, 0], 4, (0, 4))),
    _operator("ARGMAX", _examples("ARGMAX", [1, 2, 1], [2, 2, 1], 7, (2, 2))),
)
