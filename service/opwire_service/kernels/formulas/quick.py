"""Fast FLOAT64 functions, accurate enough to decide most FLOAT32 and FLOAT16 results.

Their errors are about 2**-38. Where that is too close to a rounding boundary, the result is recomputed more carefully.
Each function is written once for every code generator: vector instructions of a CPU, or CUDA C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opwire.formulas import Expression, Operation, erfc, sqrt
from opwire.tensor import DataType

from . import coefficients as fitted
from .bounds import BINARY64, Precision, error_bound
from .formula import primitives
from .writer import Number, Writer

_LOG2_E, _LN2 = 1 / math.log(2), math.log(2)
_HALF_PI = 1.5707963267948966, 6.123233995736766e-17

MOST = 690.0
"""Bound on the magnitude of exponents; beyond it, results are 0 or infinite in FLOAT32."""

MOST_OF_PAIRS = 87.0
"""The same for pairs of FLOAT32; beyond it, exponentials are undecided or known to vanish."""

MOST_POWER_OF_PAIRS = 126.5

LEAST_OF_LOGARITHMS = 2.0**-28
"""Magnitude of the operand below which pairs leave the inverse hyperbolic functions undecided."""

VANISHED = -105.0
"""Exponent below which exponentials round to 0 in FLOAT32 and FLOAT16."""

TURNS = 2.0**20
"""Largest angle that the two-part pi/2 reduces accurately."""

STEEP = 2.0**10
"""Maximum amplification of an operand's error in ``GUARDED`` functions; more than that leaves the result undecided."""

GUARDED = ("log", "sin", "cos", "tan", "power")
"""Functions that can amplify an operand's error without bound: close to their zeros, or with a large exponent."""

GUARD = "guarded "
"""Prefix of ``GUARDED`` functions with an inexact operand."""

QUICK = Precision(
    53,
    2.0**-38.1,
    {
        **{"log": 2.0**-44, "log1p": 2.0**-43, "expm1": 2.0**-42, "tanh": 2.0**-39.4, "erf": 2.0**-41},
        **{"sin": 2.0**-41, "cos": 2.0**-41, "tan": 2.0**-43, "gelu": 2.0**-37.8, "power": 2.0**-37},
        **{"sinh": 2.0**-43, "atan": 2.0**-43, "asin": 2.0**-41.4, "acos": 2.0**-41.4},
        **dict.fromkeys(("asinh", "acosh", "atanh"), 2.0**-42),
    },
    {**BINARY64.condition, "gelu": 220.0, **dict.fromkeys(GUARDED, STEEP)},
)
"""Error bounds of the functions and of quotients: approximation error plus some roundings."""

POLYNOMIAL = replace(QUICK, bits=50, own={**QUICK.own, "exp": 2.0**-42, "gelu": 2.0**-39.2, "power": 2.0**-38.5})
"""Error bounds without the lookup table for powers of two, where quotients and roots are only within 2**-50."""


def _most(v: Writer) -> float:
    return MOST_OF_PAIRS if v.is_narrow else MOST


def exp2(v: Writer, a: Number, factor: float) -> Number:
    """Two to the power of ``a * factor``."""
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
    """``2**(a*b) - 1``. Small results have exponent 0, so the polynomial's relative error carries over."""
    k, exponent = v.nearest_product(a, b)
    f = v.multiply_add(a, b, v.negate(k))
    power = v.multiply(f, v.horner(fitted.EXP2M1, f))
    scale = v.exponent_added(v.number(1), exponent)
    return v.multiply_add(scale, power, v.negate(v.subtract(v.number(1), scale)))  # keeps -0


def exp(v: Writer, x: Number) -> Number:
    """The product is within 2**-43: 2**-44 for the rounded constant and 2**-44 for its own rounding."""
    power = exp2(v, v.limited(x, _most(v)), _LOG2_E)
    if not v.is_narrow:
        return power
    return v.choose(v.compare("<", x, v.number(VANISHED)), v.number(0), power)


def expm1(v: Writer, x: Number) -> Number:
    """The product has the same error as in ``exp``."""
    return _exp2m1(v, v.limited(x, _most(v)), v.number(_LOG2_E))


