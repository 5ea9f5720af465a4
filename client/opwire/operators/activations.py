"""Activations that work on each element alone; many of them may be fused into other operators.

Source: the pages of the ``DML_ACTIVATION_..._OPERATOR_DESC`` structs.
"""

from __future__ import annotations

from ..level import FeatureLevel
from ..operator import declare
from ..rules import at_least, below, from_level, like, nonzero
from .elementwise import alike, gradient, unary, vectors
from .work import elements_written

_PLAIN = """
    ELU HARD_SIGMOID IDENTITY LEAKY_RELU LINEAR PARAMETRIC_SOFTPLUS RELU SCALED_ELU SCALED_TANH SIGMOID SOFTSIGN
    TANH THRESHOLDED_RELU SHRINK GELU SWISH HARD_SWISH
"""

_EXAMPLES = {
    "RELU": (vectors("never_negative", {}, {"InputTensor": [-1, 0, 2]}, [0, 0, 2]),),
    "LEAKY_RELU": (vectors("a_tenth", {"Alpha": 0.5}, {"InputTensor": [-1, 2]}, [-0.5, 2]),),
    "LINEAR": (vectors("a_line", {"Alpha": 2, "Beta": 1}, {"InputTensor": [-1, 2]}, [-1, 5]),),
}

FAMILY = (
    *(unary(f"ACTIVATION_{name}", examples=_EXAMPLES.get(name, ())) for name in _PLAIN.split()),
    unary("ACTIVATION_CELU", nonzero("Alpha")),
    unary(
        "ACTIVATION_SOFTPLUS",
        below(FeatureLevel.V6_4, at_least(1, "Steepness")),
        from_level(FeatureLevel.V6_4, nonzero("Steepness")),
    ),
    declare(
        "ACTIVATION_PARAMETERIZED_RELU",
        rules=alike("InputTensor", "SlopeTensor"),
        outputs={"OutputTensor": like("InputTensor")},
        work=elements_written,
    ),
    gradient("ACTIVATION_RELU_GRAD"),
)
