"""Running sums and products along an axis.

Source: ``DML_CUMULATIVE_SUMMATION_OPERATOR_DESC``, ``DML_CUMULATIVE_PRODUCT_OPERATOR_DESC``.
"""

from __future__ import annotations

from typing import Any

from ..operator import Attributes, BadExample, Example, Operator, declare
from ..rules import axis, like
from ..violation import Code
from .work import elements_written

_ROWS = [[[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]]]


def _running(name: str, exclusive: str, *examples: tuple[str, str, bool, list[Any]]) -> Operator[Attributes]:
    """Declares an operator. Each example has a name, the direction, whether it is exclusive, and the output."""

    def desc(along: int, direction: str = "INCREASING", excluded: bool = False, **changes: Any) -> dict[str, Any]:
        return {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 4]},
            "Axis": along,
            "AxisDirection": direction,
            exclusive: excluded,
            **changes,
        }

    return declare(
        name,
        rules=(axis("Axis", of="InputTensor"),),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
        examples=tuple(
            Example(
                title,
                desc(3, direction, excluded),
                {"InputTensor": _ROWS},
                {"OutputTensor": [[output]]},
                source=f"DML_{name}_OPERATOR_DESC, worked example",
            )
            for title, direction, excluded, output in examples
        ),
        bad_examples=(
            BadExample("no_such_axis", desc(4), Code.AXIS_OUT_OF_RANGE, "/Axis"),
            BadExample(
                "sizes_differ",
                desc(3, OutputTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 3, 5]}),
                Code.SIZES_MISMATCH,
                "/OutputTensor/Sizes/3",
            ),
        ),
    )


FAMILY = (
    _running(
        "CUMULATIVE_SUMMATION",
        "HasExclusiveSum",
        ("sums", "INCREASING", False, [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]),
        ("exclusive", "INCREASING", True, [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]),
        ("backwards", "DECREASING", False, [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]),
    ),
    _running(
        "CUMULATIVE_PRODUCT",
        "HasExclusiveProduct",
        ("products", "INCREASING", False, [[2, 2, 6, 30], [3, 24, 168, 504], [9, 54, 108, 432]]),
        ("exclusive", "INCREASING", True, [[1, 2, 2, 6], [1, 3, 24, 168], [1, 9, 54, 108]]),
        ("backwards", "DECREASING", False, [[30, 15, 15, 5], [504, 168, 21, 3], [432, 48, 8, 4]]),
    ),
)
