"""Converts the members of the schema from data to objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..enums import ENUMS
from ..fields import (
    NUMBERS,
    Array,
    Count,
    Enumerated,
    Member,
    Members,
    Nested,
    NestedArray,
    Role,
    Scalar,
    Struct,
    Tensor,
    TensorArray,
    TypeChoice,
    Union,
)
from ..level import FeatureLevel
from .catalog import find
from .source import document

MembersOf = Callable[[str], Members]
"""Returns the members of an operator type, given its name."""


def read_member(row: Mapping[str, Any], members_of: MembersOf) -> Member:
    """Returns the member for a row of the schema."""
    member = _KINDS[row["kind"]](row, members_of)
    return replace(member, default=row["default"]) if "default" in row else member


def _tensor(row: Mapping[str, Any], _: MembersOf) -> Member:
    return Tensor(row["name"], Role(row["role"]))


def _tensors(row: Mapping[str, Any], _: MembersOf) -> Member:
    return TensorArray(row["name"], Role(row["role"]), count=row.get("count"))


def _count(row: Mapping[str, Any], _: MembersOf) -> Member:
    return Count(row["name"], tuple(row["counts"]))


def _scalar(row: Mapping[str, Any], _: MembersOf) -> Member:
    return Scalar(row["name"], NUMBERS[row["number"]], row.get("least"))


def _array(row: Mapping[str, Any], _: MembersOf) -> Member:
    return Array(row["name"], NUMBERS[row["number"]], row.get("least"), count=row.get("count"))


def _enum(row: Mapping[str, Any], _: MembersOf) -> Member:
    if row["enum"] == "DML_TENSOR_DATA_TYPE":
        return TypeChoice(row["name"])
    enum = document("types")["enums"][row["enum"]]
    values = {name: member["value"] for name, member in enum["members"].items()}
    levels = {member["value"]: FeatureLevel.parse(member["from"]) for member in enum["members"].values()}
    first = FeatureLevel.parse(enum["from"])
    later = {value: level for value, level in levels.items() if level > first}
    return Enumerated(row["name"], enum["prefix"], values, ENUMS[row["enum"]], later)


def _struct(row: Mapping[str, Any], _: MembersOf) -> Member:
    return Struct(row["name"], row["struct"], optional=row.get("optional", False))


def _union(row: Mapping[str, Any], _: MembersOf) -> Member:
    return Union(row["name"], row["data_type"])


def _fusable(row: Mapping[str, Any]) -> tuple[dict[str, FeatureLevel], frozenset[str], frozenset[str]]:
    """Returns the activations with their levels, the undocumented ones among them, and the ones that are refused."""
    levels = {name: FeatureLevel.parse(level) for level, names in row["activations"].items() for name in names}
    return levels, frozenset(row.get("undocumented", ())), frozenset(row.get("refused", ()))


def _find_name(given: object) -> str | None:
    kind = find(given)
    return None if kind is None else kind.name


def _operator(row: Mapping[str, Any], members_of: MembersOf) -> Member:
    return Nested(row["name"], *_fusable(row), members_of, _find_name, optional=row.get("optional", False))


def _operators(row: Mapping[str, Any], members_of: MembersOf) -> Member:
    return NestedArray(row["name"], *_fusable(row), members_of, _find_name, count=row.get("count"))


_KINDS: Mapping[str, Callable[[Mapping[str, Any], MembersOf], Member]] = {
    "tensor": _tensor,
    "tensors": _tensors,
    "count": _count,
    "scalar": _scalar,
    "array": _array,
    "enum": _enum,
    "struct": _struct,
    "union": _union,
    "operator": _operator,
    "operators": _operators,
}
"""The constructors by kind. The members of nested operators are looked up when they are read."""
