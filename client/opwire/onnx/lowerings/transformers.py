"""Operators of ONNX Runtime for transformers, without attention itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, prod, sqrt

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import MICROSOFT, NodeLowering, broadcast, lifted, lowers, relabelled, spread
from .normalization import normalized, root_mean_square, scaled
from .products import matrices


def added(node: NodeLowering, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """Returns a + b, broadcast, with the sizes of the larger rank."""
    rank = max(len(a.sizes), len(b.sizes))
    a, b = broadcast([a, b])
    total = node.emit("ELEMENT_WISE_ADD", ATensor=a, BTensor=b)
    return total.reshape(total.sizes[len(total.sizes) - rank :])


def multiplied(node: NodeLowering, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """Returns a b of the same sizes."""
    return node.emit("ELEMENT_WISE_MULTIPLY", ATensor=a, BTensor=b)


def parts(node: NodeLowering, x: GraphTensor, axis: int, sizes: Sequence[int]) -> list[GraphTensor]:
    """Returns the parts of a tensor along an axis."""
    if len(sizes) == 1:
        return [x]
    wide = lifted(x, 4)
    more = len(wide.sizes) - len(x.sizes)
    shapes = [[*x.sizes[:axis], size, *x.sizes[axis + 1 :]] for size in sizes]
    descs = [node.desc(x.data_type, [1] * more + shape) for shape in shapes]
    made = node.emit("SPLIT", InputTensor=wide, OutputTensors=descs, Axis=axis + more)
    return [made[f"OutputTensors[{i}]"].reshape(shape) for i, shape in enumerate(shapes)]


def joined(node: NodeLowering, tensors: Sequence[GraphTensor], axis: int) -> GraphTensor:
    """Returns tensors joined along an axis."""
    if len(tensors) == 1:
        return tensors[0]
    first = tensors[0]
    more = max(4 - len(first.sizes), 0)
    sizes = [*first.sizes[:axis], sum(each.sizes[axis] for each in tensors), *first.sizes[axis + 1 :]]
    output = node.desc(first.data_type, [1] * more + sizes)
    wide = [lifted(each, 4) for each in tensors]
    return node.emit("JOIN", InputTensors=wide, OutputTensor=output, Axis=axis + more).reshape(sizes)


def _with_bias(node: NodeLowering) -> GraphTensor:
    """Returns the first input plus the second, if that is given."""
    return added(node, node.tensor(0), node.tensor(1)) if node.has(1) else node.tensor(0)


@lowers("Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(node: NodeLowering) -> GraphTensor:
    x = _with_bias(node)
    return node.emit("ACTIVATION_GELU", InputTensor=lifted(x, 4)).reshape(x.sizes)


@lowers("FastGelu", domain=MICROSOFT)
def fast_gelu(node: NodeLowering) -> GraphTensor:
    """Lowers x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) as x sigmoid((a + b x^2) x), which means the same."""
    x = _with_bias(node)
    wide = lifted(x, 4)
    factor = 2 * sqrt(2 / pi)
    slope = scaled(node, multiplied(node, wide, wide), 0.044715 * factor, factor)
    gate = node.emit("ACTIVATION_SIGMOID", InputTensor=multiplied(node, slope, wide))
    return multiplied(node, wide, gate).reshape(x.sizes)


@lowers("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: NodeLowering) -> GraphTensor:
    """Lowers x sigmoid(alpha x)."""
    x, alpha = node.lifted(0), float(node.attribute("alpha", 1.702))
    gate = node.emit("ACTIVATION_SIGMOID", InputTensor=x if alpha == 1 else scaled(node, x, alpha))
    return multiplied(node, x, gate).reshape(node.tensor(0).sizes)


@lowers("BiasAdd", domain=MICROSOFT)
def bias_add(node: NodeLowering) -> GraphTensor:
    return added(node, _with_bias(node), node.tensor(2))


@lowers("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: NodeLowering) -> GraphTensor:
    """Lowers the product of the first half of the last dimension and the GELU of the second."""
    x = _with_bias(node)
    wide, half = lifted(x, 4), x.sizes[-1] // 2
    first, second = parts(node, wide, len(wide.sizes) - 1, (half, half))
    return multiplied(node, first, node.emit("ACTIVATION_GELU", InputTensor=second)).reshape(*x.sizes[:-1], half)


def product_of(node: NodeLowering) -> GraphTensor:
    """Returns alpha A B, with matrices transposed."""
    a, b = _operand(node, 0, "A"), _operand(node, 1, "B")
    trans_a, trans_b = (
        len(x.sizes) > 1 and bool(node.attribute(name, 0)) for x, name in ((a, "transA"), (b, "transB"))
    )
    stacked_a, stacked_b = matrices(a, b)
    found = node.emit(
        "GEMM",
        ATensor=stacked_a,
        BTensor=stacked_b,
        TransA="TRANSPOSE" if trans_a else "NONE",
        TransB="TRANSPOSE" if trans_b else "NONE",
        Alpha=float(node.attribute("alpha", 1.0)),
        Beta=0.0,
    )
    batch = np.broadcast_shapes(a.sizes[:-2], b.sizes[:-2])
    rows = found.sizes[2:3] if len(a.sizes) > 1 else ()
    columns = found.sizes[3:] if len(b.sizes) > 1 else ()
    return found.reshape((*batch, *rows, *columns) or (1,))


lowers("FusedMatMul", domain=MICROSOFT)(product_of)


def _operand(node: NodeLowering, i: int, name: str) -> GraphTensor:
    """Returns an operand as a stack of matrices, whose rows may come before the batch."""
    x = node.tensor(i)
    rank = len(x.sizes)
    if rank > 1 and node.attribute(f"transBatch{name}", 0):
        return x.transpose(*range(1, rank - 1), 0, rank - 1)
    return x


def _normalized_last(
    node: NodeLowering, x: GraphTensor, gamma: GraphTensor, beta: GraphTensor | None, *, is_simplified: bool = False
) -> GraphTensor:
    """Returns a tensor normalized along its last dimension."""
    count = x.sizes[-1]
    rows, scale = x.reshape(-1, 1, 1, count), gamma.reshape(1, 1, 1, count)
    epsilon = float(node.attribute("epsilon", 1e-12))
    if is_simplified:
        return root_mean_square(node, rows, scale, epsilon).reshape(x.sizes)
    return normalized(node, rows, scale, None if beta is None else beta.reshape(1, 1, 1, count), epsilon).reshape(
        x.sizes
    )


@lowers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers the normalization of input + skip + bias; the last output is this sum."""
    if node.wants(1) or node.wants(2):
        raise NotLowered("its mean or deviation is an output")
    is_simplified = node.operator == "SkipSimplifiedLayerNormalization"
    total, bias = added(node, node.tensor(0), node.tensor(1)), node.optional(3 if is_simplified else 4)
    total = total if bias is None else added(node, total, bias)
    beta = None if is_simplified else node.optional(3)
    return [_normalized_last(node, total, node.tensor(2), beta, is_simplified=is_simplified), None, None, total]


