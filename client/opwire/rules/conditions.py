"""Conditional rules: for some values of an attribute, with or without a tensor, or at some levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..level import FeatureLevel
from ..violation import Code, Fault
from .rule import Rule, Values


@dataclass(frozen=True, slots=True)
class When(Rule):
    """A rule that applies for some values of an attribute."""

    code = Code.VALUE_NOT_ALLOWED

    attribute: str
    among: frozenset[Any]
    rule: Rule

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads | {self.attribute}

    def faults(self, values: Values) -> Iterator[Fault]:
        if values[self.attribute] in self.among:
            yield from self.rule.faults(values)

    def parts(self) -> Iterator[Rule]:
        yield from self.rule.parts()


@dataclass(frozen=True, slots=True)
class WithTensor(Rule):
    """A rule that applies if a tensor is given, or if it is not."""

    code = Code.MISSING_TENSOR

    tensor: str
    given: bool
    rule: Rule

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads | {self.tensor}

    def faults(self, values: Values) -> Iterator[Fault]:
        if (values[self.tensor] is not None) == self.given:
            yield from self.rule.faults(values)

    def parts(self) -> Iterator[Rule]:
        yield from self.rule.parts()


@dataclass(frozen=True, slots=True)
class AtLevels(Rule):
    """A rule that applies at the levels in ``[since, until)``."""

    code = Code.VALUE_NOT_ALLOWED

    rule: Rule
    since: FeatureLevel | None
    until: FeatureLevel | None

    @property
    def reads(self) -> frozenset[str]:
        return self.rule.reads

    def faults(self, values: Values) -> Iterator[Fault]:
        for fault in self.rule.faults(values):
            yield replace(fault, since=self.since, until=self.until)

    def parts(self) -> Iterator[Rule]:
        yield from self.rule.parts()


def when(attribute: str, among: Any, *rules: Rule) -> tuple[Rule, ...]:
    """``if Direction == FORWARD: ...``; ``among`` is one value or a set of them."""
    values = frozenset(among) if isinstance(among, set | frozenset) else frozenset((among,))
    return tuple(When(attribute, values, rule) for rule in rules)


def with_tensor(tensor: str, *rules: Rule) -> tuple[Rule, ...]:
    """``if T is given: ...``"""
    return tuple(WithTensor(tensor, True, rule) for rule in rules)


def without_tensor(tensor: str, *rules: Rule) -> tuple[Rule, ...]:
    """``if T is null: ...``"""
    return tuple(WithTensor(tensor, False, rule) for rule in rules)


def below(level: FeatureLevel, *rules: Rule) -> tuple[Rule, ...]:
    """``level < 4_0: ...``"""
    return tuple(AtLevels(rule, None, level) for rule in rules)


def from_level(level: FeatureLevel, *rules: Rule) -> tuple[Rule, ...]:
    """``level >= 4_0: ...``"""
    return tuple(AtLevels(rule, level, None) for rule in rules)
