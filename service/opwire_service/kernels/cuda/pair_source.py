"""Generates CUDA C for quick functions in pairs of FLOAT32, for GPUs whose float64 arithmetic is slow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, prod

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ..formulas import coefficients as fitted
from ..formulas import pairs, quick
from ..formulas.bounds import error_bound
from ..formulas.formula import PlanFormula
from ..formulas.slopes import COMPARISONS
from .expression_source import ExpressionSource
from .known_source import are_zeros_right, or_known
from .powers import as_products, is_product, is_square

PAIRS = ("inverses", "pairs")
"""The sources that numbers in pairs of FLOAT32 need."""

WORTH = 2.0**-34
"""Maximum error bound for which pairs settle most results."""

LEAST = 2.0**-100
"""Magnitude above which the low part of a number keeps enough bits."""

PI = 3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15
"""The floats whose sum is nearest to pi."""

_DIVISORS = 2.0**-60
"""The least divisor; greater ones are tested together with it."""

GROWTH = 2.0**20
"""Maximum product of the constants of a formula, or of their inverses."""

_COMPARED = {"<": "is_less({0}, {1})", "<=": "is_least({0}, {1})", "==": "is_same({0}, {1})"} | {
    ">": "is_less({1}, {0})",
    ">=": "is_least({1}, {0})",
}

_CALLED = {
    **{name: _COMPARED[sign] for name, sign in COMPARISONS.items()},
    "add": "sum({0}, {1})",
    "subtract": "gap({0}, {1})",
    "multiply": "product({0}, {1})",
    "negate": "negated({0})",
    "absolute": "size_of({0})",
    "sqrt": "root({0})",
    "minimum": "lesser_of({0}, {1})",
    "maximum": "greater_of({0}, {1})",
    "select": "chosen({0}, {1}, {2})",
}
"""The primitives that are no quick functions, as calls of ``pairs.cu``."""

_MOVED = ("negate", "absolute", "minimum", "maximum")


def parts(number: float) -> tuple[float, float]:
    """Returns the floats whose sum is nearest to a constant."""
    high = float(np.float32(number))
    return high, float(np.float32(number - high)) if isfinite(high) else 0.0


def single(number: float) -> str:
    """Returns the nearest float as a literal."""
    if isnan(number):
        return "__int_as_float(0x7fc00000)"
    if not isfinite(number):
        return f"__int_as_float({0x7F800000 if number > 0 else 0xFF800000:#x})"
    return f"{float(np.float32(number)).hex()}f"


@dataclass
class PairSource(ExpressionSource):
    """Implementation of ``formulas.writer.Writer``. Numbers are variables or constants, of ``float`` or ``Pair``."""

    has_sixteenths = False
    is_narrow = True

    functions = pairs.FUNCTIONS
    last_functions = pairs.LAST

    @property
    def writer(self) -> PairSource:
        return self

    def _auto(self, value: str) -> str:
        return self.named("auto", value)

    def number(self, number: float) -> str:
        high, low = parts(number)
        return f"Pair{{{single(high)}, {single(low)}}}" if low else single(high)

    def add(self, a: str, b: str) -> str:
        return self._auto(f"sum({a}, {b})")

    def subtract(self, a: str, b: str) -> str:
        return self._auto(f"gap({a}, {b})")

    def multiply(self, a: str, b: str) -> str:
        return self._auto(f"product({a}, {b})")

    def divide(self, a: str, b: str) -> str:
        return self._checked_ratio(a, b, _DIVISORS)

    def _checked_ratio(self, a: str, b: str, least: float) -> str:
        self.undecided.append(self.named("bool", f"is_beyond(hi_of({b}), {bits_of(least)})"))
        return self.ratio(a, b)

    def ratio(self, a: str, b: str) -> str:
        return self._auto(f"quotient({a}, {b})")

    def fused(self, a: str, b: str, c: str) -> str:
        return self._auto(f"product_sum({a}, {b}, {c})")

    multiply_add = fused

    def horner(self, coefficients: Sequence[float], x: str) -> str:
        singles = fitted.SINGLES.get(tuple(coefficients), 0)
        first, *rest = coefficients
        result = single(parts(first)[0]) if singles else self.number(first)
        for coefficient in rest[: singles - 1] if singles else ():
            result = self.named("float", f"fmaf({result}, hi_of({x}), {single(parts(coefficient)[0])})")
        for coefficient in rest[max(singles - 1, 0) :]:
            if result == self.number(1):
                result = self.add(x, self.number(coefficient))
            else:
                result = self._auto(
                    f"{'step' if singles else 'rising_step'}({result}, {x}, {self.number(coefficient)})"
                )
        return self._auto(f"tidied({result})")

    def root(self, x: str) -> str:
        return self._auto(f"root({x})")

    def negate(self, a: str) -> str:
        return self._auto(f"negated({a})")

    def absolute(self, a: str) -> str:
        return self._auto(f"size_of({a})")

    def sign_of(self, size: str, sign: str) -> str:
        return self._auto(f"flipped({size}, sign_bit(hi_of({sign})))")

    def compare(self, how: str, a: str, b: str) -> str:
        return self.named("bool", _COMPARED[how].format(a, b))

    def is_usual(self, a: str) -> str:
        return self.named("bool", f"is_normal(hi_of({a}))")

    def of_positive(self, x: str, value: str) -> str:
        self.undecided.append(self.compare("<", x, self.number(0)))
        return value

    def not_(self, a: str) -> str:
        return self.named("bool", f"!{a}")

    def choose(self, condition: str, yes: str, no: str) -> str:
        return self._auto(f"chosen({condition}, {yes}, {no})")

    def limited(self, x: str, most: float) -> str:
        return self._auto(f"limited({x}, {single(most)})")

    def at_most(self, x: str, most: float) -> str:
        return self._auto(f"at_most({x}, {single(parts(most)[0])})")

    def unless_negative(self, a: str) -> str:
        return self._auto(f"unless_negative({a})")

    def sign_changed(self, a: str, turns: str) -> str:
        return self._auto(f"flipped({a}, (u32){turns} << 31)")

    def nearest_product(self, a: str, b: str) -> tuple[str, str]:
        moved = self.named("float", f"fmaf(hi_of({a}), hi_of({b}), TO_WHOLE)")
        return self.named("float", f"{moved} - TO_WHOLE"), self.named("i32", f"whole_of({moved})")

    def turned_back(self, x: str, angle: float, more: float = 0.0) -> tuple[str, str]:
        inverse, turn = single(1 / angle), [each * angle / math.pi for each in PI]
        product = f"fmaf({x}, {inverse}, {single(more) if more else 'TO_WHOLE'})"
        moved = self.named("float", f"{product} + TO_WHOLE" if more else product)
        k = self.named("float", f"{moved} - TO_WHOLE" + (f" - {single(more)}" if more else ""))
        rest = self._auto(f"turned_back({x}, {k}, {', '.join(map(single, turn))})")
        self.undecided.append(self.named("bool", f"fabsf({k}) * {single(2 * abs(turn[1]))} > fabsf({rest}.hi)"))
        return rest, self.named("i32", f"whole_of({moved})")

    def exponent_added(self, a: str, exponent: str) -> str:
        return self._auto(f"scaled({a}, {exponent})")

    def exponent_taken(self, a: str, exponent: str) -> str:
        return self.exponent_added(a, f"-{exponent}")

    def two_to_sixteenths(self, sixteenths: str) -> str:
        raise NotImplementedError("without has_sixteenths nobody asks")

    def split(self, x: str) -> tuple[str, str]:
        return self._auto(f"fraction_of({x})"), self.named("float", f"exponent_of({x})")

    def of_odd(self, number: str, odd: str, even: str) -> str:
        return self._auto(f"chosen({number} & 1, {odd}, {even})")

    def tensor(self, name: str) -> str:
        number = self.named("float", f"widen(x{self.names.index(name)})")
        self.undecided.append(self.named("bool", f"is_tiny({number})"))
        return number

    def divided(self, a: str, by: Expression) -> str:
        """Divides by a constant, or by what is at least 1/2 if it has functions."""
        if isinstance(by, Constant):
            return self.multiply(a, self.number(1 / by.value))
        return self._checked_ratio(a, self.of(by), 0.5 if quick.is_worth(by) else _DIVISORS)

    def limits(self, primitive: str, operands: list[str]) -> list[str]:
        return pairs.undecided(self, primitive, operands)

    def clamped(self, x: str, low: str, high: str) -> str:
        raise NotImplementedError("no formula that is worth pairs clamps")

    def called(self, primitive: str, operands: list[str]) -> str:
        if primitive in ("minimum", "maximum"):  # NaN may also stem from infinities
            self.undecided += [self.named("bool", f"hi_of({each}) != hi_of({each})") for each in operands]
        declared = "bool" if primitive in COMPARISONS else "auto"
        return self.named(declared, _CALLED[primitive].format(*operands))


def bits_of(number: float) -> str:
    """Returns the bits of a float as a literal."""
    return f"{np.float32(number).view(np.uint32):#x}u"


def pair_lines(formula: PlanFormula, names: tuple[str, ...]) -> list[str]:
    """Returns the statements that evaluate a formula in pairs, and return whether the result is settled.

    There are none unless pairs are accurate enough, and all numbers stay where their low parts keep enough bits.
    """
    expression, inputs = as_products(quick.condensed(formula.expression)), formula.inputs
    floats = (DataType.FLOAT32, DataType.FLOAT16)
    if any(each not in floats for each in (formula.output, *(inputs[name] for name in names))):
        return []
    if not _suits(expression, is_last=True) or _growth(expression) > GROWTH:
        return []
    if formula.output is DataType.FLOAT16 and is_square(expression):  # of which many are ties
        return []
    bound = error_bound(expression, inputs, pairs.PAIRS)
    if bound is None or bound > WORTH:
        return []
    source = PairSource(names, inputs)
    value = source.last(quick.guarded(expression, inputs, pairs.PAIRS))
    reach, least = bound + 2.0**-47, LEAST * _growth(expression)
    has_zeros = str(not is_product(expression) and are_zeros_right(formula, expression, names)).lower()
    reached = _reached(source, expression, above(reach))
    settled = f"narrowly(pair_of({value}), {reached}, {bits_of(least)}, {has_zeros}, result)"
    is_settled = " & ".join((settled, *(f"!{each}" for each in source.undecided)))
    return [*source.lines, f"    return ({is_settled}){or_known(formula, expression, names)};"]


def _reached(source: PairSource, expression: Expression, reach: float) -> str:
    """Returns the relative error of a result: none where it is chosen from exact ones, of which many are ties."""
    match expression:
        case Operation("select", (condition, yes, no)) if _is_exact(yes) or _is_exact(no):
            of_yes, of_no = (single(0.0 if _is_exact(each) else reach) for each in (yes, no))
            return f"({source.of(condition)} ? {of_yes} : {of_no})"
        case _:
            return single(reach)


def _is_exact(expression: Expression) -> bool:
    """Whether an expression is an element, or a sum or product of two floats."""
    match expression:
        case Operation("add" | "subtract" | "multiply", operands):
            return all(map(is_float, operands))
        case _:
            return is_float(expression)


def above(number: float) -> float:
    """Returns a float that is greater than a small positive number."""
    return float(np.nextafter(np.float32(number), np.float32(1)))


def _suits(expression: Expression, *, is_last: bool = False) -> bool:
    """Whether a formula has quick functions, of linear operands or ``log1p(exp(x))``, and little else.

    As a whole, it may also choose from linear operands, or be a product or quotient that is accurate.
    """
    if is_last and is_product(expression):
        return True
    match expression:
        case Operation("log1p", (Operation("exp", (operand,)),)):
            return _is_linear(operand)
        case Operation("erf", _) if not is_last:  # accurate as far as rounding sees
            return False
        case Operation(primitive, operands) if primitive in quick.FUNCTIONS:
            is_able = _is_linear if primitive in pairs.OF_PAIRS else is_float
            return primitive in pairs.PAIRS.own and all(map(is_able, operands))
        case Operation("multiply", (Operation("subtract", (InputElement(), InputElement())), _)) if is_square(
            expression
        ):
            return is_last
        case Operation("multiply", operands) if not any(isinstance(each, Constant) for each in operands):
            return False
        case Operation("divide", (x, Operation("add", (Operation("absolute", (other,)), Constant(1))))):
            return is_last and x == other and _is_linear(x)
        case Operation(primitive, operands) if primitive in _CALLED or primitive == "divide":
            has_functions = any(map(quick.is_worth, operands)) or (is_last and primitive == "select")
            return has_functions and all(
                _suits(each) if quick.is_worth(each) else _is_linear(each) for each in operands
            )
        case _:
            return False


def _is_linear(expression: Expression) -> bool:
    """Whether an expression has no products of tensors and adds floats only, which is accurate for any signs."""
    match expression:
        case InputElement():
            return True
        case Constant(value):
            return isfinite(value)
        case Operation("multiply", (Constant(), operand) | (operand, Constant())):
            return _is_linear(operand)
        case Operation("divide", (operand, Constant())):
            return _is_linear(operand)
        case Operation("add" | "subtract", operands):
            return all(map(_is_linear, operands)) and any(map(is_float, operands))
        case Operation(primitive, operands) if primitive in (*COMPARISONS, *_MOVED):
            return all(map(_is_linear, operands))
        case _:
            return False


def is_float(expression: Expression) -> bool:
    """Whether an expression is an element or a constant, and one float."""
    return not isinstance(expression, Operation) and not (
        isinstance(expression, Constant) and parts(expression.value)[1]
    )


def _growth(expression: Expression) -> float:
    """Returns how much the constants of an expression change magnitudes at most."""
    match expression:
        case Constant(value) if value:
            return max(abs(value), 1 / abs(value))
        case Operation(_, operands):
            return prod(map(_growth, operands))
        case _:
            return 1.0
