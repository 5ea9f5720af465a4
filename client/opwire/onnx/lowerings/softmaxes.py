"""Softmax, its logarithm, and the hard maximum."""

from __future__ import annotations

from functools import partial
from math import prod

from ...client.graph_tensors import GraphTensor
from ..lowering import NodeLowering, lowers
from .shapes import copied

_OPERATORS = {"Softmax": "ACTIVATION_SOFTMAX", "LogSoftmax": "ACTIVATION_LOG_SOFTMAX", "Hardmax": "ACTIVATION_HARDMAX"}
"""Operators that normalize the last dimension of a matrix. Those of any axes need a higher level."""


def _normalized(operator: str, node: NodeLowering) -> GraphTensor:
    """Lowers a normalization of one axis or, before opset 13, of all from one on: as rows of a matrix."""
    x, rank = node.tensor(0), max(node.rank(0), 1)
    if node.since < 13:
        given = node.attribute("axis", 1)
        axis = rank if given == rank else node.axis(given, rank)
        return _rows(operator, node, x, prod(x.sizes[axis:])).reshape(x.sizes)
    axis = node.axis(node.attribute("axis", -1), rank)
    if prod(x.sizes[axis + 1 :]) == 1:
        return _rows(operator, node, x, x.sizes[axis]).reshape(x.sizes)
    order = [*(each for each in range(rank) if each != axis), axis]
    moved = copied(node, x.transpose(order))
    made = _rows(operator, node, moved, x.sizes[axis]).reshape(moved.sizes)
    return made.transpose([order.index(each) for each in range(rank)])


def _rows(operator: str, node: NodeLowering, x: GraphTensor, length: int) -> GraphTensor:
    return node.emit(operator, InputTensor=x.reshape(1, 1, -1, length))


for _name, _operator in _OPERATORS.items():
    lowers(_name)(partial(_normalized, _operator))
