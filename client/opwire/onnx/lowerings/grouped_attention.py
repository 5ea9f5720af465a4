"""Attention whose heads share keys and values in groups, with a buffer of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import MICROSOFT, NodeLowering, lifted, lowers, spread
from .attention import attended, biases, by_head, chosen, compared, hidden_from, lowest, merged, numbered
from .shapes import copied
from .transformers import added, joined, parts, rotated, rows_of

_REFUSED = {
    "softcap": 0.0,
    "sliding_window_cache": 0,
    "qk_output": 0,
    "k_quant_type": "NONE",
    "v_quant_type": "NONE",
    "causal": 1,
}
"""Attributes with the only value that is lowered."""


@dataclass(frozen=True, slots=True)
class _Lengths:
    """How many tokens there are.

    Attributes:
        batch: the number of sequences.
        new: the tokens of each sequence that come now.
        past: those that came before, of the longest sequence.
        offsets: those that came before, of each sequence; None if they are as many for each.
    """

    batch: int
    new: int
    past: int
    offsets: GraphTensor | None

    @property
    def total(self) -> int:
        return self.past + self.new


@lowers("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: NodeLowering) -> list[GraphTensor | None]:
    """Lowers causal attention; the results have the keys and values of all tokens so far."""
    _require_supported(node)
    lengths = _lengths(node)
    q, k, v = _projected(node)
    if node.attribute("do_rotary", 0):
        q, k = (_rotated(node, each, lengths) for each in (q, k))
    q, k, v = (each.transpose(0, 2, 1, 3) for each in (q, k, v))
    k, v = (_extended(node, i, new, lengths) for i, new in ((3, k), (4, v)))
    seen = lengths.total if lengths.offsets is None else k.sizes[2]
    bias = biases(node, _hidden(node, lengths, seen, q.data_type), node.optional(10))
    found = _attended(node, q, _first(k, seen), _first(v, seen), bias)
    return [merged(node, found), k, v]


def _require_supported(node: NodeLowering) -> None:
    for name, only in _REFUSED.items():
        if node.attribute(name, only) != only:
            raise NotLowered(f"its {name} is {node.attribute(name)}")
    if node.attribute("smooth_softmax", -1) == 1:
        raise NotLowered("its softmax is smooth")
    if any(node.has(i) for i in range(11, 17)) or node.wants(3):
        raise NotLowered("it has inputs or outputs beyond attention_bias and present_value")


def _lengths(node: NodeLowering) -> _Lengths:
    """Returns the number of tokens; the total of all is constant, those of each sequence are if there is but one."""
    batch, new = node.sizes(0)[:2]
    (total,) = node.integers(6)
    if total == new:  # the first tokens
        return _Lengths(batch, new, 0, None)
    if batch == 1:
        return _Lengths(batch, new, total - new, None)
    totals = node.tensor(5).reshape(batch, 1, 1, 1)
    offset = node.graph.constant(np.full((1, 1, 1, 1), 1 - new, totals.data_type.dtype))
    return _Lengths(batch, new, total - new, added(node, totals, offset))


def _projected(node: NodeLowering) -> list[GraphTensor]:
    """Returns queries, keys and values, which may be packed, as [batch, length, heads, size]."""
    heads, shared, query = int(node.attribute("num_heads")), int(node.attribute("kv_num_heads")), node.tensor(0)
    if node.has(1):
        given = [query, node.tensor(1), node.tensor(2)]
    else:
        size = query.sizes[2] // (heads + 2 * shared)
        given = parts(node, query, 2, (heads * size, shared * size, shared * size))
    counts = (heads, shared, shared)
    return [by_head(each, count).transpose(0, 2, 1, 3) for each, count in zip(given, counts, strict=True)]


def _rotated(node: NodeLowering, x: GraphTensor, lengths: _Lengths) -> GraphTensor:
    ids = node.tensor(9) if node.has(9) and lengths.total > lengths.new else _positions(node, lengths, 1)
    ids = spread(ids.reshape(-1, lengths.new), (lengths.batch, lengths.new))
    cos, sin = (rows_of(node, node.tensor(i), ids) for i in (7, 8))
    return rotated(node, x, cos, sin, is_interleaved=bool(node.attribute("rotary_interleaved", 0)))


def _positions(node: NodeLowering, lengths: _Lengths, axis: int) -> GraphTensor:
    """Returns the position of each new token along an axis of rank 4, after the sequence if that differs."""
    if lengths.offsets is None:
        return numbered(node, lengths.new, axis, lengths.past)
    return added(node, lengths.offsets, numbered(node, lengths.new, axis))


def _extended(node: NodeLowering, i: int, new: GraphTensor, lengths: _Lengths) -> GraphTensor:
    """Returns earlier keys or values followed by the new ones; a longer buffer keeps its size."""
    buffer = node.tensor(i) if node.has(i) and 0 not in (node.value(i).sizes or ()) else None
    room = 0 if buffer is None else buffer.sizes[2]
    if buffer is None or (lengths.past == 0 and room <= lengths.new):
        if lengths.past:
            raise NotLowered(f"it has {lengths.past} earlier tokens, and no buffer of them")
        return copied(node, new)
    if lengths.offsets is None:
        kept = _split(node, buffer, (lengths.past, min(lengths.new, room - lengths.past), room - lengths.total))
        return joined(node, [each for each in (kept[0], new, kept[2]) if each is not None], 2)
    if room < lengths.total:  # it grows
        if room + lengths.new < lengths.total:
            raise NotLowered(f"it has {lengths.past} earlier tokens, and room for {room} in its buffer")
        buffer = joined(node, [buffer, new], 2)
    at = spread(_positions(node, lengths, 2), new.sizes)
    return node.emit("SCATTER_ELEMENTS", InputTensor=buffer, IndicesTensor=at, UpdatesTensor=copied(node, new), Axis=2)


def _split(node: NodeLowering, buffer: GraphTensor, sizes: tuple[int, ...]) -> list[GraphTensor | None]:
    """Returns the parts of a buffer along its tokens; None for those without any."""
    if sizes[0] > buffer.sizes[2]:
        raise NotLowered(f"it has {sizes[0]} earlier tokens, and room for {buffer.sizes[2]} in its buffer")
    found = iter(parts(node, buffer, 2, [size for size in sizes if size > 0]))
    return [next(found) if size > 0 else None for size in sizes]


def _first(buffer: GraphTensor, count: int) -> GraphTensor:
    """Returns the first tokens of a buffer."""
    batch, heads, _, size = buffer.sizes
    return buffer.with_strides((batch, heads, count, size), buffer.desc.element_strides)


def _hidden(node: NodeLowering, lengths: _Lengths, keys: int, data_type: DataType) -> GraphTensor | None:
    """Returns the bias that hides the keys after each query, and those too far before it."""
    window = int(node.attribute("local_window_size", -1))
    if lengths.new == 1 and lengths.offsets is None and window < 0:
        return None
    positions = _positions(node, lengths, 2)
    found = hidden_from(node, added(node, positions, _one(node, 1)), keys, data_type)
    if window < 0:
        return found
    reach = added(node, numbered(node, keys, 3), _one(node, window))
    near = compared(node, "ELEMENT_WISE_LOGICAL_GREATER_THAN", reach, positions)
    return node.emit("ELEMENT_WISE_MIN", ATensor=found, BTensor=chosen(node, near, data_type, lowest(data_type)))


def _one(node: NodeLowering, value: int) -> GraphTensor:
    return node.graph.constant(np.full((1, 1, 1, 1), value, np.int32))


def _attended(
    node: NodeLowering, q: GraphTensor, k: GraphTensor, v: GraphTensor, bias: GraphTensor | None
) -> GraphTensor:
    """Returns attention of groups of heads to their keys and values, each group as an entry of a batch."""
    batch, heads, new, size = q.sizes
    shared, keys = k.sizes[1:3]
    group = heads // shared
    grouped = copied(node, q).reshape(batch * shared, group, new, size)
    if bias is not None:
        whole = spread(lifted(bias, 4), (batch, heads if bias.sizes[1] > 1 else shared, new, keys))
        bias = whole.reshape(batch * shared, -1, new, keys)
    wide_k, wide_v = _grouped(node, k, group), _grouped(node, v, group)
    return attended(node, grouped, wide_k, wide_v, bias).reshape(batch, heads, new, size)


def _grouped(node: NodeLowering, x: GraphTensor, group: int) -> GraphTensor:
    """Returns [batch, heads, length, size] as [batch * heads, group, length, size], the same for each of a group."""
    batch, shared, length, size = x.sizes
    outer, head, row, element = x.desc.element_strides
    if batch > 1 and outer != shared * head:
        return _grouped(node, copied(node, x), group)
    return x.with_strides((batch * shared, group, length, size), (head, 0, row, element))
