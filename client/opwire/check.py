"""Checks an operator desc at a feature level, and returns a ``Plan`` or reports every violation at once.

A plan is what devices run, and proof that its desc was checked: later stages do not check it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .desc import show
from .errors import ContractViolation
from .level import HIGHEST, FeatureLevel
from .operator import Operator
from .reading import ReadDesc, read_desc
from .tensor import BufferTensorDesc
from .violation import Code, Violation


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Plan:
    """A checked operator desc with all its outputs known.

    Attributes:
        operator: the declaration of the operator.
        level: the feature level it was checked against.
        attributes: the fields that are neither tensors nor counts, as the operator's own dataclass.
        inputs: the input descs in the order of the fields.
        outputs: the output descs in the order of the fields, derived where omitted; without omitted optional outputs.
        work: its cost, in element visits.
    """

    operator: Operator[Any]
    level: FeatureLevel
    attributes: Any
    inputs: Mapping[str, BufferTensorDesc]
    outputs: Mapping[str, BufferTensorDesc]
    work: int


@dataclass(frozen=True, slots=True)
class Validation:
    """The outcome of checking an operator desc at a feature level.

    A desc is valid if DirectML of that level accepts it.

    Attributes:
        violations: everything that is wrong with it; empty if it is valid.
        warnings: what the documentation forbids although DirectML accepts it and, with the code ``not_computable``, why
            opwire does not run it.
        minimum_feature_level: the lowest level at which it is valid, or None.
        outputs: the desc of each output, derived where omitted; empty if they cannot be determined.
    """

    violations: tuple[Violation, ...]
    minimum_feature_level: FeatureLevel | None
    outputs: Mapping[str, BufferTensorDesc]
    warnings: tuple[Violation, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.violations

    def to_json(self) -> dict[str, object]:
        """Returns the answer of ``POST /v1/validate``."""
        minimum = self.minimum_feature_level
        return {
            "valid": self.valid,
            "violations": [violation.to_json() for violation in self.violations],
            "warnings": [warning.to_json() for warning in self.warnings],
            "minimum_feature_level": None if minimum is None else str(minimum),
            "outputs": {name: desc.to_json() for name, desc in self.outputs.items()},
        }


def check(
    operator: object, feature_level: FeatureLevel | str | int = HIGHEST, *, strict: bool = False, pointer: str = ""
) -> Plan:
    """Checks an operator desc against exactly one feature level.

    Args:
        operator: ``{"type": ..., "desc": {...}}`` as in DxDispatch.
        feature_level: in any spelling that ``FeatureLevel.parse`` accepts.
        strict: whether what the documentation forbids is a violation even if DirectML accepts it.
        pointer: JSON pointer to the operator in its request, the prefix of the violations' pointers.

    Raises:
        ContractViolation: with every violation or, for a valid desc that opwire cannot compute, with the reasons.
    """
    level = read_level(feature_level, "")
    desc = read_desc(operator, pointer)
    violations = desc.violations_at(level, strict=strict) or desc.uncomputable
    if violations:
        raise ContractViolation(violations)
    return plan_of(desc, level)


def plan_of(desc: ReadDesc, level: FeatureLevel) -> Plan:
    """Returns the plan of a desc that has no violations at a level."""
    assert desc.declared is not None  # a desc without violations is complete
    work = desc.declared.work(desc.attributes, desc.tensors)
    return Plan(desc.declared, level, desc.attributes, desc.inputs, desc.outputs, work)


def validate(
    operator: object, feature_level: FeatureLevel | str | int = HIGHEST, *, strict: bool = False, pointer: str = ""
) -> Validation:
    """Like ``check``, but returns the violations instead of raising them, with warnings and the lowest valid level.

    Raises:
        ContractViolation: there is no such feature level.
    """
    level = read_level(feature_level, "")
    desc = read_desc(operator, pointer)
    violations = desc.violations_at(level, strict=strict)
    warnings = () if strict else desc.warnings_at(level)
    return Validation(violations, desc.minimum_level(strict=strict), desc.outputs, warnings)


def read_level(given: object, pointer: str) -> FeatureLevel:
    """Returns the feature level that a request names.

    Raises:
        ContractViolation: there is no such level; the violation points to ``pointer``.
    """
    if type(given) is FeatureLevel:
        return given
    try:
        return FeatureLevel.parse(given)
    except ValueError:
        names = [str(level) for level in FeatureLevel]
        message = f"{show(given)} given; the feature levels are {names[0]} to {names[-1]}"
        raise ContractViolation([Violation(Code.UNKNOWN_FEATURE_LEVEL, pointer, message, names)]) from None
