"""Reductions, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lowers

_FUNCTIONS = {
    "ReduceSum": "SUM",
    "ReduceMean": "AVERAGE",
    "ReduceProd": "MULTIPLY",
    "ReduceLogSum": "LOG_SUM",
    "ReduceLogSumExp": "LOG_SUM_EXP",
    "ReduceSumSquare": "SUM_SQUARE",
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceMax": "MAX",
    "ReduceMin": "MIN",
}


def _reduced(function: str, node: NodeLowering) -> GraphTensor:
    """Lowers a reduction of some axes, or of all, or of none, in which case its function still applies."""
    x, rank = node.lifted(0), max(node.rank(0), 1)
    added = len(x.sizes) - rank
    axes = sorted({added + node.axis(each, rank) for each in _axes(node, rank)})
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.sizes)]
    made = node.emit("REDUCE", Function=function, InputTensor=x, OutputTensor=node.desc(x.data_type, sizes), Axes=axes)
    kept = [size for axis, size in enumerate(sizes[added:], added) if node.attribute("keepdims", 1) or axis not in axes]
    return made.reshape(kept or (1,))


def _axes(node: NodeLowering, rank: int) -> Sequence[int]:
    """Returns the axes that are reduced: an attribute or, in later versions, an input."""
    given = node.integers(1) if node.has(1) else node.attribute("axes")
    if given:
        return list(given)
    return () if node.attribute("noop_with_empty_axes") else range(rank)


for _name, _function in _FUNCTIONS.items():
    lowers(_name)(partial(_reduced, _function))


def _extreme(operator: str, node: NodeLowering) -> GraphTensor:
    """Lowers the position of an extreme along an axis: the first of equals or, by an attribute, the last."""
    x, rank = node.lifted(0), max(node.rank(0), 1)
    axis = len(x.sizes) - rank + node.axis(node.attribute("axis", 0), rank)
    sizes = [*x.sizes[:axis], 1, *x.sizes[axis + 1 :]]
    made = node.emit(
        operator,
        InputTensor=x,
        OutputTensor=node.desc(DataType.INT64, sizes),
        Axes=[axis],
        AxisDirection="DECREASING" if node.attribute("select_last_index") else "INCREASING",
    )
    kept = sizes if node.attribute("keepdims", 1) else [*sizes[:axis], *sizes[axis + 1 :]]
    return made.reshape(kept[len(x.sizes) - rank :] or (1,))


lowers("ArgMax")(partial(_extreme, "ARGMAX"))
lowers("ArgMin")(partial(_extreme, "ARGMIN"))


def _running(operator: str, exclusive: str, node: NodeLowering) -> GraphTensor:
    """Lowers a running sum or product along a constant axis."""
    x, rank = node.lifted(0), max(node.rank(0), 1)
    axes = node.integers(1)
    if len(axes) != 1:
        raise NotLowered(f"it has the axes {axes} instead of one")
    members = {
        "Axis": len(x.sizes) - rank + node.axis(axes[0], rank),
        "AxisDirection": "DECREASING" if node.attribute("reverse") else "INCREASING",
        exclusive: bool(node.attribute("exclusive")),
    }
    return node.emit(operator, InputTensor=x, **members)


lowers("CumSum")(partial(_running, "CUMULATIVE_SUMMATION", "HasExclusiveSum"))
lowers("CumProd")(partial(_running, "CUMULATIVE_PRODUCT", "HasExclusiveProduct"))
