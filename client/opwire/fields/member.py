"""The interface of all kinds of members of desc structs."""

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
    """A member of a desc struct. ``kind`` determines the other fields.

    tensor, tensors: ``role``. count: ``counts``. scalar, array: ``number`` and ``least``. enum: ``values``. struct:
    ``struct`` and ``members``. union: ``data_type``, the member that gives its type. operator, operators:
    ``activations``, the operator types that each feature level adds, ``undocumented``, those of them that the
    documentation does not list, and ``refused``, those that it lists and DirectML rejects. ``count`` is the member that
    counts an array. ``default`` is the value of a member that is left out; for an array, that of each element.
    """

    name: str
    kind: str
    role: str
    optional: bool
    default: Any
    counts: list[str]
    count: str
    number: str
    least: int
    values: dict[str, int]
    struct: str
    members: list[str]
    data_type: str
    activations: dict[str, list[str]]
    undocumented: list[str]
    refused: list[str]


class Unread(Enum):
    """Marks a value that could not be read and whose violations have been reported."""

    UNREAD = "unread"


UNREAD: Final = Unread.UNREAD


@dataclass(frozen=True, slots=True)
class NestedOperator:
    """A nested operator. Its tensors are null: it works on the result of the outer operator.

    Attributes:
        name: the name of its type.
        values: its attributes by name; None for omitted optional ones.
        pointer: the pointer to its members.
        desc: its members as JSON.
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
        optional: whether it may be omitted; its value is then None.
        default: its value in a desc that leaves it out, or None if it has none; for an array, that of each element.
    """

    kind: ClassVar[str]
    holds_operators: ClassVar[bool] = False

    name: str
    optional: bool = field(default=False, kw_only=True)
    default: Any = field(default=None, kw_only=True)

    @property
    def required(self) -> bool:
        """Whether every desc must have it."""
        return not self.optional and self.default is None

    @property
    def nullable(self) -> bool:
        """Whether it may be null in a desc."""
        return self.optional

    def read(self, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        """Reads the value of the member from a desc.

        Args:
            desc: the desc as JSON.
            pointer: the pointer to the desc.
            report: collects the violations.

        Returns:
            None if it is omitted, UNREAD if violations were reported.
        """
        given = desc.get(self.name)
        if given is not None:
            return self.read_value(given, desc, f"{pointer}/{self.name}", report)
        return self.left_out(desc, pointer, report)

    def left_out(self, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        """Returns the value of a member that is null or missing."""
        if self.optional:
            return None
        if self.default is None or self.name in desc:
            report.missing(self.name, desc, pointer)
        return UNREAD  # a default that is missing here depends on something that could not be read either

    @abstractmethod
    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        """Reads a value that is not null; ``pointer`` points to the value."""

    def operators(self, value: Any) -> Iterable[NestedOperator]:
        """Returns the nested operators in a value of the member."""
        return ()

    @abstractmethod
    def describe(self) -> FieldInfo:
        """Returns a description of the member as JSON."""

    @abstractmethod
    def json_schema(self) -> Schema:
        """Returns the JSON Schema of its values other than null."""

    @abstractmethod
    def hint(self) -> str:
        """Returns a short description of the values of a request parameter for it."""

    def from_parameter(self, value: object) -> object:
        """Converts the value of a request parameter (a string, a number or a boolean) to its form in a desc."""
        return value


@dataclass(frozen=True, slots=True)
class StructuredMember(Member, ABC):
    """A member whose values are objects or lists, and JSON text as request parameters."""

    def from_parameter(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value if value.lstrip()[:1] in ("[", "{") else f"[{value}]")
        except ValueError:
            return value
