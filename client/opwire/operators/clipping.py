"""Elements limited to an interval, and the gradients of that.

Source: the pages of the ``DML_ELEMENT_WISE_CLIP...`` structs and of ``DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC``.
"""

from __future__ import annotations

from ..rules import type_named
from .elementwise import gradient, unary, vectors

_BOUNDS = {"Min": -2.5, "Max": 2.5}
_SOURCE = {"InputTensor": [-4, -1, 3]}
_TYPED = {"MinMaxDataType": "FLOAT32", **_BOUNDS}

FAMILY = (
    unary("ELEMENT_WISE_CLIP", examples=(vectors("both_ends", _BOUNDS, _SOURCE, [-2.5, -1, 2.5]),)),
    unary(
        "ELEMENT_WISE_CLIP1",
        type_named("MinMaxDataType", "InputTensor"),
        examples=(vectors("both_ends", _TYPED, _SOURCE, [-2.5, -1, 2.5]),),
    ),
    gradient("ELEMENT_WISE_CLIP_GRAD"),
    gradient("ELEMENT_WISE_CLIP_GRAD1", type_named("MinMaxDataType", "InputTensor")),
    unary("ELEMENT_WISE_THRESHOLD", examples=(vectors("lower_end", {"Min": 0}, _SOURCE, [0, 0, 3]),)),
)
