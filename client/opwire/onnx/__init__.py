"""ONNX models as DirectML operators: the feature level that a model needs, and its exact outputs.

>>> model = opwire.onnx.load("model.onnx", dimensions={"batch": 1})
>>> model.level
>>> model.run({"x": array})["y"]

Needs the ``onnx`` package: ``pip install opwire[onnx]``.
"""

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ImportError("opwire.onnx needs the package onnx: pip install 'opwire[onnx]'")

from .errors import ModelError, NotLowered
from .model import Model, load
from .provider import Emitted, Placement
from .report import LevelReport
from .uses import Node, Use

__all__ = ["Emitted", "LevelReport", "Model", "ModelError", "Node", "NotLowered", "Placement", "Use", "load"]
