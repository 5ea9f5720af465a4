"""Numbers that rules compare: sizes, ranks, attributes, lengths, and arithmetic on them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from .rule import Path, Values


class Quantity(ABC):
    """A number that depends on the members of a desc.

    Attributes:
        reads: the members that it depends on.
        place: the path of the member, or of its part, to report if the number is wrong.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]: ...

    @property
    def place(self) -> Path:
        return ()

    @abstractmethod
    def value(self, values: Values) -> int | None:
        """Returns the number, or None if there is none: a tensor is omitted, or has no such dimension."""

    def __add__(self, other: Quantity | int) -> Quantity:
        return Computed("+", self, term(other))

    def __sub__(self, other: Quantity | int) -> Quantity:
        return Computed("-", self, term(other))

    def __mul__(self, other: Quantity | int) -> Quantity:
        return Computed("*", self, term(other))

    def __rmul__(self, other: int) -> Quantity:
        return Computed("*", term(other), self)

    def __floordiv__(self, other: Quantity | int) -> Quantity:
        return Computed("/", self, term(other))


def term(given: Quantity | int) -> Quantity:
    """Converts an integer to a quantity; returns quantities unchanged."""
    return ConstantQuantity(given) if isinstance(given, int) else given


@dataclass(frozen=True, slots=True)
class ConstantQuantity(Quantity):
    """A constant number."""

    number: int

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    def value(self, values: Values) -> int:
        return self.number

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Size(Quantity):
    """The size of one dimension of a tensor; negative dimensions count from the last."""

    tensor: str
    dimension: int | str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.tensor, self.dimension) if isinstance(self.dimension, str) else (self.tensor,))

    @property
    def place(self) -> Path:
        return (self.tensor, "Sizes")

    def value(self, values: Values) -> int | None:
        tensor = values[self.tensor]
        at: int = values[self.dimension] if isinstance(self.dimension, str) else self.dimension
        if tensor is None or not -tensor.rank <= at < tensor.rank:
            return None
        found: int = tensor.sizes[at]
        return found

    def __str__(self) -> str:
        return f"{self.tensor}.Sizes[{self.dimension}]"


@dataclass(frozen=True, slots=True)
class Measure(Quantity):
    """A number taken from one member: its rank, its length, the product of its sizes, or the number itself."""

    member: str
    what: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.member,))

    @property
    def place(self) -> Path:
        return (self.member, "Sizes") if self.what in ("rank", "product of sizes") else (self.member,)

    def value(self, values: Values) -> int | None:
        found = values[self.member]
        return None if found is None else _MEASURES[self.what](found)

    def __str__(self) -> str:
        return f"{self.what} of {self.member}" if self.what else self.member


@dataclass(frozen=True, slots=True)
class StructField(Quantity):
    """A field of an attribute that is a struct."""

    member: str
    name: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.member,))

    @property
    def place(self) -> Path:
        return (self.member, self.name)

    def value(self, values: Values) -> int:
        return int(getattr(values[self.member], self.name))

    def __str__(self) -> str:
        return f"{self.member}.{self.name}"


_MEASURES: Mapping[str, Callable[[Any], int]] = {
    "rank": lambda tensor: len(tensor.sizes),
    "length": len,
    "product of sizes": lambda tensor: prod(tensor.sizes),
    "": int,
}


@dataclass(frozen=True, slots=True)
class Computed(Quantity):
    """The sum, difference, product or quotient (rounded down) of two numbers."""

    sign: str
    left: Quantity
    right: Quantity

    @property
    def reads(self) -> frozenset[str]:
        return self.left.reads | self.right.reads

    @property
    def place(self) -> Path:
        return self.left.place or self.right.place

    def value(self, values: Values) -> int | None:
        left, right = self.left.value(values), self.right.value(values)
        if left is None or right is None or (self.sign == "/" and right == 0):
            return None
        return _SIGNS[self.sign](left, right)

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


_SIGNS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


def size(tensor: str, dimension: int | str) -> Quantity:
    """``tensor.Sizes[dimension]``; the dimension may be an attribute's name."""
    return Size(tensor, dimension)


def rank(tensor: str) -> Quantity:
    """The dimension count of a tensor."""
    return Measure(tensor, "rank")


def elements(tensor: str) -> Quantity:
    """The product of a tensor's sizes."""
    return Measure(tensor, "product of sizes")


def length(array: str) -> Quantity:
    """The number of elements of an array."""
    return Measure(array, "length")


def number(attribute: str) -> Quantity:
    """An attribute that is an integer."""
    return Measure(attribute, "")


def part(attribute: str, name: str) -> Quantity:
    """``ScaleSize.Width``: a field of an attribute that is a struct."""
    return StructField(attribute, name)
