"""Exponential functions of vectors within some ULPs of float64, where those of ``functions`` would not do."""

from __future__ import annotations

from math import factorial

from ..jit.compiler import inlined
from .vectors import Vector, absolutes, bits_doubles, fused_vectors, longs_bits, pick, spread

_LOG2_E = 1.4426950408889634
_LN2, _LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The logarithm of 2: its first 32 bits, so that multiples are exact, and the rest."""

_MAGIC, _MAGIC_BITS = 6755399441055744.0, 0x4338000000000000
"""1.5 * 2**52: adding it rounds to an integer, which is then in the low bits."""

_BIAS = 1023
"""What is added to the exponents of float64."""

_SIGN = -(2**63)

_A, _B, _C, _D, _E, _F, _G, _H, _I, _J, _K = (1.0 / factorial(i) for i in range(3, 14))

_MOST = 720.0
"""Exponentials of larger numbers are infinite."""

_LEAST = -760.0
"""Exponentials of smaller numbers are 0."""

_NEARLY_LEAST = -60.0
"""At and below it, an exponential less 1 rounds to -1."""

_NEARLY_ONE = 30.0
"""At and above it, a hyperbolic tangent rounds to 1."""


@inlined
def _reduced(x: Vector) -> tuple[Vector, Vector, Vector]:
    """Returns ``e**r - 1`` and the exponents of two powers of two: ``e**x`` is ``e**r`` times these."""
    shifted = fused_vectors(x, _LOG2_E, _MAGIC)
    k = shifted - _MAGIC
    r = fused_vectors(k, -_LN2_REST, fused_vectors(k, -_LN2, x))
    p = fused_vectors(fused_vectors(r, _K, _J), r, spread(_I))
    p = fused_vectors(fused_vectors(p, r, spread(_H)), r, spread(_G))
    p = fused_vectors(fused_vectors(p, r, spread(_F)), r, spread(_E))
    p = fused_vectors(fused_vectors(p, r, spread(_D)), r, spread(_C))
    p = fused_vectors(fused_vectors(p, r, spread(_B)), r, spread(_A))
    p = fused_vectors(p, r, spread(0.5))
    power = longs_bits(shifted) - _MAGIC_BITS
    half = power >> 1
    return fused_vectors(r * r, p, r), half, power - half


@inlined
def _power_of_two(exponents: Vector) -> Vector:
    return bits_doubles((exponents + _BIAS) << 52)


@inlined
def _within(x: Vector, least: float, most: float) -> Vector:
    x = pick(x > least, x, spread(least))
    return pick(x < most, x, spread(most))


@inlined
def exponentials(x: Vector) -> Vector:
    """Returns e**x."""
    above, one, other = _reduced(_within(x, _LEAST, _MOST))
    return pick(x != x, x, (above + 1.0) * _power_of_two(one) * _power_of_two(other))


@inlined
def _exponentials_less_1(x: Vector) -> Vector:
    above, one, other = _reduced(_within(x, _NEARLY_LEAST, _MOST))
    first = _power_of_two(one)
    return fused_vectors(above, first, first - bits_doubles((_BIAS - other) << 52)) * _power_of_two(other)


@inlined
def exponentials_less_1(x: Vector) -> Vector:
    """Returns e**x - 1."""
    return pick(x != x, x, _exponentials_less_1(x))


@inlined
def hyperbolic_tangents(x: Vector) -> Vector:
    """Returns tanh(x)."""
    twice = _exponentials_less_1(_within(absolutes(x), 0.0, _NEARLY_ONE) * 2.0)
    signed = bits_doubles(longs_bits(twice / (twice + 2.0)) | (longs_bits(x) & _SIGN))
    return pick(x != x, x, signed)
