"""Formulas of element-wise operators as data: expressions over tensors, attributes and primitives.

A formula defines an output element: over the real numbers for floats, and modulo 2**bits for integers. Each device
translates it to its own code. Of several equivalent real formulas, the one given here avoids cancellation in
floating point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import copysign

_UNARY = """
    negate absolute sign not_ bit_not bit_count ceil floor truncate round_even round_away sqrt exp expm1 log log1p
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
"""

_BINARY = """
    add subtract multiply divide remainder floor_remainder mean minimum maximum power atan2
    equal less less_equal greater greater_equal and_ or_ xor bit_and bit_or bit_xor shift_left shift_right
"""

PRIMITIVES = frozenset((*_UNARY.split(), *_BINARY.split(), "select"))
"""The unary, binary and ternary primitives.

Comparisons, ``not_``, ``and_``, ``or_`` and ``xor`` return truth values, 1 or 0. ``remainder`` has the sign of the
first operand, ``floor_remainder`` that of the second. ``select`` returns its second operand if the first is true, else
its third.
"""


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula or part of one. Python's arithmetic and comparison operators combine expressions."""

    def __add__(self, other: Operand) -> Expression:
        return Operation("add", (self, expression(other)))

    def __sub__(self, other: Operand) -> Expression:
        return Operation("subtract", (self, expression(other)))

    def __mul__(self, other: Operand) -> Expression:
        return Operation("multiply", (self, expression(other)))

    def __truediv__(self, other: Operand) -> Expression:
        return Operation("divide", (self, expression(other)))

    def __neg__(self) -> Expression:
        return Operation("negate", (self,))

    def __lt__(self, other: Operand) -> Expression:
        return Operation("less", (self, expression(other)))

    def __le__(self, other: Operand) -> Expression:
        return Operation("less_equal", (self, expression(other)))

    def __gt__(self, other: Operand) -> Expression:
        return Operation("greater", (self, expression(other)))

    def __ge__(self, other: Operand) -> Expression:
        return Operation("greater_equal", (self, expression(other)))


Operand = Expression | int | float


@dataclass(frozen=True, slots=True)
class InputElement(Expression):
    """An element of an input."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A number. Those of different sign are different, zeros included."""

    value: float
    is_negative: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_negative", copysign(1.0, self.value) < 0)


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """A number of the desc. In integer formulas it is converted to their type: truncated, then saturated."""

    name: str


@dataclass(frozen=True, slots=True)
class Bound(Expression):
    """A number of the desc that is first converted to the data type of the tensors, even for floats."""

    name: str


@dataclass(frozen=True, slots=True)
class Limit(Expression):
    """A number of the desc that elements are compared with, exactly even if they are integers."""

    name: str


@dataclass(frozen=True, slots=True)
class Moved(Expression):
    """The operand plus a number of the desc, or minus that; for integers truncated, then saturated."""

    operand: Expression
    name: str
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class ChannelValue(Expression):
    """The element, for the current channel (second dimension), of an array of numbers in the desc."""

    name: str


@dataclass(frozen=True, slots=True)
class Scaled(Expression):
    """``operand * Scale + Bias`` with the optional struct of that name; for integers truncated, then saturated."""

    name: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class FusedActivation(Expression):
    """The formula of the optional fused activation in a member of that name, applied to the unrounded operand."""

    name: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class EnumChoice(Expression):
    """One of several expressions, selected by an enum in the desc.

    Attributes:
        name: the member of the desc.
        options: the expressions, by name of the enum's members.
    """

    name: str
    options: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Operation(Expression):
    """A primitive applied to operands.

    Attributes:
        primitive: one of ``PRIMITIVES``.
        operands: as many as the primitive takes.
    """

    primitive: str
    operands: tuple[Expression, ...]


def expression(operand: Operand) -> Expression:
    """Converts an operand to an expression: numbers become constants."""
    return operand if isinstance(operand, Expression) else Constant(operand)


def call(primitive: str) -> Callable[..., Expression]:
    """Returns a function that makes expressions of a primitive.

    Raises:
        KeyError: there is no such primitive.
    """
    if primitive not in PRIMITIVES:
        raise KeyError(primitive)

    def made(*operands: Operand) -> Expression:
        return Operation(primitive, tuple(map(expression, operands)))

    return made


def scaled(operand: Expression) -> Expression:
    """Applies the operator's ScaleBias, if the desc has one."""
    return Scaled("ScaleBias", operand)


def chosen(name: str, **options: Expression) -> Expression:
    """Selects one of several expressions by an enum member of the desc."""
    return EnumChoice(name, tuple(options.items()))


select = call("select")
absolute = call("absolute")
minimum = call("minimum")
maximum = call("maximum")
exp = call("exp")
expm1 = call("expm1")
log1p = call("log1p")
tanh = call("tanh")
erfc = call("erfc")
sqrt = call("sqrt")

INPUT = InputElement("InputTensor")
A = InputElement("ATensor")
B = InputElement("BTensor")
