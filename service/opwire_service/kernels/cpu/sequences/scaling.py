"""The kernel that multiplies contiguous numbers by a scale and adds a bias, rounded once."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import bits_double, double_bits, float32, float64, read, store
from ..jit.records import Record
from ..numbers.halves import half_bits, number_of, odd
from ..numbers.rounding import two_sum


class Scaling(Record):
    """Scale and bias, and whether the result has 16 bits."""

    scale: float
    bias: float
    is_half: bool


@inner
def _scaled(number: float, scale: float, bias: float) -> float:
    """Returns the result, or, where FLOAT64 does not represent it, the adjacent number whose last bit is set."""
    product = number * scale  # exact for FLOAT32 numbers
    total, rest = two_sum(product, bias)
    bits = double_bits(total)
    if rest == rest and rest != 0 and not bits & 1:
        bits += 1 if (rest > 0) == (total > 0) else -1
    return bits_double(bits)


@kernel
def scale(zero: float, source: int, target: int, _states: int, geometry: Scaling, begin: int, end: int) -> None:
    """Scales contiguous floats of 16 or 32 bits."""
    factor, bias = geometry.scale, geometry.bias
    if geometry.is_half:
        for i in range(begin, end):
            number = float64(number_of(read(source, i, zero)))
            store(target, i, half_bits(odd(_scaled(number, factor, bias))))
    else:
        for i in range(begin, end):
            number = float64(number_of(read(source, i, zero)))
            store(target, i, float32(_scaled(number, factor, bias)))
