"""Sums, products, quotients and extremes of elements.

Source: the pages of the ``DML_ELEMENT_WISE_..._OPERATOR_DESC`` structs and of ``DML_VALUE_SCALE_2D_OPERATOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..operator import BadExample, Example, declare
from ..rules import Rule, Values, length_is, like, size
from ..violation import Code, Fault
from .elementwise import binary, unary, vectors
from .work import elements_written


@dataclass(frozen=True, slots=True)
class GrayOrColour(Rule):
    """A picture has one channel or three, each with its bias."""

    code = Code.VALUE_NOT_ALLOWED

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("Bias",))

    def faults(self, values: Values) -> Iterator[Fault]:
        count = len(values["Bias"])
        if count not in (1, 3):
            yield Fault(self.code, ("Bias",), f"biases of {count} channels given; pictures have 1 or 3", [1, 3])


def _scaled(channels: int, biases: list[float]) -> dict[str, object]:
    """A desc of VALUE_SCALE_2D."""
    return {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1, channels, 1, 2]}, "Scale": 2, "Bias": biases}


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
    declare(
        "VALUE_SCALE_2D",
        rules=(GrayOrColour(), length_is(size("InputTensor", 1), "Bias")),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
        examples=(
            Example(
                name="three_channels",
                desc=_scaled(3, [0, 10, -1]),
                inputs={"InputTensor": [[[[1, 2]], [[3, 4]], [[5, 6]]]]},
                outputs={"OutputTensor": [[[[2, 4]], [[16, 18]], [[9, 11]]]]},
            ),
        ),
        bad_examples=(
            BadExample(name="two_channels", desc=_scaled(2, [0, 0]), code=Code.VALUE_NOT_ALLOWED, pointer="/Bias"),
            BadExample(name="a_bias_for_all_channels", desc=_scaled(3, [0]), code=Code.COUNT_MISMATCH, pointer="/Bias"),
        ),
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
