"""Vector code for formulas in the tensors' own type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from opwire.formulas import Expression, InputElement, Operation
from opwire.tensor import DataType

from ...formulas.integers import WORD
from ...formulas.quick import FUNCTIONS
from ...formulas.slopes import COMPARISONS
from ..numbers.lanes import BIT, DOUBLE, FLOAT, HALF, SHORT, Lanes, Vector
from .quotients import NEAREST_QUOTIENT


@dataclass(frozen=True, slots=True)
class KernelParameter(Expression):
    """A number that a kernel receives when it is called.

    Attributes:
        index: position among the parameters.
    """

    index: int


AS_STORED = "as_stored"
"""Additional primitive: rounds a value to the type that tensors store it in; FLOAT16 is computed as FLOAT32."""

LLVM = {
    "sqrt": "sqrt",
    "ceil": "ceil",
    "floor": "floor",
    "truncate": "trunc",
    "round_even": "rint",
    "round_away": "round",
    "absolute": "fabs",
}
"""Functions that LLVM provides, with the same bits as NumPy's."""

_ARITHMETIC = ("add", "subtract", "multiply", "divide", "negate")
_EXTREMES = ("minimum", "maximum")
_LOGIC = ("not_", "and_", "or_", "xor")

NATIVE_FLOATS = frozenset((*COMPARISONS, *LLVM, *_ARITHMETIC, *_EXTREMES, "not_", "sign", "select", "mean", AS_STORED))
"""Float primitives that are rounded once."""

CERTIFIED = frozenset((*COMPARISONS, *LLVM, *_ARITHMETIC, *_EXTREMES, "not_", "sign", "select", *FUNCTIONS))
"""Primitives of real numbers, computed in FLOAT64."""

CONVERTED = CERTIFIED | {NEAREST_QUOTIENT}
"""Primitives of formulas whose result is converted."""

NATIVE_INTEGERS = frozenset(
    (
        *("add", "subtract", "multiply", "negate", "absolute", "sign", "select"),
        *COMPARISONS,
        *_EXTREMES,
        *_LOGIC,
        *("bit_and", "bit_or", "bit_xor", "bit_not", "bit_count", "shift_left", "shift_right"),
    )
)
"""Integer primitives, modulo 2**width."""


def stored_type(data_type: DataType) -> Any:
    """Returns the LLVM type of an element in memory; a half float is stored as its bits."""
    names = {DataType.FLOAT64: DOUBLE, DataType.FLOAT32: FLOAT}
    return names[data_type] if data_type in names else ir.IntType(data_type.bits)


def is_truth(value: Vector) -> bool:
    return bool(value.type.element == BIT)


