"""MULTIPLY of floats: products as significand and exponent, so that no partial product leaves float64's range.

A significand is in [1, 2), or is zero, infinity or NaN; these propagate by the rules of IEEE arithmetic, and ordinary
factors never produce them. A group of factors is multiplied before the exponent is split off; ``factors_in_range``
bounds its size. n multiplications in float64 have a relative error of at most n * UNIT, to first order. What that
leaves undecided is multiplied again with compensation for the error of each multiplication; what is undecided even then
is flagged.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inlined, inner, kernel
from ..jit.element import bits_double, double_bits, float64, fused, int8, int32, load, prefetch, read, store
from ..jit.prefetch import AHEAD, rows_ahead
from ..numbers.formats import (
    factors_in_range,
    infinity_bits,
    narrow,
    narrow_vector,
    number_of,
    product_of_pairs,
    put,
    values,
)
from ..numbers.rounding import UNIT, to_odd, two_sum
from ..numbers.vectors import (
    WIDTH,
    Vector,
    absolutes,
    any_of,
    bits_doubles,
    elements,
    load_vector,
    longs_bits,
    pick,
    product_of,
    spread,
    store_vector,
    sum_of,
)
from ..run.column_rows import Rows, column_address, walk
from ..run.geometry import Tile, advance, run_from
from . import blocks
from .blocks import BATCH
from .geometry import FloatReduction

PARTS = 2
"""Parts of a state: significand and exponent."""

SETTLED = 1 << 24
"""Maximum number of factors that a kernel settles: some 50 ms."""

_SLACK = 1.001
"""Safety factor for the higher-order terms of error bounds."""

_EXPONENT, _MAGNITUDE = 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF
"""Masks of a float64's exponent field and of all bits but the sign."""

_TWICE_BIAS = 0x7FE0000000000000
"""Twice the exponent bias, in the exponent field."""

_FAR = 400
"""Beyond these exponents any significand overflows, or rounds to zero."""

Product = tuple[Vector, Vector]
"""A vector of products: significands and exponents."""


def bound(count: int, segments: int) -> float:
    """Returns the relative error bound of a product: one rounding per factor, and those of folding and merging."""
    return _SLACK * UNIT * (count + (2 * WIDTH + 1) * segments + 4)


@inner
def _split(value: float) -> tuple[float, float, int]:
    """Splits a value that is not subnormal into its significand, the scale applied to it, and its exponent."""
    exponent = double_bits(value) & _EXPONENT
    # With the sign bit cleared, the scale of an infinity is infinite and that of a zero finite.
    scale = bits_double((_TWICE_BIAS - exponent) & _MAGNITUDE)
    return value * scale, scale, (exponent >> 52) - 1023


@inlined
def _split_all(significands: Vector, exponents: Vector) -> Product:
    """Like ``_split``, for a vector, without the scale; adds to ``exponents``."""
    bits = longs_bits(significands) & _EXPONENT
    scale = bits_doubles((_TWICE_BIAS - bits) & _MAGNITUDE)
    return significands * scale, exponents + ((bits >> 52) - 1023)


