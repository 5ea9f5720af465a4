"""Formulas of element-wise operators as data: expressions of tensors, attributes and primitives.

A formula says what the element of an output is, over the real numbers where the tensors hold floats, and modulo two to
the power of their width where they hold integers. Whoever computes it, on whatever device, renders this data. Where a
real formula has several forms, the one that is written here loses nothing to cancellation in floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_UNARY = """
    negate absolute sign not_ bit_not bit_count ceil floor truncate round_even round_away sqrt exp expm1 log log1p
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
"""

_BINARY = """
    add subtract multiply divide remainder floor_remainder mean minimum maximum power atan2
    equal less less_equal greater greater_equal and_ or_ xor bit_and bit_or bit_xor shift_left shift_right
"""

PRIMITIVES = frozenset((*_UNARY.split(), *_BINARY.split(), "select"))
"""Of one operand, of two and of three.

Comparisons, ``not_``, ``and_``, ``or_`` and ``xor`` give truth values, 1 and 0. ``remainder`` has the sign of the first
operand, ``floor_remainder`` that of the second. ``select`` gives its second operand where the first one is true, else
its third.
"""


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula or a part of one; arithmetic and comparison of expressions make larger ones."""

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
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """A number of the desc. In a formula of integers it is converted to their type: truncated, then saturated."""

    name: str


@dataclass(frozen=True, slots=True)
class Bound(Expression):
    """A number of the desc that is converted to the type of the tensors first, floats included."""

    name: str


@dataclass(frozen=True, slots=True)
class ChannelValue(Expression):
    """The number of an array of the desc that belongs to the element's channel, the second dimension."""

    name: str


@dataclass(frozen=True, slots=True)
class Scaled(Expression):
    """``operand * Scale + Bias`` by the optional struct of that name; of integers truncated, then saturated."""

    name: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class FusedActivation(Expression):
    """The formula of the optional activation in a member of that name, of an operand that is not rounded."""

    name: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class EnumChoice(Expression):
    """One of several expressions, by the name of an enum member.

    Attributes:
        name: of the member of the desc.
        options: expressions by the enum's names.
    """

    name: str
    options: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Operation(Expression):
    """A primitive of operands.

    Attributes:
        primitive: one of ``PRIMITIVES``.
        operands: as many as it takes.
    """

    primitive: str
    operands: tuple[Expression, ...]


def expression(operand: Operand) -> Expression:
    """An operand as an expression: numbers become constants."""
    return operand if isinstance(operand, Expression) else Constant(operand)


def call(primitive: str) -> Callable[..., Expression]:
    """What makes expressions of a primitive.

    Raises:
        KeyError: there is no such primitive.
    """
    if primitive not in PRIMITIVES:
        raise KeyError(primitive)

    def made(*operands: Operand) -> Expression:
        return Operation(primitive, tuple(map(expression, operands)))

    return made


def scaled(operand: Expression) -> Expression:
    """The operand with the operator's ScaleBias, if the desc has one."""
    return Scaled("ScaleBias", operand)


def chosen(name: str, **options: Expression) -> Expression:
    """One of several expressions, by the name of an enum member that the desc gives."""
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