def _log_of_usual(v: Writer, x: Number) -> Number:
    f, e = v.split(x)
    s = v.ratio(f, v.add(f, v.number(2)))
    return v.multiply_add(e, v.number(_LN2), v.multiply(s, v.horner(fitted.LOG, v.multiply(s, s))))


def log(v: Writer, x: Number) -> Number:
    return v.of_positive(x, _log_of_usual(v, x))


def log1p(v: Writer, x: Number) -> Number:
    """For 0 to 1, the only arguments in formulas."""
    s = v.ratio(x, v.add(x, v.number(2)))
    return v.multiply(s, v.horner(fitted.LOG1P, v.multiply(s, s)))


def log2_of_usual(v: Writer, x: Number) -> Number:
    f, e = v.split(x)
    s = v.ratio(f, v.add(f, v.number(2)))
    return v.multiply_add(s, v.horner(fitted.LOG2, v.multiply(s, s)), e)


def power(v: Writer, x: Number, y: Number) -> Number:
    """The logarithm is within 2**-46; times y it is at most 150 where the result is a FLOAT32."""
    logarithm = log2_of_usual(v, x)
    return exp2(v, v.limited(v.multiply(y, logarithm), MOST_POWER_OF_PAIRS if v.is_narrow else MOST), 1)


def tanh(v: Writer, x: Number) -> Number:
    """Beyond 16 it is 1 within 2**-45."""
    more = _exp2m1(v, v.limited(x, 16), v.number(2 * _LOG2_E))
    return v.ratio(more, v.add(more, v.number(2)))


def rounded_tanh(v: Writer, x: Number) -> Number:
    """tanh as a final result: beyond 9.02, FLOAT32 and FLOAT16 round it to 1."""
    if v.is_narrow:
        return tanh(v, x)
    return _odd_quotient(v, v.limited(x, 9.02), fitted.TANH, fitted.TANH_OVER)


def _odd_quotient(v: Writer, x: Number, above: fitted.Stepped, below: fitted.Stepped) -> Number:
    """``x`` times a quotient of polynomials in its square."""
    z = v.multiply(x, x)
    squared = v.multiply(z, z)
    return v.ratio(v.multiply(x, _stepped(v, above, z, squared)), _stepped(v, below, z, squared))


def _stepped(v: Writer, polynomial: fitted.Stepped, t: Number, squared: Number) -> Number:
    """Evaluates a polynomial in ``t``, given its square; a leading coefficient of 1 saves a product."""
    if v.is_narrow:
        return v.horner(fitted.expanded(polynomial), t)
    highest, second, *rest = polynomial.first
    value = v.add(t, v.number(second)) if highest == 1 else v.multiply_add(v.number(highest), t, v.number(second))
    for coefficient in rest:
        value = v.multiply_add(value, t, v.number(coefficient))
    for moved, added in polynomial.steps:
        value = v.multiply_add(value, v.add(squared, v.number(moved)), v.number(added))
    return value


def sinh(v: Writer, x: Number) -> Number:
    """Combines the sinh and cosh of the remainder modulo log(2).

    For x = -0 both terms are -0, which keeps the sign: the cosine is negated and multiplied by ``down - up``, rather
    than multiplied by ``up - down``.
    """
    x = v.limited(x, _most(v))
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
    """Beyond 4, FLOAT32 and FLOAT16 round it to 1."""
    return _odd_quotient(v, v.limited(x, 4), fitted.ERF, fitted.ERF_OVER)


def gelu(v: Writer, x: Number) -> Number:
    """``max(x, 0) - abs(x) * Q(abs(x))``, where Q is the upper tail of the normal distribution, ``erfc(x/sqrt(2))/2``.

    Below -14.85, FLOAT32 and FLOAT16 round it to 0. The quotient does not wait for the exponential.
    """
    size = v.at_most(v.absolute(x), math.sqrt(2 * _most(v)))
    squared = v.multiply(size, size)
    above = v.multiply(size, _stepped(v, fitted.TAIL, size, squared))
    beyond = v.ratio(above, _stepped(v, fitted.TAIL_OVER, size, squared))
    falling = exp2(v, squared, -0.5 * _LOG2_E)
    return v.multiply_add(v.negate(falling), beyond, v.unless_negative(x))


