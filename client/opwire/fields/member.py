"""What every kind of member of a desc struct can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final

from pydantic_core import from_json
from typing_extensions import TypedDict

from ..desc import Report

Schema = dict[str, Any]
"""A JSON Schema (2020-12)."""


class FieldInfo(TypedDict, total=False):
    """A member of a desc struct. ``kind`` decides what else is there.

    tensor, tensors: ``role``. count: ``counts``. scalar, array: ``number`` and ``least``. enum: ``values``. struct:
    ``struct`` and ``members``. union: ``data_type`` names the member that says its type. operator, operators:
    ``activations``, the operator types that each feature level adds. ``count`` names the member that counts an array.
    """

    name: str
    kind: str
    role: str
    optional: bool
    counts: list[str]
    count: str
    number: str
    least: int
    values: dict[str, int]
    struct: str
    members: list[str]
    data_type: str
    activations: dict[str, list[str]]


class Unread(Enum):
    """In place of a value that could not be read; its violations are reported."""

    UNREAD = "unread"


UNREAD: Final = Unread.UNREAD


@dataclass(frozen=True, slots=True)
class NestedOperator:
    """An operator inside an operator, as read. Its tensors are null: it works on what the outer one computes.

    Attributes:
        name: of its type.
        values: of its attributes by name, those of optional ones that were left out None.
        pointer: where its members stand.
        desc: they, as JSON.
    """

    name: str
    values: Mapping[str, Any]
    pointer: str = field(compare=False)
    desc: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Member(ABC):
    """A member of a desc struct.

    Attributes:
        name: as in directml.h.
        optional: whether it may be left out; its value is then None.
    """

    kind: ClassVar[str]
    holds_operators: ClassVar[bool] = False

    name: str
    optional: bool = field(default=False, kw_only=True)

    @property
    def required(self) -> bool:
        """Whether each desc gives it."""
        return not self.optional

    @property
    def nullable(self) -> bool:
        """Whether a desc may give null for it."""
        return self.optional

    def read(self, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        """The value that a desc gives; None where it is left out, UNREAD once its violations are reported.

        Args:
            desc: that the member belongs to, as JSON.
            pointer: where that stands.
            report: takes the violations.
        """
        given = desc.get(self.name)
        if given is not None:
            return self.read_value(given, desc, f"{pointer}/{self.name}", report)
        return self.left_out(desc, pointer, report)

    def left_out(self, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        """The value of a member that is null or missing."""
        if self.optional:
            return None
        report.missing(self.name, desc, pointer)
        return UNREAD

    @abstractmethod
    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        """The value that was given, which is not null; ``pointer`` is its own place."""

    def operators(self, value: Any) -> Iterable[NestedOperator]:
        """The operators that a value of the member holds."""
        return ()

    @abstractmethod
    def describe(self) -> FieldInfo:
        """The member as JSON."""

    @abstractmethod
    def json_schema(self) -> Schema:
        """The JSON Schema of its values, null aside."""

    @abstractmethod
    def hint(self) -> str:
        """In a few words, what a request parameter of its name takes."""

    def from_parameter(self, value: object) -> object:
        """The value of a request parameter, which is a string, a number or a boolean, as a desc has it."""
        return value


@dataclass(frozen=True, slots=True)
class StructuredMember(Member, ABC):
    """A member whose values are objects or lists; as a request parameter it is JSON text."""

    def from_parameter(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value if value.lstrip()[:1] in ("[", "{") else f"[{value}]")
        except ValueError:
            return value
