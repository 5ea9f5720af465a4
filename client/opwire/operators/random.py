"""RANDOM_GENERATOR: uniformly random bits from a counter and a key.

Source: ``DML_RANDOM_GENERATOR_OPERATOR_DESC``; the example is one of Random123's known answers.
"""

from __future__ import annotations

from ..operator import BadExample, Example, declare
from ..rules import Undecided, like, shapes
from ..violation import Code
from .work import elements_written


def _desc(state: list[int], output: list[int] | None, **changes: object) -> dict[str, object]:
    return {
        "InputStateTensor": {"DataType": "UINT32", "Sizes": state},
        "OutputTensor": None if output is None else {"DataType": "UINT32", "Sizes": output},
        "Type": "PHILOX_4X32_10",
        **changes,
    }


_KNOWN_ANSWERS = "Random123, tests/kat_vectors, philox4x32 10"

FAMILY = (
    declare(
        "RANDOM_GENERATOR",
        rules=(shapes(InputStateTensor=(..., 6)),),
        outputs={"OutputTensor": Undecided(), "OutputStateTensor": like("InputStateTensor")},
        work=elements_written,
        examples=(
            Example(
                "counter_and_key_of_zeros",
                _desc([1, 1, 1, 6], [1, 1, 1, 4]),
                {"InputStateTensor": [[[[0, 0, 0, 0, 0, 0]]]]},
                {"OutputTensor": [[[[1713891541, 3781805453, 3159862348, 2600524760]]]]},
                source=_KNOWN_ANSWERS,
            ),
            Example(
                "with_the_state_for_more",
                _desc([6], [2, 2], OutputStateTensor={"DataType": "UINT32", "Sizes": [6]}),
                {"InputStateTensor": [608135816, 2242054355, 320440878, 57701188, 2752067618, 698298832]},
                {
                    "OutputTensor": [[3513581065, 2499661035], [1342301216, 605187745]],
                    "OutputStateTensor": [608135817, 2242054355, 320440878, 57701188, 2752067618, 698298832],
                },
                source=_KNOWN_ANSWERS,
            ),
        ),
        bad_examples=(
            BadExample("state_without_a_key", _desc([4], [4]), Code.SIZES_MISMATCH, "/InputStateTensor/Sizes/0"),
            BadExample("output_left_out", _desc([6], None), Code.MISSING_FIELD, ""),
            BadExample(
                "new_state_of_other_sizes",
                _desc([6], [4], OutputStateTensor={"DataType": "UINT32", "Sizes": [4]}),
                Code.SIZES_MISMATCH,
                "/OutputStateTensor/Sizes/0",
            ),
        ),
    ),
)
