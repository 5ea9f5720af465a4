"""``(x - mean - rest) * factor + bias`` of a tile, with parameters that repeat along some dimensions, in one pass.

What comes so near to 0 that too much cancelled is counted; the caller does such tiles otherwise.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from opwire.tensor import Array

from ..jit.compiler import Entry, Kernel, inlined, kernel
from ..jit.element import FLOAT32, HALF, load, read, store
from ..numbers.formats import narrow, narrow_vector, number_of, put, values
from ..numbers.vectors import WIDTH, absolutes, any_of, elements, load_vector, pick, put_vector, spread
from ..run.geometry import advance, at

PARAMETERS = 5
"""Mean, rest, factor, bias and limit."""

RANK, LENGTH, SOURCE_STEP, TARGET_STEP, VARY = range(5)
ADDRESSES = 5
STEPS = ADDRESSES + PARAMETERS
LOOPS = STEPS + PARAMETERS
LOOP = 3 + PARAMETERS
"""Of each dimension but the last: its size, and the steps of input, output and parameters."""


@inlined
def _parameter(address: int, j: int, step: int) -> float:
    return load(address, j * step, 0.0)


@kernel
def affine(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Units are lines along the last dimension; the states are whether something came too near to 0."""
    length, vary = at(geometry, LENGTH), at(geometry, VARY)
    step, apart = at(geometry, SOURCE_STEP), at(geometry, TARGET_STEP)
    near = load(states, 0, 0)
    for unit in range(begin, end):
        here, there, rest = source, target, unit
        mean, more, factor = at(geometry, ADDRESSES), at(geometry, ADDRESSES + 1), at(geometry, ADDRESSES + 2)
        bias, limit = at(geometry, ADDRESSES + 3), at(geometry, ADDRESSES + 4)
        for i in range(at(geometry, RANK) - 1, -1, -1):
            loop = LOOPS + LOOP * i
            size = at(geometry, loop)
            place = rest % size
            rest //= size
            here = advance(here, place * at(geometry, loop + 1), zero)
            there = advance(there, place * at(geometry, loop + 2), zero)
            mean += 8 * place * at(geometry, loop + 3)
            more += 8 * place * at(geometry, loop + 4)
            factor += 8 * place * at(geometry, loop + 5)
            bias += 8 * place * at(geometry, loop + 6)
            limit += 8 * place * at(geometry, loop + 7)
        last = 0
        if vary == 0 and step == 1 and apart == 1:
            last = length - length % WIDTH
            m, r, f = load(mean, 0, 0.0), load(more, 0, 0.0), load(factor, 0, 0.0)
            b, least = load(bias, 0, 0.0), load(limit, 0, 0.0)
            lowest = spread(math.inf)
            for j in range(0, last, WIDTH):
                y = (values(elements(advance(here, j, zero), None, zero)) - m - r) * f + b
                above = absolutes(y) - least
                lowest = pick(above < lowest, above, lowest)
                put_vector(there, j, narrow_vector(y, zero), zero)
            near += any_of(lowest < 0.0)
        elif step == 1 and apart == 1 and vary == 2:
            last = length - length % WIDTH
            a, c = at(geometry, STEPS), at(geometry, STEPS + 1)
            d, e, g = at(geometry, STEPS + 2), at(geometry, STEPS + 3), at(geometry, STEPS + 4)
            lowest = spread(math.inf)
            for j in range(0, last, WIDTH):
                m = load_vector(mean, j, 0.0) if a else spread(load(mean, 0, 0.0))
                r = load_vector(more, j, 0.0) if c else spread(load(more, 0, 0.0))
                f = load_vector(factor, j, 0.0) if d else spread(load(factor, 0, 0.0))
                b = load_vector(bias, j, 0.0) if e else spread(load(bias, 0, 0.0))
                least = load_vector(limit, j, 0.0) if g else spread(load(limit, 0, 0.0))
                y = (values(elements(advance(here, j, zero), None, zero)) - m - r) * f + b
                above = absolutes(y) - least
                lowest = pick(above < lowest, above, lowest)
                put_vector(there, j, narrow_vector(y, zero), zero)
            near += any_of(lowest < 0.0)
        for j in range(last, length):
            x = number_of(read(here, j * step, zero)) - _parameter(mean, j, at(geometry, STEPS))
            x -= _parameter(more, j, at(geometry, STEPS + 1))
            y = x * _parameter(factor, j, at(geometry, STEPS + 2)) + _parameter(bias, j, at(geometry, STEPS + 3))
            near += abs(y) < _parameter(limit, j, at(geometry, STEPS + 4))
            put(there, j * apart, narrow(y, zero), zero)
    store(states, 0, near)


AFFINE = Kernel(affine, FLOAT32), Kernel(affine, HALF)


def apply(entry: Entry, source: Array, target: Array, parameters: Sequence[Array]) -> bool:
    """Applies it to a tile.

    Args:
        entry: the machine code.
        source, target: the tile.
        parameters: mean, rest, factor, bias and limit, float64 of the rank of the tile that broadcast to it.

    Returns:
        Whether no result is below its limit in magnitude; if one is, the target holds nothing of worth.
    """
    order = sorted(range(source.ndim), key=lambda i: (source.shape[i] > 1, -abs(source.strides[i])))
    sizes = [source.shape[i] for i in order]
    steps = [
        [0 if each.shape[i] == 1 else each.strides[i] // each.itemsize for i in order]
        for each in (source, target, *parameters)
    ]
    loops = _merged(sizes, list(zip(*steps, strict=True)))
    *outer, (length, inner) = loops
    varying = inner[2:]
    vary = 0 if not any(varying) else 2 if all(step in (0, 1) for step in varying) else 1
    row = [len(outer), length, *inner[:2], vary, *(each.ctypes.data for each in parameters), *varying]
    for size, each in outer:
        row += [size, *each]
    geometry, state = array("q", row), array("q", [0])
    units = source.size // length
    entry.call(0, source.ctypes.data, target.ctypes.data, state.buffer_info()[0], geometry.buffer_info()[0], 0, units)
    return state[0] == 0


def _merged(sizes: list[int], steps: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """Loops, the innermost last; two are one where all tensors go on in the outer one as in the inner one."""
    loops = [(sizes[0], steps[0])]
    for size, each in zip(sizes[1:], steps[1:], strict=True):
        outer, before = loops[-1]
        if outer == 1 or all(a == b * size for a, b in zip(before, each, strict=True)):
            loops[-1] = (outer * size, each)
        else:
            loops.append((size, each))
    return loops
