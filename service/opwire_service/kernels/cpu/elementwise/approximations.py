"""Vectorized FLOAT64 functions, each with a bound on its relative error.

u = 2**-53 is the relative error of one operation. The error of a polynomial is its maximum deviation from the function,
found with 160 bits at thousands of points between which both are smooth; it is well below the rounding errors. Of
those, only the ones in the last steps of a polynomial matter; earlier ones are scaled down by the argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ...formulas.bounds import BINARY64, FUNCTION, Precision
from .lanes import Lanes, Vector

_EXP = (
    2.5100385984118463e-08,
    2.7620089080782014e-07,
    2.755726845896983e-06,
    2.480152129461859e-05,
    0.0001984126986305428,
    0.0013888888917214578,
    0.008333333333330062,
    0.04166666666662413,
    0.16666666666666669,
    0.5000000000000001,
)
"""(exp(r) - 1 - r) / r**2 for |r| up to 0.34661: exp within 2**-55.8, expm1 within 2**-54.4."""

_LOG = (
    0.1308771474739754,
    0.13268669005111386,
    0.15386243592665208,
    0.18181795568589937,
    0.222222223923837,
    0.28571428570800655,
    0.4000000000000088,
    0.6666666666666666,
)
"""(2*atanh(s) - 2*s) / s**3 as a polynomial in s*s up to 0.02946: the logarithm within 2**-60.7."""

_SIN = (
    1.591810123027412e-10,
    -2.5051131455427946e-08,
    2.755731610068303e-06,
    -0.0001984126983675497,
    0.008333333333330946,
    -0.16666666666666666,
)
"""(sin(r)/r - 1) / r**2 as a polynomial in r*r up to (pi/4)**2: within 2**-55.5."""

_COS = (
    -1.1382614868556325e-11,
    2.0876146024689747e-09,
    -2.7557317270560326e-07,
    2.4801587298763433e-05,
    -0.0013888888888887395,
    0.041666666666666664,
)
"""(cos(r) - 1 + r**2/2) / r**4 as a polynomial in r*r up to (pi/4)**2: within 2**-59.5."""

_ERF = (
    -3.56312543380446e-16,
    8.823487385937133e-16,
    8.63285717010356e-15,
    -3.4727246236640795e-14,
    1.9675951463588223e-15,
    1.1888665389463847e-13,
    -2.4763035049385194e-13,
    2.6303532875344563e-12,
    -1.7041825770076632e-11,
    6.461345109077656e-11,
    -1.613496710169354e-10,
    6.517927815644057e-11,
    2.3821492410383636e-09,
    -1.873991850883551e-08,
    9.53097008645176e-08,
    -3.6379988472206903e-07,
    9.312209810361041e-07,
    8.973724245248349e-08,
    -2.088590003208275e-05,
    0.00017708113942825458,
    -0.0010865616656298687,
    0.0057438796767797975,
    -0.027952877490364385,
    -0.8678450868430502,
    -2.682470632308319,
)
"""log(erfc(x)) / x as a polynomial in x - 2, for x from 0 to 4: erf within 2**-51.6."""

_ERFC = (
    -2.8871269944306786e-09,
    -5.8404476055837166e-09,
    4.2716410691534594e-08,
    1.0416161642017391e-07,
    -2.917931740518519e-07,
    -4.1781246705325276e-07,
    2.943972078571712e-06,
    -1.9002519661666727e-06,
    -2.25550671539258e-05,
    7.898274912597037e-05,
    -2.1761962519679174e-05,
    -0.000799126787173351,
    0.004060263652348006,
    -0.012843946031325014,
    0.03129905651693135,
    -0.06310781563980628,
    0.10896317739895875,
    -0.1642578166973069,
    0.21871967891826424,
    -0.25906804876017164,
    0.13699945762506138,
)
"""exp(t*t) * erfc(t) as a polynomial in (t - 4)/(t + 4), for t from 0 to 10.5: within 2**-52.9."""

_LN2 = math.log(2)
_LN2_HIGH, _LN2_LOW = 0.6931471805582987, 1.6465949582897082e-12
"""ln 2 in two parts, the first with 38 bits, so that its products with exponents are exact."""

_HALF_PI = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591691e-33
"""pi/2 in three parts."""

TURNS = 2.0**20
"""Largest angle for which three parts of pi/2 suffice to reduce it near multiples of pi/2."""

STEEP = 2.0**10
"""Maximum amplification of an operand's error in ``GUARDED`` functions; elements with a larger one are left open."""

