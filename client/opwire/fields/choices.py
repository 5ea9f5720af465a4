"""Members that are one of an enum's values, or a data type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar

from ..desc import DATA_TYPE_CODES, DATA_TYPE_PREFIX, DATA_TYPES, Report
from ..level import FeatureLevel
from ..violation import Code
from .member import UNREAD, FieldInfo, Member, Schema


@dataclass(frozen=True, slots=True)
class Choice(Member):
    """A member of an enum type; its values go by full name, by the name without ``prefix``, or as integers.

    Attributes:
        prefix: of the full names.
        values: of the members, by short name.
    """

    kind: ClassVar[str] = "enum"

    prefix: str
    values: Mapping[str, int]

    def describe(self) -> FieldInfo:
        return {"name": self.name, "kind": self.kind, "values": dict(self.values)}

    def json_schema(self) -> Schema:
        names = list(self.values)
        return {"enum": [*names, *(self.prefix + name for name in names), *self.values.values()]}

    def hint(self) -> str:
        return " | ".join(self.values)


@cache
def _rows(kind: type[IntEnum]) -> Mapping[int, IntEnum]:
    """The members of an enum by value: to call it takes ten times as long."""
    return {row.value: row for row in kind}


@dataclass(frozen=True, slots=True)
class Enumerated(Choice):
    """A member of one of the enums of ``opwire.enums``; ``later`` has the levels of members that came after 1_0."""

    type: type[IntEnum]
    later: Mapping[int, FeatureLevel] = field(default_factory=dict)

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        number = report.member(given, pointer, self.values, self.prefix)
        if number is None:
            return UNREAD
        value = _rows(self.type)[number]
        introduced = self.later.get(number)
        if introduced is not None:
            message = f"{value.name} exists from {introduced} on"
            report.add(Code.UNKNOWN_VALUE, pointer, message, until=introduced)
        return value


@dataclass(frozen=True, slots=True)
class TypeChoice(Choice):
    """A member of ``DML_TENSOR_DATA_TYPE``; its value is a ``DataType``."""

    prefix: str = DATA_TYPE_PREFIX
    values: Mapping[str, int] = field(default_factory=lambda: DATA_TYPE_CODES)

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        number = report.member(given, pointer, self.values, self.prefix)
        return UNREAD if number is None else DATA_TYPES[number]
