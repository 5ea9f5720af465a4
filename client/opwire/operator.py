"""Operator declarations: the schema of an operator with its rules, outputs, cost and examples.

Each operator is one frozen ``Operator``, which drives ``check``, the tests, the documentation and the OpenAPI examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .desc import MAX_REPORTED
from .fields import Members
from .level import HIGHEST, FeatureLevel
from .schema import OperatorSchema, schema_of
from .support import Support
from .tensor import BufferTensorDesc
from .violation import Code as Code
from .violation import Fault
from .violation import Violation as Violation

if TYPE_CHECKING:  # the rules are imported with the first family that is used
    from .formulas import Expression
    from .rules import Output, OutputRule, Rule, Values

A = TypeVar("A")
"""The attributes of an operator: its fields that are neither tensors nor counts."""

Tensors = Mapping[str, Any]
"""The tensors of a desc by name: each a ``BufferTensorDesc``, a tuple of them for an array, or None if omitted."""


class Attributes:
    """The attributes of a desc, by field name."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Attributes({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


@dataclass(frozen=True, slots=True)
class Example:
    """A valid desc with input tensors and the correct outputs, as nested lists; for an array member, a list of these.

    Floats may be given as numbers or as the strings "NaN", "Infinity" and "-Infinity".
    """

    name: str
    desc: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    level: FeatureLevel = field(default=HIGHEST, kw_only=True)
    source: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class BadExample:
    """A desc that must be rejected, with the code and the location (a pointer below the operator's ``desc``)."""

    name: str
    desc: Mapping[str, Any]
    code: Code
    pointer: str
    level: FeatureLevel = field(default=HIGHEST, kw_only=True)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """An ordered set of rules.

    Attributes:
        rules: the rules, each with the members that it reads.
    """

    rules: tuple[tuple[Rule, frozenset[str]], ...]

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> RuleSet:
        return cls(tuple((rule, rule.reads) for rule in rules))

    def faults(self, values: Values, choices: Mapping[str, Sequence[object]] = {}) -> list[Fault]:
        """Returns the faults, limited in number per rule.

        Rules that read unknown members are skipped, unless these have few possible values, each of which breaks a rule.

        Args:
            values: the known members.
            choices: the possible values of some unknown members.
        """
        known = values.keys()
        found: list[Fault] = []
        undecided: dict[frozenset[str], list[Rule]] = {}
        for rule, reads in self.rules:
            if reads <= known:
                found += islice(rule.faults(values), MAX_REPORTED)
            elif choices and reads <= known | choices.keys():
                undecided.setdefault(frozenset(reads - known), []).append(rule)
        for missing, rules in undecided.items():
            found += _certain_faults(rules, values, {name: choices[name] for name in missing})
        return found


def _certain_faults(rules: Iterable[Rule], values: Values, choices: Mapping[str, Sequence[object]]) -> list[Fault]:
    """Returns the faults for the first values of unknown members, if there are some for all of their values."""
    if prod(map(len, choices.values())) > _MOST_CHOICES:
        return []
    first: list[Fault] = []
    for chosen in product(*choices.values()):
        tried = {**values, **dict(zip(choices, chosen, strict=True))}
        found = [fault for rule in rules for fault in islice(rule.faults(tried), MAX_REPORTED)]
        if not found:
            return []
        first = first or found
    return first


_MOST_CHOICES = 16
"""Maximum number of combinations of values that rules are tried with."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator(Generic[A]):
    """A declared DirectML operator: one whose descs opwire can check.

    Attributes:
        name: as in ``DML_OPERATOR_TYPE``, without the prefix.
        schema: its desc according to the header and the documentation page.
        members: the members of its desc struct.
        support: the support rows.
        attributes: makes A from the attributes, by name.
        rules: all rules.
        on_attributes: the rules that read only attributes, which also apply to it as a fused operator.
        on_inputs: the rules that read no outputs. Outputs are derived only once these hold.
        on_outputs: the other rules.
        outputs: the required desc of each output, by name.
        work: the cost of the plan in element visits, for budgets.
        formula: the formula of an output element, for element-wise operators.
        examples: worked examples.
        bad_examples: descs that must be rejected.
    """

    name: str
    schema: OperatorSchema = field(repr=False)
    members: Members = field(repr=False)
    support: Support = field(repr=False)
    attributes: Callable[..., A]
    rules: tuple[Rule, ...] = field(repr=False)
    on_attributes: RuleSet = field(repr=False)
    on_inputs: RuleSet = field(repr=False)
    on_outputs: RuleSet = field(repr=False)
    outputs: Mapping[str, Output] = field(repr=False)
    work: Callable[[A, Tensors], int]
    formula: Expression | None = field(repr=False)
    examples: tuple[Example, ...] = field(repr=False)
    bad_examples: tuple[BadExample, ...] = field(repr=False)

    @property
    def summary(self) -> str:
        """One sentence describing what it computes."""
        return self.schema.summary

    def output_rules(self, attributes: A, inputs: Mapping[str, BufferTensorDesc]) -> dict[str, OutputRule]:
        """Returns the rules for the outputs of a plan, where they are determined."""
        values = {member.name: getattr(attributes, member.name) for member in self.members.attributes}
        values |= {member.name: member.among(inputs) for member in self.members.inputs}
        found = {name: output.rule(values) for name, output in self.outputs.items()}
        return {name: rule for name, rule in found.items() if rule is not None}


def declare(
    name: str,
    *,
    rules: Iterable[Rule | tuple[Rule, ...]] = (),
    outputs: Mapping[str, Output],
    work: Callable[[A, Tensors], int],
    attributes: Callable[..., A] | None = None,
    formula: Expression | None = None,
    examples: tuple[Example, ...] = (),
    bad_examples: tuple[BadExample, ...] = (),
) -> Operator[A]:
    """Declares an operator of the schema. The arguments are the attributes of ``Operator``."""
    schema = schema_of(name)
    members = schema.members
    every = tuple(rule for given in rules for rule in (given if isinstance(given, tuple) else (given,)))
    make: Callable[..., Any] = Attributes if attributes is None else attributes
    tensors = {member.name for member in members.tensors}
    results = {member.name for member in members.outputs}
    return Operator(
        name=name,
        schema=schema,
        members=members,
        support=schema.support,
        attributes=make,
        rules=every,
        on_attributes=RuleSet.of(rule for rule in every if not rule.reads & tensors),
        on_inputs=RuleSet.of(rule for rule in every if not rule.reads & results),
        on_outputs=RuleSet.of(rule for rule in every if rule.reads & results),
        outputs=outputs,
        work=work,
        formula=formula,
        examples=examples,
        bad_examples=bad_examples,
    )
