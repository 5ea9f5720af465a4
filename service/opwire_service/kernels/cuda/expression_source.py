"""Walks formulas to generate CUDA C with quick functions, one statement per operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ..formulas import quick
from ..formulas.writer import Number, Writer


@dataclass
class ExpressionSource(ABC):
    """The statements of a formula; a subclass is the ``Writer`` of the functions in them.

    Attributes:
        names: the names of the tensors, in argument order.
        inputs: the data types of the tensors.
        known: the variable of each subexpression.
        lines: the statements.
        undecided: conditions under which the computed value is meaningless.
    """

    names: tuple[str, ...]
    inputs: Mapping[str, DataType]
    known: dict[Expression, str] = field(default_factory=dict, init=False)
    lines: list[str] = field(default_factory=list, init=False)
    undecided: list[str] = field(default_factory=list, init=False)

    functions: ClassVar[Mapping[str, Callable[..., Number]]] = quick.FUNCTIONS
    last_functions: ClassVar[Mapping[str, Callable[..., Number]]] = quick.LAST

    def named(self, declared: str, value: str) -> str:
        """Declares a new variable and returns its name."""
        name = f"q{len(self.lines)}"
        self.lines.append(f"    {declared} {name} = {value};")
        return name

    @property
    @abstractmethod
    def writer(self) -> Writer:
        """The same object."""

    @abstractmethod
    def tensor(self, name: str) -> str:
        """Returns an element as a number."""

    @abstractmethod
    def divided(self, a: str, by: Expression) -> str:
        """Returns a quotient."""

    @abstractmethod
    def called(self, primitive: str, operands: list[str]) -> str:
        """Returns the value of a primitive that is no quick function."""

    def limits(self, primitive: str, operands: list[str]) -> list[Number]:
        """Returns the conditions under which a function may exceed its bound."""
        return quick.undecided(self.writer, primitive, operands)

    @abstractmethod
    def clamped(self, x: str, low: str, high: str) -> str:
        """Returns a number clamped to constants."""

    def of(self, expression: Expression) -> str:
        """Returns the value of an expression."""
        if expression not in self.known:
            self.known[expression] = self._of(expression)
        return self.known[expression]

    def _of(self, expression: Expression) -> str:
        match expression:
            case InputElement(name):
                return self.tensor(name)
            case Constant(value):
                return str(self.writer.number(value))
            case Operation("maximum", (Constant() as low, Operation("minimum", (limited, Constant() as high)))):
                return self.clamped(*map(self.of, (limited, low, high)))
            case Operation("divide", (above, below)):
                return self.divided(self.of(above), below)
            case Operation("multiply", (Constant(1), operand)) | Operation("multiply", (operand, Constant(1))):
                return self.of(operand)
            case Operation(primitive, operands):
                return self._call(primitive, [self.of(operand) for operand in operands])
            case _:
                pass
        raise TypeError(expression)

    def last(self, expression: Expression) -> str:
        """Returns the value of an expression whose result is rounded next."""
        match expression:
            case Operation(primitive, (operand,)) if primitive in self.last_functions:
                return self._quick(self.last_functions[primitive], primitive, [self.of(operand)])
            case _:
                return self.of(expression)

    def _quick(self, function: Callable[..., Number], primitive: str, operands: list[str]) -> str:
        self.undecided += self.limits(primitive, operands)
        return str(function(self.writer, *operands))

    def _call(self, primitive: str, operands: list[str]) -> str:
        if primitive.startswith(quick.GUARD):
            name = primitive.removeprefix(quick.GUARD)
            value = self._call(name, operands)
            self.undecided.append(quick.is_steep(self.writer, name, operands, value))
            return value
        if primitive in self.functions:
            return self._quick(self.functions[primitive], primitive, operands)
        return self.called(primitive, operands)
