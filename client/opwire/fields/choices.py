"""Members that hold an enum value or a data type."""

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
    """A member of an enum type. Values are given by full name, by name without ``prefix``, or as integers.

    Attributes:
        prefix: the prefix of the full names.
        values: the enum's values by short name.
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
    """Returns the members of an enum by value; a lookup is ten times faster than calling the enum."""
    return {row.value: row for row in kind}


@dataclass(frozen=True, slots=True)
class Enumerated(Choice):
    """A member of an enum of ``opwire.enums``; ``later`` has the levels of enum values introduced after 1_0."""

    type: type[IntEnum]
    later: Mapping[int, FeatureLevel] = field(default_factory=dict)

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        number = report.member(given, pointer, self.values, self.prefix)
        if number is None:
            return UNREAD
        value = _rows(self.type)[number]
        introduced = self.later.get(number)
        if introduced is not None:
            message = f"{value.name} requires {introduced} or higher"
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