GUARDED = ("log", "sin", "cos", "tan", "power")
"""Functions that can amplify an operand's error without bound: close to their zeros, or with a large exponent."""

PRECISION = Precision(
    53,
    2 * FUNCTION,
    {"power": 2.0**-46, "erfc": 2.0**-47},
    {**BINARY64.condition, "erfc": 215.0, **dict.fromkeys(GUARDED, STEEP)},
)
"""Error bounds and condition numbers of the functions here.

The condition number of erfc is the one at 10.3: beyond, the only formula that uses erfc yields less than 2**-151, which
is rounded to zero whatever its exact value.
"""

_LEAST, _GREATEST = -707.5, 709.78
"""Between these, exponentials are neither subnormal nor infinite; below, they become 0."""


def _reduced(v: Lanes, x: Vector) -> tuple[Vector, Vector]:
    """Returns ``x - k*log(2)`` within 2**-53.5, with a magnitude of at most 0.3466, and k in the low bits."""
    k, bits = v.nearest(v.multiply(x, v.number(1 / _LN2)))
    r = v.multiply_add(k, v.number(-_LN2_HIGH), x)
    return v.multiply_add(k, v.number(-_LN2_LOW), r), bits


def _exponential(v: Lanes, r: Vector, bits: Vector) -> Vector:
    squared = v.multiply(r, r)
    power = v.multiply_add(squared, v.polynomial(_EXP, r), r)
    return v.exponent_added(v.add(power, v.number(1)), bits)


def _between(v: Lanes, x: Vector, result: Vector) -> Vector:
    """Handles exponentials outside the range of FLOAT64."""
    result = v.choose(v.compare("<", x, v.number(_LEAST)), v.number(0), result)
    return v.choose(v.compare(">", x, v.number(_GREATEST)), v.infinity, result)


def exp(v: Lanes, x: Vector) -> Vector:
    """Within 2**-51: r contributes 2**-53.5, the last two sums of the polynomial 2**-54 and 2**-52.5."""
    return _between(v, x, _exponential(v, *_reduced(v, x)))


def expm1(v: Lanes, x: Vector) -> Vector:
    """Within 2**-50: the error of exp is divided by the result, at least 0.29 for nonzero k; for k = 0, r is x."""
    r, bits = _reduced(v, x)
    power = v.multiply_add(v.multiply(r, r), v.polynomial(_EXP, r), r)
    scale = v.exponent_added(v.number(1), bits)
    result = v.multiply_add(scale, power, v.subtract(scale, v.number(1)))
    result = v.choose(v.compare("<", x, v.number(-60)), v.number(-1), result)
    result = v.choose(v.compare(">", x, v.number(709)), v.infinity, result)
    return v.sign_of(result, x)


def _atanh_series(v: Lanes, s: Vector) -> Vector:
    """Returns ``(2*atanh(s) - 2*s) / s``."""
    z = v.multiply(s, s)
    return v.multiply(z, v.polynomial(_LOG, z))


def log(v: Lanes, x: Vector) -> Vector:
    """Within 2**-50: s contributes 2u, the last sum of the series u, and those with a multiple of log(2) 2u."""
    f, e = v.split(x)
    s = v.divide(f, v.add(f, v.number(2)))
    near = v.multiply_add(s, _atanh_series(v, s), v.add(s, s))
    result = v.multiply_add(e, v.number(_LN2_HIGH), v.multiply_add(e, v.number(_LN2_LOW), near))
    at_zero = v.choose(v.compare("==", x, v.number(0)), v.negate(v.infinity), v.number(math.nan))
    special = v.choose(v.compare(">", x, v.number(0)), v.infinity, at_zero)
    usual = v.builder.and_(v.compare(">", x, v.number(0)), v.compare("<", x, v.infinity))
    return v.choose(usual, result, special)


