"""How each operator of ONNX, and those of ONNX Runtime, become DirectML operators: one module a family."""

from ..lowering import LOWERINGS
from . import (
    activations,
    casts,
    constants,
    convolution,
    einsum,
    elementwise,
    indexing,
    movement,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    regions,
    shapes,
    softmaxes,
)

__all__ = [
    "LOWERINGS",
    "activations",
    "casts",
    "constants",
    "convolution",
    "einsum",
    "elementwise",
    "indexing",
    "movement",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "recurrent",
    "reductions",
    "regions",
    "shapes",
    "softmaxes",
]
