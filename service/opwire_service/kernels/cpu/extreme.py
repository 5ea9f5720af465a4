"""Least and greatest elements and where they are, for MIN, MAX, ARGMIN and ARGMAX of every data type.

An element becomes a signed integer, its key, whose order is the one asked for, so a kernel depends on the width of the
elements alone. Of a float the key of NaN is below all others (``FLOOR``), and -0 and +0 have the neighbouring keys
``BIAS - 1`` and ``BIAS``; ``canonical`` takes them as equal where that decides which element is named.
"""

from __future__ import annotations

from opwire.tensor import DataType

from . import geometry as g
from .compiler import inner, kernel
from .element import cast_to, int32, int64, larger, load, nearest, order_key, read, size_of, store
from .geometry import advance, at

NOTHING = -(2**63)
"""The canonical key of NaN: no winner yet."""

_BLOCK = 1 << 14
"""Bytes among which a winner is noted, to be looked for in the end."""

_PART, _SMALL_PART = 1024, 128
"""Bytes that are asked at once whether the winner is there."""


def order_parameters(data_type: DataType, *, least: bool) -> dict[int, int]:
    """What makes keys of a data type: an element's bits are flipped below the sign if they are a negative float's,
    then inverted by ``INVERT``, then ``BIAS`` is added, which wraps the keys of NaN below that of the worst infinity.
    """
    bits = data_type.bits
    if data_type.is_float:
        infinity = {16: 0x7C00, 32: 0x7F800000}[bits]
        flip = 2 ** (bits - 1) - 1
        bias = flip - infinity
        return {g.FLIP: flip, g.INVERT: -1 if least else 0, g.BIAS: bias, g.FLOOR: bias - 1 - infinity, g.IS_FLOAT: 1}
    lowest = -(2 ** (bits - 1))
    invert = 0 if data_type.is_signed else lowest
    return {g.FLIP: 0, g.INVERT: ~invert if least else invert, g.BIAS: 0, g.FLOOR: lowest, g.IS_FLOAT: 0}


@inner
def parameter(geometry: int, place: int, zero: int) -> int:
    return cast_to(at(geometry, place), zero)


@inner
def key_of(bits: int, geometry: int, zero: int) -> int:
    return order_key(
        bits,
        parameter(geometry, g.FLIP, zero),
        parameter(geometry, g.INVERT, zero),
        parameter(geometry, g.BIAS, zero),
    )


@inner
def element_bits(key: int, geometry: int, zero: int) -> int:
    """The element of a key; the steps of ``order_key`` backwards."""
    plain = (key - at(geometry, g.BIAS)) ^ at(geometry, g.INVERT)
    if plain < 0:
        plain ^= at(geometry, g.FLIP)
    return cast_to(plain, zero)


@inner
def canonical(key: int, geometry: int) -> int:
    if at(geometry, g.IS_FLOAT):
        if key < at(geometry, g.FLOOR):
            return NOTHING
        if key == at(geometry, g.BIAS) - 1:
            return key + 1
    return key


@inner
def _greatest(zero: int, address: int, count: int, step: int, geometry: int) -> int:
    """The greatest key of a run."""
    flip = parameter(geometry, g.FLIP, zero)
    invert = parameter(geometry, g.INVERT, zero)
    bias = parameter(geometry, g.BIAS, zero)
    best = order_key(read(address, 0, zero), flip, invert, bias)
    if step == 1:
        for i in range(1, count):
            best = larger(order_key(read(address, i, zero), flip, invert, bias), best)
    else:
        for i in range(1, count):
            best = larger(order_key(read(address, i * step, zero), flip, invert, bias), best)
    return int64(best)


@inner
def has(zero: int, address: int, count: int, step: int, one: int, other: int) -> bool:
    """Whether a run has an element with one of two patterns of bits."""
    least = cast_to(-1, zero)
    if step == 1:
        for i in range(count):
            least = nearest(least, read(address, i, zero), one, other)
    else:
        for i in range(count):
            least = nearest(least, read(address, i * step, zero), one, other)
    return least == 0


