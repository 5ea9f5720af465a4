"""ADAM_OPTIMIZER: a step of the Adam optimizer.

Source: ``DML_ADAM_OPTIMIZER_OPERATOR_DESC``.
"""

from __future__ import annotations

from ..operator import BadExample, Example, Tensors, declare
from ..rules import documented, in_interval, like, one_element
from ..violation import Code
from .elementwise import alike

_TENSORS = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")


def _desc(step: list[int], **changes: object) -> dict[str, object]:
    return {
        **{name: {"DataType": "FLOAT32", "Sizes": [2]} for name in _TENSORS},
        "TrainingStepTensor": {"DataType": "UINT32", "Sizes": step},
        "LearningRate": 1,
        "Beta1": 0.5,
        "Beta2": 0.75,
        "Epsilon": 0,
        **changes,
    }


def _work(attributes: object, tensors: Tensors) -> int:
    """Each element of the four tensors is visited once."""
    count: int = tensors["GradientTensor"].element_count
    return 4 * count


FAMILY = (
    declare(
        "ADAM_OPTIMIZER",
        rules=(
            *alike(*_TENSORS),
            one_element("TrainingStepTensor"),
            documented(in_interval("Beta1", 0, 1), in_interval("Beta2", 0, 1)),
        ),
        outputs={
            "OutputParametersTensor": like("InputParametersTensor"),
            "OutputFirstMomentTensor": like("InputFirstMomentTensor"),
            "OutputSecondMomentTensor": like("InputSecondMomentTensor"),
        },
        work=_work,
        examples=(
            Example(
                "first_step",
                _desc([1]),
                {
                    "InputParametersTensor": [5, 5],
                    "InputFirstMomentTensor": [0, 0],
                    "InputSecondMomentTensor": [0, 0],
                    "GradientTensor": [2, -4],
                    "TrainingStepTensor": [1],
                },
                {
                    "OutputParametersTensor": [4, 6],
                    "OutputFirstMomentTensor": [1, -2],
                    "OutputSecondMomentTensor": [1, 4],
                },
            ),
        ),
        bad_examples=(
            BadExample("a_step_for_each_parameter", _desc([2]), Code.SIZES_MISMATCH, "/TrainingStepTensor/Sizes"),
            BadExample(
                "gradient_of_another_type",
                _desc([1], GradientTensor={"DataType": "FLOAT16", "Sizes": [2]}),
                Code.DATA_TYPES_DIFFER,
                "/GradientTensor/DataType",
            ),
        ),
    ),
)
