"""Conditional rules (for some values of an attribute, with or without a tensor, at some levels), and their bases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..level import FeatureLevel
from ..violation import Basis, Code, Fault
from .rule import Rule, Values


@dataclass(frozen=True, slots=True)
class _Conditional(Rule):
    """A rule that applies under a condition."""

    code = Code.VALUE_NOT_ALLOWED

    rule: Rule

    def parts(self, basis: Basis = Basis.BOTH) -> Iterator[tuple[Rule, Basis]]:
        yield from self.rule.parts(basis)


@dataclass(frozen=True, slots=True)
class When(_Conditional):
    """A rule that applies for some values of an attribute."""

    attribute: str
    among: frozenset[Any]

    def faults(self, values: Values) -> Iterator[Fault]:
        if values[self.attribute] in self.among:
            yield from self.rule.faults(values)


@dataclass(frozen=True, slots=True)
class WithTensor(_Conditional):
    """A rule that applies if a tensor is given, or if it is not."""

    tensor: str
    given: bool

    def faults(self, values: Values) -> Iterator[Fault]:
        if (values[self.tensor] is not None) == self.given:
            yield from self.rule.faults(values)


@dataclass(frozen=True, slots=True)
class AtLevels(_Conditional):
    """A rule that applies at the levels in ``[since, until)``."""

    since: FeatureLevel | None
    until: FeatureLevel | None

    def faults(self, values: Values) -> Iterator[Fault]:
        for fault in self.rule.faults(values):
            yield replace(fault, since=self.since, until=self.until)


@dataclass(frozen=True, slots=True)
class OnBasis(_Conditional):
    """A rule that does not rest on both the documentation and DirectML's answers."""

    basis: Basis

    def faults(self, values: Values) -> Iterator[Fault]:
        for fault in self.rule.faults(values):
            code = Code.NOT_COMPUTABLE if self.basis is Basis.OPWIRE else fault.code
            yield replace(fault, code=code, basis=self.basis)

    def parts(self, basis: Basis = Basis.BOTH) -> Iterator[tuple[Rule, Basis]]:
        yield from self.rule.parts(self.basis)


def when(attribute: str, among: Any, *rules: Rule) -> tuple[Rule, ...]:
    """``if Direction == FORWARD: ...``; ``among`` is one value or a set of them."""
    values = frozenset(among) if isinstance(among, set | frozenset) else frozenset((among,))
    return tuple(When(rule, attribute, values) for rule in rules)


def with_tensor(tensor: str, *rules: Rule) -> tuple[Rule, ...]:
    """``if T is given: ...``"""
    return tuple(WithTensor(rule, tensor, True) for rule in rules)


def without_tensor(tensor: str, *rules: Rule) -> tuple[Rule, ...]:
    """``if T is null: ...``"""
    return tuple(WithTensor(rule, tensor, False) for rule in rules)


def below(level: FeatureLevel, *rules: Rule) -> tuple[Rule, ...]:
    """``level < 4_0: ...``"""
    return tuple(AtLevels(rule, None, level) for rule in rules)


def from_level(level: FeatureLevel, *rules: Rule) -> tuple[Rule, ...]:
    """``level >= 4_0: ...``"""
    return tuple(AtLevels(rule, level, None) for rule in rules)


def documented(*rules: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules that the documentation states and DirectML does not enforce: breaking them is a warning."""
    return _on(Basis.PAGE, rules)


def observed(*rules: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules that DirectML enforces and the documentation does not state."""
    return _on(Basis.OBSERVED, rules)


def computable(*rules: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules that hold for everything that opwire can compute, though DirectML also accepts other descs."""
    return _on(Basis.OPWIRE, rules)


def _on(basis: Basis, rules: tuple[Rule | tuple[Rule, ...], ...]) -> tuple[Rule, ...]:
    every = (rule for given in rules for rule in (given if isinstance(given, tuple) else (given,)))
    return tuple(OnBasis(rule, basis) for rule in every)
