"""FLOAT16 conversions for element-wise code, and correct rounding from FLOAT64 to FLOAT16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..jit.compiler import inner
from ..jit.element import FLOAT32, HALF, bits_float, float32, float64, float_bits, intrinsic


@intrinsic
def number_of(typing: Any, element: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns a float in a type the processor computes with: FLOAT16 becomes FLOAT32, all others stay."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if element != HALF:
            return args[0]
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return (FLOAT32 if element == HALF else element)(element), code


@intrinsic
def half_bits(typing: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the bits of the FLOAT16 nearest to a FLOAT32."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return HALF(FLOAT32), code


@inner
def odd(number: float) -> float:
    """Rounds a float64 to odd in FLOAT32: inexact results have their last bit set, so rounding again is correct."""
    near = float32(number)
    bits = float_bits(near)
    if float64(near) != number and number == number and not bits & 1:
        return bits_float(bits + 1 if abs(float64(near)) < abs(number) else bits - 1)
    return near