@inlined
def _times(
    zero: float, address: int, count: int, pitch: int, step: int | None, ahead: int, product: Product
) -> Product:
    """Multiplies by vectors that are ``pitch`` bytes apart; prefetches ``ahead`` bytes past each."""
    group, (significands, exponents) = factors_in_range(zero), product
    for _ in range(count // group):
        for i in range(0, group, 2):
            here = address + i * pitch
            if ahead:
                prefetch(here + ahead)
                prefetch(here + pitch + ahead)
            pairs = product_of_pairs(elements(here, step, zero), elements(here + pitch, step, zero))
            significands = significands * pairs
        significands, exponents = _split_all(significands, exponents)
        address += group * pitch
    for _ in range(count % group):
        significands = significands * values(elements(address, step, zero))
        address += pitch
    return _split_all(significands, exponents)


@inner
def _evaluate_row(
    zero: float, base: int, geometry: FloatReduction, begin: int, end: int, state: int, distance: int
) -> None:
    step = geometry.step
    pitch, product = advance(0, WIDTH * step, zero), (spread(1.0), spread(0))
    high, exponent = 1.0, 0
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        vectors = size // WIDTH
        if step == 1:
            product = _times(zero, address, vectors, pitch, None, AHEAD, product)
        else:
            product = _times(zero, address, vectors, pitch, step, AHEAD, product)
        for j in range(vectors * WIDTH, size):
            high, _, shift = _split(high * number_of(read(address, j * step, zero)))
            exponent += shift
        i += size
    high, _, shift = _split(high * product_of(product[0]))
    store(state, 0, high)
    store(state, distance, exponent + shift + sum_of(product[1]))


class _Products(NamedTuple):
    """The address of the columns' products, and the distance of their parts."""

    states: int
    distance: int


@inner
def _take(zero: float, rows: Rows, memory: _Products, state: int) -> int:
    """Multiplies the columns' products by a group of rows."""
    states, distance = memory
    whole, ahead = rows.width // WIDTH * WIDTH, rows_ahead(rows.pitch, rows.height)
    for i in range(0, whole, WIDTH):
        product = load_vector(states, i, 0.0), load_vector(states, distance + i, 0)
        product = _times(zero, column_address(zero, rows, i), rows.height, rows.pitch, rows.step, ahead, product)
        store_vector(states, i, product[0])
        store_vector(states, distance + i, product[1])
    for i in range(whole, rows.width):
        high, exponent = load(states, i, 0.0), load(states, distance + i, 0)
        for j in range(rows.height):
            factor = number_of(read(column_address(zero, rows, i) + j * rows.pitch, 0, zero))
            high, _, shift = _split(high * factor)
            exponent += shift
        store(states, i, high)
        store(states, distance + i, exponent)
    return state


@inner
def _evaluate_columns(zero: float, geometry: FloatReduction, tile: Tile, state: int, distance: int) -> None:
    for i in range(0, distance, WIDTH):
        store_vector(state, i, spread(1.0))
        store_vector(state, distance + i, spread(0))
    walk(zero, geometry, tile, factors_in_range(zero), _take, _Products(state, distance), 0)


@inner
def _merge(segments: int, states: int, distance: int, merged: int) -> None:
    product = spread(1.0), spread(0)
    for i in range(segments):
        here = PARTS * distance * i
        significands = product[0] * load_vector(states, here, 0.0)
        product = _split_all(significands, product[1] + load_vector(states, here + distance, 0))
    store_vector(merged, 0, product[0])
    store_vector(merged, BATCH, product[1])


@inner
def _round_block(
    zero: float, geometry: FloatReduction, state: int, distance: int, width: int, results: int, flagged: int
) -> bool:
    infinity, error, any_flagged = infinity_bits(zero), geometry.bound + 4 * UNIT, False
    for i in range(0, width, WIDTH):
        high, exponent = load_vector(state, i, 0.0), load_vector(state, distance + i, 0)
        far = (exponent > _FAR) | (exponent < -_FAR)
        result = high * bits_doubles((pick(far, spread(0), exponent) + 1023) << 52)
        margin = absolutes(result) * error
        below, above = narrow_vector(result - margin, zero), narrow_vector(result + margin, zero)
        differing = below ^ above
        special = far | ((below & infinity) > infinity - 1)
        store_vector(results, i, below)
        store_vector(flagged, i, pick(special, spread(int32(1)), differing))
        any_flagged |= any_of(special | (differing != 0))
    return any_flagged


@inner
def _rounded(zero: float, high: float, low: float, exponent: int, error: float) -> tuple[bool, int]:
    """Returns whether a product with a relative error decides the result, and the result's bits."""
    if high == 0.0 or high - high != 0.0:
        return True, narrow(high, zero)
    scale = bits_double((min(max(exponent, -_FAR), _FAR) + 1023) << 52)
    high, low = high * scale, low * scale
    margin = abs(high) * error
    below_high, below_low = two_sum(high, low - margin)
    above_high, above_low = two_sum(high, low + margin)
    below = narrow(to_odd(below_high, below_low), zero)
    above = narrow(to_odd(above_high, above_low), zero)
    return below == above, below


@inner
def _round_one(zero: float, geometry: FloatReduction, state: int, distance: int) -> tuple[bool, int]:
    error = geometry.bound
    return _rounded(zero, load(state, 0, 0.0), 0.0, load(state, distance, 0), error)


@inner
def _compensated(zero: float, base: int, geometry: FloatReduction) -> tuple[float, float, int, float]:
    """Returns the product of all factors, none of them special: high and low part, exponent and relative error.

    The low part grows by at most UNIT per factor, relative to the product; its own roundings add at most twice UNIT of
    it.
    """
    step, end = geometry.step, geometry.count
    high, low, exponent, exact = 1.0, 0.0, 0, True
    i = 0
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        for j in range(size):
            factor = number_of(read(address, j * step, zero))
            product = high * factor
            rest = fused(high, factor, -product)
            exact = exact and rest == 0.0
            high, scale, shift = _split(product)
            low, exponent = (low * factor + rest) * scale, exponent + shift
        i += size
    count = float64(end)
    return high, low, exponent, 0.0 if exact else (2.0 * count + 4.0) * (count + 1.0) * UNIT * UNIT


@kernel
def settle(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """Writes the product of the factors from ``source`` on to ``target``, or sets the flag at ``states``."""
    decided = False
    if geometry.count <= SETTLED:
        high, low, exponent, error = _compensated(zero, source, geometry)
        decided, bits = _rounded(zero, high, low, exponent, error)
        put(target, 0, bits, zero)
    if not decided:
        store(states, 0, int8(1))


@kernel
def rows(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """See ``blocks.rows``."""
    blocks.rows(zero, source, target, states, geometry, begin, end, PARTS, _evaluate_row, _round_block, _round_one)


@kernel
def columns(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """See ``blocks.columns``."""
    blocks.columns(
        zero, source, target, states, geometry, begin, end, PARTS, _evaluate_columns, _round_block, _round_one
    )


@kernel
def finish(zero: float, source: int, target: int, states: int, geometry: FloatReduction, begin: int, end: int) -> None:
    """See ``blocks.finish``."""
    blocks.finish(zero, source, target, states, geometry, begin, end, PARTS, _merge, _round_block, _round_one)