def log1p(v: Lanes, x: Vector) -> Vector:
    """For numbers from 0 to 1, the only ones that formulas use; within 2**-50, like the logarithm."""
    upper = v.compare(">", x, v.number(math.sqrt(2) - 1))
    f = v.choose(upper, v.multiply(v.subtract(x, v.number(1)), v.number(0.5)), x)
    s = v.divide(f, v.add(f, v.number(2)))
    near = v.multiply_add(s, _atanh_series(v, s), v.add(s, s))
    return v.choose(upper, v.add(near, v.number(_LN2)), near)


def tanh(v: Lanes, x: Vector) -> Vector:
    """Within 2**-49: up to twice the error of expm1, and three roundings."""
    power = expm1(v, v.multiply(v.absolute(x), v.number(-2)))
    return v.sign_of(v.divide(power, v.add(power, v.number(2))), x)


def sinh(v: Lanes, x: Vector) -> Vector:
    """Within 2**-49: the error of expm1, and four roundings."""
    power = expm1(v, v.absolute(x))
    both = v.add(power, v.divide(power, v.add(power, v.number(1))))
    both = v.choose(v.compare("==", power, v.infinity), power, both)
    return v.sign_of(v.multiply(both, v.number(0.5)), x)


def cosh(v: Lanes, x: Vector) -> Vector:
    """Within 2**-50: the error of exp, and two roundings."""
    power = exp(v, v.absolute(x))
    return v.multiply(v.add(power, v.divide(v.number(1), power)), v.number(0.5))


def _sine_and_cosine(v: Lanes, x: Vector) -> tuple[Vector, Vector, Vector]:
    """Returns sine and cosine of an angle reduced by quarter turns, and the number of quarter turns.

    Within 2**-50: the first difference is exact, because both numbers are multiples of 2**-53 and it is below 1; so r
    is within 2u, and the polynomials add 2u.
    """
    k, quarters = v.nearest(v.multiply(x, v.number(2 / math.pi)))
    r = x
    for part in _HALF_PI:
        r = v.fused(k, v.number(-part), r)
    z = v.multiply(r, r)
    sine = v.multiply_add(v.multiply(r, z), v.polynomial(_SIN, z), r)
    low = v.multiply_add(z, v.number(-0.5), v.number(1))
    cosine = v.multiply_add(v.multiply(z, z), v.polynomial(_COS, z), low)
    return sine, cosine, quarters


def sin(v: Lanes, x: Vector) -> Vector:
    """For angles up to ``TURNS``; see ``_sine_and_cosine``."""
    sine, cosine, quarters = _sine_and_cosine(v, x)
    return v.choose(v.compare("==", x, v.number(0)), x, v.turned(quarters, sine, cosine))


def cos(v: Lanes, x: Vector) -> Vector:
    """For angles up to ``TURNS``; see ``_sine_and_cosine``."""
    sine, cosine, quarters = _sine_and_cosine(v, x)
    return v.turned(v.further(quarters), sine, cosine)


def tan(v: Lanes, x: Vector) -> Vector:
    """For angles up to ``TURNS``; within 2**-48.9: two errors of ``_sine_and_cosine`` and a rounding."""
    sine, cosine, quarters = _sine_and_cosine(v, x)
    tangent = v.divide(v.turned(quarters, sine, cosine), v.turned(v.further(quarters), sine, cosine))
    return v.choose(v.compare("==", x, v.number(0)), x, tangent)


def erf(v: Lanes, x: Vector) -> Vector:
    """Within 2**-49 up to 4; beyond, 1, which is what FLOAT32 and FLOAT16 round it to.

    The polynomial is within 5u: its value is at least 1.1, and its terms add up to 5.6. The condition number of the
    exponential is at most 1; expm1 adds its own error.
    """
    size = v.absolute(x)
    exponent = v.multiply(size, v.polynomial(_ERF, v.subtract(size, v.number(2))))
    inside = v.negate(expm1(v, exponent))
    return v.sign_of(v.choose(v.compare(">", size, v.number(4)), v.number(1), inside), x)


