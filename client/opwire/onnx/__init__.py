"""ONNX models as DirectML operators: the feature level that a model needs, and its exact outputs.

>>> model = opwire.onnx.load("model.onnx", dimensions={"batch": 1})
>>> model.level
>>> model.run({"x": array})["y"]

Needs the ``onnx`` package: ``pip install opwire[onnx]``.
"""

from .errors import ModelError, NotLowered
from .model import Model, Node, Use, load

__all__ = ["Model", "ModelError", "Node", "NotLowered", "Use", "load"]
