"""Attention as ONNX Runtime defines it: products and a softmax, which lower levels have than MULTIHEAD_ATTENTION.

Queries, keys and values are [batch, heads, length, size] here. Masks are biases of [batch, heads, queries, keys], or of
1 in place of these, which are added to the products of queries and keys.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import MICROSOFT, NodeLowering, broadcast, lifted, lowers, spread
from .shapes import copied
from .transformers import added, joined, multiplied, parts

_FILTER = -10000.0
"""What is added where a mask is 0, unless the node says otherwise."""


def attended(
    node: NodeLowering, q: GraphTensor, k: GraphTensor, v: GraphTensor, bias: GraphTensor | None
) -> GraphTensor:
    """Returns softmax(scale q k^T + bias) v."""
    batch, heads, queries, size = q.sizes
    scores = node.emit(
        "GEMM",
        ATensor=q,
        BTensor=k,
        CTensor=None if bias is None else spread(bias, (batch, heads, queries, k.sizes[2])),
        TransA="NONE",
        TransB="TRANSPOSE",
        Alpha=float(node.attribute("scale", 0.0)) or 1 / sqrt(size),
        Beta=0.0 if bias is None else 1.0,
    )
    weights = node.emit("ACTIVATION_SOFTMAX", InputTensor=scores.reshape(1, 1, -1, k.sizes[2])).reshape(scores.sizes)
    return node.emit("GEMM", ATensor=weights, BTensor=v, TransA="NONE", TransB="NONE", Alpha=1.0, Beta=0.0)


def by_head(x: GraphTensor, heads: int) -> GraphTensor:
    """Returns [batch, length, heads * size] as [batch, heads, length, size]."""
    return x.reshape(*x.sizes[:2], heads, x.sizes[2] // heads).transpose(0, 2, 1, 3)


def merged(node: NodeLowering, x: GraphTensor) -> GraphTensor:
    """Returns [batch, heads, length, size] as [batch, length, heads * size]."""
    batch, heads, length, size = x.sizes
    return copied(node, x.transpose(0, 2, 1, 3)).reshape(batch, length, heads * size)


def biases(node: NodeLowering, *given: GraphTensor | None) -> GraphTensor | None:
    """Returns the sum of the biases that are given."""
    total: GraphTensor | None = None
    for each in given:
        if each is not None:
            total = each if total is None else added(node, total, each)
    return total


def chosen(node: NodeLowering, condition: GraphTensor, data_type: DataType, other: float) -> GraphTensor:
    """Returns 0 where a condition is true, and another value elsewhere."""
    zero, value = (node.filled(each, data_type, condition.sizes) for each in (0.0, other))
    return node.emit("ELEMENT_WISE_IF", ConditionTensor=condition, ATensor=zero, BTensor=value)


def compared(node: NodeLowering, operator: str, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """Returns the truth of a comparison of tensors of rank 4, broadcast."""
    sizes = tuple(np.broadcast_shapes(a.sizes, b.sizes))
    booleans = node.desc(DataType.UINT8, sizes)
    return node.emit(operator, ATensor=spread(a, sizes), BTensor=spread(b, sizes), OutputTensor=booleans)


def numbered(node: NodeLowering, count: int, axis: int, first: int = 0) -> GraphTensor:
    """Returns consecutive numbers along an axis of rank 4."""
    sizes = [count if each == axis else 1 for each in range(4)]
    return node.graph.constant(np.arange(first, first + count, dtype=np.int32).reshape(sizes))


def causal(node: NodeLowering, data_type: DataType, queries: int, keys: int) -> GraphTensor:
    """Returns the bias that hides the keys that come after each query, of which the last are as many as queries."""
    return hidden_from(node, numbered(node, queries, 2, keys - queries + 1), keys, data_type)


def hidden_from(node: NodeLowering, ends: GraphTensor, keys: int, data_type: DataType) -> GraphTensor:
    """Returns the bias that hides keys from an end on, which each query has, along axis 2."""
    seen = compared(node, "ELEMENT_WISE_LOGICAL_GREATER_THAN", ends, numbered(node, keys, 3))
    return chosen(node, seen, data_type, lowest(data_type))


def lowest(data_type: DataType) -> float:
    """Returns the lowest value of a type, which hides what it is added to from a softmax."""
    return float(np.finfo(data_type.dtype).min)


def mask_bias(node: NodeLowering, i: int, data_type: DataType, queries: int, keys: int) -> GraphTensor | None:
    """Returns the bias of a mask: how many keys of each entry count, from where to where, or which do."""
    mask = node.optional(i)
    if mask is None:
        return None
    other = float(node.attribute("mask_filter_value", _FILTER))
    if len(mask.sizes) == 1:
        return _ends_bias(node, i, data_type, keys, other)
    past = keys - queries
    if len(mask.sizes) == 4:  # of the most queries and keys that there may be
        batch, _, rows, columns = mask.sizes
        kept = [size for size in (past, queries, rows - keys) if size]
        mask = parts(node, mask, 2, kept)[1 if past else 0]
        view = mask.with_strides((batch, 1, queries, keys), (queries * columns, queries * columns, columns, 1))
    else:
        view = mask.reshape(mask.sizes[0], 1, -1, mask.sizes[-1])
    zero = node.filled(0, mask.data_type, (1, 1, 1, 1))
    return chosen(node, compared(node, "ELEMENT_WISE_LOGICAL_GREATER_THAN", view, zero), data_type, other)


def _ends_bias(node: NodeLowering, i: int, data_type: DataType, keys: int, other: float) -> GraphTensor:
    mask, batch = node.tensor(i), node.sizes(0)[0]
    ends, *starts = parts(node, mask.reshape(1, 1, -1, batch), 2, (1,) * (mask.sizes[0] // batch))
    if mask.sizes[0] % batch or len(starts) > 1:
        raise NotLowered(f"its mask has {mask.sizes[0]} elements for {batch} entries")
    at = numbered(node, keys, 3)
    counted = compared(node, "ELEMENT_WISE_LOGICAL_GREATER_THAN", ends.reshape(batch, 1, 1, 1), at)
    found = chosen(node, counted, data_type, other)
    if not starts:
        return found
    early = compared(node, "ELEMENT_WISE_LOGICAL_LESS_THAN", at, starts[0].reshape(batch, 1, 1, 1))
    zero, value = (node.filled(each, data_type, early.sizes) for each in (0.0, other))
    hidden = node.emit("ELEMENT_WISE_IF", ConditionTensor=early, ATensor=value, BTensor=zero)
    return node.emit("ELEMENT_WISE_MIN", ATensor=found, BTensor=hidden)


def _require_plain(node: NodeLowering, *attributes: str) -> None:
    for name in attributes:
        if node.attribute(name, 0):
            raise NotLowered(f"its {name} is {node.attribute(name)}")


@lowers("Attention", domain=MICROSOFT)
def attention(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers attention of an input to itself, whose projections are one product."""
    _require_plain(node, "do_rotary", "past_present_share_buffer")
    x, w = node.tensor(0), node.tensor(1)
    rows = lifted(x.reshape(-1, x.sizes[2]), 4)
    sizes = (1, 1, rows.sizes[2], w.sizes[1])
    projected = node.emit(
        "GEMM",
        ATensor=rows,
        BTensor=lifted(w, 4),
        CTensor=spread(lifted(node.tensor(2), 4), sizes) if node.has(2) else None,
        TransA="NONE",
        TransB="NONE",
        Alpha=1.0,
        Beta=1.0 if node.has(2) else 0.0,
    )
    hidden = node.attribute("qkv_hidden_sizes") or [w.sizes[1] // 3] * 3
    return _of_projections(node, projected.reshape(*x.sizes[:2], w.sizes[1]), hidden, (3, 4), node.optional(5))


def _of_projections(
    node: NodeLowering, projected: GraphTensor, hidden: list[int], places: tuple[int, int], bias: GraphTensor | None
) -> list[GraphTensor | None]:
    """Returns the attention of queries, keys and values in one tensor, and the keys and values for the next time.

    Args:
        node: the node.
        projected: the tensor.
        hidden: the sizes of the three.
        places: where the mask and earlier keys and values are among the inputs.
        bias: a further bias.
    """
    q, k, v = (by_head(each, node.attribute("num_heads")) for each in parts(node, projected, 2, hidden))
    mask, past = places
    if node.has(past):
        earlier = parts(node, node.tensor(past), 0, (1, 1))
        k, v = (joined(node, [old.reshape(old.sizes[1:]), new], 2) for old, new in zip(earlier, (k, v), strict=True))
    queries, keys, data_type = q.sizes[2], k.sizes[2], q.data_type
    hides = causal(node, data_type, queries, keys) if node.attribute("unidirectional", 0) else None
    total = biases(node, mask_bias(node, mask, data_type, queries, keys), hides, bias)
    found = merged(node, attended(node, q, k, v, total))
    if not node.wants(1):
        return [found]
    present = joined(node, [copied(node, each).reshape(1, *each.sizes) for each in (k, v)], 0)
    return [found, present]


@lowers("QAttention", domain=MICROSOFT)
def quantized_attention(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers attention whose projections are a product of integers."""
    _require_plain(node, "do_rotary", "past_present_share_buffer")
    x, columns = node.tensor(0), node.sizes(1)[1]
    projected = _dequantized_product(node).reshape(*x.sizes[:2], columns)
    return _of_projections(node, projected, [columns // 3] * 3, (5, 8), None)


def _dequantized_product(node: NodeLowering) -> GraphTensor:
    """Returns the product of input and weights, less their zero points, times their scales, plus the bias."""
    x, w = node.tensor(0), node.tensor(1)
    zero_points = [node.tensor(i).reshape(1, 1, 1, -1) if node.has(i) else None for i in (6, 7)]
    product = node.emit(
        "MATRIX_MULTIPLY_INTEGER",
        ATensor=x.reshape(1, 1, -1, x.sizes[2]),
        AZeroPointTensor=zero_points[0],
        BTensor=lifted(w, 4),
        BZeroPointTensor=zero_points[1],
    )
    scale = multiplied(node, *broadcast(node.tensor(i).reshape(1, 1, 1, -1) for i in (3, 4)))
    real = node.cast(product, scale.data_type)
    return added(node, multiplied(node, real, spread(scale, real.sizes)), node.tensor(2))


@lowers("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers attention of projected queries, keys and values, which may be packed, earlier ones, or lack their bias."""
    if node.has(8) or node.has(9) or node.wants(3):
        raise NotLowered("its keys and values are in a shared buffer, or it returns products")
    q, k, v = _unpacked(node)
    if node.has(6):
        k, v = (joined(node, [node.tensor(i), new], 2) for i, new in ((6, k), (7, v)))
    queries, keys, data_type = q.sizes[2], k.sizes[2], q.data_type
    hides = causal(node, data_type, queries, keys) if node.attribute("unidirectional", 0) else None
    total = biases(node, mask_bias(node, 4, data_type, queries, keys), hides, node.optional(5))
    present = [copied(node, each) if node.wants(i) else None for i, each in ((1, k), (2, v))]
    return [merged(node, attended(node, q, k, v, total)), *present]


def _unpacked(node: NodeLowering) -> list[GraphTensor]:
    """Returns queries, keys and values with their biases."""
    heads, query = node.attribute("num_heads"), node.tensor(0)
    key = node.optional(1)
    if len(query.sizes) == 5:
        given = _slices(node, query)
    elif key is not None and len(key.sizes) == 5:
        given = [query, *_slices(node, key)]
    else:
        given = [query, node.tensor(1), node.tensor(2)]
    bias = _split_bias(node, given, heads)
    return [_by_head(node, each, extra, heads) for each, extra in zip(given, bias, strict=True)]


def _slices(node: NodeLowering, packed: GraphTensor) -> list[GraphTensor]:
    """Returns the tensors in one of [batch, length, heads, count, size]."""
    batch, length, heads, count, size = packed.sizes
    found = parts(node, packed.reshape(batch * length, heads, count, size), 2, (1,) * count)
    return [each.reshape(batch, length, heads * size) for each in found]


def _split_bias(node: NodeLowering, given: list[GraphTensor], heads: int) -> list[GraphTensor | None]:
    """Returns the biases of queries, keys and values."""
    if not node.has(3):
        return [None, None, None]
    sizes = [each.sizes[2] if len(each.sizes) == 3 else heads * each.sizes[3] for each in given]
    return list(parts(node, node.lifted(3), 3, sizes))


def _by_head(node: NodeLowering, x: GraphTensor, bias: GraphTensor | None, heads: int) -> GraphTensor:
    """Returns queries, keys or values by heads; those that are so already come from another layer, and lack none."""
    if len(x.sizes) == 4:
        return x
    return by_head(x if bias is None else added(node, x, bias.reshape(-1)), heads)