@lowers("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: NodeLowering) -> GraphTensor:
    """Lowers a normalization by the root mean square of the last dimensions."""
    if node.wants(1):
        raise NotLowered("its deviation is an output")
    x = node.tensor(0)
    count = prod(x.sizes[node.axis(node.attribute("axis", -1), len(x.sizes)) :])
    rows, scale = x.reshape(-1, 1, 1, count), node.tensor(1).reshape(1, 1, 1, count)
    return root_mean_square(node, rows, scale, float(node.attribute("epsilon", 1e-5))).reshape(x.sizes)


@lowers("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers the normalized sum of the embeddings of words, positions and segments, and the lengths of sequences."""
    batch, length = node.sizes(0)
    total = rows_of(node, node.tensor(2), node.tensor(0))
    if node.has(8):
        ids = node.tensor(8)
        ids = spread(ids, (batch, length)) if ids.sizes[0] != batch else ids
        positions = rows_of(node, node.tensor(3), ids)
    else:
        table = node.tensor(3)
        positions = table.with_strides((batch, length, table.sizes[1]), (0, table.sizes[1], 1))
    total = added(node, total, positions)
    if node.has(1):
        total = added(node, total, rows_of(node, node.tensor(4), node.tensor(1)))
    y = _normalized_last(node, total, node.tensor(5), node.tensor(6))
    return [y, _lengths(node, batch) if node.wants(1) else None, total]


def _lengths(node: NodeLowering, batch: int) -> GraphTensor:
    """Returns how often the mask is 1, for each sequence; 0 without a mask."""
    if not node.has(7):
        return node.filled(0, DataType.INT32, (batch,))
    mask = node.lifted(7)
    booleans = node.desc(DataType.UINT8, mask.sizes)
    one = node.filled(1, mask.data_type, mask.sizes)
    found = node.emit("ELEMENT_WISE_LOGICAL_EQUALS", ATensor=mask, BTensor=one, OutputTensor=booleans)
    counted = node.cast(found, DataType.INT32)
    output = node.desc(DataType.INT32, (*mask.sizes[:3], 1))
    return node.emit("REDUCE", Function="SUM", InputTensor=counted, OutputTensor=output, Axes=[3]).reshape(batch)


def rows_of(node: NodeLowering, table: GraphTensor, ids: GraphTensor) -> GraphTensor:
    """Returns the rows of a table that indices of rank 2 name. None are negative; lower levels take them so."""
    ids = relabelled(ids, DataType.UINT32) if ids.data_type is DataType.INT32 else ids
    sizes = (1, *ids.sizes, table.sizes[1])
    return node.emit(
        "GATHER",
        InputTensor=lifted(table, 4),
        IndicesTensor=lifted(ids, 4),
        OutputTensor=node.desc(table.data_type, sizes),
        Axis=2,
        IndexDimensions=2,
    ).reshape(sizes[1:])


@lowers("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: NodeLowering) -> GraphTensor:
    """Lowers a rotation of pairs of elements, by angles that depend on the position."""
    if node.attribute("is_packed_batching", 0) or float(node.attribute("scale", 1.0)) != 1:
        raise NotLowered("it has packed sequences, or a scale")
    x, cos, sin = node.tensor(0), node.tensor(2), node.tensor(3)
    width, heads = int(node.attribute("rotary_embedding_dim", 0)), int(node.attribute("num_heads", 0))
    if len(x.sizes) == 4:
        laid_out = x.transpose(0, 2, 1, 3)
    else:
        heads = x.sizes[2] // (2 * cos.sizes[1]) if not width else heads
        laid_out = x.reshape(*x.sizes[:2], heads, x.sizes[2] // heads)
    batch, length = laid_out.sizes[:2]
    ids = _positions(node, batch, length)
    found = rotated(
        node, laid_out, rows_of(node, cos, ids), rows_of(node, sin, ids), bool(node.attribute("interleaved", 0))
    )
    return found.transpose(0, 2, 1, 3) if len(x.sizes) == 4 else found.reshape(x.sizes)


def _positions(node: NodeLowering, batch: int, length: int) -> GraphTensor:
    """Returns the position of each element of the sequences, which is given or counted from an offset."""
    given = node.tensor(1)
    if given.desc.element_count != 1 or batch * length == 1:
        return given.reshape(batch, length)
    counted = np.arange(length, dtype=given.data_type.dtype).reshape(1, length)
    if node.is_constant(1):
        return spread(node.graph.constant((counted + node.integers(1)[0]).astype("u4")), (batch, length))
    return added(node, spread(node.graph.constant(counted), (batch, length)), given.reshape(1, 1))


def rotated(
    node: NodeLowering, x: GraphTensor, cos: GraphTensor, sin: GraphTensor, is_interleaved: bool
) -> GraphTensor:
    """Returns [batch, length, heads, size] with pairs of elements rotated: neighbours, or those of two halves.

    Args:
        node: the node.
        x: the tensor.
        cos, sin: those of the angles, [batch, length, pairs]; elements beyond two for each pair stay.
        is_interleaved: whether neighbours are pairs.
    """
    batch, length, heads, size = x.sizes
    pairs = cos.sizes[2]
    turned, *rest = parts(node, x, 3, (2 * pairs, size - 2 * pairs) if size > 2 * pairs else (size,))
    shape = (batch * length, heads, pairs, 2) if is_interleaved else (batch * length, heads, 2, pairs)
    axis = 3 if is_interleaved else 2
    one, other = (each.reshape(-1, heads, pairs, 1) for each in parts(node, turned.reshape(shape), axis, (1, 1)))
    cos, sin = (spread(each.reshape(-1, 1, pairs, 1), one.sizes) for each in (cos, sin))
    real = node.emit("ELEMENT_WISE_SUBTRACT", ATensor=multiplied(node, one, cos), BTensor=multiplied(node, other, sin))
    imaginary = added(node, multiplied(node, other, cos), multiplied(node, one, sin))
    if is_interleaved:
        made = joined(node, [real, imaginary], 3)
    else:
        made = joined(node, [each.reshape(-1, heads, 1, pairs) for each in (real, imaginary)], 2)
    return joined(node, [made.reshape(batch, length, heads, 2 * pairs), *rest], 3)
