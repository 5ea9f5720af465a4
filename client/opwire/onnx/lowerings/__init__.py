"""How each operator of ONNX, and those of ONNX Runtime, become DirectML operators: one module a family."""

from ..lowering import LOWERINGS
from . import elementwise, products

__all__ = ["LOWERINGS", "elementwise", "products"]
