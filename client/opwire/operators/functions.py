"""Element-wise functions: roots, powers, exponentials, logarithms, trigonometry and rounding.

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
    "ACOS": (vectors("angles", {}, {"InputTensor": [1, 0.5, -1]}, [0, 1.0471976, 3.1415927]),),
    "ACOSH": (vectors("from_one_on", {}, {"InputTensor": [1, 2, 0]}, [0, 1.316958, "NaN"]),),
    "ASIN": (vectors("angles", {}, {"InputTensor": [0, 0.5, 1]}, [0, 0.5235988, 1.5707964]),),
    "ASINH": (vectors("is_odd", {}, {"InputTensor": [0, 1, -1]}, [0, 0.8813736, -0.8813736]),),
    "ATAN": (vectors("angles", {}, {"InputTensor": [0, 1, "Infinity"]}, [0, 0.7853982, 1.5707964]),),
    "ATANH": (vectors("poles", {}, {"InputTensor": [0, 0.5, 1]}, [0, 0.54930615, "Infinity"]),),
    "CEIL": (vectors("up", {}, {"InputTensor": [1.5, -1.5, 2]}, [2, -1, 2]),),
    "CONSTANT_POW": (vectors("squares", {"Exponent": 2}, {"InputTensor": [1, -2, 3]}, [1, 4, 9]),),
    "COS": (vectors("radians", {}, {"InputTensor": [0, 1]}, [1, 0.5403023]),),
    "COSH": (vectors("is_even", {}, {"InputTensor": [0, 1, -1]}, [1, 1.5430807, 1.5430807]),),
    "ERF": (vectors("half_and_limit", {}, {"InputTensor": [0, 0.5, "Infinity"]}, [0, 0.5204999, 1]),),
    "EXP": (vectors("limits", {}, {"InputTensor": [0, "-Infinity", "Infinity"]}, [1, 0, "Infinity"]),),
    "FLOOR": (vectors("down", {}, {"InputTensor": [1.5, -1.5, 2]}, [1, -2, 2]),),
    "LOG": (vectors("natural", {}, {"InputTensor": [1, 10, 0]}, [0, 2.3025851, "-Infinity"]),),
    "RECIP": (vectors("one_over", {}, {"InputTensor": [2, -4]}, [0.5, -0.25]),),
    "ROUND": (
        vectors("halves", {"RoundingMode": "HALVES_TO_NEAREST_EVEN"}, {"InputTensor": [0.5, 1.5, 2.5]}, [0, 2, 2]),
    ),
    "SIN": (vectors("radians", {}, {"InputTensor": [0, 1]}, [0, 0.84147096]),),
    "SINH": (vectors("grows_fast", {}, {"InputTensor": [0, 1, "-Infinity"]}, [0, 1.1752012, "-Infinity"]),),
    "SQRT": (vectors("roots", {"ScaleBias": {"Scale": 1, "Bias": 1}}, {"InputTensor": [3, 8]}, [2, 3]),),
    "TAN": (vectors("radians", {}, {"InputTensor": [0, 1]}, [0, 1.5574077]),),
    "TANH": (vectors("limits", {}, {"InputTensor": [0, 0.5, "Infinity"]}, [0, 0.46211717, 1]),),
}

_POW = declare(
    "ELEMENT_WISE_POW",
    rules=(
        same_rank("InputTensor", "ExponentTensor", sizes=True),
        same_sizes("InputTensor", "ExponentTensor"),
        below(FeatureLevel.V3_0, same_type("InputTensor", "ExponentTensor")),
    ),
    outputs={"OutputTensor": like("InputTensor")},
    work=elements_written,
    formula=call("power")(_X, scaled(InputElement("ExponentTensor"))),
    examples=(vectors("powers", {}, {"InputTensor": [2, 3], "ExponentTensor": [3, 0]}, [8, 1]),),
)

FAMILY = (
    *(unary(f"ELEMENT_WISE_{name}", formula=row, examples=_EXAMPLES[name]) for name, row in _FORMULAS.items()),
    _POW,
    binary(
        "ELEMENT_WISE_ATAN_YX",
        formula=call("atan2")(InputElement("ATensor"), InputElement("BTensor")),
        examples=(
            vectors(
                "y_before_x", {}, {"ATensor": [1, 1, -1], "BTensor": [1, -1, 0]}, [0.7853982, 2.3561945, -1.5707964]
            ),
        ),
    ),
)
