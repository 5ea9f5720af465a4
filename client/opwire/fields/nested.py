"""Members that are nested operators: a fused activation, or the activations of a recurrent network."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar

from ..desc import Report, is_object, pointer_to, show
from ..level import LOWEST, FeatureLevel
from ..violation import Basis, Code
from .member import UNREAD, FieldInfo, NestedOperator, Schema, StructuredMember
from .values import Members, read_nested

MAX_OPERATORS = 6
"""Maximum number of operators in an array: LSTM takes three for each of two directions."""

_SPELLINGS: tuple[tuple[str, str], ...] = (("Type", "type"), ("Desc", "desc"))


@dataclass(frozen=True, slots=True)
class Activations(StructuredMember, ABC):
    """One or more nested operators.

    Attributes:
        activations: the allowed operator types, each with the level that introduced it here.
        undocumented: those of ``activations`` that DirectML accepts although the documentation does not list them.
        refused: operator types that the documentation lists and DirectML rejects.
        members: returns the members of an operator type's desc.
        find: returns the name of the operator type given by a name or value.
    """

    holds_operators: ClassVar[bool] = True

    activations: Mapping[str, FeatureLevel]
    undocumented: frozenset[str]
    refused: frozenset[str]
    members: Callable[[str], Members]
    find: Callable[[object], str | None]

    def read_operator(self, given: Any, pointer: str, report: Report) -> NestedOperator | None:
        """Reads one nested operator, or reports its violations and returns None. Disallowed types are not read."""
        if not is_object(given):
            report.add(Code.WRONG_TYPE, pointer, f"{show(given)} given; expected an operator (an object)")
            return None
        type_name, desc_name = (next((name for name in pair if name in given), pair[0]) for pair in _SPELLINGS)
        if given.get(type_name) is None:
            report.missing(type_name, given, pointer)
            return None
        name = self._fusable(given[type_name], f"{pointer}/{type_name}", report)
        if name is None:
            return None
        nested = given.get(desc_name)
        if nested is None:
            return self._read_members(name, given, (type_name, desc_name), pointer, report)
        report.unknown_fields(given, dict.fromkeys((type_name, desc_name)), pointer, "a nested operator")
        at = f"{pointer}/{desc_name}"
        if is_object(nested):
            return self._read_members(name, nested, (), at, report)
        report.add(Code.WRONG_TYPE, at, f"{show(nested)} given; expected a desc (an object)")
        return None

    def _fusable(self, given: object, pointer: str, report: Report) -> str | None:
        name = self.find(given)
        if name is None:
            message = f"{show(given)} is not a DirectML operator type"
            report.add(Code.UNKNOWN_OPERATOR, pointer, message, self._nearest_first(given))
            return None
        since = self.activations.get(name)
        if since is None or since > LOWEST:
            when = "" if since is None else f" before {since}"
            message = f"{name} cannot be fused as {self.name}{when}"
            basis = Basis.OBSERVED if name in self.refused else Basis.BOTH
            report.add(
                Code.OPERATOR_NOT_FUSABLE, pointer, message, self._nearest_first(given), until=since, basis=basis
            )
        if name in self.undocumented:
            message = f"{name} is not listed among the operators that can be fused as {self.name}"
            report.add(Code.OPERATOR_NOT_FUSABLE, pointer, message, since=since, basis=Basis.PAGE)
        return name if since is not None else None

    def _nearest_first(self, given: object) -> list[str]:
        near = get_close_matches(str(given)[:100], self.activations, n=5, cutoff=0.5)
        return list(dict.fromkeys((*near, *self.activations)))

    def _read_members(
        self, name: str, given: Mapping[str, Any], own: Iterable[str], pointer: str, report: Report
    ) -> NestedOperator | None:
        members = self.members(name)
        report.unknown_fields(given, {**members.names, **dict.fromkeys(own)}, pointer, name)
        found = len(report.violations)
        values, complete = read_nested(members, given, pointer, report)
        whole = complete and len(report.violations) == found
        return NestedOperator(name, values, pointer, given) if whole else None

    def describe(self) -> FieldInfo:
        levels: dict[str, list[str]] = {}
        for name, since in self.activations.items():
            levels.setdefault(str(since), []).append(name)
        return {
            "name": self.name,
            "kind": self.kind,
            "activations": levels,
            "undocumented": sorted(self.undocumented),
            "refused": sorted(self.refused),
            "optional": self.optional,
        }

    def operator_schema(self) -> Schema:
        """Returns the JSON Schema of one nested operator, in both of its forms."""
        names = [spelling for name in self.activations for spelling in (name, f"DML_OPERATOR_{name}")]
        forms = [
            {"type": "object", "required": [kind], "properties": {kind: {"enum": names}}, "additionalProperties": True}
            for kind in _SPELLINGS[0]
        ]
        return {"anyOf": forms, "description": "with its members beside the type, or in Desc"}


@dataclass(frozen=True, slots=True)
class Nested(Activations):
    """A ``const DML_OPERATOR_DESC*`` member."""

    kind: ClassVar[str] = "operator"

    def operators(self, value: Any) -> Iterable[NestedOperator]:
        return () if value is None else (value,)

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        found = self.read_operator(given, pointer, report)
        return UNREAD if found is None else found

    def json_schema(self) -> Schema:
        return self.operator_schema()

    def hint(self) -> str:
        return "an operator as JSON text" + "; optional" * self.optional


@dataclass(frozen=True, slots=True)
class NestedArray(Activations):
    """An array of ``DML_OPERATOR_DESC``; ``count`` names the member that counts it."""

    kind: ClassVar[str] = "operators"

    count: str | None = field(default=None, kw_only=True)

    def operators(self, value: Any) -> Iterable[NestedOperator]:
        return () if value is None else value

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        if not isinstance(given, list | tuple):
            report.add(Code.WRONG_TYPE, pointer, f"{show(given)} given; expected a list of operators")
            return UNREAD
        if len(given) > MAX_OPERATORS:
            message = f"{len(given)} operators given; at most {MAX_OPERATORS} allowed"
            report.add(Code.OUT_OF_RANGE, pointer, message)
            return UNREAD
        read = [self.read_operator(item, pointer_to(pointer, i), report) for i, item in enumerate(given)]
        return tuple(read) if None not in read else UNREAD

    def describe(self) -> FieldInfo:
        info = Activations.describe(self)
        return info if self.count is None else {**info, "count": self.count}

    def json_schema(self) -> Schema:
        return {"type": "array", "maxItems": MAX_OPERATORS, "items": self.operator_schema()}

    def hint(self) -> str:
        return "a list of operators as JSON text"
