"""Vector code for formulas in FLOAT64, and tests for the elements that their error bound leaves undecided."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llvmlite import ir

from opwire.formulas import Expression, Operation
from opwire.tensor import DataType

from ...formulas import quick
from ...formulas.quick import GUARD
from ..numbers.lanes import DOUBLE, FLOAT, HALF, INT, LONG, Lanes, Vector
from .code import LLVM, FloatCode
from .quotients import NEAREST_QUOTIENT, nearest_quotient

ADD_TO_ODD = "add_to_odd"
"""Additional primitive: a FLOAT64 sum rounded to odd, so that its last bit is set where it is inexact."""

_WHOLE_BELOW = 2.0**51
"""Below this, rounding a number to odd does not move it across an integer."""

_LOST = {32: 29, 16: 42}
"""FLOAT64 bits that are lost in elements, by element width."""

_NORMAL = {32: (0x0100_0000, 0x7F00_0000), 16: (0x0800, 0x7800)}
"""Bits of the least and greatest elements that are certainly normal, whatever they are rounded from."""

_FAR = 2.0**200
"""Magnitudes beyond this, and below its reciprocal, certainly become infinity and zero in elements."""


class CertifiedCode(FloatCode):
    """Emits code in FLOAT64 for results within an error bound.

    Attributes:
        undecided: masks of the lanes where the bound does not hold.

    Args:
        v: code writer.
        leaves: values of the tensors and parameters.
        functions: replace those of ``quick``.
    """

    def __init__(
        self,
        v: Lanes,
        leaves: Mapping[Expression, Vector],
        functions: Mapping[str, Callable[..., Vector]] | None = None,
    ) -> None:
        super().__init__(v, leaves)
        self.undecided: list[Vector] = []
        self._functions = functions or {}

    def last(self, expression: Expression) -> Vector:
        """Returns the value of an expression that is rounded next."""
        match expression:
            case Operation(primitive, (operand,)) if primitive in quick.LAST and primitive not in self._functions:
                return self._called(quick.LAST[primitive], primitive, [self.of(operand)])
        return self.of(expression)

    def _computed(self, primitive: str, numbers: list[Vector]) -> Vector:
        v = self.v
        if primitive == ADD_TO_ODD:
            return _added_to_odd(v, *numbers)
        if primitive == NEAREST_QUOTIENT:
            return nearest_quotient(v, *numbers)
        if primitive.startswith(GUARD):
            return self._guarded(primitive.removeprefix(GUARD), numbers)
        if primitive in self._functions:
            if primitive == "power":
                self.undecided += [v.not_(v.compare("<", v.absolute(each), v.infinity)) for each in numbers]
            return self._functions[primitive](v, *numbers)
        if primitive in quick.FUNCTIONS:
            return self._called(quick.FUNCTIONS[primitive], primitive, numbers)
        return super()._computed(primitive, numbers)

    def _called(self, function: Callable[..., Vector], primitive: str, numbers: list[Vector]) -> Vector:
        self.undecided += quick.undecided(self.v, primitive, numbers)
        return function(self.v, *numbers)

    def _guarded(self, primitive: str, numbers: list[Vector]) -> Vector:
        """Computes a function and marks where it amplifies its operand's error too much."""
        v = self.v
        if primitive in LLVM:
            self.undecided.append(v.compare(">=", v.absolute(numbers[0]), v.number(_WHOLE_BELOW)))
            return v.call(LLVM[primitive], *numbers)
        value = self._computed(primitive, numbers)
        self.undecided.append(quick.is_steep(v, primitive, numbers, value))
        return value

    def widened(self, value: Vector, data_type: DataType) -> Vector:
        """Converts an element to FLOAT64."""
        v, builder = self.v, self.v.builder
        if data_type is DataType.FLOAT16:
            value = builder.fpext(builder.bitcast(value, v.of(HALF)), v.of(FLOAT))
        if data_type.is_float:
            return builder.fpext(value, v.of(DOUBLE)) if data_type.bits < 64 else value
        convert = builder.sitofp if data_type.is_signed else builder.uitofp
        return convert(value, v.of(DOUBLE))

    def rounded(self, value: Vector, output: DataType) -> Vector:
        """Rounds a FLOAT64 to an element."""
        v, builder = self.v, self.v.builder
        near = builder.fptrunc(value, v.of(FLOAT))
        if output is DataType.FLOAT32:
            return v.bits(near)
        return v.bits(builder.fptrunc(odd(v, near, value), v.of(HALF)))

    def nearly_rounded(self, value: Vector, output: DataType) -> Vector:
        """Rounds a number to an element, correctly where ``is_undecided`` is false: FLOAT16 by way of FLOAT32."""
        v, builder = self.v, self.v.builder
        near = builder.fptrunc(value, v.of(FLOAT))
        if output is DataType.FLOAT16:
            near = builder.fptrunc(near, v.of(HALF))
        return v.bits(near)

    def is_undecided(self, value: Vector, element: Vector, slack: int) -> Vector:
        """Returns where an error of 2**slack FLOAT64 ULPs may change the element, or where it may not be normal."""
        v, builder = self.v, self.v.builder
        bits, kind = self._lost_bits(value, element), element.type.element
        lost, part = _LOST[kind.width], bits.type.element
        moved = builder.add(bits, v.constant(part, (1 << slack) - (1 << lost - 1)))
        # 0 if it is at most the slack away from a midpoint; subtracting 1 turns that into the greatest integer.
        above = builder.and_(moved, v.constant(part, (1 << lost) - (2 << slack)))
        above = builder.sub(above, v.constant(part, 1))
        if part != kind:
            above = builder.trunc(builder.lshr(above, v.constant(part, 1 + lost - kind.width)), element.type)
        least, greatest = _NORMAL[kind.width]
        from_least = builder.sub(builder.add(element, element), v.constant(kind, 2 * least))
        found = builder.icmp_unsigned(">", v.call("umax", above, from_least), v.constant(kind, 2 * (greatest - least)))
        for each in self.undecided:
            found = builder.or_(found, each)
        return found

    def _lost_bits(self, value: Vector, element: Vector) -> Vector:
        """Returns bits of a number that include those its element loses."""
        v, builder = self.v, self.v.builder
        if element.type.element != INT:
            return v.bits(value)
        words = builder.bitcast(value, ir.VectorType(INT, 2 * v.width))
        low = ir.Constant(v.of(INT), [2 * place for place in range(v.width)])
        return builder.shuffle_vector(words, ir.Constant(words.type, ir.Undefined), low)

    def unless_far(self, undecided: Vector, value: Vector) -> Vector:
        """Removes numbers so far from normal elements that they become zero or infinity anyway."""
        v, builder = self.v, self.v.builder
        size = v.absolute(value)
        far = v.builder.or_(
            v.compare("<", size, v.number(1 / _FAR)),
            builder.and_(v.compare(">", size, v.number(_FAR)), v.compare("<", size, v.infinity)),
        )
        for each in self.undecided:
            far = builder.and_(far, v.not_(each))
        return builder.and_(undecided, v.not_(far))


