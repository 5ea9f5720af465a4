"""Quotients rounded to integers, for quantization to 8 bits: in FLOAT32 where that decides, else in FLOAT64."""

from __future__ import annotations

from llvmlite import ir

from ..numbers.lanes import FLOAT, Lanes, Vector

NEAREST_QUOTIENT = "nearest_quotient"
"""Name of the primitive that this module implements, with a number, a scale and a zero point as operands."""

MOST_QUOTIENT = 1024.0
"""Quotients are clamped to this magnitude: larger ones saturate with any zero point."""

_SURE = 0.5 - 2.0**-12
"""Maximum distance from an integer. FLOAT32 is off by 2**-23 of a quotient and less than 2**-13 of the largest one;
quotients closer to a half are recomputed."""

_TO_GRID = 1.5 * 2.0**25
"""Adding and subtracting it rounds a FLOAT64 to a multiple of 2**-27.

A quotient of two 24-bit numbers above 1/4 that is not an odd multiple of a half is more than 2**-26 away from each; the
product with the reciprocal is off by 2**-42. So it is on the correct side of each half, or becomes that half.
"""


def nearest_quotient(v: Lanes, x: Vector, scale: Vector, zero_point: Vector) -> Vector:
    """Returns quotients rounded to the nearest integers, ties to even, plus zero points, as FLOAT32; NaN gives 0.

    Args:
        v: code writer.
        x, scale: FLOAT64 that hold FLOAT32 values.
        zero_point: FLOAT64 that hold 8-bit integers.
    """
    builder = v.builder
    moved = builder.fptrunc(zero_point, v.of(FLOAT))
    reciprocal = v.divide(v.number(1.0), scale)
    near = builder.fptrunc(reciprocal, v.of(FLOAT))
    quotient = v.limited(v.multiply(builder.fptrunc(x, v.of(FLOAT)), near), MOST_QUOTIENT)
    whole = v.call("rint", quotient)
    rest = v.absolute(v.subtract(quotient, whole))
    size = v.absolute(reciprocal)
    usual = builder.and_(v.compare(">", size, v.number(2.0**-126)), v.compare("<", size, v.number(2.0**126)))
    is_sure = builder.and_(v.compare("<", rest, v.constant(FLOAT, _SURE)), usual)
    bits = builder.bitcast(is_sure, ir.IntType(v.width))
    open_ones = builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, -1))
    quick_block = builder.block
    with builder.if_then(open_ones, likely=False):
        careful = _careful(v, x, reciprocal, moved)
        careful_block = builder.block
    found = builder.phi(whole.type)
    found.add_incoming(whole, quick_block)
    found.add_incoming(careful, careful_block)
    return v.add(found, moved)


def _careful(v: Lanes, x: Vector, reciprocal: Vector, moved: Vector) -> Vector:
    """Returns rounded quotients, or the opposite of the zero point for NaN."""
    grid = v.number(_TO_GRID)
    quotient = v.limited(v.multiply(x, reciprocal), MOST_QUOTIENT)
    whole = v.call("rint", v.subtract(v.add(quotient, grid), grid))
    is_number = v.builder.fcmp_ordered("ord", whole, whole)
    return v.choose(is_number, v.builder.fptrunc(whole, v.of(FLOAT)), v.negate(moved))