def _turned_back(v: Writer, x: Number, k: Number, angle: float) -> Number:
    """``x`` minus ``k`` times an angle, which is a multiple of pi/2."""
    for part in _HALF_PI:
        x = v.fused(k, v.number(-angle / _HALF_PI[0] * part), x)
    return x


def half_turned(v: Writer, r: Number, turns: Number) -> Number:
    """The sine of an angle up to pi/2, negated if the integer ``turns`` is odd."""
    return v.sign_changed(v.multiply(r, v.horner(fitted.SIN_OF_HALF, v.multiply(r, r))), turns)


def sin(v: Writer, x: Number) -> Number:
    k, turns = v.nearest_product(x, v.number(1 / math.pi))
    return half_turned(v, _turned_back(v, x, k, math.pi), turns)


def cos(v: Writer, x: Number) -> Number:
    """The sine of the angle plus a quarter turn."""
    k, turns = v.nearest_product(v.multiply_add(x, v.number(1 / math.pi), v.number(0.5)), v.number(1))
    return half_turned(v, _turned_back(v, x, v.subtract(k, v.number(0.5)), math.pi), turns)


def quarter_turned(v: Writer, r: Number, quarters: Number) -> Number:
    """The tangent of an angle up to pi/4, or its negated reciprocal if the integer ``quarters`` is odd."""
    z = v.multiply(r, r)
    opposite, adjacent = v.multiply(r, v.horner(fitted.TAN, z)), v.horner(fitted.TAN_OVER, z)
    above, below = v.of_odd(quarters, adjacent, opposite), v.of_odd(quarters, opposite, adjacent)
    return v.ratio(v.sign_changed(above, quarters), below)


def tan(v: Writer, x: Number) -> Number:
    k, quarters = v.nearest_product(x, v.number(2 / math.pi))
    return quarter_turned(v, _turned_back(v, x, k, math.pi / 2), quarters)


def atan(v: Writer, x: Number) -> Number:
    """Reduced to the nearest of 0, pi/4 and pi/2, scaled so that sine and cosine are 0 or 1; clamped at 2**50."""
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
    """Returns asin(size) up to 1/2 and asin(sqrt((1 - size) / 2)) above, and whether it is above."""
    is_upper = v.compare(">", size, v.number(0.5))
    t = v.choose(is_upper, v.root(v.multiply_add(size, v.number(-0.5), v.number(0.5))), size)
    return v.multiply(t, v.horner(fitted.ASIN, v.multiply(t, t))), is_upper


def asin(v: Writer, x: Number) -> Number:
    series, is_upper = _asin_series(v, v.absolute(x))
    upper = v.multiply_add(series, v.number(-2), v.number(math.pi / 2))
    return v.sign_of(v.choose(is_upper, upper, series), x)


def acos(v: Writer, x: Number) -> Number:
    """Near 1 there is no subtraction that could cancel."""
    series, is_upper = _asin_series(v, v.absolute(x))
    part = v.choose(is_upper, v.add(series, series), v.sign_of(series, x))
    start = v.choose(is_upper, v.number(math.pi), v.number(math.pi / 2))
    return v.choose(v.compare(">", x, v.number(0.5)), part, v.subtract(start, part))


def _log_of_1_plus(v: Writer, y: Number) -> Number:
    """For nonnegative numbers: the logarithm of 1 + y rounded, plus a correction for the rounding."""
    total = v.add(v.number(1), y)
    rest = v.ratio(v.subtract(y, v.subtract(total, v.number(1))), total)
    is_finite = v.compare("<", y, v.number(math.inf))
    return v.choose(is_finite, v.add(_log_of_usual(v, total), rest), y)


def asinh(v: Writer, x: Number) -> Number:
    """The logarithm's argument is exact within a few roundings, which it does not amplify."""
    size = v.absolute(x)
    squared = v.multiply(size, size)
    above = v.add(size, v.ratio(squared, v.add(v.root(v.add(squared, v.number(1))), v.number(1))))
    above = v.choose(v.compare("<", size, v.number(math.inf)), above, size)
    return v.sign_of(_log_of_1_plus(v, above), x)


def acosh(v: Writer, x: Number) -> Number:
    """Like ``asinh``; the difference is exact close to 1."""
    above = v.subtract(x, v.number(1))
    root = v.root(v.multiply(above, v.add(x, v.number(1))))
    above = v.choose(v.compare("<", x, v.number(math.inf)), v.add(above, root), x)
    above = v.choose(v.compare("<", x, v.number(1)), v.number(math.nan), above)
    return _log_of_1_plus(v, above)