def _log(v: Lanes, x: Vector) -> Vector:
    """The logarithm, also of zeros, negative numbers, infinity and NaN."""
    at_zero = v.choose(v.compare("==", x, v.number(0)), v.negate(v.infinity), v.number(math.nan))
    special = v.choose(v.compare(">", x, v.number(0)), v.infinity, at_zero)
    return v.choose(v.is_usual(x), quick.log(v, x), special)


def _power(v: Lanes, x: Vector, y: Vector) -> Vector:
    """Powers of finite numbers, with the special cases of C's pow."""
    result = quick.power(v, v.absolute(x), y)
    at_zero = v.choose(v.compare(">", y, v.number(0)), v.number(0), v.infinity)
    result = v.choose(v.compare("==", x, v.number(0)), at_zero, result)
    whole, odd = _is_whole(v, y), v.not_(_is_whole(v, v.multiply(y, v.number(0.5))))
    signed = v.choose(v.builder.and_(whole, odd), v.sign_of(result, x), result)
    is_outside = v.builder.and_(v.compare("<", x, v.number(0)), v.not_(whole))
    result = v.choose(is_outside, v.number(math.nan), signed)
    return v.choose(v.compare("==", y, v.number(0)), v.number(1), result)


def _is_whole(v: Lanes, x: Vector) -> Vector:
    return v.compare("==", v.call("floor", x), x)


SPECIAL: Mapping[str, Callable[..., Vector]] = {"log": _log, "power": _power}
"""Functions that take all numbers, where those of ``quick`` leave some undecided."""


def _added_to_odd(v: Lanes, a: Vector, b: Vector) -> Vector:
    builder = v.builder
    total = v.add(a, b)
    part = v.subtract(total, a)
    rest = v.add(v.subtract(a, v.subtract(total, part)), v.subtract(b, part))
    bits, one = v.bits(total), v.constant(LONG, 1)
    is_even = builder.icmp_signed("==", builder.and_(bits, one), v.constant(LONG, 0))
    changed = builder.and_(v.compare("!=", rest, v.number(0)), is_even)
    unlike = builder.ashr(builder.xor(bits, v.bits(rest)), v.constant(LONG, 63))
    return v.from_bits(v.choose(changed, builder.add(bits, builder.or_(unlike, one)), bits))


def odd(v: Lanes, near: Vector, value: Vector) -> Vector:
    """Returns a FLOAT32 rounded to odd, so that rounding it to FLOAT16 is correct."""
    builder, back = v.builder, v.builder.fpext(near, v.of(DOUBLE))
    bits = v.bits(near)
    one = v.constant(bits.type.element, 1)
    is_even = builder.icmp_signed("==", builder.and_(bits, one), v.constant(bits.type.element, 0))
    changed = builder.and_(v.compare("!=", back, value), is_even)
    is_below = v.compare("<", v.absolute(back), v.absolute(value))
    step = v.choose(is_below, one, v.constant(bits.type.element, -1))
    return v.from_bits(v.choose(changed, builder.add(bits, step), bits))
