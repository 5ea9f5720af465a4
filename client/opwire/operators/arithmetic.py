"""Sums, products, quotients and extremes of elements.

Source: the pages of the ``DML_ELEMENT_WISE_..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from .elementwise import binary, unary, vectors

_A, _B = [1, 2, 3], [5, 8, -5]

_IDENTITY = (
    vectors("copies", {}, {"InputTensor": [1, -0.5, "NaN"]}, [1, -0.5, "NaN"]),
    vectors("scaled", {"ScaleBias": {"Scale": 2, "Bias": 10}}, {"InputTensor": [1, 2, 3]}, [12, 14, 16]),
)
_ELU = {"FusedActivation": {"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}}}

FAMILY = (
    unary("ELEMENT_WISE_IDENTITY", examples=_IDENTITY),
    unary("ELEMENT_WISE_ABS", examples=(vectors("both_signs", {}, {"InputTensor": [-2, 0, 3]}, [2, 0, 3]),)),
    binary("ELEMENT_WISE_ADD", examples=(vectors("sums", {}, {"ATensor": _A, "BTensor": _B}, [6, 10, -2]),)),
    binary(
        "ELEMENT_WISE_DIVIDE",
        examples=(vectors("by_zero", {}, {"ATensor": [1, 3], "BTensor": [0, 2]}, ["Infinity", 1.5]),),
    ),
    binary("ELEMENT_WISE_MAX", examples=(vectors("greater", {}, {"ATensor": _A, "BTensor": _B}, [5, 8, 3]),)),
    binary("ELEMENT_WISE_MEAN", examples=(vectors("halfway", {}, {"ATensor": _A, "BTensor": _B}, [3, 5, -1]),)),
    binary("ELEMENT_WISE_MIN", examples=(vectors("less", {}, {"ATensor": _A, "BTensor": _B}, [1, 2, -5]),)),
    binary("ELEMENT_WISE_MULTIPLY", examples=(vectors("products", {}, {"ATensor": _A, "BTensor": _B}, [5, 16, -15]),)),
    binary(
        "ELEMENT_WISE_SUBTRACT", examples=(vectors("differences", {}, {"ATensor": _A, "BTensor": _B}, [-4, -6, 8]),)
    ),
    unary("ELEMENT_WISE_SIGN", examples=(vectors("signs", {}, {"InputTensor": [-2, 0, 3]}, [-1, 0, 1]),)),
    binary(
        "ELEMENT_WISE_ADD1",
        examples=(
            vectors("sums", {}, {"ATensor": _A, "BTensor": _B}, [6, 10, -2]),
            vectors("activated", _ELU, {"ATensor": [1], "BTensor": [2]}, [3]),
        ),
    ),
    binary(
        "ELEMENT_WISE_MODULUS_TRUNCATE",
        examples=(vectors("sign_of_a", {}, {"ATensor": [-5, 5], "BTensor": [3, -3]}, [-2, 2]),),
    ),
    binary(
        "ELEMENT_WISE_MODULUS_FLOOR",
        examples=(vectors("sign_of_b", {}, {"ATensor": [-5, 5], "BTensor": [3, -3]}, [1, -1]),),
    ),
    binary(
        "ELEMENT_WISE_DIFFERENCE_SQUARE",
        examples=(vectors("squares", {}, {"ATensor": _A, "BTensor": _B}, [16, 36, 64]),),
    ),
    unary("ELEMENT_WISE_NEGATE", examples=(vectors("signs_turn", {}, {"InputTensor": [-2, 3]}, [2, -3]),)),
)
