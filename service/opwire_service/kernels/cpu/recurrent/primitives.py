"""The primitives of activations on vectors in float64; truth values are 0 and 1. See ``formulas/float64.py``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..jit.compiler import inlined, inner
from ..jit.element import load, store
from ..numbers.accurate import exponentials, exponentials_less_1, hyperbolic_tangents
from ..numbers.vectors import WIDTH, Vector, absolutes, load_vector, pick, spread, store_vector
from .geometry import CHUNK, Program

ADD, MULTIPLY, DIVIDE, MINIMUM, MAXIMUM, LESS, AT_LEAST, SELECT, NEGATE, ABSOLUTE, EXP, EXPM1, TANH, LOG1P, ERFC = (
    range(15)
)

CODES: Mapping[str, tuple[int, bool]] = {
    "add": (ADD, False),
    "multiply": (MULTIPLY, False),
    "divide": (DIVIDE, False),
    "minimum": (MINIMUM, False),
    "maximum": (MAXIMUM, False),
    "less": (LESS, False),
    "greater": (LESS, True),
    "greater_equal": (AT_LEAST, False),
    "less_equal": (AT_LEAST, True),
    "select": (SELECT, False),
    "negate": (NEGATE, False),
    "absolute": (ABSOLUTE, False),
    "exp": (EXP, False),
    "expm1": (EXPM1, False),
    "tanh": (TANH, False),
    "log1p": (LOG1P, False),
    "erfc": (ERFC, False),
}
"""The code of each primitive, and whether it takes its operands in the opposite order."""


@inlined
def _sum(a: Vector, b: Vector) -> Vector:
    return a + b


@inlined
def _product(a: Vector, b: Vector) -> Vector:
    return a * b


@inlined
def _quotient(a: Vector, b: Vector) -> Vector:
    return a / b


@inlined
def _minimum(a: Vector, b: Vector) -> Vector:
    return pick(b < a, b, pick(a != a, b, a))


@inlined
def _maximum(a: Vector, b: Vector) -> Vector:
    return pick(b > a, b, pick(a != a, b, a))


@inlined
def _less(a: Vector, b: Vector) -> Vector:
    return pick(a < b, spread(1.0), spread(0.0))


@inlined
def _at_least(a: Vector, b: Vector) -> Vector:
    return pick((a < b) | (a != a) | (b != b), spread(0.0), spread(1.0))


@inlined
def _opposite(a: Vector) -> Vector:
    return a * -1.0


@inlined
def _one_by_one(function: Callable[[float], float], a: int, to: int, count: int) -> None:
    for i in range(count):
        store(to, i, function(load(a, i, 0.0)))


@inlined
def _of_one(function: Callable[[Vector], Vector], a: int, to: int, count: int) -> None:
    for i in range(0, count, WIDTH):
        store_vector(to, i, function(load_vector(a, i, 0.0)))


@inlined
def _of_two(function: Callable[[Vector, Vector], Vector], a: int, b: int, to: int, count: int) -> None:
    for i in range(0, count, WIDTH):
        store_vector(to, i, function(load_vector(a, i, 0.0), load_vector(b, i, 0.0)))


@inlined
def _selected(condition: int, a: int, b: int, to: int, count: int) -> None:
    for i in range(0, count, WIDTH):
        is_first = load_vector(condition, i, 0.0) != 0.0
        store_vector(to, i, pick(is_first, load_vector(a, i, 0.0), load_vector(b, i, 0.0)))


@inlined
def _log1p(x: float) -> float:
    return math.log1p(x)


@inlined
def _erfc(x: float) -> float:
    return math.erfc(x)


@inner
def _apply(code: int, a: int, b: int, c: int, to: int, count: int) -> None:
    """Applies a primitive to numbers at some addresses."""
    if code == ADD:
        _of_two(_sum, a, b, to, count)
    elif code == MULTIPLY:
        _of_two(_product, a, b, to, count)
    elif code == DIVIDE:
        _of_two(_quotient, a, b, to, count)
    elif code == MINIMUM:
        _of_two(_minimum, a, b, to, count)
    elif code == MAXIMUM:
        _of_two(_maximum, a, b, to, count)
    elif code == LESS:
        _of_two(_less, a, b, to, count)
    elif code == AT_LEAST:
        _of_two(_at_least, a, b, to, count)
    elif code == SELECT:
        _selected(a, b, c, to, count)
    elif code == NEGATE:
        _of_one(_opposite, a, to, count)
    elif code == ABSOLUTE:
        _of_one(absolutes, a, to, count)
    elif code == EXP:
        _of_one(exponentials, a, to, count)
    elif code == EXPM1:
        _of_one(exponentials_less_1, a, to, count)
    elif code == TANH:
        _of_one(hyperbolic_tangents, a, to, count)
    elif code == LOG1P:
        _one_by_one(_log1p, a, to, count)
    elif code == ERFC:
        _one_by_one(_erfc, a, to, count)


@inlined
def _place(operand: int, numbers: int, registers: int) -> int:
    return numbers if operand == 0 else registers + 8 * CHUNK * (operand - 1)


@inner
def evaluate(program: Program, numbers: int, registers: int, count: int) -> None:
    """Replaces numbers, whole vectors of them, with their activations."""
    for first in range(0, count, CHUNK):
        here, size = numbers + 8 * first, min(CHUNK, count - first)
        for i in range(program.count):
            each = program.instructions[i]
            a, b = _place(each.first, here, registers), _place(each.second, here, registers)
            c, to = _place(each.third, here, registers), _place(each.target, here, registers)
            _apply(each.code, a, b, c, to, size)
