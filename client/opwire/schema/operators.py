"""The schemas of operators: struct, members and support rows, constructed from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from ..fields import Enumerated, Members
from ..level import FeatureLevel
from ..support import Support, SupportRow, TensorSupport
from ..tensor import DataType
from ..violation import Basis
from .catalog import CATALOG
from .members import read_member
from .source import document


class Promise(StrEnum):
    """The accuracy of an output, relative to the exact real result of the operator's formula. Integers are exact."""

    EXACT = "exact"
    CORRECTLY_ROUNDED = "correctly_rounded"
    WITHIN_1_ULP = "within_1_ulp"


class Accuracy(NamedTuple):
    """The guaranteed accuracy of an operator's outputs.

    Attributes:
        promise: the accuracy.
        where: the descs that it applies to, in words; empty for all those not covered by another entry.
    """

    promise: Promise
    where: str


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSchema:
    """The desc of an operator, from the header and the documentation, and the accuracy of its outputs in opwire.

    Attributes:
        name: the name without the prefix.
        struct: the name of the desc struct.
        summary: one sentence describing what it computes.
        source: the URL of the documentation page.
        accuracy: the accuracy of the outputs, that of most descs first.
        members: the members of the struct.
        aliases: accepted alternative names of members, each with the name it stands for.
        support: the support rows.
        in_place: pairs of an output and an input whose memory it may share.
    """

    name: str
    struct: str
    summary: str
    source: str
    accuracy: tuple[Accuracy, ...]
    members: Members
    aliases: Mapping[str, str]
    support: Support
    in_place: tuple[tuple[str, str], ...]


@cache
def schema_of(name: str) -> OperatorSchema:
    """Returns the schema of an operator type, given by its name without the prefix.

    Raises:
        KeyError: there is no such type.
    """
    family = CATALOG[name].family
    found = document(family)["operators"].get(name)
    if found is None:
        raise KeyError(f"{name} has no entry in schema/{family}.json")
    members = Members.of([read_member(row, _members_of) for row in found["members"]])
    return OperatorSchema(
        name,
        found["struct"],
        found["summary"],
        found["source"],
        tuple(Accuracy(Promise(row["promise"]), row.get("where", "")) for row in found["accuracy"]),
        members,
        {alias: row["name"] for row in found["members"] for alias in row.get("aliases", ())},
        _support(found["support"], members),
        tuple((output, source) for output, source in found.get("in_place", ())),
    )


def _members_of(name: str) -> Members:
    return schema_of(name).members


def _support(rows: list[dict[str, Any]], members: Members) -> Support:
    optional = frozenset(member.name for member in members.tensors if member.role.is_optional)
    groups: dict[tuple[str, tuple[str, ...]] | None, list[SupportRow]] = {}
    for row in rows:
        when = next(((name, tuple(values)) for name, values in row.get("when", {}).items()), None)
        groups.setdefault(when, []).append(_row(row, optional))
    for group in groups.values():
        until = [None, *(row.level for row in group[:-1])]
        group[:] = [replace(row, basis=_basis(row, end)) for row, end in zip(group, until, strict=True)]
    if None in groups:
        return Support(None, ((frozenset(), tuple(groups[None])),))
    (attribute,) = {when[0] for when in groups if when is not None}
    chosen = next(member for member in members.attributes if member.name == attribute)
    assert isinstance(chosen, Enumerated)  # rows depend on nothing else
    return Support(
        attribute,
        tuple((frozenset(chosen.type[name] for name in when[1]), tuple(made)) for when, made in groups.items() if when),
    )


def _row(row: dict[str, Any], optional: frozenset[str]) -> SupportRow:
    tensors = {name: _limits(limits) for name, limits in row["tensors"].items()}
    required = tuple(name for name, limits in tensors.items() if limits.required and name in optional)
    return SupportRow(FeatureLevel.parse(row["from"]), tensors, required)


ASKED = frozenset((FeatureLevel.V5_2, FeatureLevel.V6_1, FeatureLevel.V6_2, FeatureLevel.V6_3, FeatureLevel.V6_4))
"""The levels at which DirectML itself was asked which descs it accepts."""


def _basis(row: SupportRow, until: FeatureLevel | None) -> Basis:
    """Returns the basis of a row that is in effect below ``until``."""
    if any(limits.page is not None for limits in row.tensors.values()):
        return Basis.OBSERVED
    was_asked = any(row.level <= level and (until is None or level < until) for level in ASKED)
    return Basis.BOTH if was_asked else Basis.PAGE


def _limits(limits: dict[str, Any]) -> TensorSupport:
    least, greatest = limits["ranks"]
    dimensions = limits.get("dimensions")
    page = limits.get("page")
    return TensorSupport(
        tuple(DataType[name] for name in limits["data_types"]),
        (least, greatest),
        limits.get("optional") is False,
        None if dimensions is None else tuple(dimensions),
        None if page is None else _limits({**limits, "page": None, **page}),
    )
