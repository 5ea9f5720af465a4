"""Operators that give a tensor other sizes, or put its elements in another order."""

from __future__ import annotations

from math import prod

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers, spread


@lowers("Identity")
def identity(node: NodeLowering) -> GraphTensor:
    return node.tensor(0)


@lowers("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def resized(node: NodeLowering) -> GraphTensor:
    """Returns a view with the sizes that the schema infers."""
    return node.tensor(0).reshape(node.output_sizes() or (1,))


@lowers("Dropout")
def dropout(node: NodeLowering) -> list[GraphTensor | None]:
    """Drops nothing: only training does, whose results are random."""
    is_training = node.has(2) and not (node.is_constant(2) and not node.constant(2).item())
    keeps_all = node.is_constant(1) and not node.constant(1).item()
    if is_training and not keeps_all:
        raise NotLowered("it may train, and drop elements at random")
    x = node.tensor(0)
    return [x, _ones(node, x) if node.wants(1) else None]


def _ones(node: NodeLowering, x: GraphTensor) -> GraphTensor:
    """Returns the mask of elements that are kept: booleans or, before opset 10, of the type of the tensor."""
    kept = x.data_type if node.since < 10 else DataType.UINT8
    desc = node.desc(kept, lifted(x, 4).sizes)
    return node.emit("FILL_VALUE_CONSTANT", OutputTensor=desc, ValueDataType=kept.name, Value=1)


def copied(node: NodeLowering, view: GraphTensor) -> GraphTensor:
    """Adds a copy of a view, whose elements are contiguous."""
    x = lifted(view, 4)
    return node.emit("ELEMENT_WISE_IDENTITY", InputTensor=x, OutputTensor=node.desc(x.data_type, x.sizes)).reshape(
        view.sizes
    )


@lowers("Transpose")
def transpose(node: NodeLowering) -> GraphTensor:
    """Lowers a permutation of the axes, by default their reverse, as a copy of a view."""
    x = node.tensor(0)
    if node.rank(0) < 2:
        return x
    return copied(node, x.transpose(node.attribute("perm") or range(node.rank(0))[::-1]))


@lowers("Expand")
def expand(node: NodeLowering) -> GraphTensor:
    """Lowers a broadcast, which may also enlarge the given sizes, as a copy of a view that repeats elements."""
    x, given = node.tensor(0), tuple(node.integers(1))
    rank = max(len(given), len(x.sizes))
    pairs = zip(lifted(x, rank).sizes, (1,) * (rank - len(given)) + given, strict=True)
    sizes = tuple(b if a == 1 else a for a, b in pairs)
    if 0 in sizes:
        raise NotLowered(f"its output has the sizes {list(sizes)}, and DirectML has no tensors without elements")
    return x.reshape(sizes) if prod(sizes) == prod(x.sizes) else copied(node, spread(x, sizes))


@lowers("Tile")
def tile(node: NodeLowering) -> GraphTensor:
    x, repeats = node.lifted(0), node.integers(1)
    if 0 in repeats:
        raise NotLowered(f"it repeats {repeats} times, and DirectML has no tensors without elements")
    return node.emit("TILE", InputTensor=x, Repeats=[1] * (len(x.sizes) - len(repeats)) + repeats)


@lowers("Concat")
def concat(node: NodeLowering) -> GraphTensor:
    """Joins tensors along an axis; those without elements are left out."""
    filled = [i for i in range(node.input_count) if 0 not in (node.value(i).sizes or ())]
    if not filled:
        raise NotLowered("none of its inputs has elements, and DirectML has no tensors without")
    rank = node.rank(filled[0])
    tensors = [node.lifted(i) for i in filled]
    if len(tensors) == 1:
        return node.tensor(filled[0])
    axis = len(tensors[0].sizes) - rank + node.axis(node.attribute("axis", 1), rank)
    total = sum(tensor.sizes[axis] for tensor in tensors)
    sizes = [*tensors[0].sizes[:axis], total, *tensors[0].sizes[axis + 1 :]]
    made = node.emit("JOIN", InputTensors=tensors, OutputTensor=node.desc(tensors[0].data_type, sizes), Axis=axis)
    return made.reshape(sizes[len(sizes) - rank :])


@lowers("Split")
def split(node: NodeLowering) -> list[GraphTensor | None]:
    """Splits a tensor along an axis, into given parts or equal ones, of which the last may be smaller or empty."""
    x, rank = node.lifted(0), node.rank(0)
    axis = len(x.sizes) - rank + node.axis(node.attribute("axis", 0), rank)
    parts = _parts(node, x.sizes[axis])
    filled = [part for part in parts if part > 0]
    if sum(parts) != x.sizes[axis] or min(parts) < 0:
        raise NotLowered(f"it splits {x.sizes[axis]} elements into {parts}")
    if len(filled) == 1:
        return [node.tensor(0) if part else None for part in parts]
    descs = [node.desc(x.data_type, [*x.sizes[:axis], part, *x.sizes[axis + 1 :]]) for part in filled]
    made = node.emit("SPLIT", InputTensor=x, OutputTensors=descs, Axis=axis)
    outputs = (_part(made, i, len(x.sizes) - rank) for i in range(len(filled)))
    return [next(outputs) if part else None for part in parts]


def _part(made: GraphTensor, i: int, added: int) -> GraphTensor:
    part = made[f"OutputTensors[{i}]"]
    return part.reshape(part.sizes[added:])


def _parts(node: NodeLowering, size: int) -> list[int]:
    """Returns the sizes of the parts along the axis."""
    given = node.integers(1) if node.has(1) else node.attribute("split")
    if given:
        return list(given)
    count = node.attribute("num_outputs") or len(node.node.outputs)
    each = -(-size // count)
    return [max(min(each, size - start), 0) for start in range(0, each * count, each)]


@lowers("SpaceToDepth")
def space_to_depth(node: NodeLowering) -> GraphTensor:
    return _blocks(node, "SPACE_TO_DEPTH")


@lowers("DepthToSpace")
def depth_to_space(node: NodeLowering) -> GraphTensor:
    return _blocks(node, "DEPTH_TO_SPACE")


def _blocks(node: NodeLowering, operator: str) -> GraphTensor:
    """Lowers both orders of the depth: DCR, which the first operator of the name has, and CRD."""
    members = {"InputTensor": node.tensor(0), "BlockSize": node.attribute("blocksize")}
    if node.attribute("mode", "DCR") == "DCR":
        return node.emit(operator, **members)
    return node.emit(f"{operator}1", **members, Order="COLUMN_ROW_DEPTH")
