"""Element-wise arithmetic: sums, products, quotients and extremes.

Source: the pages of the ``DML_ELEMENT_WISE_..._OPERATOR_DESC`` structs and of ``DML_VALUE_SCALE_2D_OPERATOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..formulas import INPUT, A, Attribute, B, ChannelValue, FusedActivation, absolute, call, maximum, minimum, scaled
from ..operator import BadExample, Example, declare
from ..rules import Rule, Values, length_is, like, size
from ..violation import Code, Fault
from .elementwise import binary, unary, unscaled_if_wide, vectors
from .work import elements_written


@dataclass(frozen=True, slots=True)
class GrayOrColor(Rule):
    """There is a bias for each channel of an image, which has 1 or 3."""

    code = Code.VALUE_NOT_ALLOWED
    members = ("Bias",)

    def faults(self, values: Values) -> Iterator[Fault]:
        count = len(values["Bias"])
        if count not in (1, 3):
            yield Fault(self.code, ("Bias",), f"{count} biases given; there must be 1 or 3, one per channel", [1, 3])


def _scaled(channels: int, biases: list[float]) -> dict[str, object]:
    """Returns a desc of VALUE_SCALE_2D."""
    return {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1, channels, 1, 2]}, "Scale": 2, "Bias": biases}


def _pairs(name: str, output: list[float]) -> Example:
    """Returns an example with two vectors."""
    return vectors(name, {}, {"ATensor": [1, 2, 3], "BTensor": [5, 8, -5]}, output)


_IDENTITY = (
    vectors("copies", {}, {"InputTensor": [1, -0.5, "NaN"]}, [1, -0.5, "NaN"]),
    vectors("scaled", {"ScaleBias": {"Scale": 2, "Bias": 10}}, {"InputTensor": [1, 2, 3]}, [12, 14, 16]),
)
_SCALED_WIDE = BadExample(
    "scale_of_64_bits",
    {"InputTensor": {"DataType": "INT64", "Sizes": [2]}, "ScaleBias": {"Scale": 2, "Bias": 0}},
    Code.VALUE_NOT_ALLOWED,
    "/ScaleBias",
)
_ELU = {"FusedActivation": {"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}}}

FAMILY = (
    unary(
        "ELEMENT_WISE_IDENTITY",
        unscaled_if_wide(),
        formula=scaled(INPUT),
        examples=_IDENTITY,
        bad_examples=(_SCALED_WIDE,),
    ),
    unary(
        "ELEMENT_WISE_ABS",
        unscaled_if_wide(),
        formula=absolute(scaled(INPUT)),
        examples=(vectors("both_signs", {}, {"InputTensor": [-2, 0, 3]}, [2, 0, 3]),),
    ),
    binary("ELEMENT_WISE_ADD", formula=A + B, examples=(_pairs("sums", [6, 10, -2]),)),
    binary(
        "ELEMENT_WISE_DIVIDE",
        formula=A / B,
        examples=(vectors("by_zero", {}, {"ATensor": [1, 3], "BTensor": [0, 2]}, ["Infinity", 1.5]),),
    ),
    binary("ELEMENT_WISE_MAX", formula=maximum(A, B), examples=(_pairs("greater", [5, 8, 3]),)),
    binary("ELEMENT_WISE_MEAN", formula=call("mean")(A, B), examples=(_pairs("halfway", [3, 5, -1]),)),
    binary("ELEMENT_WISE_MIN", formula=minimum(A, B), examples=(_pairs("less", [1, 2, -5]),)),
    binary("ELEMENT_WISE_MULTIPLY", formula=A * B, examples=(_pairs("products", [5, 16, -15]),)),
    binary("ELEMENT_WISE_SUBTRACT", formula=A - B, examples=(_pairs("differences", [-4, -6, 8]),)),
    declare(
        "VALUE_SCALE_2D",
        rules=(GrayOrColor(), length_is(size("InputTensor", 1), "Bias")),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
        formula=Attribute("Scale") * INPUT + ChannelValue("Bias"),
        examples=(
            Example(
                "three_channels",
                _scaled(3, [0, 10, -1]),
                {"InputTensor": [[[[1, 2]], [[3, 4]], [[5, 6]]]]},
                {"OutputTensor": [[[[2, 4]], [[16, 18]], [[9, 11]]]]},
            ),
        ),
        bad_examples=(
            BadExample("two_channels", _scaled(2, [0, 0]), Code.VALUE_NOT_ALLOWED, "/Bias"),
            BadExample("a_bias_for_all_channels", _scaled(3, [0]), Code.COUNT_MISMATCH, "/Bias"),
        ),
    ),
    unary(
        "ELEMENT_WISE_SIGN",
        formula=call("sign")(INPUT),
        examples=(vectors("signs", {}, {"InputTensor": [-2, 0, 3]}, [-1, 0, 1]),),
    ),
    binary(
        "ELEMENT_WISE_ADD1",
        formula=FusedActivation("FusedActivation", A + B),
        examples=(_pairs("sums", [6, 10, -2]), vectors("activated", _ELU, {"ATensor": [1], "BTensor": [2]}, [3])),
    ),
    binary(
        "ELEMENT_WISE_MODULUS_TRUNCATE",
        formula=call("remainder")(A, B),
        examples=(vectors("sign_of_a", {}, {"ATensor": [-5, 5], "BTensor": [3, -3]}, [-2, 2]),),
    ),
    binary(
        "ELEMENT_WISE_MODULUS_FLOOR",
        formula=call("floor_remainder")(A, B),
        examples=(vectors("sign_of_b", {}, {"ATensor": [-5, 5], "BTensor": [3, -3]}, [1, -1]),),
    ),
    binary("ELEMENT_WISE_DIFFERENCE_SQUARE", formula=(A - B) * (A - B), examples=(_pairs("squares", [16, 36, 64]),)),
    unary(
        "ELEMENT_WISE_NEGATE", formula=-INPUT, examples=(vectors("signs_turn", {}, {"InputTensor": [-2, 3]}, [2, -3]),)
    ),
)