class FloatCode:
    """Emits code for float formulas.

    Args:
        v: code writer.
        leaves: values of the tensors and parameters.
    """

    def __init__(self, v: Lanes, leaves: Mapping[Expression, Vector]) -> None:
        self.v = v
        self._known: dict[Expression, Vector] = dict(leaves)

    def know(self, leaves: Mapping[Expression, Vector]) -> None:
        """Adds values of tensors."""
        self._known.update(leaves)

    def of(self, expression: Expression) -> Vector:
        """Returns the value of an expression; common subexpressions are computed once."""
        if expression not in self._known:
            assert isinstance(expression, Operation)
            self._known[expression] = self._call(expression.primitive, [self.of(each) for each in expression.operands])
        return self._known[expression]

    def number(self, value: Vector) -> Vector:
        """Converts a value to the type used for computing."""
        return value

    def constant(self, value: Vector, number: float) -> Vector:
        """Returns a constant in the type of a value."""
        return self.v.constant(value.type.element, number)

    def _call(self, primitive: str, operands: list[Vector]) -> Vector:
        v = self.v
        if primitive == "select":
            condition, yes, no = operands
            return v.choose(self.truth(condition), *self._alike(yes, no))
        if primitive == "not_":
            return v.builder.not_(self.truth(operands[0]))
        if primitive in _EXTREMES:
            return self._extreme(primitive, *operands)
        if primitive == "absolute" and operands[0].type.element == SHORT:
            return v.builder.and_(operands[0], v.constant(SHORT, 0x7FFF))
        if primitive == "negate" and operands[0].type.element == SHORT:
            return v.builder.xor(operands[0], v.constant(SHORT, 0x8000))
        numbers = [self.number(each) for each in operands]
        if primitive in COMPARISONS:
            return v.compare(COMPARISONS[primitive], *numbers)
        if primitive in LLVM:
            return v.call(LLVM[primitive], *numbers)
        return self._computed(primitive, numbers)

    def _computed(self, primitive: str, numbers: list[Vector]) -> Vector:
        v = self.v
        if primitive == "sign":
            (x,) = numbers
            above, below = (v.compare(how, x, self.constant(x, 0)) for how in "><")
            one, zero = self.constant(x, 1), self.constant(x, 0)
            return v.subtract(v.choose(above, one, zero), v.choose(below, one, zero))
        return getattr(v, primitive)(*numbers)

    def truth(self, value: Vector) -> Vector:
        """Returns whether a value is nonzero."""
        if is_truth(value):
            return value
        if isinstance(value.type.element, ir.IntType) and value.type.element != SHORT:
            return self.v.builder.icmp_unsigned("!=", value, self.constant(value, 0))
        number = self.number(value)
        return self.v.builder.fcmp_unordered("!=", number, self.constant(number, 0))

    def _extreme(self, primitive: str, a: Vector, b: Vector) -> Vector:
        """Returns the minimum or maximum: the first of equal values, and never a NaN if the other is a number."""
        v = self.v
        order = v.compare("<=" if primitive == "minimum" else ">=", self.number(a), self.number(b))
        return v.choose(v.builder.or_(order, v.is_nan(self.number(b))), *self._alike(a, b))

    def _alike(self, a: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Brings two values to one type: as stored if both are, so that they keep their bits."""
        return (a, b) if a.type == b.type else (self.number(a), self.number(b))


class NativeFloats(FloatCode):
    """Emits code in the tensors' own type; half floats are computed as FLOAT32, which rounds them correctly."""

    def number(self, value: Vector) -> Vector:
        if value.type.element != SHORT:
            return value
        v = self.v
        return v.builder.fpext(v.builder.bitcast(value, v.of(HALF)), v.of(FLOAT))

    def _call(self, primitive: str, operands: list[Vector]) -> Vector:
        if primitive == AS_STORED:
            (value,) = operands
            return value if value.type.element == SHORT else self.stored(value, DataType.FLOAT16)
        return super()._call(primitive, operands)

    def _computed(self, primitive: str, numbers: list[Vector]) -> Vector:
        if primitive != "mean":
            return super()._computed(primitive, numbers)
        v, (a, b) = self.v, numbers
        wide = [v.builder.fpext(each, v.of(DOUBLE)) for each in (a, b)]  # the sum does not overflow
        return v.builder.fptrunc(v.multiply(v.add(*wide), v.number(0.5)), v.of(FLOAT))

    def stored(self, value: Vector, output: DataType) -> Vector:
        """Converts a value to its stored type."""
        v, builder, element = self.v, self.v.builder, stored_type(output)
        if is_truth(value):
            if not output.is_float:
                return builder.zext(value, v.of(element))
            value = builder.uitofp(value, v.of(FLOAT))
        if output is DataType.FLOAT16 and value.type.element == FLOAT:
            return builder.bitcast(builder.fptrunc(value, v.of(HALF)), v.of(SHORT))
        return value


class NativeIntegers:
    """Emits code for integers, modulo 2**width.

    Args:
        v: code writer.
        leaves: values of the tensors and parameters.
        is_signed: whether the tensors are signed.
    """

    def __init__(self, v: Lanes, leaves: Mapping[Expression, Vector], *, is_signed: bool) -> None:
        self.v = v
        self._leaves = leaves
        builder = v.builder
        compare = builder.icmp_signed if is_signed else builder.icmp_unsigned
        self._compare: Callable[..., Vector] = compare
        self._is_signed = is_signed
        self._methods: dict[str, Callable[..., Vector]] = {
            "add": builder.add,
            "subtract": builder.sub,
            "multiply": builder.mul,
            "negate": builder.neg,
            "bit_and": builder.and_,
            "bit_or": builder.or_,
            "bit_xor": builder.xor,
            "bit_not": builder.not_,
            "bit_count": lambda x: v.call("ctpop", x),
            "minimum": lambda a, b: v.choose(compare("<", a, b), a, b),
            "maximum": lambda a, b: v.choose(compare(">", a, b), a, b),
            "absolute": self._absolute,
            "sign": self._sign,
            "shift_left": lambda a, b: self._shifted(builder.shl, a, b),
            "shift_right": lambda a, b: self._shifted(builder.lshr, a, b),
            "select": lambda condition, yes, no: v.choose(self._truth(condition), yes, no),
            "not_": lambda x: builder.not_(self._truth(x)),
            "and_": lambda a, b: builder.and_(self._truth(a), self._truth(b)),
            "or_": lambda a, b: builder.or_(self._truth(a), self._truth(b)),
            "xor": lambda a, b: builder.xor(self._truth(a), self._truth(b)),
        }

    def of(self, expression: Expression) -> Vector:
        """Returns the value of an expression."""
        if isinstance(expression, InputElement | KernelParameter):
            return self._leaves[expression]
        assert isinstance(expression, Operation)
        operands = [self.of(each) for each in expression.operands]
        if expression.primitive in COMPARISONS:
            return self._compare(COMPARISONS[expression.primitive], *operands)
        return self._methods[expression.primitive](*operands)

    def stored(self, value: Vector, output: DataType) -> Vector:
        """Converts a value to its stored type."""
        builder, kind = self.v.builder, self.v.of(stored_type(output))
        if value.type.element.width < kind.element.width:
            return builder.zext(value, kind)
        return builder.trunc(value, kind) if value.type.element.width > kind.element.width else value

    def _constant(self, like: Vector, number: int) -> Vector:
        return self.v.constant(like.type.element, number)

    def _truth(self, value: Vector) -> Vector:
        return value if is_truth(value) else self._compare("!=", value, self._constant(value, 0))

    def _absolute(self, x: Vector) -> Vector:
        if not self._is_signed:
            return x
        opposite = self.v.builder.neg(x)
        if x.type.element.width < WORD:  # the lowest number, which is its own opposite, saturates
            greatest = self._constant(x, (1 << x.type.element.width - 1) - 1)
            opposite = self.v.choose(self._compare("<", opposite, self._constant(x, 0)), greatest, opposite)
        return self.v.choose(self._compare("<", x, self._constant(x, 0)), opposite, x)

    def _sign(self, x: Vector) -> Vector:
        zero = self._constant(x, 0)
        above, below = (self.v.builder.zext(self._compare(how, x, zero), x.type) for how in "><")
        return self.v.builder.sub(above, below)

    def _shifted(self, shift: Callable[..., Vector], a: Vector, b: Vector) -> Vector:
        width = a.type.element.width
        places = self.v.builder.and_(b, self._constant(b, WORD - 1))
        if width > WORD:
            beyond = self.v.builder.icmp_unsigned(">=", b, self._constant(b, WORD))
            places = self.v.choose(beyond, self.v.builder.or_(places, self._constant(b, WORD)), places)
        inside = self.v.builder.icmp_unsigned("<", places, self._constant(b, width))
        shifted = shift(a, self.v.builder.and_(places, self._constant(b, width - 1)))
        return self.v.choose(inside, shifted, self._constant(a, 0))
