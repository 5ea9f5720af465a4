"""FLOAT16 among the numbers that the processor computes with, and how a FLOAT64 is rounded to it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..jit.compiler import inner
from ..jit.element import FLOAT32, HALF, bits_float, float32, float64, float_bits, intrinsic


@intrinsic
def number_of(typing: Any, element: Any) -> tuple[Any, Callable[..., Any]]:
    """A float as one that the processor computes with."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if element != HALF:
            return args[0]
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return (FLOAT32 if element == HALF else element)(element), code


@intrinsic
def half_bits(typing: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """The FLOAT16 that is nearest to a FLOAT32."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return HALF(FLOAT32), code


@inner
def odd(number: float) -> float:
    """A FLOAT32 that rounds to any narrower type as the number does: where it differs, its last bit is set."""
    near = float32(number)
    bits = float_bits(near)
    if float64(near) != number and number == number and not bits & 1:
        return bits_float(bits + 1 if abs(float64(near)) < abs(number) else bits - 1)
    return near
