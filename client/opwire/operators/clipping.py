"""Elements clamped to an interval, and the gradients.

Source: the pages of the ``DML_ELEMENT_WISE_CLIP...`` structs and of ``DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formulas import INPUT, Bound, InputElement, maximum, minimum, scaled, select
from ..operator import Example
from ..rules import computable, type_named
from .elementwise import gradient, unary, unscaled_if_wide, vectors

_BOUNDS = {"Min": -2.5, "Max": 2.5}
_SOURCE = {"InputTensor": [-4, -1, 3]}
_TYPED = {"MinMaxDataType": "FLOAT32", **_BOUNDS}

_MIN, _MAX = Bound("Min"), Bound("Max")
_CLIP = maximum(_MIN, minimum(scaled(INPUT), _MAX))
# The gradient at NaN passes, as NaN is neither below nor above the limits.
_CLIP_GRAD = select(INPUT > _MIN, select(INPUT < _MAX, InputElement("InputGradientTensor"), 0), 0)


def _within(attributes: Mapping[str, Any]) -> Example:
    inputs = {**_SOURCE, "InputGradientTensor": [5, 6, 7]}
    return vectors("within_the_ends", attributes, inputs, [0, 6, 0], into="OutputGradientTensor")


FAMILY = (
    unary(
        "ELEMENT_WISE_CLIP",
        unscaled_if_wide(),
        formula=_CLIP,
        examples=(vectors("both_ends", _BOUNDS, _SOURCE, [-2.5, -1, 2.5]),),
    ),
    unary(
        "ELEMENT_WISE_CLIP1",
        # DirectML accepts bounds of any type, but nothing says how it converts them to that of the tensors.
        computable(type_named("MinMaxDataType", "InputTensor")),
        unscaled_if_wide(),
        formula=_CLIP,
        examples=(vectors("both_ends", _TYPED, _SOURCE, [-2.5, -1, 2.5]),),
    ),
    gradient("ELEMENT_WISE_CLIP_GRAD", formula=_CLIP_GRAD, examples=(_within(_BOUNDS),)),
    gradient(
        "ELEMENT_WISE_CLIP_GRAD1",
        type_named("MinMaxDataType", "InputTensor"),
        formula=_CLIP_GRAD,
        examples=(_within(_TYPED),),
    ),
    unary(
        "ELEMENT_WISE_THRESHOLD",
        formula=maximum(scaled(INPUT), _MIN),
        examples=(vectors("lower_end", {"Min": 0}, _SOURCE, [0, 0, 3]),),
    ),
)
