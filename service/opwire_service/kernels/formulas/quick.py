"""Functions of FLOAT64 in few operations, that settle most results of FLOAT32 and FLOAT16.

Their errors are some 2**-38. Where that is too near the middle of two floats, the function is computed again with more
care. Each is written once, for whatever writes code: vectors of a processor, or C for a card.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opwire.formulas import Expression, Operation, erfc, sqrt

from . import quick_coefficients as fitted
from .bounds import BINARY64, Precision
from .formula import primitives
from .writer import Number, Writer

_LOG2_E, _LN2 = 1 / math.log(2), math.log(2)
_HALF_PI = 1.5707963267948966, 6.123233995736766e-17

MOST = 690.0
"""Exponents have this size at most: what they are of is beyond the range of FLOAT32, and 0 or an infinity in it."""

TURNS = 2.0**20
"""Up to which an angle is told from multiples of pi/2 by two parts of that."""

QUICK = Precision(
    50,
    2.0**-38.1,
    {
        **{"log": 2.0**-44, "log1p": 2.0**-43, "expm1": 2.0**-42, "tanh": 2.0**-39.4, "erf": 2.0**-41},
        **{"sin": 2.0**-41, "cos": 2.0**-41, "tan": 2.0**-43, "gelu": 2.0**-37.8, "power": 2.0**-37},
        **{"sinh": 2.0**-43, "atan": 2.0**-43, "asin": 2.0**-41.4, "acos": 2.0**-41.4},
    },
    {**BINARY64.condition, "gelu": 220.0},
)
"""What the functions keep, and a quotient: what their polynomials are off by, and some roundings."""

POLYNOMIAL = replace(QUICK, own={**QUICK.own, "exp": 2.0**-42, "gelu": 2.0**-39.2, "power": 2.0**-38.5})
"""The same where no powers of two are looked up."""


def _exp2(v: Writer, a: Number, factor: float) -> Number:
    """Two to the power of a number times another."""
    if v.has_sixteenths:
        product = v.multiply(a, v.number(16 * factor))
        k, sixteenths = v.nearest_product(product, v.number(1))
        f = v.subtract(product, k)
        near = v.two_to_sixteenths(sixteenths)
        return v.multiply_add(v.multiply(near, f), v.horner(fitted.EXP2_OF_SIXTEENTH, f), near)
    k, exponent = v.nearest_product(a, v.number(factor))
    f = v.multiply_add(a, v.number(factor), v.negate(k))
    return v.exponent_added(v.horner(fitted.EXP2, f), exponent)


def _exp2m1(v: Writer, a: Number, b: Number) -> Number:
    """The error of the polynomial counts where the result is not near -1; where it is small there is no exponent."""
    k, exponent = v.nearest_product(a, b)
    f = v.multiply_add(a, b, v.negate(k))
    power = v.multiply(f, v.horner(fitted.EXP2M1, f))
    scale = v.exponent_added(v.number(1), exponent)
    return v.multiply_add(scale, power, v.negate(v.subtract(v.number(1), scale)))  # of -0 it is -0


def exp(v: Writer, x: Number) -> Number:
    """The product is within 2**-43 of the real one: twice 2**-44, for the number that it is by and for itself."""
    return _exp2(v, v.limited(x, MOST), _LOG2_E)


def expm1(v: Writer, x: Number) -> Number:
    """Likewise."""
    return _exp2m1(v, v.limited(x, MOST), v.number(_LOG2_E))


def log(v: Writer, x: Number) -> Number:
    f, e = v.split(x)
    s = v.ratio(f, v.add(f, v.number(2)))
    result = v.multiply_add(e, v.number(_LN2), v.multiply(s, v.horner(fitted.LOG, v.multiply(s, s))))
    return v.of_positive(x, result)


def log1p(v: Writer, x: Number) -> Number:
    """Of numbers from 0 to 1, which is what formulas take it of."""
    s = v.ratio(x, v.add(x, v.number(2)))
    return v.multiply(s, v.horner(fitted.LOG1P, v.multiply(s, s)))


def power(v: Writer, x: Number, y: Number) -> Number:
    """The logarithm is within 2**-46, and becomes up to 150 where the result is a FLOAT32."""
    f, e = v.split(x)
    s = v.ratio(f, v.add(f, v.number(2)))
    logarithm = v.multiply_add(s, v.horner(fitted.LOG2, v.multiply(s, s)), e)
    return _exp2(v, v.limited(v.multiply(y, logarithm), MOST), 1)


def tanh(v: Writer, x: Number) -> Number:
    """Beyond 16 it is 1, but for 2**-45."""
    more = _exp2m1(v, v.limited(x, 16), v.number(2 * _LOG2_E))
    return v.ratio(more, v.add(more, v.number(2)))


def rounded_tanh(v: Writer, x: Number) -> Number:
    """Where nothing is computed from it: beyond 9.02 it is 1, to which FLOAT32 and FLOAT16 round it."""
    return _odd_quotient(v, v.limited(x, 9.02), fitted.TANH, fitted.TANH_OVER)


def _odd_quotient(v: Writer, x: Number, above: fitted.Stepped, below: fitted.Stepped) -> Number:
    """A number times a quotient of polynomials of its square."""
    z = v.multiply(x, x)
    squared = v.multiply(z, z)
    return v.ratio(v.multiply(x, _stepped(v, above, z, squared)), _stepped(v, below, z, squared))


def _stepped(v: Writer, polynomial: fitted.Stepped, t: Number, squared: Number) -> Number:
    """A polynomial of a number whose square is known; what its leading coefficient is 1 for takes no product."""
    highest, second, *rest = polynomial.first
    value = v.add(t, v.number(second)) if highest == 1 else v.multiply_add(v.number(highest), t, v.number(second))
    for coefficient in rest:
        value = v.multiply_add(value, t, v.number(coefficient))
    for moved, added in polynomial.steps:
        value = v.multiply_add(value, v.add(squared, v.number(moved)), v.number(added))
    return value


def sinh(v: Writer, x: Number) -> Number:
    """From that and the hyperbolic cosine of what is left of a multiple of log(2).

    Where this is 0 so is the factor of the cosine: taken from the other, that sine keeps its sign if it is -0.
    """
    x = v.limited(x, MOST)
    k, exponent = v.nearest_product(x, v.number(_LOG2_E))
    r = v.multiply_add(k, v.number(-_LN2), x)
    z = v.multiply(r, r)
    up, down = v.exponent_added(v.number(0.5), exponent), v.exponent_taken(v.number(0.5), exponent)
    sine = v.multiply(v.multiply(r, v.horner(fitted.SINH, z)), v.add(up, down))
    return v.multiply_add(v.negate(v.horner(fitted.COSH, z)), v.subtract(down, up), sine)


def cosh(v: Writer, x: Number) -> Number:
    power = exp(v, v.absolute(x))
    return v.multiply(v.add(power, v.ratio(v.number(1), power)), v.number(0.5))


def erf(v: Writer, x: Number) -> Number:
    """Beyond 4 it is 1, to which FLOAT32 and FLOAT16 round it."""
    return _odd_quotient(v, v.limited(x, 4), fitted.ERF, fitted.ERF_OVER)


def gelu(v: Writer, x: Number) -> Number:
    """A number, if it is positive, less its size times the part of the normal distribution beyond it: half of the
    complement of the error function.

    Below -14.85 it is so near 0 that FLOAT32 and FLOAT16 round it to 0. The quotient does not wait for the exponential.
    """
    size = v.at_most(v.absolute(x), math.sqrt(2 * MOST))
    squared = v.multiply(size, size)
    above = v.multiply(size, _stepped(v, fitted.TAIL, size, squared))
    beyond = v.ratio(above, _stepped(v, fitted.TAIL_OVER, size, squared))
    falling = _exp2(v, squared, -0.5 * _LOG2_E)
    return v.multiply_add(v.negate(falling), beyond, v.unless_negative(x))


def _turned_back(v: Writer, x: Number, k: Number, angle: float) -> Number:
    """An angle less k times another, a multiple of pi/2."""
    for part in _HALF_PI:
        x = v.fused(k, v.number(-angle / _HALF_PI[0] * part), x)
    return x


def _half_turned(v: Writer, x: Number, k: Number, turns: Number) -> Number:
    """The sine of an angle less k half circles, of which an integer tells whether they are odd."""
    r = _turned_back(v, x, k, math.pi)
    return v.sign_changed(v.multiply(r, v.horner(fitted.SIN_OF_HALF, v.multiply(r, r))), turns)


def sin(v: Writer, x: Number) -> Number:
    return _half_turned(v, x, *v.nearest_product(x, v.number(1 / math.pi)))


def cos(v: Writer, x: Number) -> Number:
    """The sine of a quarter of a circle more."""
    k, turns = v.nearest_product(v.multiply_add(x, v.number(1 / math.pi), v.number(0.5)), v.number(1))
    return _half_turned(v, x, v.subtract(k, v.number(0.5)), turns)


def tan(v: Writer, x: Number) -> Number:
    """A quarter of a circle further it is the inverse, with the other sign."""
    k, quarters = v.nearest_product(x, v.number(2 / math.pi))
    r = _turned_back(v, x, k, math.pi / 2)
    z = v.multiply(r, r)
    opposite, adjacent = v.multiply(r, v.horner(fitted.TAN, z)), v.horner(fitted.TAN_OVER, z)
    above, below = v.of_odd(quarters, adjacent, opposite), v.of_odd(quarters, opposite, adjacent)
    return v.ratio(v.sign_changed(above, quarters), below)


def atan(v: Writer, x: Number) -> Number:
    """From the nearest of 0, pi/4 and pi/2, whose sine and cosine may be taken for 0 and 1; beyond 2**50 from that."""
    size = v.at_most(v.absolute(x), 2.0**50)
    is_upper = v.compare(">", size, v.number(math.sqrt(2) + 1))
    is_lower = v.compare("<", size, v.number(math.sqrt(2) - 1))
    zero, one = v.number(0), v.number(1)
    sine, cosine = v.choose(is_lower, zero, one), v.choose(is_upper, zero, one)
    over = v.multiply_add(size, cosine, v.negate(sine))
    s = v.ratio(over, v.multiply_add(size, sine, cosine))
    start = v.choose(is_lower, zero, v.choose(is_upper, v.number(math.pi / 2), v.number(math.pi / 4)))
    return v.sign_of(v.multiply_add(s, v.horner(fitted.ATAN, v.multiply(s, s)), start), x)


def _asin_series(v: Writer, size: Number) -> tuple[Number, Number]:
    """Of a number up to 1/2 its arc sine; of one above that of sqrt((1 - size) / 2); and which."""
    is_upper = v.compare(">", size, v.number(0.5))
    t = v.choose(is_upper, v.root(v.multiply_add(size, v.number(-0.5), v.number(0.5))), size)
    return v.multiply(t, v.horner(fitted.ASIN, v.multiply(t, t))), is_upper


def asin(v: Writer, x: Number) -> Number:
    series, is_upper = _asin_series(v, v.absolute(x))
    upper = v.multiply_add(series, v.number(-2), v.number(math.pi / 2))
    return v.sign_of(v.choose(is_upper, upper, series), x)


def acos(v: Writer, x: Number) -> Number:
    """Next to 1 nothing is taken from anything."""
    series, is_upper = _asin_series(v, v.absolute(x))
    part = v.choose(is_upper, v.add(series, series), v.sign_of(series, x))
    start = v.choose(is_upper, v.number(math.pi), v.number(math.pi / 2))
    return v.choose(v.compare(">", x, v.number(0.5)), part, v.subtract(start, part))


FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    function.__name__: function
    for function in (exp, expm1, log, log1p, power, tanh, sinh, cosh, erf, gelu, sin, cos, tan, atan, asin, acos)
}

LAST: Mapping[str, Callable[..., Number]] = {**FUNCTIONS, "tanh": rounded_tanh}
"""Those of which nothing is computed, but which are rounded."""


def unsure(v: Writer, name: str, operands: Sequence[Number]) -> list[Number]:
    """Where a function does not keep its bound; elsewhere it gives NaN just where it has no value."""
    x = operands[0]
    if name in ("sin", "cos", "tan"):
        return [v.not_(v.compare("<=", v.absolute(x), v.number(TURNS)))]
    if name == "log":
        return [v.not_(v.is_usual(x))]
    if name == "power":
        is_finite = v.compare("<", v.absolute(operands[1]), v.number(math.inf))
        return [v.not_(v.is_usual(x)), v.compare("<", x, v.number(0)), v.not_(is_finite)]
    return []


def condensed(expression: Expression) -> Expression:
    """A formula in which one call stands for a larger part that has a function of its own."""
    match expression:
        case Operation("multiply", (x, half)) if half == erfc(-x * sqrt(0.5)) * 0.5:
            return Operation("gelu", (condensed(x),))
        case Operation(primitive, operands):
            return Operation(primitive, tuple(map(condensed, operands)))
    return expression


def is_worth(expression: Expression) -> bool:
    """Whether a formula has functions that are quick."""
    return not primitives(expression).isdisjoint(FUNCTIONS)
