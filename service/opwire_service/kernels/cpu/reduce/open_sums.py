"""Sums that plain ones leave open: compensated sums, and exact ones where those do not decide the rounding.

They are separate kernels because few plans ever need them. The kernels of ``sums`` call them by address.
"""

from __future__ import annotations

import numpy as np

from ..jit.compiler import inner, kernel
from ..jit.element import address_of, int32, load, store
from ..numbers.accumulator import LIMBS, high_and_low
from ..numbers.formats import put
from ..numbers.rounding import rounded
from ..numbers.vector_rounding import rounding_places
from ..numbers.vectors import WIDTH
from ..run import geometry as g
from ..run.geometry import Tile, advance, at, segment_of, tile_of
from . import parameters as p
from .column_states import put_states
from .compensated_sums import compensated_columns, compensated_sum
from .parameters import BATCH, EXACT
from .sum_terms import add_terms

FEW_OPEN, OF_MANY = 4, 64
"""Up to ``FEW_OPEN`` open columns, or one in ``OF_MANY``, are recomputed one by one; more are recomputed together."""


@inner
def _decide(zero: float, base: int, geometry: int, sums: int, distance: int, scratch: int) -> int:
    """Returns the bits of an output element that is special or whose plain sum does not decide it."""
    count, function = at(geometry, g.COUNT), at(geometry, p.RESULT)
    high, low, error = load(sums, 0, 0.0), load(sums, distance, 0.0), load(sums, 2 * distance, 0.0)
    decided, bits = rounded(high, low, error, count, function, zero)
    if decided:
        return bits
    high, low, error = compensated_sum(zero, base, geometry, 0, count)
    decided, bits = rounded(high, low, error, count, function, zero)
    return bits if decided else _exact(zero, base, geometry, scratch)


@inner
def _exact(zero: float, base: int, geometry: int, scratch: int) -> int:
    count, function = at(geometry, g.COUNT), at(geometry, p.RESULT)
    add_terms(zero, base, geometry, 0, count, scratch)
    high, low = high_and_low(scratch)
    _, bits = rounded(high, low, 0.0, count, function, zero)
    return bits


@inner
def _segment(zero: float, base: int, geometry: int, first: int, end: int, state: int) -> None:
    """Stores the state of one segment: limbs, or three numbers."""
    if at(geometry, p.TIER) == EXACT:
        add_terms(zero, base, geometry, first, end, state)
        return
    high, low, error = compensated_sum(zero, base, geometry, first, end)
    store(state, 0, high)
    store(state, 1, low)
    store(state, 2, error)


@inner
def _segments(zero: float, source: int, geometry: int, begin: int, end: int, states: int) -> None:
    places = LIMBS if at(geometry, p.TIER) == EXACT else 3
    for unit in range(begin, end):
        output, _, first, last = segment_of(geometry, unit)
        base = advance(source, g.kept_source(geometry, output), zero)
        _segment(zero, base, geometry, first, last, states + 8 * places * unit)


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Decides the open elements of a batch of plain sums, passed as ``states``. Several segments store states."""
    if at(geometry, g.SEGMENTS) > 1:
        _segments(zero, source, geometry, begin, end, states)
        return
    _, opens, scratch = rounding_places(states, BATCH)
    for unit in range(begin, end):
        i = unit - begin
        if load(opens, i, int32(0)):
            base = advance(source, g.kept_source(geometry, unit), zero)
            bits = _decide(zero, base, geometry, states + 8 * i, BATCH, scratch)
            put(target, g.kept_target(geometry, unit), bits, zero)


@inner
def _count_open(opens: int, width: int) -> int:
    count = 0
    for i in range(width):
        count += load(opens, i, int32(0)) != 0
    return count


@inner
def _decide_columns(zero: float, geometry: int, tile: Tile, sums: int, distance: int, target: int) -> None:
    """Recomputes open columns: together if there are many, one by one if there are few."""
    count, function, width = at(geometry, g.COUNT), at(geometry, p.RESULT), tile.width
    _, opens, scratch = rounding_places(sums, distance)
    # An exact sum can only leave open which of two results is nearer.
    many = not at(geometry, p.IS_EXACT) and _count_open(opens, width) > max(FEW_OPEN, width // OF_MANY)
    if many:
        compensated_columns(zero, geometry, tile, sums, distance)
    for i in range(width):
        if load(opens, i, int32(0)):
            here = advance(tile.base, i * at(geometry, g.COLUMN_STEP), zero)
            if many:
                high, low, error = load(sums, i, 0.0), load(sums, distance + i, 0.0), load(sums, 2 * distance + i, 0.0)
                decided, bits = rounded(high, low, error, count, function, zero)
                bits = bits if decided else _exact(zero, here, geometry, scratch)
            else:
                bits = _decide(zero, here, geometry, sums + 8 * i, distance, scratch)
            put(target, tile.offset + i * at(geometry, g.COLUMN_TARGET), bits, zero)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Decides the open elements of a tile's plain sums, passed as ``states``. With several segments, stores states."""
    padded = -(-at(geometry, g.TILE) // WIDTH) * WIDTH
    if at(geometry, g.SEGMENTS) == 1:
        _decide_columns(zero, geometry, tile_of(source, geometry, begin, zero), states, padded, target)
        return
    memory = np.empty(3 * padded, np.int64)
    sums = address_of(memory)
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        compensated_columns(zero, geometry, tile, sums, padded)
        put_states(sums, padded, 3, states, geometry, tile)
    memory[0] = 0  # keeps the buffer alive until here
