"""How each operator of ONNX, and those of ONNX Runtime, become DirectML operators: one module a family."""

from ..lowering import LOWERINGS
from . import (
    convolution,
    elementwise,
    pooling,
    products,
    regions,
)

__all__ = [
    "LOWERINGS",
    "convolution",
    "elementwise",
    "pooling",
    "products",
    "regions",
]
