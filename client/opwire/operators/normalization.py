"""Normalization by mean and variance, by norm, and by local response.

Source: the pages of the ``DML_..._NORMALIZATION..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from math import prod

from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import (
    Rule,
    Shapes,
    axes,
    axis,
    below,
    broadcast,
    given_together,
    like,
    one_of,
    same_rank,
    same_sizes,
    same_type,
    size,
)
from ..violation import Code
from .axes import AlongAxes
from .batch_normalization import GRADIENT, INFERENCE, TRAINING, TRAINING_GRADIENT, passes, tensors_and
from .work import elements_visited

V4_0, V5_2 = FeatureLevel.V4_0, FeatureLevel.V5_2


def _mean_variance(
    name: str,
    *rules: Rule | tuple[Rule, ...],
    attributes: dict[str, object],
    examples: tuple[Example, ...] = (),
    bad_examples: tuple[BadExample, ...] = (),
) -> Operator[Attributes]:
    """Declares a mean-variance normalization. Its example has one channel with two elements."""
    source = {"InputTensor": [[[[1, 3]]]]}
    both = {"ScaleTensor": [1, 1, 1, 1], "BiasTensor": [1, 1, 1, 2]}
    return declare(
        name,
        rules=(
            same_type("InputTensor", "ScaleTensor", "BiasTensor"),
            *rules,
            broadcast("ScaleTensor", to="InputTensor"),
            broadcast("BiasTensor", to="InputTensor"),
        ),
        outputs={"OutputTensor": like("InputTensor")},
        work=passes(3),
        attributes=AlongAxes if "Axes" in attributes else None,
        examples=(
            Example(
                "one_channel", tensors_and([1, 1, 1, 2], {}, **attributes), source, {"OutputTensor": [[[[-1, 1]]]]}
            ),
            Example(
                "scaled_and_shifted",
                tensors_and([1, 1, 1, 2], both, **attributes),
                {**source, "ScaleTensor": [[[[2]]]], "BiasTensor": [[[[10, 20]]]]},
                {"OutputTensor": [[[[8, 22]]]]},
            ),
            *examples,
        ),
        bad_examples=(
            BadExample(
                "bias_that_is_not_broadcast",
                tensors_and([1, 1, 1, 2], {**both, "BiasTensor": [1, 1, 1, 3]}, **attributes),
                Code.SIZES_MISMATCH,
                "/BiasTensor/Sizes/3",
            ),
            *bad_examples,
        ),
    )


_PARAMETERS = ("ScaleTensor", "BiasTensor")
_ANY_AXES = (same_rank("InputTensor", *_PARAMETERS), axes("Axes", of="InputTensor"))
_NORMALIZED = {"NormalizeVariance": True, "Epsilon": 0}


def _of_each_channel(tensor: str) -> Rule:
    """Returns the rule that a tensor has rank 4 and is not broadcast along the channels."""
    return Shapes({tensor: ("batch", size("InputTensor", 1), "height", "width")})


def _axes_refused(**attributes: object) -> BadExample:
    return BadExample(
        "axis_beyond_the_rank", tensors_and([1, 1, 1, 2], {}, Axes=[4], **attributes), Code.AXIS_OUT_OF_RANGE, "/Axes/0"
    )


_MEAN_VARIANCE = _mean_variance(
    "MEAN_VARIANCE_NORMALIZATION",
    below(V5_2, given_together(*_PARAMETERS)),
    attributes={"CrossChannel": False, **_NORMALIZED},
    bad_examples=(
        BadExample(
            "scale_alone",
            tensors_and([1, 1, 1, 2], {"ScaleTensor": [1, 1, 1, 1]}, CrossChannel=False, **_NORMALIZED),
            Code.MISSING_TENSOR,
            "",
            level=FeatureLevel.V5_1,
        ),
    ),
)

_MEAN_VARIANCE1 = _mean_variance(
    "MEAN_VARIANCE_NORMALIZATION1",
    *_ANY_AXES,
    *(below(V4_0, _of_each_channel(name)) for name in _PARAMETERS),
    below(V5_2, given_together(*_PARAMETERS)),
    attributes={"Axes": [2, 3], **_NORMALIZED},
    bad_examples=(
        _axes_refused(**_NORMALIZED),
        BadExample(
            "one_scale_for_all_channels",
            tensors_and([1, 2, 1, 2], {name: [1, 1, 1, 2] for name in _PARAMETERS}, Axes=[2, 3], **_NORMALIZED),
            Code.SIZES_MISMATCH,
            "/ScaleTensor/Sizes/1",
            level=FeatureLevel.V3_1,
        ),
    ),
)

_ROOT_MEAN_SQUARE: dict[str, object] = {"UseMean": False, "UseVariance": True, "Epsilon": 0}

_MEAN_VARIANCE2 = _mean_variance(
    "MEAN_VARIANCE_NORMALIZATION2",
    *_ANY_AXES,
    attributes={"Axes": [2, 3], "UseMean": True, "UseVariance": True, "Epsilon": 0},
    examples=(
        Example(
            "by_the_root_of_the_mean_square",
            tensors_and([2], {}, Axes=[0], **_ROOT_MEAN_SQUARE),
            {"InputTensor": [1, 7]},
            {"OutputTensor": [0.2, 1.4]},
        ),
    ),
    bad_examples=(_axes_refused(**_ROOT_MEAN_SQUARE),),
)


def _response_work(attributes: Attributes, tensors: Tensors) -> int:
    """Each element visits its region, clipped to the tensor."""
    _, channels, *spatial = tensors["InputTensor"].sizes
    extents = [channels] if attributes.CrossChannel else spatial
    region: int = prod(min(attributes.LocalSize, extent) for extent in extents)
    return elements_visited(attributes, tensors) * region


_RESPONSE: dict[str, object] = {"CrossChannel": True, "LocalSize": 1, "Alpha": 1, "Beta": 1, "Bias": 1}
_REGION = BadExample(
    "no_region", tensors_and([1, 2, 1, 1], {}, **{**_RESPONSE, "LocalSize": 0}), Code.OUT_OF_RANGE, "/LocalSize"
)

_LOCAL_RESPONSE = declare(
    "LOCAL_RESPONSE_NORMALIZATION",
    outputs={"OutputTensor": like("InputTensor")},
    work=_response_work,
    examples=(
        Example(
            "each_by_itself",
            tensors_and([1, 2, 1, 1], {}, **_RESPONSE),
            {"InputTensor": [[[[1]], [[3]]]]},
            {"OutputTensor": [[[[0.5]], [[0.3]]]]},
        ),
        Example(
            "with_the_next_channel",
            tensors_and([1, 2, 1, 1], {}, **{**_RESPONSE, "LocalSize": 2, "Alpha": 2}),
            {"InputTensor": [[[[1]], [[3]]]]},
            {"OutputTensor": [[[[1 / 11]], [[0.3]]]]},
        ),
    ),
    bad_examples=(_REGION,),
)

_LOCAL_RESPONSE_GRADIENT = declare(
    "LOCAL_RESPONSE_NORMALIZATION_GRAD",
    rules=(same_type("InputTensor", "InputGradientTensor"), same_sizes("InputTensor", "InputGradientTensor")),
    outputs={"OutputGradientTensor": like("InputTensor")},
    work=_response_work,
    examples=(
        Example(
            "each_by_itself",
            tensors_and([1, 1, 1, 2], {"InputGradientTensor": [1, 1, 1, 2]}, **_RESPONSE),
            {"InputTensor": [[[[1, 3]]]], "InputGradientTensor": [[[[2, 100]]]]},
            {"OutputGradientTensor": [[[[0, -8]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            "gradient_of_other_sizes",
            tensors_and([1, 1, 1, 2], {"InputGradientTensor": [1, 1, 2, 1]}, **_RESPONSE),
            Code.SIZES_MISMATCH,
            "/InputGradientTensor/Sizes",
        ),
    ),
)

_NORM = declare(
    "LP_NORMALIZATION",
    rules=(axis("Axis", of="InputTensor"), one_of("P", 1, 2)),
    outputs={"OutputTensor": like("InputTensor")},
    work=passes(2),
    examples=(
        Example(
            "length_one",
            tensors_and([2, 2], {}, Axis=1, Epsilon=0, P=2),
            {"InputTensor": [[3, 4], [0, 2]]},
            {"OutputTensor": [[0.6, 0.8], [0, 1]]},
        ),
        Example(
            "shares",
            tensors_and([2, 2], {}, Axis=0, Epsilon=0, P=1),
            {"InputTensor": [[3, 4], [1, -4]]},
            {"OutputTensor": [[0.75, 0.5], [0.25, -0.5]]},
        ),
        Example(
            "epsilon_added_to_the_squared_norm",
            tensors_and([3], {}, Axis=0, Epsilon=7, P=1),
            {"InputTensor": [2, 0, -1]},
            {"OutputTensor": [0.5, 0, -0.25]},
        ),
    ),
    bad_examples=(
        BadExample("third_power", tensors_and([2, 2], {}, Axis=1, Epsilon=0, P=3), Code.VALUE_NOT_ALLOWED, "/P"),
    ),
)

FAMILY = (
    INFERENCE,
    _MEAN_VARIANCE,
    _LOCAL_RESPONSE,
    _NORM,
    _MEAN_VARIANCE1,
    _LOCAL_RESPONSE_GRADIENT,
    GRADIENT,
    TRAINING,
    TRAINING_GRADIENT,
    _MEAN_VARIANCE2,
)
