"""Operators that read or write elements by index, and those that return indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import Array, DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers

_INDEX_TYPES = (DataType.INT32, DataType.INT64)


def _indices(node: NodeLowering, i: int, sizes: Sequence[int]) -> GraphTensor:
    """Returns indices: constant ones in 32 bits without sign, which lower levels take, counted from the start.

    Args:
        node: the node.
        i: the input that has them.
        sizes: the sizes of the dimensions that they belong to: one, or as many as the last dimension has elements.
    """
    if node.is_constant(i):
        array = node.constant(i)
        counted = np.where(array < 0, array + np.asarray(sizes), array).astype("u4")
        return node.graph.constant(counted.reshape(array.shape or (1,)))
    return node.tensor(i)


def _same_rank(*tensors: GraphTensor, least: int = 4) -> list[GraphTensor]:
    """Returns views of the tensors that all have the largest rank among them."""
    rank = max(least, *(len(tensor.sizes) for tensor in tensors))
    return [lifted(tensor, rank) for tensor in tensors]


def _padded(sizes: Sequence[int], rank: int) -> list[int]:
    return [1] * (rank - len(sizes)) + list(sizes)


@lowers("Gather")
def gather(node: NodeLowering) -> GraphTensor:
    """Lowers the selection of slices along an axis."""
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", 0), len(sizes))
    return _gathered(node, node.tensor(0), axis, _indices(node, 1, [sizes[axis]]), node.sizes(1))


def _gathered(
    node: NodeLowering, data: GraphTensor, axis: int, indices: GraphTensor, index_sizes: Sequence[int]
) -> GraphTensor:
    """Adds the selection of slices along an axis.

    Args:
        node: the node.
        data: the tensor that is selected from.
        axis: the axis, counted from the first.
        indices: the indices.
        index_sizes: their sizes, () for a scalar.
    """
    made = [*data.sizes[:axis], *index_sizes, *data.sizes[axis + 1 :]]
    x, at = _same_rank(data, indices, least=max(len(made), 4))
    rank = len(x.sizes)
    return node.emit(
        "GATHER",
        InputTensor=x,
        IndicesTensor=at,
        OutputTensor=node.desc(x.data_type, _padded(made, rank)),
        Axis=rank - len(data.sizes) + axis,
        IndexDimensions=len(index_sizes),
    ).reshape(made or (1,))


@lowers("Compress")
def compress(node: NodeLowering) -> GraphTensor:
    """Lowers the selection of slices, or of elements, for which a constant condition is true."""
    given = node.attribute("axis")
    x = node.tensor(0).reshape(-1) if given is None else node.tensor(0)
    axis = 0 if given is None else node.axis(given, len(x.sizes))
    chosen = np.flatnonzero(node.constant(1).reshape(-1)[: x.sizes[axis]]).astype("u4")
    if not chosen.size:
        raise NotLowered("it selects nothing, and DirectML has no tensors without elements")
    return _gathered(node, x, axis, node.graph.constant(chosen), chosen.shape)


@lowers("GatherElements")
def gather_elements(node: NodeLowering) -> GraphTensor:
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", 0), len(sizes))
    data, indices = _same_rank(_cut(node, axis), _indices(node, 1, [sizes[axis]]))
    made = node.emit(
        "GATHER_ELEMENTS", InputTensor=data, IndicesTensor=indices, Axis=len(data.sizes) - len(sizes) + axis
    )
    return made.reshape(node.sizes(1))


def _cut(node: NodeLowering, axis: int) -> GraphTensor:
    """Returns a view of the tensor with the sizes of the indices, which may be smaller, except along the axis."""
    x, wanted = node.tensor(0), node.sizes(1)
    sizes = [size if at == axis else min(size, wanted[at]) for at, size in enumerate(x.sizes)]
    return x.with_strides(sizes, x.desc.element_strides)


@lowers("GatherND")
def gather_nd(node: NodeLowering) -> GraphTensor:
    sizes, given, batch = node.sizes(0), node.sizes(1), node.attribute("batch_dims", 0)
    made = [*given[:-1], *sizes[batch + given[-1] :]]
    indices = _indices(node, 1, sizes[batch : batch + given[-1]])
    data, indices = _same_rank(node.tensor(0), indices, least=max(len(made), 4))
    members = {
        "InputTensor": data,
        "IndicesTensor": indices,
        "OutputTensor": node.desc(data.data_type, _padded(made, len(data.sizes))),
        "InputDimensionCount": len(sizes),
        "IndicesDimensionCount": len(given),
    }
    batched = ("GATHER_ND1", {**members, "BatchDimensionCount": batch})
    result = node.emit_lowest(batched) if batch else node.emit_lowest(("GATHER_ND", members), batched)
    return result.reshape(made or (1,))


_REDUCTIONS = {
    "none": None,
    "add": "ELEMENT_WISE_ADD",
    "mul": "ELEMENT_WISE_MULTIPLY",
    "max": "ELEMENT_WISE_MAX",
    "min": "ELEMENT_WISE_MIN",
}


_MOST_UPDATES = 64
"""The most updates of one element that are combined: each is an operator."""


@lowers("Scatter", "ScatterElements")
def scatter_elements(node: NodeLowering) -> GraphTensor:
    """Lowers updates of single elements, which replace them or are combined with them."""
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", 0), len(sizes))
    if _has_no_indices(node):
        return node.tensor(0)
    if node.attribute("reduction", "none") != "none" or (node.is_constant(1) and not _fits(node, axis)):
        return _combined(node, _element_positions(_constant_indices(node), axis, sizes), 1)
    data, indices, updates = _same_rank(node.tensor(0), _indices(node, 1, [sizes[axis]]), node.tensor(2))
    at = len(data.sizes) - len(sizes) + axis
    members = {"InputTensor": data, "IndicesTensor": indices, "UpdatesTensor": updates, "Axis": at}
    return node.emit("SCATTER_ELEMENTS", **members).reshape(sizes)


@lowers("ScatterND")
def scatter_nd(node: NodeLowering) -> GraphTensor:
    """Lowers updates of elements or slices, which replace them or are combined with them."""
    sizes = node.sizes(0)
    if _has_no_indices(node):
        return node.tensor(0)
    given = node.sizes(1)
    indexed = sizes[: given[-1]]
    if node.attribute("reduction", "none") != "none":
        places = np.moveaxis(_constant_indices(node) % np.asarray(indexed), -1, 0)
        return _combined(node, np.ravel_multi_index(tuple(places), indexed).reshape(-1), prod(sizes[given[-1] :]))
    data, indices, updates = _same_rank(node.tensor(0), _indices(node, 1, indexed), node.tensor(2))
    return _scattered(node, data, indices, updates, (len(sizes), len(given))).reshape(sizes)


def _scattered(
    node: NodeLowering, data: GraphTensor, indices: GraphTensor, updates: GraphTensor, counts: tuple[int, int]
) -> GraphTensor:
    return node.emit(
        "SCATTER_ND",
        InputTensor=data,
        IndicesTensor=indices,
        UpdatesTensor=updates,
        InputDimensionCount=counts[0],
        IndicesDimensionCount=counts[1],
    )


def _element_positions(indices: Array, axis: int, sizes: Sequence[int]) -> Array:
    """Returns the position in the whole tensor of the element that each index along an axis means."""
    places = np.indices(indices.shape)
    places[axis] = indices % sizes[axis]
    positions: Array = np.asarray(np.ravel_multi_index(tuple(places), tuple(sizes)))
    return positions.reshape(-1)


def _fits(node: NodeLowering, axis: int) -> bool:
    """Returns whether SCATTER_ELEMENTS takes the indices: of the sizes of the tensor, or fewer along the axis."""
    pairs = enumerate(zip(node.sizes(1), node.sizes(0), strict=True))
    return all(given <= size if at == axis else given == size for at, (given, size) in pairs)


def _has_no_indices(node: NodeLowering) -> bool:
    return 0 in (node.value(1).sizes or ())


def _constant_indices(node: NodeLowering) -> Array:
    if not node.is_constant(1):
        raise NotLowered(f"its reduction is {node.attribute('reduction')}, and its indices are not constant")
    return node.constant(1)


def _combined(node: NodeLowering, positions: Array, length: int) -> GraphTensor:
    """Combines rows of a tensor with updates, or replaces them. DirectML only replaces, so others are gathered before.

    Args:
        node: the node, whose inputs are the tensor, indices, and updates.
        positions: the row that each update belongs to.
        length: the number of elements of a row.
    """
    operator = _REDUCTIONS[node.attribute("reduction", "none")]
    rows, updates = node.tensor(0).reshape(1, 1, -1, length), node.tensor(2).reshape(1, 1, -1, length)
    for taken in _rounds(positions):
        chosen = updates if len(taken) == len(positions) else _rows(node, updates, taken)
        if operator:
            chosen = node.emit(operator, ATensor=_rows(node, rows, positions[taken]), BTensor=chosen)
        at = node.graph.constant(positions[taken].astype("u4").reshape(1, 1, -1, 1))
        rows = _scattered(node, rows, at, chosen, (2, 2))
    return rows.reshape(node.sizes(0))


def _rounds(positions: Array) -> list[Array]:
    """Returns the updates of each round, in which no row is updated twice."""
    seen: dict[int, int] = {}
    rounds: list[list[int]] = []
    for number, position in enumerate(positions.tolist()):
        at = seen[position] = seen.get(position, -1) + 1
        if at == _MOST_UPDATES:
            raise NotLowered(f"it combines more than {_MOST_UPDATES} updates of one element")
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(number)
    return [np.asarray(each) for each in rounds]


def _rows(node: NodeLowering, rows: GraphTensor, numbers: Array) -> GraphTensor:
    return _gathered(node, rows, 2, node.graph.constant(numbers.astype("u4")), numbers.shape)


@lowers("OneHot")
def one_hot(node: NodeLowering) -> GraphTensor:
    """Lowers rows with one element that is on. Indices of types that DirectML lacks are cast."""
    depth, rank = int(node.constant(1).reshape(-1)[0]), node.rank(0) + 1
    if depth < 1:
        raise NotLowered(f"its depth is {depth}, and DirectML has no tensors without elements")
    axis = node.axis(node.attribute("axis", -1), rank)
    indices, values = _hot(node, depth), node.tensor(2)
    given = node.sizes(0)
    sizes = [*given[:axis], depth, *given[axis:]]
    one = lifted(indices.reshape([*given[:axis], 1, *given[axis:]]), 4)
    made = node.emit(
        "ONE_HOT",
        IndicesTensor=one,
        ValuesTensor=lifted(values, len(one.sizes)),
        OutputTensor=node.desc(values.data_type, _padded(sizes, len(one.sizes))),
        Axis=len(one.sizes) - rank + axis,
    )
    return made.reshape(sizes)


def _hot(node: NodeLowering, depth: int) -> GraphTensor:
    if node.data_type(0) in _INDEX_TYPES:
        return _indices(node, 0, [depth])
    return node.cast(node.lifted(0), DataType.INT32)


@lowers("NonZero", "Unique")
def selected(node: NodeLowering) -> GraphTensor:
    """Keeps the node on the CPU.

    Raises:
        NotLowered: always.
    """
    raise NotLowered("the sizes of its output depend on elements, and those of a graph of DirectML do not")


@lowers("TopK")
def top_k(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers the greatest or least elements along an axis, in order, and their indices.

    Indices of 64 bits need a higher level than a cast of those of 32 bits.
    """
    x, rank = node.lifted(0), max(node.rank(0), 1)
    added = len(x.sizes) - rank
    axis = added + node.axis(node.attribute("axis", -1), rank)
    k = node.integers(1)[0] if node.has(1) else node.attribute("k")
    if k < 1:
        raise NotLowered(f"its k is {k}, and DirectML has no tensors without elements")
    sizes = [*x.sizes[:axis], k, *x.sizes[axis + 1 :]]
    members = {"InputTensor": x, "OutputValueTensor": node.desc(x.data_type, sizes), "Axis": axis, "K": k}
    members["OutputIndexTensor"] = node.desc(DataType.UINT32, sizes)
    if node.attribute("largest", 1):
        typed = ("TOP_K1", {**members, "AxisDirection": "DECREASING"})
        made = node.emit_lowest(("TOP_K", members), typed)
    else:
        made = node.emit("TOP_K1", **members, AxisDirection="INCREASING")
    positions = node.cast(made["OutputIndexTensor"], DataType.INT64) if node.wants(1) else None
    return [made.reshape(sizes[added:]), None if positions is None else positions.reshape(sizes[added:])]
