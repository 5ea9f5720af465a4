"""Rules about which tensors are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..violation import Code, Fault
from .rule import Rule, Values


@dataclass(frozen=True, slots=True)
class GivenTogether(Rule):
    """Either all of the tensors are given, or none."""

    code = Code.MISSING_TENSOR
    words = "{tensors} are given together or not at all"

    tensors: tuple[str, ...]

    def faults(self, values: Values) -> Iterator[Fault]:
        given = [name for name in self.tensors if values[name] is not None]
        for name in self.tensors:
            if given and name not in given:
                yield Fault(self.code, (name,), f"{given[0]} is given without {name}; give both or neither")


@dataclass(frozen=True, slots=True)
class AnyGiven(Rule):
    """At least one of the tensors is given."""

    code = Code.MISSING_TENSOR
    words = "at least one of {tensors} is given"

    tensors: tuple[str, ...]

    def faults(self, values: Values) -> Iterator[Fault]:
        if all(values[name] is None for name in self.tensors):
            yield Fault(self.code, (self.tensors[0],), f"none of {', '.join(self.tensors)} is given; one is required")


@dataclass(frozen=True, slots=True)
class AtMostOneGiven(Rule):
    """At most one of the tensors is given."""

    code = Code.UNEXPECTED_TENSOR
    words = "at most one of {tensors} is given"

    tensors: tuple[str, ...]

    def faults(self, values: Values) -> Iterator[Fault]:
        given = [name for name in self.tensors if values[name] is not None]
        for name in given[1:]:
            yield Fault(self.code, (name,), f"{name} and {given[0]} are both given; only one of them is allowed")


@dataclass(frozen=True, slots=True)
class Required(Rule):
    """A tensor is given, under a condition."""

    code = Code.MISSING_TENSOR
    words = "{tensor} is given"

    tensor: str

    def faults(self, values: Values) -> Iterator[Fault]:
        if values[self.tensor] is None:
            yield Fault(self.code, (self.tensor,), f"{self.tensor} is required here and missing")


@dataclass(frozen=True, slots=True)
class Absent(Rule):
    """A tensor is null, under a condition."""

    code = Code.UNEXPECTED_TENSOR
    words = "{tensor} is null"

    tensor: str

    def faults(self, values: Values) -> Iterator[Fault]:
        if values[self.tensor] is not None:
            yield Fault(self.code, (self.tensor,), f"{self.tensor} is given; here it must be null")


def given_together(*tensors: str) -> Rule:
    """``(A is null) == (B is null)``"""
    return GivenTogether(tensors)


def any_given(*tensors: str) -> Rule:
    """``A or B is given``"""
    return AnyGiven(tensors)


def exactly_one_given(*tensors: str) -> tuple[Rule, Rule]:
    """``exactly one of A, B, C is given``"""
    return AnyGiven(tensors), AtMostOneGiven(tensors)


def at_most_one_given(*tensors: str) -> Rule:
    """``A excludes B``"""
    return AtMostOneGiven(tensors)


def required(tensor: str) -> Rule:
    """``A is given``, under a condition."""
    return Required(tensor)


def absent(tensor: str) -> Rule:
    """``A is null``, under a condition."""
    return Absent(tensor)
