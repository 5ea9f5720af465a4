"""Activations that work on each element alone; many of them may be fused into other operators.

Source: the pages of the ``DML_ACTIVATION_..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from ..formulas import (
    INPUT,
    Attribute,
    Constant,
    Expression,
    InputElement,
    absolute,
    erfc,
    exp,
    expm1,
    log1p,
    maximum,
    minimum,
    select,
    sqrt,
    tanh,
)
from ..level import FeatureLevel
from ..operator import declare
from ..rules import at_least, below, from_level, like, nonzero
from .elementwise import alike, gradient, unary, vectors
from .work import elements_written

_ALPHA, _BETA, _GAMMA, _BIAS, _THRESHOLD = map(Attribute, ("Alpha", "Beta", "Gamma", "Bias", "Threshold"))
_STEEPNESS = Attribute("Steepness")
_SLOPE, _GRADIENT = InputElement("SlopeTensor"), InputElement("InputGradientTensor")


def _softplus(x: Expression) -> Expression:
    """``ln(1 + exp(x))``, which does not overflow."""
    return maximum(x, 0) + log1p(exp(-absolute(x)))


def _hard_sigmoid(x: Expression) -> Expression:
    return maximum(0, minimum(_ALPHA * x + _BETA, 1))


_FORMULAS = {
    "ELU": select(INPUT >= 0, INPUT, _ALPHA * expm1(INPUT)),
    "HARD_SIGMOID": _hard_sigmoid(INPUT),
    "IDENTITY": INPUT,
    "LEAKY_RELU": select(INPUT >= 0, INPUT, _ALPHA * INPUT),
    "LINEAR": _ALPHA * INPUT + _BETA,
    "PARAMETRIC_SOFTPLUS": _ALPHA * _softplus(_BETA * INPUT),
    "RELU": maximum(0, INPUT),
    # Alpha*exp(x) - Alpha is positive where it is zero, and NaN where Alpha is infinite: hence the last difference.
    "SCALED_ELU": select(INPUT > 0, _GAMMA * INPUT, _GAMMA * (_ALPHA * expm1(INPUT) + (_ALPHA - _ALPHA))),
    "SCALED_TANH": _ALPHA * tanh(_BETA * INPUT),
    "SIGMOID": Constant(1) / (exp(-INPUT) + 1),
    "SOFTSIGN": INPUT / (absolute(INPUT) + 1),
    "TANH": tanh(INPUT),
    "THRESHOLDED_RELU": select(INPUT > _ALPHA, INPUT, 0),
    "SHRINK": select(INPUT > _THRESHOLD, INPUT - _BIAS, select(INPUT < -_THRESHOLD, INPUT + _BIAS, 0)),
    "GELU": INPUT * (erfc(-INPUT * sqrt(0.5)) * 0.5),
    "SWISH": INPUT / (exp(-(Attribute("SigmoidInputScale") * INPUT)) + 1),
    "HARD_SWISH": INPUT * _hard_sigmoid(INPUT),
}

_EXAMPLES = {
    "RELU": (vectors("never_negative", {}, {"InputTensor": [-1, 0, 2]}, [0, 0, 2]),),
    "LEAKY_RELU": (vectors("a_tenth", {"Alpha": 0.5}, {"InputTensor": [-1, 2]}, [-0.5, 2]),),
    "LINEAR": (vectors("a_line", {"Alpha": 2, "Beta": 1}, {"InputTensor": [-1, 2]}, [-1, 5]),),
}

FAMILY = (
    *(unary(f"ACTIVATION_{name}", formula=row, examples=_EXAMPLES.get(name, ())) for name, row in _FORMULAS.items()),
    # For negative Alpha, too, only one of max(0, x) and min(0, Alpha*(exp(x/Alpha) - 1)) is not zero.
    # An infinite Alpha makes the latter NaN, which min skips.
    unary(
        "ACTIVATION_CELU",
        nonzero("Alpha"),
        formula=select(INPUT < 0, minimum(0, _ALPHA * expm1(INPUT / _ALPHA)), maximum(0, INPUT)),
    ),
    unary(
        "ACTIVATION_SOFTPLUS",
        below(FeatureLevel.V6_4, at_least(1, "Steepness")),
        from_level(FeatureLevel.V6_4, nonzero("Steepness")),
        formula=_softplus(_STEEPNESS * INPUT) / _STEEPNESS,
    ),
    declare(
        "ACTIVATION_PARAMETERIZED_RELU",
        rules=alike("InputTensor", "SlopeTensor"),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
        formula=select(INPUT >= 0, INPUT, _SLOPE * INPUT),
    ),
    gradient("ACTIVATION_RELU_GRAD", formula=select(INPUT > 0, _GRADIENT, 0)),
)
