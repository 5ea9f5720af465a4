"""Exact float sums in a Kulisch accumulator: a fixed-point number in 32-bit limbs, as wide as the range of the terms.

A limb is an int64, so 2**31 terms can be added before carries must be propagated. Used only for sums that nothing
cheaper decides.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import bits_double, double_bits, float64, int64, load, store, uint64
from .rounding import two_sum

LIMBS = 28
"""From 2**-448 to 2**448: any number of products of two FLOAT32, and their sum over a third one."""

_LOWEST = -448
"""Exponent of the lowest bit of the lowest limb."""

_LOW_32 = 0xFFFFFFFF


@inner
def clear_limbs(limbs: int) -> None:
    for i in range(LIMBS):
        store(limbs, i, 0)


@inner
def add_value(limbs: int, value: float) -> None:
    """Adds a finite number; carries must be propagated at least every 2**31 additions."""
    bits = double_bits(value)
    exponent = (bits >> 52) & 0x7FF
    if exponent == 0:
        return  # zero: the terms are far above the subnormals of float64
    significand = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    shift = exponent - 1075 - _LOWEST
    place, within = shift >> 5, shift & 31
    low = (significand << within) & _LOW_32
    middle = (significand >> (32 - within)) & _LOW_32
    high = significand >> 32 >> (32 - within)
    if value < 0.0:
        low, middle, high = -low, -middle, -high
    store(limbs, place, load(limbs, place, 0) + low)
    store(limbs, place + 1, load(limbs, place + 1, 0) + middle)
    store(limbs, place + 2, load(limbs, place + 2, 0) + high)


@inner
def propagate_carries(limbs: int) -> None:
    """Propagates carries: every limb but the last is in [0, 2**32) afterwards, and the last one carries the sign."""
    carry = 0
    for i in range(LIMBS - 1):
        value = load(limbs, i, 0) + carry
        carry = value >> 32
        store(limbs, i, value & _LOW_32)
    store(limbs, LIMBS - 1, load(limbs, LIMBS - 1, 0) + carry)


@inner
def high_and_low(limbs: int) -> tuple[float, float]:
    """Returns normalized limbs as high and low part; the low part's last bit is set if bits were cut off (sticky)."""
    negative = load(limbs, LIMBS - 1, 0) < 0
    if negative:
        for i in range(LIMBS):
            store(limbs, i, -load(limbs, i, 0))
        propagate_carries(limbs)
    top = LIMBS - 1
    while top >= 0 and load(limbs, top, 0) == 0:
        top -= 1
    if top < 0:
        return 0.0, 0.0
    # The 128 bits from the top limb down, as two words. Bits below them set the last bit.
    upper = uint64(load(limbs, top, 0)) << uint64(32) | uint64(_limb(limbs, top - 1))
    lower = uint64(_limb(limbs, top - 2)) << uint64(32) | uint64(_limb(limbs, top - 3))
    for i in range(top - 3):
        if load(limbs, i, 0):
            lower |= uint64(1)
    lowest = _LOWEST + 32 * (top - 3)
    while not upper >> uint64(63):
        upper = upper << uint64(1) | lower >> uint64(63)
        lower <<= uint64(1)
        lowest -= 1
    rest = (upper & uint64(0x7FF)) << uint64(42) | lower >> uint64(22)
    if lower & uint64(0x3FFFFF):
        rest |= uint64(1)
    high, low = two_sum(_scaled(upper >> uint64(11), lowest + 75), _scaled(rest, lowest + 22))
    return (-high, -low) if negative else (high, low)


@inner
def _scaled(integer: int, exponent: int) -> float:
    """Returns ``integer * 2**exponent`` for an integer of at most 53 bits."""
    return float64(int64(integer)) * bits_double((exponent + 1023) << 52)


@inner
def _limb(limbs: int, place: int) -> int:
    return load(limbs, place, 0) if place >= 0 else 0
