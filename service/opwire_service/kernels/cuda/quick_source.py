"""Generates CUDA C for quick functions, one statement per operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite, nan

import numpy as np

from opwire.formulas import Constant, Expression, Operation
from opwire.tensor import DataType

from ..formulas import quick
from ..formulas.bounds import error_bound
from ..formulas.formula import PlanFormula
from ..formulas.slopes import COMPARISONS
from .expression_source import ExpressionSource
from .primitives import double, of_floats

ROUNDER = "0x1.8p52"
"""Adding it to a number below 2**31 leaves the nearest integer in the low word."""

WORTH = 2.0**-33
"""Maximum error bound for which quick functions settle most results."""


_LEAST = 2.0**-200


@dataclass
class QuickSource(ExpressionSource):
    """Implementation of ``formulas.writer.Writer`` that generates CUDA C. Numbers are variable names or constants.

    Attributes:
        numbers: the name of the array in constant memory.
        singles: the float that a double was widened from; floats compare at twice the rate.
        constants: the value of each constant, by its spelling.
        kept: the index of each constant in constant memory.
    """

    numbers: str
    singles: dict[str, str] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    @property
    def writer(self) -> QuickSource:
        return self

    def _double(self, value: str) -> str:
        return self.named("double", value)

    def number(self, number: float) -> str:
        """Returns a constant; one that fits no immediate operand goes to constant memory, which is free to read.

        As a literal, the compiler would load it into registers for each use.
        """
        name = double(Constant(number))
        if np.float64(number).view(np.uint64) & 0xFFFFFFFF:
            name = f"{self.numbers}[{self.kept.setdefault(float(number).hex(), len(self.kept))}]"
        self.constants[name] = number
        return name

    def add(self, a: str, b: str) -> str:
        return self._double(f"{a} + {b}")

    def subtract(self, a: str, b: str) -> str:
        return self._double(f"{a} - {b}")

    def multiply(self, a: str, b: str) -> str:
        return self._double(f"{a} * {b}")

    def divide(self, a: str, b: str) -> str:
        self.undecided.append(self.named("bool", f"is_extreme({b})"))
        return self.ratio(a, b)

    def ratio(self, a: str, b: str) -> str:
        return self._double(f"quick_quotient({a}, {b})")

    def divided(self, a: str, by: Expression) -> str:
        """Divides; by a constant of moderate size it multiplies by the inverse."""
        if isinstance(by, Constant) and _LEAST < abs(by.value) < 1 / _LEAST:
            return self.multiply(a, self.number(1 / by.value))
        return self.divide(a, self.of(by))

    def fused(self, a: str, b: str, c: str) -> str:
        return self._double(f"fma({a}, {b}, {c})")

    multiply_add = fused

    def horner(self, coefficients: Sequence[float], x: str) -> str:
        result = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fused(result, x, self.number(coefficient))
        return result

    def root(self, x: str) -> str:
        self.undecided.append(self.named("bool", f"!__double2hiint({x})"))
        return self._double(f"quick_root({x})")

    def negate(self, a: str) -> str:
        return self._changed(a, "-{}")

    def absolute(self, a: str) -> str:
        return self._changed(a, "fabs({})")

    def _changed(self, a: str, change: str) -> str:
        if a in self.singles:
            return self._widened(change.format(self.singles[a]))
        return self._double(change.format(a))

    def sign_of(self, size: str, sign: str) -> str:
        bits = f"__float_as_int({self.singles[sign]})" if sign in self.singles else f"__double2hiint({sign})"
        high = f"__double2hiint({size}) | {bits} & 0x80000000"
        return self._double(f"__hiloint2double({high}, __double2loint({size}))")

    def compare(self, how: str, a: str, b: str) -> str:
        a, b = (a in self.singles and self._singles([a, b])) or (a, b)
        return self.named("bool", f"{a} {how} {b}")

    def is_usual(self, a: str) -> str:
        return self.named("bool", f"is_usual({self.singles.get(a, a)})")

    def of_positive(self, x: str, value: str) -> str:
        return self.choose(self.compare("<", x, self.number(0)), self.number(nan), value)

    def not_(self, a: str) -> str:
        return self.named("bool", f"!{a}")

    def choose(self, condition: str, yes: str, no: str) -> str:
        yes, no = (double(Constant(self.constants[each])) if each in self.constants else each for each in (yes, no))
        return self._double(f"{condition} ? {yes} : {no}")

    def limited(self, x: str, most: float) -> str:
        end = double(Constant(most))
        if x in self.singles:
            return self._double(f"(double)quick_limited({self.singles[x]}, (float){end})")
        return self._double(f"quick_limited({x}, {end})")

    def at_most(self, x: str, most: float) -> str:
        end = double(Constant(most))
        if x in self.singles:
            return self._widened(f"quick_at_most({self.singles[x]}, (float){end})")
        return self._double(f"quick_at_most({x}, {end})")

    def unless_negative(self, a: str) -> str:
        x = self.singles.get(a, a)
        is_negative = f"{x} < 0" if a in self.singles else f"__double2hiint({x}) < 0"  # or -0
        return self._double(f"(double)({is_negative} ? {x} * 0 : {x})")

    def sign_changed(self, a: str, turns: str) -> str:
        return self._double(f"__hiloint2double(__double2hiint({a}) ^ ({turns} << 31), __double2loint({a}))")

    def nearest_product(self, a: str, b: str) -> tuple[str, str]:
        moved = self._double(f"fma({a}, {b}, {ROUNDER})")
        return self._double(f"{moved} - {ROUNDER}"), self.named("i32", f"__double2loint({moved})")

    def exponent_added(self, a: str, exponent: str) -> str:
        high = f"__double2hiint({a}) + ({exponent} << 20)"
        return self._double(f"__hiloint2double({high}, __double2loint({a}))")

    def exponent_taken(self, a: str, exponent: str) -> str:
        return self.exponent_added(a, f"-{exponent}")

    has_sixteenths = False
    is_narrow = False

    def two_to_sixteenths(self, sixteenths: str) -> str:
        raise NotImplementedError("without has_sixteenths nobody asks")

    def split(self, x: str) -> tuple[str, str]:
        # Mantissas start at sqrt(1/2); the high word then starts with the exponent plus 1024.
        high = self.named("u32", f"__double2hiint({x}) + (0x40000000 - 0x3fe6a09e)")
        mantissa = self._double(f"__hiloint2double(({high} & 0xfffff) + 0x3fe6a09e, __double2loint({x}))")
        moved = f"__hiloint2double(0x43300000, {high} >> 20)"
        return self._double(f"{mantissa} - 1"), self._double(f"{moved} - 0x1.00000000004p52")

    def of_odd(self, number: str, odd: str, even: str) -> str:
        return self._double(f"{number} & 1 ? {odd} : {even}")

    def tensor(self, name: str) -> str:
        given = f"widen(x{self.names.index(name)})"
        number = self._double(f"(double){given}")
        if self.inputs[name] in (DataType.FLOAT32, DataType.FLOAT16):
            self.singles[number] = given
        return number

    def clamped(self, x: str, low: str, high: str) -> str:
        return self._double(f"limited_to({x}, {low}, {high})")

    def called(self, primitive: str, operands: list[str]) -> str:
        if primitive == "negate":
            return self.negate(*operands)
        if primitive == "absolute":
            return self.absolute(*operands)
        if primitive in COMPARISONS or primitive == "not_":
            return self.named("bool", of_floats(primitive, operands))
        if primitive in ("maximum", "minimum") and (singles := self._singles(operands)):
            return self._widened(of_floats(primitive, singles))
        return self._double(of_floats(primitive, operands))

    def _singles(self, operands: list[str]) -> list[str]:
        """Returns the operands as floats before widening, or none unless all of them are floats."""
        found = {**{each: f"(float){each}" for each in operands if self._is_single(each)}, **self.singles}
        return [found[each] for each in operands] if all(each in found for each in operands) else []

    def _is_single(self, constant: str) -> bool:
        number = self.constants.get(constant)
        return number is not None and number == np.float32(number)

    def _widened(self, value: str) -> str:
        """Declares a float and returns the double that it widens to."""
        single = self.named("float", value)
        name = self._double(f"(double){single}")
        self.singles[name] = single
        return name


def quick_lines(formula: PlanFormula, names: tuple[str, ...], numbers: str) -> tuple[str, list[str]]:
    """Returns a table of constants and the statements that evaluate a formula with quick functions.

    The statements also return whether the result is settled. There are none unless the output is a float and quick
    functions pay and are accurate enough, nor if a constant is not finite: clamped values could then change the result.
    """
    expression, inputs = quick.condensed(formula.expression), formula.inputs
    if formula.output not in (DataType.FLOAT32, DataType.FLOAT16) or not quick.is_worth(expression):
        return "", []
    if not _is_finite(expression):
        return "", []
    bound = error_bound(expression, inputs, quick.POLYNOMIAL)
    if bound is None or bound > WORTH:
        return "", []
    source = QuickSource(names, inputs, numbers)
    value = source.last(quick.guarded(expression, inputs))
    reach = bound + 2 * quick.POLYNOMIAL.unit
    is_settled = str(quick.is_last_alone(expression)).lower()
    settled = f"quickly({value}, {ceil(reach * 2.0**53) + 1}u, {reach.hex()}, {is_settled}, result)"
    lines = [*source.lines, f"    return {' & '.join((settled, *(f'!{each}' for each in source.undecided)))};"]
    return f"__constant__ double {numbers}[] = {{{', '.join(source.kept)}}};\n" if source.kept else "", lines


def _is_finite(expression: Expression) -> bool:
    """Whether all constants of an expression are finite."""
    match expression:
        case Constant(value):
            return isfinite(value)
        case Operation(_, operands):
            return all(map(_is_finite, operands))
        case _:
            return True
