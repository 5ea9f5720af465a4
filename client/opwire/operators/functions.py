"""Functions of elements: roots, powers, exponentials, logarithms, trigonometry and rounding.

Source: the pages of the ``DML_ELEMENT_WISE_..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from ..formulas import INPUT, Attribute, Constant, InputElement, call, chosen, scaled
from ..level import FeatureLevel
from ..operator import declare
from ..rules import below, like, same_rank, same_sizes, same_type
from .elementwise import binary, unary, vectors
from .work import elements_written

_X = scaled(INPUT)

_PRIMITIVES = "ACOS ASIN ATAN CEIL COS EXP FLOOR LOG SIN SQRT TAN ERF SINH COSH TANH ASINH ACOSH ATANH"

_FORMULAS = {
    **{name: call(name.lower())(_X) for name in _PRIMITIVES.split()},
    "CONSTANT_POW": call("power")(_X, Attribute("Exponent")),
    "RECIP": Constant(1) / _X,
    "ROUND": chosen(
        "RoundingMode",
        HALVES_TO_NEAREST_EVEN=call("round_even")(INPUT),
        TOWARD_ZERO=call("truncate")(INPUT),
        TOWARD_INFINITY=call("round_away")(INPUT),
    ),
}

_EXAMPLES = {
    "CEIL": (vectors("up", {}, {"InputTensor": [1.5, -1.5, 2]}, [2, -1, 2]),),
    "CONSTANT_POW": (vectors("squares", {"Exponent": 2}, {"InputTensor": [1, -2, 3]}, [1, 4, 9]),),
    "EXP": (vectors("limits", {}, {"InputTensor": [0, "-Infinity", "Infinity"]}, [1, 0, "Infinity"]),),
    "FLOOR": (vectors("down", {}, {"InputTensor": [1.5, -1.5, 2]}, [1, -2, 2]),),
    "RECIP": (vectors("one_over", {}, {"InputTensor": [2, -4]}, [0.5, -0.25]),),
    "ROUND": (
        vectors("halves", {"RoundingMode": "HALVES_TO_NEAREST_EVEN"}, {"InputTensor": [0.5, 1.5, 2.5]}, [0, 2, 2]),
    ),
    "SQRT": (vectors("roots", {"ScaleBias": {"Scale": 1, "Bias": 1}}, {"InputTensor": [3, 8]}, [2, 3]),),
}

_POW = declare(
    "ELEMENT_WISE_POW",
    rules=(
        same_rank("InputTensor", "ExponentTensor"),
        same_sizes("InputTensor", "ExponentTensor"),
        below(FeatureLevel.V3_0, same_type("InputTensor", "ExponentTensor")),
    ),
    outputs={"OutputTensor": like("InputTensor")},
    work=elements_written,
    formula=call("power")(_X, InputElement("ExponentTensor")),
    examples=(vectors("powers", {}, {"InputTensor": [2, 3], "ExponentTensor": [3, 0]}, [8, 1]),),
)

FAMILY = (
    *(unary(f"ELEMENT_WISE_{name}", formula=row, examples=_EXAMPLES.get(name, ())) for name, row in _FORMULAS.items()),
    _POW,
    binary("ELEMENT_WISE_ATAN_YX", formula=call("atan2")(InputElement("ATensor"), InputElement("BTensor"))),
)