def erfc(v: Lanes, x: Vector) -> Vector:
    """Within 2**-48 up to 10.5; beyond, 0, as FLOAT32 and FLOAT16 round its products with numbers near 10 to 0.

    The terms of the polynomial are at most 6 times its sum, so its error is 12u; the square is an exact sum of two
    numbers, and exp adds its own error.
    """
    size = v.absolute(x)
    squared = v.multiply(size, size)
    rest = v.fused(size, size, v.negate(squared))
    u = v.divide(v.subtract(size, v.number(4)), v.add(size, v.number(4)))
    r, bits = _reduced(v, v.negate(squared))
    tail = v.multiply(_exponential(v, v.subtract(r, rest), bits), v.polynomial(_ERFC, u))
    tail = v.choose(v.compare(">", size, v.number(10.5)), v.number(0), tail)
    return v.choose(v.compare("<", x, v.number(0)), v.subtract(v.number(2), tail), tail)


def power(v: Lanes, x: Vector, y: Vector) -> Vector:
    """Within 2**-46: the logarithm is a sum of two numbers within 2**-57, scaled up to 710; exp adds its own error.

    For finite numbers only, with the special cases of C's pow.
    """
    size = v.absolute(x)
    high, low = _long_log(v, size)
    product = v.multiply(y, high)
    rest = v.multiply_add(y, low, v.fused(y, high, v.negate(product)))
    r, bits = _reduced(v, product)
    result = _between(v, product, _exponential(v, v.add(r, rest), bits))
    at_zero = v.choose(v.compare(">", y, v.number(0)), v.number(0), v.infinity)
    result = v.choose(v.compare("==", x, v.number(0)), at_zero, result)
    whole, odd = _is_whole(v, y), v.builder.not_(_is_whole(v, v.multiply(y, v.number(0.5))))
    signed = v.choose(v.builder.and_(whole, odd), v.sign_of(result, x), result)
    is_outside = v.builder.and_(v.compare("<", x, v.number(0)), v.builder.not_(whole))
    result = v.choose(is_outside, v.number(math.nan), signed)
    return v.choose(v.compare("==", y, v.number(0)), v.number(1), result)


def _is_whole(v: Lanes, x: Vector) -> Vector:
    return v.compare("==", v.call("floor", x), x)


def _long_log(v: Lanes, x: Vector) -> tuple[Vector, Vector]:
    """Returns the logarithm as a sum of two numbers, within 2**-57.

    s with its remainder is accurate to 2**-105, the series to 2**-60, and its roundings add 2**-59. The rounding error
    of 2 + f is exact and goes into the remainder of s.
    """
    f, e = v.split(x)
    divisor = v.add(f, v.number(2))
    f_rest = v.subtract(f, v.subtract(divisor, v.number(2)))
    s = v.divide(f, divisor)
    left = v.fused(v.negate(s), divisor, f)
    left = v.multiply_add(v.negate(s), f_rest, left)
    s_rest = v.divide(left, divisor)
    series = v.multiply_add(s, _atanh_series(v, s), v.add(s_rest, s_rest))
    twice, whole = v.add(s, s), v.multiply(e, v.number(_LN2_HIGH))
    high = v.add(whole, twice)
    lost = v.subtract(twice, v.subtract(high, whole))
    low = v.add(lost, v.multiply_add(e, v.number(_LN2_LOW), series))
    total = v.add(high, low)  # the remainder is small: exp is reduced by the first part alone
    return total, v.subtract(low, v.subtract(total, high))


def is_steep(v: Lanes, name: str, operands: Sequence[Vector], value: Vector) -> Vector:
    """Returns where a guarded function amplifies the relative error of its first operand more than ``STEEP`` times.

    The condition number of the logarithm is 1/log(x); that of sine and cosine at most x over their value, that of the
    tangent ``x * (t + 1/t)``, and that of a power its exponent.
    """
    x, steep = v.absolute(operands[0]), v.number(STEEP)
    size = v.absolute(value)
    if name == "power":
        return v.compare(">", v.absolute(operands[1]), steep)
    if name == "log":
        return v.compare("<", size, v.number(1 / STEEP))
    if name == "tan":
        return v.compare("<", v.multiply(size, steep), v.multiply(x, v.multiply_add(size, size, v.number(1))))
    return v.compare("<", v.multiply(size, steep), x)


FUNCTIONS: Mapping[str, Callable[..., Vector]] = {
    function.__name__: function
    for function in (exp, expm1, log, log1p, tanh, sinh, cosh, sin, cos, tan, erf, erfc, power)
}
