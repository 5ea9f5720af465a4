"""Vectors in LLVM's code: what formulas are written with, without branches."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

Vector = Any
"""A value of LLVM: so many numbers, or as many truth values."""

DOUBLE, FLOAT, HALF = ir.DoubleType(), ir.FloatType(), ir.HalfType()
LONG, INT, SHORT, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(16), ir.IntType(1)

REGISTER = 8
"""FLOAT64 in a register of those that look up."""

_LOOK_UP = "llvm.x86.avx512.vpermi2var.pd.512"

ROUNDER = 1.5 * 2.0**52
"""Added to a number below 2**51 it leaves the nearest integer in the lowest bits."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes code for vectors.

    Attributes:
        builder: of the block that it is written to.
        width: numbers in a vector.
        has_sixteenths: whether the processor has instructions that look up one of 16 FLOAT64.
    """

    builder: Any
    width: int
    has_sixteenths: bool = False

    def of(self, element: Any) -> Any:
        """The type of vectors of an element."""
        return ir.VectorType(element, self.width)

    def constant(self, element: Any, number: float) -> Vector:
        """The same number in all places."""
        one = ir.Constant(element, number)
        return ir.Constant(self.of(element), [one] * self.width)

    def number(self, number: float) -> Vector:
        """The same FLOAT64 in all places."""
        return self.constant(DOUBLE, number)

    def spread(self, value: Any) -> Vector:
        """A scalar in all places."""
        vector = ir.Constant(self.of(value.type), ir.Undefined)
        first = self.builder.insert_element(vector, value, ir.Constant(INT, 0))
        return self.builder.shuffle_vector(first, vector, ir.Constant(self.of(INT), [0] * self.width))

    def add(self, a: Vector, b: Vector) -> Vector:
        return self.builder.fadd(a, b)

    def subtract(self, a: Vector, b: Vector) -> Vector:
        return self.builder.fsub(a, b)

    def multiply(self, a: Vector, b: Vector) -> Vector:
        return self.builder.fmul(a, b)

    def divide(self, a: Vector, b: Vector) -> Vector:
        return self.builder.fdiv(a, b)

    ratio = divide

    def negate(self, a: Vector) -> Vector:
        return self._before_widening(a, self.builder.fneg)

    def compare(self, how: str, a: Vector, b: Vector) -> Vector:
        """Truth values; none holds of NaN."""
        if _is_widened(a) and isinstance(b, ir.Constant) and isinstance(b.constant, list):
            (number,) = {each.constant for each in b.constant}
            if abs(number) == math.inf or struct.unpack("<f", struct.pack("<f", number)) == (number,):
                a, b = a.operands[0], self.constant(FLOAT, number)
        return self.builder.fcmp_ordered(how, a, b)

    def not_(self, a: Vector) -> Vector:
        return self.builder.not_(a)

    def is_usual(self, a: Vector) -> Vector:
        """Whether a number is above 0, and finite."""
        return self.builder.and_(self.compare(">", a, self.number(0)), self.compare("<", a, self.infinity))

    def of_positive(self, x: Vector, value: Vector) -> Vector:
        """A value of a number; there are no usual ones below 0."""
        return value

    def is_nan(self, a: Vector) -> Vector:
        return self.builder.fcmp_unordered("uno", a, a)

    def choose(self, condition: Vector, yes: Vector, no: Vector) -> Vector:
        return self.builder.select(condition, yes, no)

    def bits(self, a: Vector) -> Vector:
        return self.builder.bitcast(a, self.of({DOUBLE: LONG, FLOAT: INT, HALF: SHORT}[a.type.element]))

    def from_bits(self, a: Vector) -> Vector:
        element = {64: DOUBLE, 32: FLOAT, 16: HALF}[a.type.element.width]
        return self.builder.bitcast(a, self.of(element))

    def call(self, name: str, *operands: Vector) -> Vector:
        """A function that LLVM has of vectors like the operands."""
        kind = operands[0].type
        names = {DOUBLE: "f64", FLOAT: "f32"}
        suffix = names.get(kind.element) or f"i{kind.element.width}"
        full = f"llvm.{name}.v{self.width}{suffix}"
        module = self.builder.module
        function = module.globals.get(full)
        if function is None:
            function = ir.Function(module, ir.FunctionType(kind, [kind] * len(operands)), full)
        return self.builder.call(function, operands)

    def fused(self, a: Vector, b: Vector, c: Vector) -> Vector:
        """``a*b + c``, rounded once."""
        return self.call("fma", a, b, c)

    def multiply_add(self, a: Vector, b: Vector, c: Vector) -> Vector:
        """``a*b + c``, rounded once where the processor can do so, else twice."""
        return self.call("fmuladd", a, b, c)

    def root(self, x: Vector) -> Vector:
        """The square root."""
        return self.call("sqrt", x)

    def absolute(self, a: Vector) -> Vector:
        return self._before_widening(a, lambda x: self.call("fabs", x))

    def limited(self, x: Vector, most: float) -> Vector:
        """The nearest number within those to this one and its negative; NaN stays."""
        return self._before_widening(x, lambda y: self._limited(y, most))

    def at_most(self, x: Vector, most: float) -> Vector:
        """The lesser of two numbers; NaN stays."""
        limit = self.number(most)
        return self.choose(self.compare(">", x, limit), limit, x)

    def unless_negative(self, a: Vector) -> Vector:
        return self.choose(self.compare("<", a, self.number(0)), self.multiply(a, self.number(0)), a)

    def sign_changed(self, a: Vector, turns: Vector) -> Vector:
        """A number, or if the integer is odd its negative."""
        return self.from_bits(self.builder.xor(self.bits(a), self.builder.shl(turns, self.constant(LONG, 63))))

    def _limited(self, x: Vector, most: float) -> Vector:
        for how, end in ((">", most), ("<", -most)):
            limit = self.constant(x.type.element, end)
            x = self.choose(self.compare(how, x, limit), limit, x)
        return x

    def _before_widening(self, a: Vector, operation: Callable[[Vector], Vector]) -> Vector:
        """An operation that is exact in FLOAT32, too, in which twice as many elements fit a register."""
        if not _is_widened(a):
            return operation(a)
        return self.builder.fpext(operation(a.operands[0]), a.type)

    def sign_of(self, size: Vector, sign: Vector) -> Vector:
        """A size with the sign of another number."""
        return self.call("copysign", size, sign)

    def polynomial(self, coefficients: Sequence[float], x: Vector) -> Vector:
        """The highest power first; the even and the odd ones apart, so that none waits long for another."""
        squared = self.multiply(x, x)
        odd, even = (self.horner(coefficients[::-1][first::2][::-1], squared) for first in (1, 0))
        return self.multiply_add(odd, x, even)

    def horner(self, coefficients: Sequence[float], x: Vector) -> Vector:
        """A polynomial in as few operations as there are; the highest power first."""
        result = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.multiply_add(result, x, self.number(coefficient))
        return result

    def nearest(self, a: Vector) -> tuple[Vector, Vector]:
        """The nearest integer, of numbers below 2**51, as a number and in the lowest bits of an integer."""
        rounder = self.number(ROUNDER)
        moved = self.add(a, rounder)
        return self.subtract(moved, rounder), self.bits(moved)

    def nearest_product(self, a: Vector, b: Vector) -> tuple[Vector, Vector]:
        """The same of a product, or the next integer where it is halfway."""
        rounder = self.number(ROUNDER)
        moved = self.multiply_add(a, b, rounder)
        return self.subtract(moved, rounder), self.bits(moved)

    def exponent_added(self, a: Vector, exponent: Vector) -> Vector:
        """A number times two to the power in the lowest bits of an integer, where neither is subnormal."""
        shifted = self.builder.shl(exponent, self.constant(LONG, 52))
        return self.from_bits(self.builder.add(self.bits(a), shifted))

    def exponent_taken(self, a: Vector, exponent: Vector) -> Vector:
        shifted = self.builder.shl(exponent, self.constant(LONG, 52))
        return self.from_bits(self.builder.sub(self.bits(a), shifted))

    def two_to_sixteenths(self, sixteenths: Vector) -> Vector:
        """Two to the power of an integer over 16, where the processor looks it up."""
        builder = self.builder
        parts = [
            self._looked_up(builder.shuffle_vector(sixteenths, sixteenths, _places(start, REGISTER)))
            for start in range(0, self.width, REGISTER)
        ]
        while len(parts) > 1:
            both = _places(0, 2 * parts[0].type.count)
            parts = [builder.shuffle_vector(a, b, both) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        whole = builder.shl(sixteenths, self.constant(LONG, 48))
        return self.from_bits(builder.add(self.bits(parts[0]), whole))

    def _looked_up(self, places: Vector) -> Vector:
        """Powers by the lowest 4 bits of integers, as many as fit a register; less these bits below the exponent."""
        numbers, module = ir.VectorType(DOUBLE, REGISTER), self.builder.module
        kind = ir.FunctionType(numbers, [numbers, places.type, numbers])
        function = module.globals.get(_LOOK_UP) or ir.Function(module, kind, _LOOK_UP)
        powers = [ir.Constant(DOUBLE, _less_bits(2.0 ** (place / 16), place << 48)) for place in range(16)]
        low, high = ir.Constant(numbers, powers[:REGISTER]), ir.Constant(numbers, powers[REGISTER:])
        return self.builder.call(function, [low, places, high])

    def split(self, x: Vector) -> tuple[Vector, Vector]:
        """How much a number divided by a power of two lies above 1, from -0.3 to 0.42, and the exponent of that."""
        bits = self.bits(x)
        least = self.constant(LONG, 0x3FE6A09E667F3BCD)  # sqrt(1/2)
        exponent = self.builder.ashr(self.builder.sub(bits, least), self.constant(LONG, 52))
        shifted = self.builder.shl(exponent, self.constant(LONG, 52))
        m = self.from_bits(self.builder.sub(bits, shifted))
        rounder = self.number(ROUNDER)
        e = self.subtract(self.from_bits(self.builder.add(exponent, self.bits(rounder))), rounder)
        return self.subtract(m, self.number(1)), e

    def of_odd(self, number: Vector, odd: Vector, even: Vector) -> Vector:
        """One of two numbers, by the lowest bit of an integer."""
        lowest = self.builder.shl(number, self.constant(LONG, 63))
        return self.choose(self.builder.icmp_signed("<", lowest, self.constant(LONG, 0)), odd, even)

    def turned(self, quarters: Vector, sine: Vector, cosine: Vector) -> Vector:
        """The sine of an angle, so many quarters of a circle further than that of which both are given."""
        half = self.builder.lshr(quarters, self.constant(LONG, 1))
        return self.sign_changed(self.of_odd(quarters, cosine, sine), half)

    def further(self, quarters: Vector) -> Vector:
        """One more."""
        return self.builder.add(quarters, self.constant(LONG, 1))

    @property
    def infinity(self) -> Vector:
        return self.number(math.inf)


def _places(start: int, count: int) -> Vector:
    """For shuffles."""
    return ir.Constant(ir.VectorType(INT, count), list(range(start, start + count)))


def _less_bits(number: float, bits: int) -> float:
    """A FLOAT64 by its bits as an integer less some."""
    (whole,) = struct.unpack("<q", struct.pack("<d", number))
    (less,) = struct.unpack("<d", struct.pack("<q", whole - bits))
    return float(less)


def _is_widened(a: Vector) -> bool:
    """Whether numbers come from FLOAT32."""
    return getattr(a, "opname", "") == "fpext" and a.operands[0].type.element == FLOAT
