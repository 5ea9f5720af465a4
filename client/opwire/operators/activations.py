"""Element-wise activations, many of which can be fused into other operators.

Source: the pages of the ``DML_ACTIVATION_..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from ..formulas import (
    INPUT,
    Attribute,
    Constant,
    Expression,
    InputElement,
    Limit,
    Moved,
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
from ..rules import at_least, below, like
from .elementwise import alike, gradient, unary, vectors
from .work import elements_written

_ALPHA, _BETA, _GAMMA, _STEEPNESS = map(Attribute, ("Alpha", "Beta", "Gamma", "Steepness"))
_THRESHOLD = Limit("Threshold")
_SLOPE, _GRADIENT = InputElement("SlopeTensor"), InputElement("InputGradientTensor")


def _softplus(x: Expression) -> Expression:
    """Returns ``ln(1 + exp(x))`` without overflow."""
    return maximum(x, 0) + log1p(exp(-absolute(x)))


def _hard_sigmoid(x: Expression) -> Expression:
    return minimum(maximum(_ALPHA * x + _BETA, 0), 1)


_FORMULAS = {
    "ELU": select(INPUT >= 0, INPUT, _ALPHA * expm1(INPUT)),
    "HARD_SIGMOID": _hard_sigmoid(INPUT),
    "IDENTITY": INPUT,
    "LEAKY_RELU": select(INPUT >= 0, INPUT, _ALPHA * INPUT),
    "LINEAR": _ALPHA * INPUT + _BETA,
    "PARAMETRIC_SOFTPLUS": _ALPHA * _softplus(_BETA * INPUT),
    "RELU": maximum(0, INPUT),
    # Alpha*exp(x) - Alpha is +0 where it is zero, and NaN where Alpha is infinite: hence the last difference.
    "SCALED_ELU": select(INPUT >= 0, _GAMMA * INPUT, _GAMMA * (_ALPHA * expm1(INPUT))),
    "SCALED_TANH": _ALPHA * tanh(_BETA * INPUT),
    "SIGMOID": Constant(1) / (exp(-INPUT) + 1),
    "SOFTSIGN": INPUT / (absolute(INPUT) + 1),
    "TANH": tanh(INPUT),
    "THRESHOLDED_RELU": select(INPUT <= _ALPHA, 0, INPUT),
    "SHRINK": select(
        INPUT > _THRESHOLD, Moved(INPUT, "Bias", is_down=True), select(INPUT < -_THRESHOLD, Moved(INPUT, "Bias"), 0)
    ),
    "GELU": INPUT * (erfc(-INPUT * sqrt(0.5)) * 0.5),
    "SWISH": INPUT / (exp(-(Attribute("SigmoidInputScale") * INPUT)) + 1),
    "HARD_SWISH": INPUT * _hard_sigmoid(INPUT),
}

_EXAMPLES = {
    "ELU": (vectors("below_zero", {"Alpha": 1}, {"InputTensor": [-1, 0, 2]}, [-0.63212055, 0, 2]),),
    "HARD_SIGMOID": (vectors("a_ramp", {"Alpha": 0.25, "Beta": 0.5}, {"InputTensor": [-4, 1, 4]}, [0, 0.75, 1]),),
    "IDENTITY": (vectors("as_it_is", {}, {"InputTensor": [-1, 0, 2]}, [-1, 0, 2]),),
    "LEAKY_RELU": (vectors("half_below_zero", {"Alpha": 0.5}, {"InputTensor": [-1, 2]}, [-0.5, 2]),),
    "LINEAR": (vectors("a_line", {"Alpha": 2, "Beta": 1}, {"InputTensor": [-1, 2]}, [-1, 5]),),
    "PARAMETRIC_SOFTPLUS": (
        vectors("twice_at_half_the_pace", {"Alpha": 2, "Beta": 0.5}, {"InputTensor": [0, 2]}, [1.3862944, 2.6265233]),
    ),
    "RELU": (vectors("never_negative", {}, {"InputTensor": [-1, 0, 2]}, [0, 0, 2]),),
    "SCALED_ELU": (vectors("half_of_elu", {"Alpha": 2, "Gamma": 0.5}, {"InputTensor": [-1, 4]}, [-0.63212055, 2]),),
    "SCALED_TANH": (
        vectors("twice_at_half_the_pace", {"Alpha": 2, "Beta": 0.5}, {"InputTensor": [0, 1]}, [0, 0.92423433]),
    ),
    "SIGMOID": (vectors("halfway_and_limit", {}, {"InputTensor": [0, 1, "-Infinity"]}, [0.5, 0.7310586, 0]),),
    "SOFTSIGN": (vectors("limits_slowly", {}, {"InputTensor": [-1, 0, 3]}, [-0.5, 0, 0.75]),),
    "TANH": (vectors("limits", {}, {"InputTensor": [0, 0.5, "Infinity"]}, [0, 0.46211717, 1]),),
    "THRESHOLDED_RELU": (vectors("above_alone", {"Alpha": 1}, {"InputTensor": [0.5, 1, 2]}, [0, 0, 2]),),
    "SHRINK": (vectors("towards_zero", {"Bias": 0.5, "Threshold": 1}, {"InputTensor": [-2, 1, 3]}, [-1.5, 0, 2.5]),),
    "GELU": (vectors("exact", {}, {"InputTensor": [-1, 0, 1]}, [-0.15865526, 0, 0.8413448]),),
    "SWISH": (
        vectors(
            "times_its_sigmoid", {"SigmoidInputScale": 1}, {"InputTensor": [-1, 0, 1]}, [-0.26894143, 0, 0.7310586]
        ),
    ),
    "HARD_SWISH": (vectors("times_a_ramp", {"Alpha": 0.25, "Beta": 0.5}, {"InputTensor": [0, 1, 4]}, [0, 0.75, 4]),),
}

FAMILY = (
    *(unary(f"ACTIVATION_{name}", formula=row, examples=_EXAMPLES[name]) for name, row in _FORMULAS.items()),
    # Even for negative Alpha, at most one of max(0, x) and min(0, Alpha*(exp(x/Alpha) - 1)) is not zero.
    # An infinite Alpha makes the latter NaN, which min skips.
    unary(
        "ACTIVATION_CELU",
        formula=select(INPUT < 0, minimum(0, _ALPHA * expm1(INPUT / _ALPHA)), maximum(0, INPUT)),
        examples=(vectors("below_zero", {"Alpha": 2}, {"InputTensor": [-2, 0, 3]}, [-1.2642411, 0, 3]),),
    ),
    unary(
        "ACTIVATION_SOFTPLUS",
        below(FeatureLevel.V6_4, at_least(1, "Steepness")),
        formula=_softplus(_STEEPNESS * INPUT) / _STEEPNESS,
        examples=(vectors("a_smooth_relu", {"Steepness": 2}, {"InputTensor": [0, 1]}, [0.3465736, 1.063464]),),
    ),
    declare(
        "ACTIVATION_PARAMETERIZED_RELU",
        rules=alike("InputTensor", "SlopeTensor"),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
        formula=select(INPUT >= 0, INPUT, _SLOPE * INPUT),
        examples=(
            vectors("a_slope_each", {}, {"InputTensor": [-1, -2, 3], "SlopeTensor": [0.5, 2, 5]}, [-0.5, -4, 3]),
        ),
    ),
    gradient(
        "ACTIVATION_RELU_GRAD",
        formula=select(INPUT > 0, _GRADIENT, 0),
        examples=(
            vectors(
                "above_zero",
                {},
                {"InputTensor": [-1, 0, 2], "InputGradientTensor": [5, 6, 7]},
                [0, 0, 7],
                into="OutputGradientTensor",
            ),
        ),
    ),
)
