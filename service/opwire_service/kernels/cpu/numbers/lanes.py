"""Writer of branch-free LLVM vector code."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

Vector = Any
"""An LLVM value: a vector of numbers or truth values."""

DOUBLE, FLOAT, HALF = ir.DoubleType(), ir.FloatType(), ir.HalfType()
LONG, INT, SHORT, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(16), ir.IntType(1)

REGISTER = 8
"""FLOAT64 lanes in a register for in-register lookups."""

_LOOK_UP = "llvm.x86.avx512.vpermi2var.pd.512"

ROUNDER = 1.5 * 2.0**52
"""Adding it to a number below 2**51 leaves the nearest integer in the low bits."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes code for vectors.

    Attributes:
        builder: LLVM builder of the block to write to.
        width: lanes in a vector.
        has_sixteenths: whether the processor can look up one of 16 FLOAT64 in registers.
    """

    builder: Any
    width: int
    has_sixteenths: bool = False

    is_narrow = False

    def of(self, element: Any) -> Any:
        """Returns the vector type of an element type."""
        return ir.VectorType(element, self.width)

    def constant(self, element: Any, number: float) -> Vector:
        """Broadcasts a constant."""
        one = ir.Constant(element, number)
        return ir.Constant(self.of(element), [one] * self.width)

    def number(self, number: float) -> Vector:
        """Broadcasts a FLOAT64 constant."""
        return self.constant(DOUBLE, number)

    def spread(self, value: Any) -> Vector:
        """Broadcasts a scalar."""
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
        """Returns truth values of an ordered comparison, which is false for NaN."""
        if _is_widened(a) and isinstance(b, ir.Constant) and isinstance(b.constant, list):
            (number,) = {each.constant for each in b.constant}
            if abs(number) == math.inf or struct.unpack("<f", struct.pack("<f", number)) == (number,):
                a, b = a.operands[0], self.constant(FLOAT, number)
        return self.builder.fcmp_ordered(how, a, b)

    def not_(self, a: Vector) -> Vector:
        return self.builder.not_(a)

    def is_usual(self, a: Vector) -> Vector:
        """Whether a number is positive and finite."""
        return self.builder.and_(self.compare(">", a, self.number(0)), self.compare("<", a, self.infinity))

    def of_positive(self, x: Vector, value: Vector) -> Vector:
        """Returns ``value``, a function of ``x``; the CUDA counterpart makes it NaN for negative ``x``."""
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
        """Calls an LLVM intrinsic on vectors of the operands' type."""
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
        """Fused multiply-add: ``a*b + c``, rounded once."""
        return self.call("fma", a, b, c)

    def multiply_add(self, a: Vector, b: Vector, c: Vector) -> Vector:
        """``a*b + c``, rounded once if the processor supports that, else twice."""
        return self.call("fmuladd", a, b, c)

    def root(self, x: Vector) -> Vector:
        """Returns the square root."""
        return self.call("sqrt", x)

    def absolute(self, a: Vector) -> Vector:
        return self._before_widening(a, lambda x: self.call("fabs", x))

    def limited(self, x: Vector, most: float) -> Vector:
        """Clamps to [-most, most]; NaN stays."""
        return self._before_widening(x, lambda y: self._limited(y, most))

    def at_most(self, x: Vector, most: float) -> Vector:
        """Returns the minimum of a number and a constant; NaN stays."""
        limit = self.number(most)
        return self.choose(self.compare(">", x, limit), limit, x)

    def unless_negative(self, a: Vector) -> Vector:
        return self.choose(self.compare("<", a, self.number(0)), self.multiply(a, self.number(0)), a)

    def sign_changed(self, a: Vector, turns: Vector) -> Vector:
        """Negates a number if the integer is odd."""
        return self.from_bits(self.builder.xor(self.bits(a), self.builder.shl(turns, self.constant(LONG, 63))))

    def _limited(self, x: Vector, most: float) -> Vector:
        for how, end in ((">", most), ("<", -most)):
            limit = self.constant(x.type.element, end)
            x = self.choose(self.compare(how, x, limit), limit, x)
        return x

    def _before_widening(self, a: Vector, operation: Callable[[Vector], Vector]) -> Vector:
        """Applies an operation that is exact in FLOAT32 before widening, when registers hold twice as many elements."""
        if not _is_widened(a):
            return operation(a)
        return self.builder.fpext(operation(a.operands[0]), a.type)

    def sign_of(self, size: Vector, sign: Vector) -> Vector:
        """Returns a magnitude with the sign of another number."""
        return self.call("copysign", size, sign)

    def polynomial(self, coefficients: Sequence[float], x: Vector) -> Vector:
        """Evaluates a polynomial, highest power first; separate even and odd powers shorten the dependency chain."""
        squared = self.multiply(x, x)
        odd, even = (self.horner(coefficients[::-1][first::2][::-1], squared) for first in (1, 0))
        return self.multiply_add(odd, x, even)

    def horner(self, coefficients: Sequence[float], x: Vector) -> Vector:
        """Evaluates a polynomial, highest power first, with the fewest operations (Horner)."""
        result = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.multiply_add(result, x, self.number(coefficient))
        return result

    def nearest(self, a: Vector) -> tuple[Vector, Vector]:
        """Rounds numbers below 2**51; returns the integer as a number and in the low bits of an integer."""
        rounder = self.number(ROUNDER)
        moved = self.add(a, rounder)
        return self.subtract(moved, rounder), self.bits(moved)

    def nearest_product(self, a: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Like ``nearest``, for a product; halfway cases may round either way."""
        rounder = self.number(ROUNDER)
        moved = self.multiply_add(a, b, rounder)
        return self.subtract(moved, rounder), self.bits(moved)

    def exponent_added(self, a: Vector, exponent: Vector) -> Vector:
        """Multiplies by 2**exponent, taken from the low bits of an integer, without handling subnormals."""
        shifted = self.builder.shl(exponent, self.constant(LONG, 52))
        return self.from_bits(self.builder.add(self.bits(a), shifted))

    def exponent_taken(self, a: Vector, exponent: Vector) -> Vector:
        shifted = self.builder.shl(exponent, self.constant(LONG, 52))
        return self.from_bits(self.builder.sub(self.bits(a), shifted))

    def two_to_sixteenths(self, sixteenths: Vector) -> Vector:
        """Returns two to the power of an integer over 16, by an in-register lookup."""
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
        """Looks up powers by the low 4 bits of integers, for one register, minus these bits below the exponent."""
        numbers, module = ir.VectorType(DOUBLE, REGISTER), self.builder.module
        kind = ir.FunctionType(numbers, [numbers, places.type, numbers])
        function = module.globals.get(_LOOK_UP) or ir.Function(module, kind, _LOOK_UP)
        powers = [ir.Constant(DOUBLE, _less_bits(2.0 ** (place / 16), place << 48)) for place in range(16)]
        low, high = ir.Constant(numbers, powers[:REGISTER]), ir.Constant(numbers, powers[REGISTER:])
        return self.builder.call(function, [low, places, high])

    def split(self, x: Vector) -> tuple[Vector, Vector]:
        """Splits x into m * 2**e; returns m - 1, from -0.3 to 0.42, and e."""
        bits = self.bits(x)
        least = self.constant(LONG, 0x3FE6A09E667F3BCD)  # sqrt(1/2)
        exponent = self.builder.ashr(self.builder.sub(bits, least), self.constant(LONG, 52))
        shifted = self.builder.shl(exponent, self.constant(LONG, 52))
        m = self.from_bits(self.builder.sub(bits, shifted))
        rounder = self.number(ROUNDER)
        e = self.subtract(self.from_bits(self.builder.add(exponent, self.bits(rounder))), rounder)
        return self.subtract(m, self.number(1)), e

    def of_odd(self, number: Vector, odd: Vector, even: Vector) -> Vector:
        """Selects one of two numbers by the lowest bit of an integer."""
        lowest = self.builder.shl(number, self.constant(LONG, 63))
        return self.choose(self.builder.icmp_signed("<", lowest, self.constant(LONG, 0)), odd, even)

    def turned(self, quarters: Vector, sine: Vector, cosine: Vector) -> Vector:
        """Returns the sine of an angle advanced by quarter turns, given the angle's sine and cosine."""
        half = self.builder.lshr(quarters, self.constant(LONG, 1))
        return self.sign_changed(self.of_odd(quarters, cosine, sine), half)

    def further(self, quarters: Vector) -> Vector:
        """Returns the number of quarter turns plus one."""
        return self.builder.add(quarters, self.constant(LONG, 1))

    @property
    def infinity(self) -> Vector:
        return self.number(math.inf)


def _places(start: int, count: int) -> Vector:
    """Returns shuffle indices from ``start`` on."""
    return ir.Constant(ir.VectorType(INT, count), list(range(start, start + count)))


def _less_bits(number: float, bits: int) -> float:
    """Returns the FLOAT64 whose bits, as an integer, are reduced by ``bits``."""
    (whole,) = struct.unpack("<q", struct.pack("<d", number))
    (less,) = struct.unpack("<d", struct.pack("<q", whole - bits))
    return float(less)


def _is_widened(a: Vector) -> bool:
    """Whether numbers have just been widened from FLOAT32."""
    return getattr(a, "opname", "") == "fpext" and a.operands[0].type.element == FLOAT
