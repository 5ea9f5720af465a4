"""FILL_VALUE_SEQUENCE: the same steps in every tile, added to a different start."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Arrays, Stop
from ...error_free import add_odd, two_sum
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool

TILE = 1 << 14
"""Elements in a tile."""


class SequenceJob(Job):
    """Computes a sequence tile by tile."""

    _scratch = ScratchBytes(thread=64 * TILE, shared=8 * TILE)

    def __init__(self, plan: Plan) -> None:
        self._desc = plan.outputs["OutputTensor"]
        self._terms = _terms(plan)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        target = outputs["OutputTensor"]
        elements = target.reshape(-1) if target.flags.c_contiguous else None

        def piece(tile: int) -> None:
            part = slice(tile * TILE, min((tile + 1) * TILE, target.size))
            terms = np.empty(part.stop - part.start, target.dtype) if elements is None else elements[part]
            with np.errstate(all="ignore"):
                self._terms.tile(part.start, terms)
            if elements is None:
                target.flat[part] = terms

        pool.each(piece, -(-target.size // TILE), stop, 8)


class _Integers:
    """Terms modulo 2**width."""

    def __init__(self, start: int, delta: int, data_type: DataType, count: int) -> None:
        self._start, self._delta, self._bits = start, delta, data_type.bits
        self._dtype = np.dtype(f"<u{data_type.bits // 8}")
        self._steps = (np.arange(min(count, TILE), dtype=np.uint64) * np.uint64(delta % 2**64)).astype(self._dtype)

    def tile(self, first: int, target: Array) -> None:
        base = self._dtype.type((self._start + first * self._delta) % 2**self._bits)
        np.add(self._steps[: target.size], base, out=target.view(self._dtype))


class _Exact:
    """Terms that FLOAT64 represents exactly."""

    def __init__(self, start: float, delta: float, count: int) -> None:
        self._start, self._delta = start, delta
        self._steps = np.arange(min(count, TILE), dtype=np.float64) * delta

    def tile(self, first: int, target: Array) -> None:
        # The first term is not added to zero, because the sign of a sum of zeros depends on both.
        base = self._start + first * self._delta if first else self._start
        target[...] = self._steps[: target.size] + base


class _Rounded:
    """Terms with more bits than FLOAT64: each is the exact start of its tile, in two parts, plus exact steps."""

    def __init__(self, start: float, delta: float, count: int) -> None:
        self._start, self._delta = Fraction(start), Fraction(delta)
        self._steps = np.arange(min(count, TILE), dtype=np.float64) * delta

    def tile(self, first: int, target: Array) -> None:
        exact = self._start + first * self._delta
        base = float(exact)
        rest = _odd(exact - Fraction(base))
        total, low = two_sum(self._steps[: target.size], base)
        target[...] = add_odd(total, add_odd(low, np.full_like(low, rest)))


def _odd(number: Fraction) -> float:
    """Rounds a number to odd: returns it if it is a FLOAT64, else the adjacent one whose last bit is set."""
    near = float(number)
    if Fraction(near) == number or int(np.float64(near).view(np.int64)) & 1:
        return near
    return math.nextafter(near, math.inf if Fraction(near) < number else -math.inf)


def _terms(plan: Plan) -> _Integers | _Exact | _Rounded:
    attributes, desc = plan.attributes, plan.outputs["OutputTensor"]
    start, delta, count = attributes.ValueStart, attributes.ValueDelta, desc.element_count
    if not desc.data_type.is_float:
        return _Integers(int(start), int(delta), desc.data_type, count)
    if not (math.isfinite(start) and math.isfinite(delta)):
        return _Exact(start, delta, count)
    first, step = Fraction(start), Fraction(delta)
    unit = max(first.denominator, step.denominator)
    if (abs(first) + count * abs(step)) * unit <= 2**53:
        return _Exact(start, delta, count)
    return _Rounded(start, delta, count)
