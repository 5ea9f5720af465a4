"""Rules about attributes and numbers computed from sizes: ranges, equality, divisibility, axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from math import isinf

from ..violation import Code, Fault
from .expressions import ConstantQuantity, Quantity, term
from .rule import Rule, Values, listed, tensors_of


@dataclass(frozen=True, slots=True)
class Equal(Rule):
    """Two numbers are equal."""

    code = Code.SIZES_MISMATCH
    words = "{left} equals {right}"

    left: Quantity
    right: Quantity

    def faults(self, values: Values) -> Iterator[Fault]:
        left, right = self.left.value(values), self.right.value(values)
        if left is not None and right is not None and left != right:
            message = f"{self.left} is {left} and {self.right} is {right}; they must be equal"
            yield Fault(self.code, self.left.place, message)


@dataclass(frozen=True, slots=True)
class Between(Rule):
    """A number is in a range, bounds included; None is no bound."""

    code = Code.OUT_OF_RANGE

    number: Quantity
    least: Quantity | None
    greatest: Quantity | None

    @property
    def text(self) -> str:
        return (
            f"{self.number} is {self.least} to {self.greatest}"
            if self.least is not None and self.greatest is not None
            else f"{self.number} is at least {self.least}"
            if self.greatest is None
            else f"{self.number} is at most {self.greatest}"
        )

    def faults(self, values: Values) -> Iterator[Fault]:
        found = self.number.value(values)
        if found is None:
            return
        least = None if self.least is None else self.least.value(values)
        greatest = None if self.greatest is None else self.greatest.value(values)
        if least is not None and found < least:
            yield Fault(self.code, self.number.place, f"{self.number} is {found}; it must be at least {least}")
        elif greatest is not None and found > greatest:
            yield Fault(self.code, self.number.place, f"{self.number} is {found}; it must be at most {greatest}")


@dataclass(frozen=True, slots=True)
class Divides(Rule):
    """A number divides another."""

    code = Code.SIZES_MISMATCH
    words = "{divisor} divides {of}"

    divisor: Quantity
    of: Quantity

    def faults(self, values: Values) -> Iterator[Fault]:
        divisor, whole = self.divisor.value(values), self.of.value(values)
        if divisor and whole is not None and whole % divisor:
            yield Fault(self.code, self.of.place, f"{self.of} is {whole}; {self.divisor}, {divisor}, must divide it")


@dataclass(frozen=True, slots=True)
class Number(Rule):
    """A numeric attribute, or each element of an array, has an allowed value."""

    code = Code.OUT_OF_RANGE

    attributes: tuple[str, ...]
    holds: Callable[[float], bool]
    wanted: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.attributes)

    @property
    def text(self) -> str:
        return f"{listed(self.attributes)} {'is' if len(self.attributes) == 1 else 'are'} {self.wanted}"

    def faults(self, values: Values) -> Iterator[Fault]:
        for name in self.attributes:
            value = values[name]
            elements = enumerate(value) if isinstance(value, tuple) else ((None, value),)
            for i, each in elements:
                if not self.holds(each):
                    path = (name,) if i is None else (name, i)
                    yield Fault(self.code, path, f"{each} given for {name}; it must be {self.wanted}")


@dataclass(frozen=True, slots=True)
class OneOf(Rule):
    """An attribute has one of the allowed values."""

    code = Code.VALUE_NOT_ALLOWED

    attribute: str
    allowed: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{self.attribute} is one of {', '.join(str(_name(value)) for value in self.allowed)}"

    def faults(self, values: Values) -> Iterator[Fault]:
        given = values[self.attribute]
        if given not in self.allowed:
            names = [_name(value) for value in self.allowed]
            message = f"{_name(given)} given for {self.attribute}; allowed: {', '.join(map(str, names))}"
            yield Fault(self.code, (self.attribute,), message, names)


def _name(value: int) -> str | int:
    return value.name if isinstance(value, IntEnum) else value


@dataclass(frozen=True, slots=True)
class NotEmpty(Rule):
    """An array is not empty."""

    code = Code.COUNT_MISMATCH
    words = "{array} is not empty"

    array: str

    def faults(self, values: Values) -> Iterator[Fault]:
        if values[self.array] is not None and not values[self.array]:
            yield Fault(self.code, (self.array,), f"{self.array} is empty; it must have at least 1 element")


@dataclass(frozen=True, slots=True)
class Length(Rule):
    """Arrays have the required number of elements."""

    code = Code.COUNT_MISMATCH

    arrays: tuple[str, ...]
    wanted: Quantity

    @property
    def text(self) -> str:
        return f"{listed(self.arrays)} {'has' if len(self.arrays) == 1 else 'have'} as many elements as {self.wanted}"

    def faults(self, values: Values) -> Iterator[Fault]:
        wanted = self.wanted.value(values)
        if wanted is None:
            return
        for name in self.arrays:
            array = values[name]
            if array is not None and len(array) != wanted:
                reason = "" if isinstance(self.wanted, ConstantQuantity) else f", the {self.wanted}"
                message = f"{name} has {len(array)} elements; it must have {wanted}{reason}"
                yield Fault(self.code, (name,), message, [wanted])


@dataclass(frozen=True, slots=True)
class Axis(Rule):
    """An axis is less than the rank of a tensor, or of the first tensor of an array."""

    code = Code.AXIS_OUT_OF_RANGE
    words = "{attribute} is less than the rank of {of}"

    attribute: str
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        axis = values[self.attribute]
        for _, name, tensor in islice(tensors_of(values, self.of), 1):
            if axis >= tensor.rank:
                yield axis_fault((self.attribute,), axis, name, tensor.rank)


@dataclass(frozen=True, slots=True)
class AxesBelowRank(Rule):
    """Each axis is less than the rank of a tensor."""

    code = Code.AXIS_OUT_OF_RANGE
    words = "{attribute} are less than the rank of {of}"

    attribute: str
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        rank = values[self.of].rank
        for i, axis in enumerate(values[self.attribute]):
            if axis >= rank:
                yield axis_fault((self.attribute, i), axis, self.of, rank)


def axis_fault(path: tuple[str | int, ...], axis: int, tensor: str, rank: int) -> Fault:
    """Returns the fault of an axis that a tensor does not have."""
    message = f"axis {axis} given; {tensor} has rank {rank}, so axes range from 0 to {rank - 1}"
    return Fault(Code.AXIS_OUT_OF_RANGE, path, message, list(range(rank)))


def equal(left: Quantity, right: Quantity | int) -> Rule:
    """``A.Sizes[0] == B.Sizes[1] * GroupCount``; violations point to the left side."""
    return Equal(left, term(right))


def between(number: Quantity, least: Quantity | int | None, greatest: Quantity | int | None) -> Rule:
    """``least <= number <= greatest``; violations point to the number."""
    return Between(number, None if least is None else term(least), None if greatest is None else term(greatest))


def divides(divisor: Quantity | int, of: Quantity) -> Rule:
    """``of % divisor == 0``; violations point to the dividend."""
    return Divides(term(divisor), of)


def nonzero(*attributes: str) -> Rule:
    """``Alpha != 0``, or the same for each element of an array."""
    return Number(attributes, bool, "other than 0")


def at_least(least: float, *attributes: str) -> Rule:
    """``Steepness >= 1``; integer bounds that hold at all levels are in the schema instead."""
    return Number(attributes, lambda value: value >= least, f"at least {least}")


def finite_or_nan(*attributes: str, least: float) -> Rule:
    """``0.0 <= SpatialScaleX < infinity``, or NaN"""
    return Number(attributes, lambda value: not (value < least or isinf(value)), f"finite and at least {least}")


def in_interval(attribute: str, least: float, greatest: float) -> Rule:
    """``0.0 <= Beta1 <= 1.0``"""
    return Number((attribute,), lambda value: least <= value <= greatest, f"from {least} to {greatest}")


def one_of(attribute: str, *allowed: int) -> Rule:
    """``ReductionFunction in {AVERAGE, MAX}``"""
    return OneOf(attribute, allowed)


def not_empty(array: str) -> Rule:
    """``AxisCount >= 1``"""
    return NotEmpty(array)


def length_is(wanted: Quantity | int, *arrays: str) -> Rule:
    """``DimensionCount == rank(InputTensor)`` for the arrays that it counts."""
    return Length(arrays, term(wanted))


def axis(attribute: str, *, of: str) -> Rule:
    """``Axis < rank(InputTensor)``"""
    return Axis(attribute, of)


def axes(attribute: str, *, of: str) -> Rule:
    """``Axes[i] < rank(InputTensor)``; an axis given twice counts once"""
    return AxesBelowRank(attribute, of)