@inner
def _locate(zero: int, address: int, count: int, step: int, geometry: int, best: int) -> int:
    """Where the first (last) element with a canonical key is in a run that has one."""
    one = element_bits(best, geometry, zero)
    other = element_bits(best - 1, geometry, zero) if _is_zero(best, geometry) else one
    last = at(geometry, g.LAST)
    start, size = begin, length = 0, count
    for part in (_PART // size_of(zero), _SMALL_PART // size_of(zero)):
        parts = (size + part - 1) // part
        for i in range(parts):
            begin = start + (parts - 1 - i if last else i) * part
            length = min(part, start + size - begin)
            if has(zero, advance(address, begin * step, zero), length, step, one, other):
                break
        start, size = begin, length
    for i in range(size):
        found = start + (size - 1 - i if last else i)
        element = read(address, found * step, zero)
        if element in (one, other):
            return found
    return start


@inner
def _is_zero(key: int, geometry: int) -> bool:
    """Whether a canonical key is that of the zeros of a float."""
    return at(geometry, g.IS_FLOAT) != 0 and key == at(geometry, g.BIAS)


@inner
def _scan(zero: int, base: int, geometry: int, begin: int, end: int) -> tuple[int, int]:
    """The greatest canonical key of reduced elements ``begin`` to ``end``, and the index of the one that has it."""
    run_size, step, last = at(geometry, g.RUN), at(geometry, g.STEP), at(geometry, g.LAST)
    block = _BLOCK // size_of(zero)
    best, index = NOTHING, end - 1 if last else begin
    found_address, found_size, found_index = base, 0, index
    i = begin
    while i < end:
        run = i // run_size
        address = advance(base, g.run_source(geometry, run) + (i - run * run_size) * step, zero)
        left = min(run_size - (i - run * run_size), end - i)
        while left > 0:
            size = min(left, block)
            key = canonical(_greatest(zero, address, size, step, geometry), geometry)
            if key > best or (last and key == best):
                best = key
                found_address, found_size, found_index = address, size, i
            i += size
            left -= size
            address = advance(address, size * step, zero)
    if best != NOTHING:
        index = found_index + _locate(zero, found_address, found_size, step, geometry, best)
    return best, index


@inner
def put_winner(zero: int, base: int, address: int, offset: int, index: int, geometry: int) -> None:
    """Puts the winner's index, or the winner, into the output."""
    size = at(geometry, g.INDEX_SIZE)
    if size == 8:
        store(address, offset, index)
    elif size == 4:
        store(address, offset, int32(index))
    else:
        store(address, offset, read(base, g.reduced_source(geometry, index), zero))


@inner
def put_value(zero: int, base: int, geometry: int, address: int, offset: int, key: int) -> None:
    """Puts the element of a greatest key into the output; of equal zeros and of NaN the one to name is looked for."""
    if canonical(key, geometry) == NOTHING or _is_zero(key, geometry):
        _, index = _scan(zero, base, geometry, 0, at(geometry, g.COUNT))
        put_winner(zero, base, address, offset, index, geometry)
    else:
        store(address, offset, element_bits(key, geometry, zero))


@kernel
def rows(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """One output element and one segment a unit; several segments leave (key, index) each in ``states``."""
    segments, segment, count = at(geometry, g.SEGMENTS), at(geometry, g.SEGMENT), at(geometry, g.COUNT)
    run_size, step = at(geometry, g.RUN), at(geometry, g.STEP)
    for unit in range(begin, end):
        output = unit // segments
        base = advance(source, g.kept_source(geometry, output), zero)
        if segments > 1:
            first = (unit - output * segments) * segment
            best, index = _scan(zero, base, geometry, first, min(first + segment, count))
            store(states, 2 * unit, best)
            store(states, 2 * unit + 1, index)
        elif at(geometry, g.INDEX_SIZE):
            _, index = _scan(zero, base, geometry, 0, count)
            put_winner(zero, base, target, g.kept_target(geometry, output), index, geometry)
        else:
            key = _greatest(zero, base, run_size, step, geometry)
            for run in range(1, count // run_size):
                address = advance(base, g.run_source(geometry, run), zero)
                key = max(key, _greatest(zero, address, run_size, step, geometry))
            put_value(zero, base, geometry, target, g.kept_target(geometry, output), key)


@kernel
def finish(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Merges the segments of output elements. The kept loops of the geometry include the columns."""
    segments, last = at(geometry, g.SEGMENTS), at(geometry, g.LAST)
    for output in range(begin, end):
        first = states + 16 * output * segments
        best, index = load(first, 0, 0), load(first, 1, 0)
        for i in range(1, segments):
            key = load(first, 2 * i, 0)
            if key > best or (last and key == best):
                best, index = key, load(first, 2 * i + 1, 0)
        base = advance(source, g.kept_source(geometry, output), zero)
        put_winner(zero, base, target, g.kept_target(geometry, output), index, geometry)
