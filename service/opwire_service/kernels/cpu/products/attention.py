"""Attention in float64, with an online softmax over tiles of the queries and keys of one head."""

from __future__ import annotations

from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.enums import MultiheadAttentionMaskType as MaskType
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...reference.attention import Attention, Cache, lowest_rank
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from . import blas

QUERIES = 128
"""Maximum number of queries in a tile."""

KEYS = 1024
"""Maximum number of keys in a tile."""

PIECE = 1 << 17
"""Numbers of keys, values or scores that are read at once."""

HEAD = 1 << 13
"""Numbers of a head that are read at once."""


class AttentionJob(Job):
    """Computes all heads of all batch entries, by tiles of queries."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        output = plan.outputs["OutputTensor"]
        *_, self._length, hidden = output.sizes
        heads = getattr(plan.attributes, "HeadCount", 0) or plan.attributes.QueryHeadCount
        self._size = hidden // heads
        self._rows = max(1, min(QUERIES, PIECE // self._size))
        self._scratch = ScratchBytes(thread=8 * (12 * PIECE + 4 * self._rows * self._size))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        whole = Attention(self._plan, inputs, stop)
        target = lowest_rank(outputs, "OutputTensor", 3)
        assert target is not None  # required by the operator
        batches, length, heads, _ = whole.new.query.shape
        work = _AttentionTiles(whole, self._plan, self._rows, target, stop)
        units = batches * heads * -(-length // self._rows)
        pool.run(work.tiles, units, 1, stop)
        for name, cache in (("OutputPresentKeyTensor", whole.key), ("OutputPresentValueTensor", whole.value)):
            present = lowest_rank(outputs, name, 4)
            if present is not None:
                pool.run(partial(_write, cache, present, stop), present.shape[0] * present.shape[1], 1, stop)


class _AttentionTiles:
    """The tiles of a run.

    Args:
        whole: the run's inputs and attributes.
        plan: the plan.
        rows: queries in a tile.
        target: the output, ``[batch, length, heads * head size]``.
        stop: polled while computing.
    """

    def __init__(self, whole: Attention, plan: Plan, rows: int, target: Array, stop: Stop) -> None:
        self._whole, self._attributes = whole, plan.attributes
        self._rows, self._target, self._stop = rows, target, stop

    def tiles(self, begin: int, end: int) -> None:
        _, length, heads, _ = self._whole.new.query.shape
        across = -(-length // self._rows)
        with np.errstate(all="ignore"):
            for unit in range(begin, end):
                place, tile = divmod(unit, across)
                rows = slice(tile * self._rows, min((tile + 1) * self._rows, length))
                self._tile(place // heads, place % heads, rows)

    def _tile(self, batch: int, head: int, rows: slice) -> None:
        whole = self._whole
        count, size = rows.stop - rows.start, whole.new.value.shape[3]
        greatest, total = np.full((count, 1), -np.inf), np.zeros((count, 1))
        found = np.zeros((count, size))
        seen = whole.seen(batch, rows.stop - 1)
        keys = max(1, min(KEYS, PIECE // max(whole.new.query.shape[3], size)))
        for first in range(0, seen, keys):
            part = slice(first, min(first + keys, seen))
            scores = self._scores(batch, head, rows, part)
            higher = np.maximum(greatest, scores.max(1, keepdims=True))
            # Shifting by -infinity would turn weights of 0 into NaN.
            shift = np.where(higher == -np.inf, 0, higher)
            weights = np.exp(np.subtract(scores, shift, out=scores), out=scores)
            fading = np.exp(greatest - shift)
            total = total * fading + weights.sum(1, keepdims=True)
            found *= fading
            self._add_values(found, weights, batch, head, rows, part)
            greatest = higher
        self._target[batch, rows, head * size : (head + 1) * size] = found / total

    def _scores(self, batch: int, head: int, rows: slice, keys: slice) -> Array:
        whole = self._whole
        scores = self._products(batch, head, rows, keys, slice(0, HEAD))
        for first in range(HEAD, whole.new.query.shape[3], HEAD):
            scores += self._products(batch, head, rows, keys, slice(first, first + HEAD))
        scores *= self._attributes.Scale
        if whole.bias is not None:
            scores += whole.bias[batch, head, rows, keys]
        scores = self._masked(scores, batch, head, rows, keys)
        if whole.is_causal:
            last = whole.seen(batch, rows.start) + np.arange(len(scores))[:, None]
            scores[np.arange(keys.start, keys.stop) >= last] = -np.inf
        return scores

    def _products(self, batch: int, head: int, rows: slice, keys: slice, columns: slice) -> Array:
        """Returns the products of some columns of queries and keys."""
        if self._stop():
            raise Stopped
        whole = self._whole
        queries = whole.queries(batch, head, rows, columns)
        products: Array = queries @ whole.key.rows(batch, whole.shared(head), keys, columns).T
        return products

    def _masked(self, scores: Array, batch: int, head: int, rows: slice, keys: slice) -> Array:
        mask, value = self._whole.mask, self._attributes.MaskFilterValue
        if mask is None:
            return scores
        if self._attributes.MaskType is MaskType.BOOLEAN:
            chosen = mask[(0,) * (mask.ndim - 4)][batch, head, rows, keys]
            return scores + np.where(chosen == 0, value, 0 * value)
        begin, end = self._whole.unmasked(batch)
        at = np.arange(keys.start, keys.stop)
        return scores + np.where((begin <= at) & (at < end), 0 * value, value)

    def _add_values(self, found: Array, weights: Array, batch: int, head: int, rows: slice, keys: slice) -> None:
        """Adds weighted values; values that a query must not see add nothing, even if they are infinite."""
        whole = self._whole
        for first in range(0, found.shape[1], HEAD):
            if self._stop():
                raise Stopped
            columns = slice(first, first + HEAD)
            values = whole.value.rows(batch, whole.shared(head), keys, columns)
            if not whole.is_causal or np.isfinite(values).all():
                found[:, columns] += weights @ values
                continue
            for i, row in enumerate(weights):
                count = max(0, whole.seen(batch, rows.start + i) - keys.start)
                found[i, columns] += row[:count] @ values[:count]


def _write(cache: Cache, present: Array, stop: Stop, begin: int, end: int) -> None:
    _, heads, length, size = present.shape
    width = min(size, HEAD)
    height = PIECE // width
    with np.errstate(all="ignore"):
        for unit in range(begin, end):
            batch, head = divmod(unit, heads)
            for first in range(0, length, height):
                rows = slice(first, min(first + height, length))
                for left in range(0, size, width):
                    if stop():
                        raise Stopped
                    columns = slice(left, left + width)
                    present[batch, head, rows, columns] = cache.rows(batch, head, rows, columns)
