"""Conversion of elements between types, as vector code."""

from __future__ import annotations

from llvmlite import ir

from opwire.tensor import DataType

from ..numbers.lanes import DOUBLE, FLOAT, HALF, INT, SHORT, Lanes, Vector
from .certified_code import odd
from .code import stored_type


def converted(v: Lanes, value: Vector, source: DataType, output: DataType) -> Vector:
    """Returns elements converted to another type, as they are stored.

    Floats are rounded once to narrower floats, truncated and saturated to integers (NaN becomes 0). Integers wrap
    modulo 2**width, but those of 8 bits wrap in 32 bits and then saturate.
    """
    if not source.is_float:
        return _of_integers(v, value, source, output)
    number = _number(v, value, source)
    if not output.is_float:
        is_number = v.builder.fcmp_ordered("ord", number, number)
        number = v.choose(is_number, number, v.constant(number.type.element, 0.0))
    return of_floats(v, number, output)


def _number(v: Lanes, value: Vector, source: DataType) -> Vector:
    """Converts stored floats to numbers."""
    if source is not DataType.FLOAT16:
        return value
    return v.builder.fpext(v.builder.bitcast(value, v.of(HALF)), v.of(FLOAT))


def _of_integers(v: Lanes, value: Vector, source: DataType, output: DataType) -> Vector:
    builder, width = v.builder, output.bits
    if not output.is_float:
        if width == 8 and output is not source:
            return _as_bytes(v, value, source, output)
        if width <= source.bits:
            return builder.trunc(value, v.of(stored_type(output))) if width < source.bits else value
        return (builder.sext if source.is_signed else builder.zext)(value, v.of(stored_type(output)))
    convert = builder.sitofp if source.is_signed else builder.uitofp
    if output is not DataType.FLOAT16:
        return convert(value, v.of(stored_type(output)))
    # Whatever overflows FLOAT32 is infinite in FLOAT16.
    return of_floats(v, convert(value, v.of(FLOAT)), output)


def _as_bytes(v: Lanes, value: Vector, source: DataType, output: DataType) -> Vector:
    builder = v.builder
    if source.bits > 32:
        value = builder.trunc(value, v.of(INT))
    elif source.bits < 32:
        value = (builder.sext if source.is_signed else builder.zext)(value, v.of(INT))
    least, greatest = (v.constant(INT, limit) for limit in output.limits)
    if not output.is_signed:
        return builder.trunc(
            v.choose(builder.icmp_unsigned("<", value, greatest), value, greatest), v.of(stored_type(output))
        )
    value = v.choose(builder.icmp_signed(">", value, least), value, least)
    return builder.trunc(
        v.choose(builder.icmp_signed("<", value, greatest), value, greatest), v.of(stored_type(output))
    )


def of_floats(v: Lanes, number: Vector, output: DataType) -> Vector:
    """Converts FLOAT32 or FLOAT64 to elements; for integers there must be no NaN."""
    if not output.is_float:
        return _as_integers(v, number, output)
    builder, is_wide = v.builder, number.type.element == DOUBLE
    if output is DataType.FLOAT64:
        return number if is_wide else builder.fpext(number, v.of(DOUBLE))
    near = builder.fptrunc(number, v.of(FLOAT)) if is_wide else number
    if output is DataType.FLOAT32:
        return near
    near = odd(v, near, number) if is_wide else near
    return builder.bitcast(builder.fptrunc(near, v.of(HALF)), v.of(SHORT))


def _as_integers(v: Lanes, number: Vector, output: DataType) -> Vector:
    builder, element = v.builder, number.type.element
    least, greatest = output.limits
    low = v.constant(element, float(least))
    number = v.choose(v.compare(">", number, low), number, low)
    if output.bits <= 16:
        high = v.constant(element, float(greatest))
        number = v.choose(v.compare("<", number, high), number, high)
        return builder.trunc(builder.fptosi(number, v.of(INT)), v.of(stored_type(output)))
    # The greatest integer may not be a float, but its successor is.
    kind = v.of(stored_type(output))
    whole = (builder.fptosi if output.is_signed else builder.fptoui)(number, kind)
    is_beyond = v.compare(">=", number, v.constant(element, float(greatest + 1)))
    return v.choose(is_beyond, ir.Constant(kind, [greatest] * v.width), whole)
