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
                name="counter_and_key_of_zeros",
                desc=_desc([1, 1, 1, 6], [1, 1, 1, 4]),
                inputs={"InputStateTensor": [[[[0, 0, 0, 0, 0, 0]]]]},
                outputs={"OutputTensor": [[[[1713891541, 3781805453, 3159862348, 2600524760]]]]},
                source=_KNOWN_ANSWERS,
            ),
            Example(
                name="with_the_state_for_more",
                desc=_desc([6], [2, 2], OutputStateTensor={"DataType": "UINT32", "Sizes": [6]}),
                inputs={"InputStateTensor": [608135816, 2242054355, 320440878, 57701188, 2752067618, 698298832]},
                outputs={
                    "OutputTensor": [[3513581065, 2499661035], [1342301216, 605187745]],
                    "OutputStateTensor": [608135817, 2242054355, 320440878, 57701188, 2752067618, 698298832],
                },
                source=_KNOWN_ANSWERS,
            ),
        ),
        bad_examples=(
            BadExample(
                name="state_without_a_key",
                desc=_desc([4], [4]),
                code=Code.SIZES_MISMATCH,
                pointer="/InputStateTensor/Sizes/0",
            ),
            BadExample(name="output_left_out", desc=_desc([6], None), code=Code.MISSING_FIELD, pointer=""),
            BadExample(
                name="new_state_of_other_sizes",
                desc=_desc([6], [4], OutputStateTensor={"DataType": "UINT32", "Sizes": [4]}),
                code=Code.SIZES_MISMATCH,
                pointer="/OutputStateTensor/Sizes/0",
            ),
        ),
    ),
)
