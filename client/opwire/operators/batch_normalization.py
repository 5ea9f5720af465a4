"""Batch normalization, with given statistics or those of the batch, and its gradients.

Source: the pages of the ``DML_BATCH_NORMALIZATION..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import Rule, Values, below, broadcast, like, same_rank, same_sizes, same_type, when
from ..violation import Code, Fault
from .work import elements_visited


@dataclass(frozen=True, slots=True)
class SameAlong(Rule):
    """Tensors are not broadcast along some dimensions."""

    code = Code.SIZES_MISMATCH

    dimensions: tuple[int, ...]
    tensors: tuple[str, ...]
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        whole = values[self.of]
        for name in self.tensors:
            tensor = values[name]
            if tensor is None or tensor.rank != whole.rank:
                continue
            for i in (at % whole.rank for at in self.dimensions if -whole.rank <= at < whole.rank):
                if tensor.sizes[i] == 1 != whole.sizes[i]:
                    message = f"{name} has size 1 in dimension {i}, where it cannot broadcast to {whole.sizes[i]}"
                    yield Fault(self.code, (name, "Sizes", i), message, [whole.sizes[i]])


def passes(count: int) -> Callable[[object, Tensors], int]:
    """Returns a function that counts each element of the input ``count`` times."""
    return lambda attributes, tensors: count * elements_visited(attributes, tensors)


def tensors_and(sizes: list[int], parameters: dict[str, list[int]], **attributes: object) -> dict[str, object]:
    """Returns a desc with FLOAT32 tensors."""
    tensors = {"InputTensor": sizes, **parameters}
    return {**{name: {"DataType": "FLOAT32", "Sizes": each} for name, each in tensors.items()}, **attributes}


_STATISTICS = ("MeanTensor", "VarianceTensor", "ScaleTensor")
_ALL = (*_STATISTICS, "BiasTensor")
_PER_CHANNEL = {name: [1, 2, 1, 1] for name in _ALL}
_CHANNELS = {
    "InputTensor": [[[[1, 3]], [[10, 30]]]],
    "MeanTensor": [[[[2]], [[20]]]],
    "VarianceTensor": [[[[1]], [[100]]]],
    "ScaleTensor": [[[[1]], [[2]]]],
    "BiasTensor": [[[[0]], [[5]]]],
}

INFERENCE = declare(
    "BATCH_NORMALIZATION",
    rules=(
        same_type("InputTensor", *_ALL),
        same_rank("InputTensor", *_ALL),
        *(broadcast(name, to="InputTensor") for name in _ALL),
        below(FeatureLevel.V4_0, *when("Spatial", False, SameAlong((-2, -1), _STATISTICS[:2], "InputTensor"))),
    ),
    outputs={"OutputTensor": like("InputTensor")},
    work=elements_visited,
    examples=(
        Example(
            "two_channels",
            tensors_and([1, 2, 1, 2], _PER_CHANNEL, Spatial=True, Epsilon=0),
            _CHANNELS,
            {"OutputTensor": [[[[-1, 1]], [[3, 7]]]]},
        ),
        Example(
            "activated",
            tensors_and(
                [1, 2, 1, 2], _PER_CHANNEL, Spatial=True, Epsilon=0, FusedActivation={"Type": "ACTIVATION_RELU"}
            ),
            _CHANNELS,
            {"OutputTensor": [[[[-0.0, 1]], [[3, 7]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            "scale_of_other_channels",
            tensors_and([1, 2, 1, 2], {**_PER_CHANNEL, "ScaleTensor": [1, 3, 1, 1]}, Spatial=True, Epsilon=0),
            Code.SIZES_MISMATCH,
            "/ScaleTensor/Sizes/1",
        ),
        BadExample(
            "broadcast_though_not_spatial",
            tensors_and([1, 2, 1, 2], {**_PER_CHANNEL, "MeanTensor": [1, 2, 1, 2]}, Spatial=False, Epsilon=0),
            Code.SIZES_MISMATCH,
            "/VarianceTensor/Sizes/3",
            level=FeatureLevel.V3_1,
        ),
    ),
)


def _gradient(name: str, example: Example) -> Operator[Attributes]:
    """Declares the gradient of a batch normalization with given statistics, or with those of the batch."""
    tensors = ("InputTensor", "InputGradientTensor", *_STATISTICS)
    bad = {"InputGradientTensor": [2, 2], "MeanTensor": [1, 2], "VarianceTensor": [2, 1], "ScaleTensor": [1, 2]}
    return declare(
        name,
        rules=(
            same_type(*tensors),
            same_rank(*tensors),
            same_sizes("InputTensor", "InputGradientTensor"),
            same_sizes(*_STATISTICS),
            broadcast("MeanTensor", to="InputTensor"),
        ),
        outputs={
            "OutputGradientTensor": like("InputTensor"),
            "OutputScaleGradientTensor": like("MeanTensor"),
            "OutputBiasGradientTensor": like("MeanTensor"),
        },
        work=passes(4),
        examples=(example,),
        bad_examples=(
            BadExample(
                "statistics_of_different_sizes",
                tensors_and([2, 2], bad, Epsilon=0),
                Code.SIZES_MISMATCH,
                "/VarianceTensor/Sizes",
            ),
        ),
    )


def _gradients(*output: float) -> Example:
    """Returns an example with three elements of one channel."""
    parameters = {"InputGradientTensor": [3], **{name: [1] for name in _STATISTICS}}
    return Example(
        "one_channel",
        tensors_and([3], parameters, Epsilon=0),
        {
            "InputTensor": [1, 2, 3],
            "InputGradientTensor": [1, 2, 6],
            "MeanTensor": [2],
            "VarianceTensor": [4],
            "ScaleTensor": [6],
        },
        {"OutputGradientTensor": list(output), "OutputScaleGradientTensor": [2.5], "OutputBiasGradientTensor": [9]},
    )


TRAINING = declare(
    "BATCH_NORMALIZATION_TRAINING",
    rules=(
        same_type("InputTensor", "ScaleTensor", "BiasTensor", "FusedAddTensor"),
        same_rank("InputTensor", "ScaleTensor", "BiasTensor", "FusedAddTensor"),
        same_sizes("ScaleTensor", "BiasTensor"),
        same_sizes("InputTensor", "FusedAddTensor"),
        broadcast("ScaleTensor", to="InputTensor"),
    ),
    outputs={
        "OutputTensor": like("InputTensor"),
        "OutputMeanTensor": like("ScaleTensor"),
        "OutputVarianceTensor": like("ScaleTensor"),
    },
    work=passes(3),
    examples=(
        Example(
            "statistics_of_the_batch",
            tensors_and([2, 2], {"ScaleTensor": [1, 2], "BiasTensor": [1, 2]}, Epsilon=0),
            {"InputTensor": [[1, 10], [3, 30]], "ScaleTensor": [[1, 2]], "BiasTensor": [[0, 5]]},
            {"OutputTensor": [[-1, 3], [1, 7]], "OutputMeanTensor": [[2, 20]], "OutputVarianceTensor": [[1, 100]]},
        ),
        Example(
            "added_before_the_activation",
            tensors_and(
                [2],
                {"ScaleTensor": [1], "BiasTensor": [1], "FusedAddTensor": [2]},
                Epsilon=0,
                FusedActivation={"Type": "ACTIVATION_RELU"},
            ),
            {"InputTensor": [1, 3], "ScaleTensor": [1], "BiasTensor": [0], "FusedAddTensor": [5, -9]},
            {"OutputTensor": [4, -0.0], "OutputMeanTensor": [2], "OutputVarianceTensor": [1]},
        ),
    ),
    bad_examples=(
        BadExample(
            "bias_of_another_size",
            tensors_and([2, 2], {"ScaleTensor": [1, 2], "BiasTensor": [1, 1]}, Epsilon=0),
            Code.SIZES_MISMATCH,
            "/BiasTensor/Sizes",
        ),
    ),
)

GRADIENT = _gradient("BATCH_NORMALIZATION_GRAD", _gradients(3, 6, 18))
TRAINING_GRADIENT = _gradient("BATCH_NORMALIZATION_TRAINING_GRAD", _gradients(-4.75, -3, 7.75))
