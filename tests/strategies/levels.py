"""The lowest feature level that accepts a valid desc, according to the header and the documentation.

They do not decide it for operators whose types, ranks or activations DirectML limits otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opwire.level import FeatureLevel
from opwire.schema import operator_document
from tests.directml.documented import ENUMS, OPERATORS

_RULED = {name for name, facts in OPERATORS.items() if any(each.startswith("level ") for each in facts["constraints"])}
"""Operators with level-specific constraints, beyond types, ranks and enum values."""


def _differs(operator: str) -> bool:
    """Whether the schema says that DirectML's limits are not those of the documentation."""
    document = operator_document(operator)
    limits = [each for row in document["support"] for each in row["tensors"].values()]
    return any("page" in each for each in limits) or any(
        member.get("undocumented") or member.get("refused") for member in document["members"]
    )


def lowest_level(operator: str, desc: dict[str, Any]) -> tuple[FeatureLevel, bool]:
    """Returns the first level that accepts the types, ranks and values, and whether nothing else matters."""
    facts = OPERATORS[operator]
    if _differs(operator):
        return FeatureLevel.parse(facts["introduced"]), False
    nested = list(_nested(facts, desc))
    levels = [facts["introduced"], _of_the_row(facts, desc), *_of_the_enums(facts, desc)]
    levels += (_since(name, facts["fused_activations"]) for name in nested)
    return max(map(FeatureLevel.parse, levels)), _RULED.isdisjoint({operator, *nested})


def _of_the_row(facts: dict[str, Any], desc: dict[str, Any]) -> str:
    """Returns the level of the lowest support row that accepts all tensors."""
    enums = dict(_enums(facts, desc))
    rows = [
        row
        for row in facts["support"]
        if all(enums[attribute] in names for attribute, names in (row.get("when") or {}).items())
        and all(_takes(limits, desc.get(name)) for name, limits in row["tensors"].items())
    ]
    level: str = min((row["from"] for row in rows), key=FeatureLevel.parse)
    return level


def _takes(limits: dict[str, Any], given: Any) -> bool:
    if given is None:  # a derived output
        return limits["optional"] is True or limits["kind"] == "output"
    least, greatest = limits["dimension_counts"]
    tensors = given if isinstance(given, list) else [given]
    return all(each["DataType"] in limits["data_types"] and least <= len(each["Sizes"]) <= greatest for each in tensors)


def _enums(facts: dict[str, Any], desc: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the enum members of a desc, with the full names of their values."""
    for field in facts["fields"]:
        kind, given = field["type"].removeprefix("enum:"), desc.get(field["name"])
        if kind in ENUMS and given is not None:
            named = {row["value"]: name for name, row in ENUMS[kind]["members"].items()}
            yield field["name"], f"{kind}_{named.get(given, given)}".replace(f"{kind}_{kind}_", f"{kind}_")


def _of_the_enums(facts: dict[str, Any], desc: dict[str, Any]) -> Iterator[str]:
    kinds = {field["name"]: field["type"].removeprefix("enum:") for field in facts["fields"]}
    for name, value in _enums(facts, desc):
        enum = ENUMS[kinds[name]]
        # An enum is as old as its operator, but members may be newer.
        level = enum["members"][value.removeprefix(f"{kinds[name]}_")]["from"]
        if level != enum["from"]:
            yield level


def _nested(facts: dict[str, Any], desc: dict[str, Any]) -> Iterator[str]:
    """Yields the types of nested operators."""
    for field in facts["fields"]:
        given = desc.get(field["name"])
        if field["type"] in ("operator", "operator[]") and given is not None:
            for each in given if isinstance(given, list) else [given]:
                kind: str = each["Type"] if "Type" in each else each["type"]
                yield kind.removeprefix("DML_OPERATOR_")


def _since(name: str, levels: dict[str, list[str]]) -> str:
    return next(level for level, names in levels.items() if name in names)
