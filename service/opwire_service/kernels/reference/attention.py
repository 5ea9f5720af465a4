"""Multi-head attention in float64, one query of one head at a time; each output is rounded once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import MultiheadAttentionMaskType as MaskType
from opwire.tensor import Array

from ...execution import Arrays, Stop, Stopped
from ..layout import coordinates
from .elements import CHUNK

HEAD = 1024
"""Maximum number of head columns read at once."""


class Operands(NamedTuple):
    """Views of the new queries, keys and values, ``[batch, sequence, heads, head size]``.

    Each bias is ``[heads, head size]`` or None.
    """

    query: Array
    key: Array
    value: Array
    biases: tuple[Array | None, Array | None, Array | None]


def operands(attributes: Any, inputs: Arrays) -> Operands:
    """Returns queries, keys and values, whether given separately or stacked."""
    heads = getattr(attributes, "HeadCount", 0)
    queries = heads or attributes.QueryHeadCount
    keys = heads or attributes.KeyValueHeadCount
    given = {
        "StackedQueryKeyTensor": ("query", "key"),
        "StackedKeyValueTensor": ("key", "value"),
        "StackedQueryKeyValueTensor": ("query", "key", "value"),
    }
    found = {
        part: inputs[name][..., i, :] for name, parts in given.items() if name in inputs for i, part in enumerate(parts)
    }
    plain = (("QueryTensor", "query", queries), ("KeyTensor", "key", keys), ("ValueTensor", "value", keys))
    for name, part, count in plain:
        if name in inputs:
            tensor = inputs[name]
            *_, batch, length, hidden = tensor.shape
            found[part] = tensor[(0,) * (tensor.ndim - 3)].reshape(batch, length, count, hidden // count)
    query, key, value = found["query"], found["key"], found["value"]
    return Operands(query, key, value, _biases(inputs, [part.shape[2:] for part in (query, key, value)]))


def _biases(inputs: Arrays, shapes: list[tuple[int, ...]]) -> Any:
    if "BiasTensor" not in inputs:
        return (None,) * 3
    bias = inputs["BiasTensor"]
    flat, first, found = bias[(0,) * (bias.ndim - 1)], 0, []
    for heads, size in shapes:
        found.append(flat[first : first + heads * size].reshape(heads, size))
        first += heads * size
    return tuple(found)


class Cache(NamedTuple):
    """Past and new keys or values as one sequence, followed by zeros.

    Attributes:
        past: ``[batch, heads, length, head size]``, or None.
        new: the new rows, as in ``Operands``.
        bias: bias of the new rows.
        begins: position of the first new row, for each batch entry.
    """

    past: Array | None
    new: Array
    bias: Array | None
    begins: tuple[int, ...]

    def rows(self, batch: int, head: int, rows: slice, columns: slice) -> Array:
        """Returns some positions of the sequence, in float64."""
        begin, numbers = self.begins[batch], range(rows.start, rows.stop)
        width = len(range(*columns.indices(self.new.shape[-1])))
        found = np.zeros((len(numbers), width))
        if self.past is not None:
            end = min(rows.stop, begin)
            if end > rows.start:
                found[: end - rows.start] = self.past[batch, head, rows.start : end, columns]
        first, last = max(rows.start, begin), min(rows.stop, begin + self.new.shape[1])
        if last > first:
            part = self.new[batch, first - begin : last - begin, head, columns].astype(np.float64)
            if self.bias is not None:
                part = part + self.bias[head, columns].astype(np.float64)
            found[first - rows.start : last - rows.start] = part
        return found


class Attention:
    """The state shared by all queries of an attention.

    Args:
        plan: the plan of an attention.
        inputs: its tensors.
        stop: polled before each piece.
    """

    def __init__(self, plan: Plan, inputs: Arrays, stop: Stop) -> None:
        self.new = operands(plan.attributes, inputs)
        self._attributes = plan.attributes
        self._stop = stop
        past_key, past_value = (lowest_rank(inputs, name, 4) for name in ("PastKeyTensor", "PastValueTensor"))
        past = 0 if past_key is None else past_key.shape[2]
        self._begins = _begins(inputs, past, self.new.query.shape[0])
        self.is_causal = "PastSequenceLengthsTensor" in inputs
        self.key = Cache(past_key, self.new.key, self.new.biases[1], self._begins)
        self.value = Cache(past_value, self.new.value, self.new.biases[2], self._begins)
        self.total = past + self.new.key.shape[1]
        self.bias = lowest_rank(inputs, "RelativePositionBiasTensor", 4)
        self.mask = inputs.get("MaskTensor")
        self._group = self.new.query.shape[2] // self.new.key.shape[2]

    def shared(self, head: int) -> int:
        """Returns the key/value head that a query head reads."""
        shared: int = head // self._group
        return shared

    def seen(self, batch: int, i: int) -> int:
        """Returns how many keys a query attends to, starting from the first."""
        total: int = self.total
        return min(total, self._begins[batch] + i + 1) if self.is_causal else total

    def unmasked(self, batch: int) -> tuple[int, int]:
        """Returns the half-open range of keys that a length mask keeps."""
        assert self.mask is not None  # only called for such masks
        lengths = self.mask.reshape(-1)
        is_range = self._attributes.MaskType is MaskType.KEY_SEQUENCE_END_START
        return int(lengths[self.new.query.shape[0] + batch]) if is_range else 0, int(lengths[batch])

    def queries(self, batch: int, head: int, rows: slice, columns: slice) -> Array:
        """Returns some queries of a head with their bias, in float64."""
        found: Array = self.new.query[batch, rows, head, columns].astype(np.float64)
        bias = self.new.biases[0]
        return found if bias is None else found + bias[head, columns].astype(np.float64)

    def answer(self, batch: int, i: int, head: int) -> Iterator[tuple[slice, Array]]:
        """Yields the output of one query of one head, in pieces of columns."""
        with np.errstate(all="ignore"):
            greatest = np.max([scores.max() for _, scores in self._scores(batch, i, head)])
            total = sum(np.exp(scores - greatest).sum() for _, scores in self._scores(batch, i, head))
            for columns in _pieces(self.new.value.shape[3], HEAD):
                found = np.zeros(columns.stop - columns.start)
                for rows, scores in self._scores(batch, i, head):
                    values = self.value.rows(batch, self.shared(head), rows, columns)
                    found += (np.exp(scores - greatest)[:, None] * values).sum(0)
                yield columns, found / total

    def _scores(self, batch: int, i: int, head: int) -> Iterator[tuple[slice, Array]]:
        """Yields the masked scores of the keys, in pieces."""
        query = self.new.query[batch, i, head]
        for rows in _pieces(self.seen(batch, i), max(1, CHUNK // min(max(query.size, self.new.value.shape[3]), HEAD))):
            scores = np.zeros(rows.stop - rows.start)
            for columns in _pieces(query.size, HEAD):
                if self._stop():
                    raise Stopped
                part = self.queries(batch, head, slice(i, i + 1), columns)
                scores += (self.key.rows(batch, self.shared(head), rows, columns) * part).sum(-1)
            scores *= self._attributes.Scale
            if self.bias is not None:
                scores += self.bias[batch, head, i, rows]
            yield rows, self._masked(scores, batch, i, head, rows)

    def _masked(self, scores: Array, batch: int, i: int, head: int, rows: slice) -> Array:
        kind, mask, value = self._attributes.MaskType, self.mask, self._attributes.MaskFilterValue
        if mask is None:
            return scores
        if kind is MaskType.BOOLEAN:
            chosen = mask[(0,) * (mask.ndim - 4)][batch, head, i, rows]
            added: Array = np.where(chosen == 0, value, 0 * value)
            return scores + added
        begin, end = self.unmasked(batch)
        at = np.arange(rows.start, rows.stop)
        added = np.where((begin <= at) & (at < end), 0 * value, value)
        return scores + added


def _pieces(count: int, most: int) -> Iterator[slice]:
    return (slice(first, min(first + most, count)) for first in range(0, count, most))


def lowest_rank(inputs: Arrays, name: str, rank: int) -> Array | None:
    """Returns a tensor without its leading dimensions of size 1, or None if it is absent."""
    tensor = inputs.get(name)
    return None if tensor is None else tensor[(0,) * (tensor.ndim - rank)]


def _begins(inputs: Arrays, past: int, batch: int) -> tuple[int, ...]:
    """Returns where the new rows begin: after the past, or at the past's length, clamped to the size of the past."""
    lengths = inputs.get("PastSequenceLengthsTensor")
    if lengths is None:
        return (past,) * batch
    return tuple(min(max(int(length), 0), past) for length in lengths.flat)


def attention(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    whole = Attention(plan, inputs, stop)
    target = outputs["OutputTensor"]
    target = target[(0,) * (target.ndim - 3)]
    batches, length, heads, _ = whole.new.query.shape
    size = whole.new.value.shape[3]
    for batch, i, head in coordinates((batches, length, heads)):
        for columns, values in whole.answer(batch, i, head):
            target[batch, i, head * size + columns.start : head * size + columns.stop] = values
    for name, cache in (("OutputPresentKeyTensor", whole.key), ("OutputPresentValueTensor", whole.value)):
        present = lowest_rank(outputs, name, 4)
        if present is not None:
            _write(cache, present, stop)


def _write(cache: Cache, present: Array, stop: Stop) -> None:
    batches, heads, length, size = present.shape
    for batch, head in coordinates((batches, heads)):
        for rows in _pieces(length, CHUNK // HEAD):
            for columns in _pieces(size, HEAD):
                if stop():
                    raise Stopped
                present[batch, head, rows, columns] = cache.rows(batch, head, rows, columns)


KERNELS = {"MULTIHEAD_ATTENTION": attention, "MULTIHEAD_ATTENTION1": attention}
