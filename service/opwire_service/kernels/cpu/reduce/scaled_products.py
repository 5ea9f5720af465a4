"""Products as significand and exponent, so that no partial product leaves float64's range.

A significand is in [1, 2), or is zero, infinity or NaN; these propagate by the rules of IEEE arithmetic, and ordinary
factors never produce them. A group of factors is multiplied before the exponent is split off; ``factors_in_range``
bounds its size.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.element import bits_double, double_bits, prefetch, read
from ..jit.prefetch import AHEAD
from ..numbers.formats import factors_in_range, masked, product_of_pairs, values
from ..numbers.vectors import Vector, bits_doubles, elements, longs_bits

Product = tuple[Vector, Vector]
"""A vector of products: significands and exponents."""

_EXPONENT = 0x7FF0000000000000
"""Mask of a float64's exponent field."""

_TWICE_BIAS = 0x7FE0000000000000
"""Twice the exponent bias, in the exponent field."""

_MAGNITUDE = 0x7FFFFFFFFFFFFFFF


@inner
def factor(zero: float, address: int, index: int) -> float:
    return masked(read(address, index, zero), -1)


@inner
def split(value: float) -> tuple[float, float, int]:
    """Splits a value that is not subnormal into its significand, the scale applied to it, and its exponent."""
    exponent = double_bits(value) & _EXPONENT
    # With the sign bit cleared, the scale of an infinity is infinite and that of a zero finite.
    scale = bits_double((_TWICE_BIAS - exponent) & _MAGNITUDE)
    return value * scale, scale, (exponent >> 52) - 1023


@inner
def split_scaled(values: Vector, exponents: Vector) -> tuple[Vector, Vector, Vector]:
    """Like ``split``, for a vector; adds to ``exponents``."""
    bits = longs_bits(values) & _EXPONENT
    scale = bits_doubles((_TWICE_BIAS - bits) & _MAGNITUDE)
    return values * scale, scale, exponents + ((bits >> 52) - 1023)


@inner
def split_all(values: Vector, exponents: Vector) -> Product:
    """Like ``split_scaled``, without the scale."""
    significands, _, exponents = split_scaled(values, exponents)
    return significands, exponents


@inlined
def times_group(zero: float, address: int, row: int, ahead: int, step: int | None, product: Product) -> Product:
    """Multiplies by ``factors_in_range`` vectors, ``row`` bytes apart, and prefetches ``ahead`` bytes past them."""
    significands = product[0]
    for i in range(0, factors_in_range(zero), 2):
        here = address + i * row
        prefetch(here + ahead)
        prefetch(here + row + ahead)
        pairs = product_of_pairs(elements(here, step, zero), elements(here + row, step, zero))
        significands = significands * pairs
    return split_all(significands, product[1])


@inlined
def times_rest(zero: float, address: int, row: int, rows: int, step: int | None, product: Product) -> Product:
    """Multiplies by fewer vectors than a group."""
    significands = product[0]
    for i in range(rows):
        significands = significands * values(elements(address + i * row, step, zero))
    return split_all(significands, product[1])


@inlined
def times_run(zero: float, address: int, vectors: int, row: int, step: int | None, product: Product) -> Product:
    """Multiplies by any number of vectors."""
    group = factors_in_range(zero)
    for _ in range(vectors // group):
        product = times_group(zero, address, row, AHEAD, step, product)
        address += group * row
    return times_rest(zero, address, row, vectors % group, step, product)