def atanh(v: Writer, x: Number) -> Number:
    """Half the logarithm of 1 + y, where y = 2x / (1 - x)."""
    size = v.absolute(x)
    y = v.divide(v.add(size, size), v.subtract(v.number(1), size))
    y = v.choose(v.compare(">", size, v.number(1)), v.number(math.nan), y)
    return v.sign_of(v.multiply(_log_of_1_plus(v, y), v.number(0.5)), x)


FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    function.__name__: function
    for function in (
        *(exp, expm1, log, log1p, power, tanh, sinh, cosh, erf, gelu, sin, cos, tan, atan, asin, acos),
        *(asinh, acosh, atanh),
    )
}

LAST: Mapping[str, Callable[..., Number]] = {**FUNCTIONS, "tanh": rounded_tanh}
"""The functions where their result is final, that is, only rounded."""


def undecided(v: Writer, name: str, operands: Sequence[Number]) -> list[Number]:
    """Returns the conditions under which a function may exceed its bound; otherwise it is NaN only if undefined."""
    x = operands[0]
    if v.is_narrow and name in ("exp", "expm1", "sinh", "cosh"):
        size = x if name in ("exp", "expm1") else v.absolute(x)
        return [v.not_(v.compare("<=", size, v.number(MOST_OF_PAIRS)))]
    if v.is_narrow and name in ("asinh", "atanh"):
        return [v.compare("<", v.absolute(x), v.number(LEAST_OF_LOGARITHMS))]
    if name in ("sin", "cos", "tan"):
        return [v.not_(v.compare("<=", v.absolute(x), v.number(TURNS)))]
    if name == "log":
        return [v.not_(v.is_usual(x))]
    if name == "power":
        is_finite = v.compare("<", v.absolute(operands[1]), v.number(math.inf))
        return [v.not_(v.is_usual(x)), v.compare("<", x, v.number(0)), v.not_(is_finite)]
    return []


def is_steep(v: Writer, name: str, operands: Sequence[Number], value: Number) -> Number:
    """Returns where a guarded function amplifies the relative error of its first operand more than ``STEEP`` times.

    The condition number of the logarithm is 1/log(x); that of sine and cosine at most x over their value, that of the
    tangent ``x * (t + 1/t)``, and that of a power its exponent.
    """
    x, size = v.absolute(operands[0]), v.absolute(value)
    if name == "power":
        return v.compare(">", v.absolute(operands[1]), v.number(STEEP))
    if name == "log":
        return v.compare("<", size, v.number(1 / STEEP))
    steep = v.multiply(size, v.number(STEEP))
    if name == "tan":
        return v.compare("<", steep, v.multiply(x, v.multiply_add(size, size, v.number(1))))
    return v.compare("<", steep, x)


def guarded(expression: Expression, types: Mapping[str, DataType], precision: Precision = QUICK) -> Expression:
    """Returns an expression in which functions with inexact operands leave undecided what they amplify too much."""
    if not isinstance(expression, Operation):
        return expression
    operands = tuple(guarded(operand, types, precision) for operand in expression.operands)
    is_exact = expression.primitive not in GUARDED or error_bound(expression.operands[0], types, precision) == 0
    return Operation(expression.primitive if is_exact else GUARD + expression.primitive, operands)


def condensed(expression: Expression) -> Expression:
    """Replaces subexpressions that have a function of their own, such as GELU, by a single call."""
    match expression:
        case Operation("multiply", (x, half)) if half == erfc(-x * sqrt(0.5)) * 0.5:
            return Operation("gelu", (condensed(x),))
        case Operation(primitive, operands):
            return Operation(primitive, tuple(map(condensed, operands)))
    return expression


def is_worth(expression: Expression) -> bool:
    """Returns whether a formula contains any fast function."""
    return any(primitive.removeprefix(GUARD) in FUNCTIONS for primitive in primitives(expression))


def is_last_alone(expression: Expression) -> bool:
    """Returns whether no operand is itself computed by a fast function, so that infinite results are correct."""
    return isinstance(expression, Operation) and not any(map(is_worth, expression.operands))
