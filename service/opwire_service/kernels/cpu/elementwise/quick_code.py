"""Vector code for formulas with quick, less accurate functions, and tests for the elements these leave open."""

from __future__ import annotations

from llvmlite import ir

from opwire.formulas import Expression, Operation
from opwire.tensor import DataType

from ...formulas import quick
from .code import CertifiedCode
from .lanes import FLOAT, HALF, INT, Vector

_LOST = {32: 29, 16: 42}
"""FLOAT64 bits that are lost in elements, by element width."""

_NORMAL = {32: (0x0100_0000, 0x7F00_0000), 16: (0x0800, 0x7800)}
"""Bits of the least and greatest elements that are certainly normal, whatever they are rounded from."""

_FAR = 2.0**200
"""Magnitudes beyond this, and below its reciprocal, certainly become infinity and zero in elements."""


class Quick(CertifiedCode):
    """Emits code in FLOAT64 with quick functions; see ``opens``."""

    def last(self, expression: Expression) -> Vector:
        """Returns the value of an expression that is rounded next."""
        match expression:
            case Operation(primitive, (operand,)) if primitive in quick.LAST:
                self.unsure += quick.unsure(self.v, primitive, [self.of(operand)])
                return quick.LAST[primitive](self.v, self.of(operand))
        return self.of(expression)

    def _computed(self, primitive: str, numbers: list[Vector]) -> Vector:
        if primitive not in quick.FUNCTIONS:
            return super()._computed(primitive, numbers)
        self.unsure += quick.unsure(self.v, primitive, numbers)
        return quick.FUNCTIONS[primitive](self.v, *numbers)

    def rounded(self, value: Vector, output: DataType) -> Vector:
        """Rounds a number to an element, for elements that are not open."""
        v, builder = self.v, self.v.builder
        near = builder.fptrunc(value, v.of(FLOAT))
        if output is DataType.FLOAT16:
            near = builder.fptrunc(near, v.of(HALF))
        return v.bits(near)

    def opens(self, value: Vector, element: Vector, slack: int) -> Vector:
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
        for each in self.unsure:
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

    def unless_far(self, opened: Vector, value: Vector) -> Vector:
        """Returns ``opened`` without numbers so far from normal elements that they become zero or infinity anyway."""
        v, builder = self.v, self.v.builder
        size = v.absolute(value)
        far = v.builder.or_(
            v.compare("<", size, v.number(1 / _FAR)),
            builder.and_(v.compare(">", size, v.number(_FAR)), v.compare("<", size, v.infinity)),
        )
        for each in self.unsure:
            far = builder.and_(far, v.not_(each))
        return builder.and_(opened, v.not_(far))
