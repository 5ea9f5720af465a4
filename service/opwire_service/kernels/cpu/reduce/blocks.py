"""The steps shared by all reductions of floats: evaluate, merge segments, bound the error, round, settle, write.

A block is some output elements whose states a kernel holds in scratch memory: a batch of rows, a tile of columns, or
what the last step has merged. A state has several parts, 64-bit numbers that are ``distance`` slots apart, and those of
adjacent elements are adjacent, so that vectors of states can be loaded. ``round_block`` rounds a block without branches
and reports every element out of the ordinary; ``round_one`` looks at such an element's state again. What is undecided
then is settled from the input by the kernel ``settle`` of the family, whose address is in the geometry.

A reduction cut into segments leaves the states of all segments in shared memory: segment by segment, in each part by
part, in each output by output. In front of them is a flag per output for what ``settle`` could not settle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.atomics import call
from ..jit.compiler import inlined
from ..jit.element import address_of, int32, int64, load, store
from ..numbers.formats import put
from ..numbers.vectors import WIDTH
from ..run import geometry as g
from ..run.geometry import advance, segment_of, tile_of
from .geometry import FloatReduction

BATCH = 64
"""Output elements in a block of rows or of merged states."""


class Batch(NamedTuple):
    """A block of consecutive output elements: address of the input, and number of the first element."""

    source: int
    first: int


@inlined
def _source_in_batch(zero: float, geometry: FloatReduction, batch: Batch, i: int) -> int:
    return advance(batch.source, g.kept_source(geometry, batch.first + i), zero)


@inlined
def _target_in_batch(geometry: FloatReduction, batch: Batch, i: int) -> int:
    return g.kept_target(geometry, batch.first + i)


@inlined
def _source_in_tile(zero: float, geometry: FloatReduction, tile: g.Tile, i: int) -> int:
    return advance(tile.base, i * geometry.column_step, zero)


@inlined
def _target_in_tile(geometry: FloatReduction, tile: g.Tile, i: int) -> int:
    return tile.offset + i * geometry.column_target


@inlined
def segment_states(states: int, geometry: FloatReduction) -> int:
    """Returns the address of the states of segments, which follow the flags."""
    return states + (geometry.outputs + 7) // 8 * 8


@inlined
def _write(
    zero: float,
    target: int,
    flags: int,
    geometry: FloatReduction,
    state: int,
    distance: int,
    width: int,
    parts: int,
    round_block: Any,
    round_one: Any,
    block: Any,
    source_of: Any,
    target_of: Any,
) -> None:
    """Rounds the states of a block, settles what they leave undecided, and writes the results.

    Args:
        zero: its type is the element type.
        target: address of the output.
        flags: address of the flags of the block's elements.
        geometry: address of the geometry.
        state: address of the states; behind them is scratch memory of as many slots as a part has.
        distance: slots between the parts of a state.
        width: number of elements.
        parts: parts of a state.
        round_block: takes ``zero``, the geometry, states, distance and width, and the addresses for the bits of results
            and for their flags; returns whether any is flagged.
        round_one: takes ``zero``, the geometry, the state of a flagged element and the distance; returns whether the
            state decides the result, and its bits.
        block: the elements, whose places ``source_of`` and ``target_of`` know.
        source_of, target_of: return an element's address in the input and its offset in the output.
    """
    results = state + 8 * parts * distance
    flagged = results + 4 * distance
    any_flagged = round_block(zero, geometry, state, distance, width, results, flagged)
    for i in range(width):
        put(target, target_of(geometry, block, i), int64(load(results, i, int32(0))), zero)
    for i in range(width if any_flagged else 0):
        if load(flagged, i, int32(0)):
            decided, bits = round_one(zero, geometry, state + 8 * i, distance)
            offset = target_of(geometry, block, i)
            if decided:
                put(target, offset, bits, zero)
            else:
                here, there = source_of(zero, geometry, block, i), advance(target, offset, zero)
                call(geometry.settle, zero, here, there, flags + i, geometry, 0, 1)


@inlined
def rows(
    zero: float,
    source: int,
    target: int,
    states: int,
    geometry: FloatReduction,
    begin: int,
    end: int,
    parts: int,
    evaluate: Any,
    round_block: Any,
    round_one: Any,
) -> None:
    """Row kernel: a unit is one output element or one segment of it.

    Args:
        zero: its type is the element type.
        source, target, states, geometry, begin, end: as for every kernel.
        parts: parts of a state.
        evaluate: takes ``zero``, the address of a row, the geometry, a range of its elements, the address for the state
            and the distance of its parts.
        round_block, round_one: see ``_write``.
    """
    memory = np.empty((parts + 1) * BATCH, np.int64)
    state, outputs = address_of(memory), geometry.outputs
    for start in range(begin, end, BATCH):
        width = min(BATCH, end - start)
        for i in range(width):
            output, segment, first, last = segment_of(geometry, start + i)
            base = advance(source, g.kept_source(geometry, output), zero)
            evaluate(zero, base, geometry, first, last, state + 8 * i, BATCH)
            for part in range(parts if geometry.segments > 1 else 0):
                place = (segment * parts + part) * outputs + output
                store(segment_states(states, geometry), place, load(state, part * BATCH + i, 0))
        if geometry.segments == 1:
            _write(
                zero, target, states + start, geometry, state, BATCH, width, parts, round_block, round_one,
                Batch(source, start), _source_in_batch, _target_in_batch,
            )  # fmt: skip
    memory[0] = 0  # keeps the buffer alive until here


@inlined
def columns(
    zero: float,
    source: int,
    target: int,
    states: int,
    geometry: FloatReduction,
    begin: int,
    end: int,
    parts: int,
    evaluate: Any,
    round_block: Any,
    round_one: Any,
) -> None:
    """Column kernel: a unit is one segment of a tile; arguments as in ``rows``.

    ``evaluate`` takes ``zero``, the geometry, a tile, and the address and the distance of its states.
    """
    padded = -(-geometry.tile // WIDTH) * WIDTH
    memory = np.empty((parts + 1) * padded, np.int64)
    state, outputs = address_of(memory), geometry.outputs
    for unit in range(begin, end):
        tile = tile_of(source, geometry, unit, zero)
        evaluate(zero, geometry, tile, state, padded)
        output = tile.outer * geometry.columns + tile.start
        if geometry.segments == 1:
            _write(
                zero, target, states + output, geometry, state, padded, tile.width, parts, round_block, round_one,
                tile, _source_in_tile, _target_in_tile,
            )  # fmt: skip
            continue
        for part in range(parts):
            place = (tile.segment * parts + part) * outputs + output
            for i in range(tile.width):
                store(segment_states(states, geometry), place + i, load(state, part * padded + i, 0))
    memory[0] = 0  # keeps the buffer alive until here


@inlined
def finish(
    zero: float,
    source: int,
    target: int,
    states: int,
    geometry: FloatReduction,
    begin: int,
    end: int,
    parts: int,
    merge: Any,
    round_block: Any,
    round_one: Any,
) -> None:
    """Merges the segments of output elements; arguments as in ``rows``.

    ``merge`` takes the number of segments, the address of a vector of states, the slots between their parts, and the
    address for the merged states, whose parts are ``BATCH`` apart.
    """
    memory = np.empty((parts + 1) * BATCH, np.int64)
    state, segments, outputs = address_of(memory), geometry.segments, geometry.outputs
    for start in range(begin, end, BATCH):
        width = min(BATCH, end - start)
        for i in range(0, width, WIDTH):
            merge(segments, segment_states(states, geometry) + 8 * (start + i), outputs, state + 8 * i)
        _write(
            zero, target, states + start, geometry, state, BATCH, width, parts, round_block, round_one,
            Batch(source, start), _source_in_batch, _target_in_batch,
        )  # fmt: skip
    memory[0] = 0  # keeps the buffer alive until here
