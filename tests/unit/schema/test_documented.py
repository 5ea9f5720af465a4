"""The schema against the facts from DirectML's header and documentation.

The facts are those of ``tests.directml.documented``: the struct, members, constraints, support rows and fused
activations of each operator, and the enums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from opwire.describe import describe
from opwire.enums import ENUMS
from opwire.fields import STRUCTS, Enumerated
from opwire.level import FeatureLevel
from opwire.operators import OPERATORS as DECLARED
from opwire.rules.numbers import Number
from opwire.schema import CATALOG, document, find, schema_of
from opwire.support import SupportRow, row_for
from opwire.tensor import DataType
from opwire.violation import Basis
from tests.directml.documented import FACTS, OPERATORS
from tests.support.paths import ROOT
from tests.support.rows import for_each

KINDS = {
    "tensor": "tensor",
    "tensor[]": "tensors",
    "operator": "operator",
    "operator[]": "operators",
    "DML_SCALE_BIAS": "struct",
    "DML_SIZE_2D": "struct",
    "DML_SCALAR_UNION": "union",
}


def kind_of(field: dict[str, Any]) -> str:
    if "counts" in field:
        return "count"
    if field["type"].startswith("enum:"):
        return "enum"
    return KINDS.get(field["type"]) or ("array" if field["type"].endswith("[]") else "scalar")


def test_types_match_the_header():
    assert list(CATALOG) == sorted(OPERATORS, key=lambda name: OPERATORS[name]["enum_value"])
    for name, facts in OPERATORS.items():
        kind, schema = CATALOG[name], schema_of(name)
        assert (kind.value, kind.introduced.short) == (facts["enum_value"], facts["introduced"])
        assert schema.struct == facts["struct"]
        assert schema.source.endswith(facts["source"].split()[1])
        assert facts["source_commit"] in schema.source
        assert schema.in_place == tuple(map(tuple, facts["may_alias"]))
        if facts["aliases"]:
            assert find(facts["aliases"]["operator"]) is kind


@for_each(OPERATORS)
def test_members_match_the_struct(name):
    facts = OPERATORS[name]["fields"]
    members = describe(CATALOG[name])["fields"]
    assert [member["name"] for member in members] == [field["name"] for field in facts]
    for member, field in zip(members, facts, strict=True):
        assert member["kind"] == kind_of(field)
        if "role" in field:
            assert member["role"] == "optional " * field["optional"] + field["role"]
        if "counts" in field:
            assert member["counts"] == field["counts"]
        if member["kind"] in ("array", "scalar"):
            assert member["number"] == field["type"].removesuffix("[]")
        if member["kind"] == "struct":
            assert member["struct"] == field["type"]
        if member["kind"] in ("struct", "operator"):
            assert member["optional"] is field.get("optional", False)
        assert member.get("count") == field.get("count")


@for_each(OPERATORS)
def test_integer_bounds_match_the_constraints(name):
    """Covers constraints of the forms ``X >= 1``, ``X[i] >= 1`` and ``1 <= X <= ...`` that apply unconditionally.

    Those that are not from the page may be missing, since DirectML need not have them.
    """
    expected, decided = {}, set(unenforced(name))
    for constraint in OPERATORS[name]["constraints"]:
        if re.match("(if|level) ", constraint):
            continue
        for part in constraint.split(";"):
            found = re.match(r"\s*(\w+)(\[\w\])? >= (\d+)(?=\s*(\[|$))", part) or re.match(
                r"\s*()()1 <= (\w+) <=", part
            )
            if found:
                expected[found[1] or found[3]] = int(found[3]) if found[1] else 1
                decided |= {found[1] or found[3]} if "[decision" in constraint else set()
    members = {member["name"]: member for member in describe(CATALOG[name])["fields"]}
    numbers = {
        name: least for name, least in expected.items() if members.get(name, {}).get("kind") in ("array", "scalar")
    }
    given = {name: member["least"] for name, member in members.items() if member.get("least")}
    assert given == {name: least for name, least in numbers.items() if name in given or name not in decided}


def unenforced(name: str) -> Iterator[str]:
    """Yields the numbers whose lower bounds DirectML does not enforce."""
    for rule, basis in (part for each in DECLARED[name].rules for part in each.parts()):
        if isinstance(rule, Number) and basis is not Basis.BOTH:
            yield from rule.attributes


@for_each(OPERATORS)
def test_support_matches_the_documentation(name):
    rows = OPERATORS[name]["support"]
    support, optional = schema_of(name).support, {m.name for m in schema_of(name).members.tensors if m.role.is_optional}
    from_levels = [facts["from"] for facts in rows]
    given = [row for _, group in support.groups for row in group if row.level.short in from_levels]
    assert len(given) == len(rows)
    for facts in rows:
        values: dict[str, Any] = {}
        for attribute, names in (facts.get("when") or {}).items():
            member = next(member for member in schema_of(name).members.attributes if member.name == attribute)
            assert isinstance(member, Enumerated)
            values[attribute] = member.type[names[0].removeprefix(member.prefix)]
            among = next(among for among, _ in support.groups if values[attribute] in among)
            assert {value.name for value in map(member.type, among)} == {n.removeprefix(member.prefix) for n in names}
        alike = [each["from"] for each in rows if each.get("when") == facts.get("when")]
        for level in FeatureLevel:
            # Rows that the page does not have, since DirectML alone differs there, state what the page says.
            if facts["from"] == max((at for at in alike if at <= level.short), default=None):
                row = row_for(support.rows(values), level)
                assert row is not None
                assert row.level == level or level.short != facts["from"]
                assert_documented(row, facts["tensors"], optional)


def assert_documented(row: SupportRow, tensors: dict[str, dict[str, Any]], optional: set[str]) -> None:
    assert list(row.tensors) == list(tensors)
    for tensor, limits in tensors.items():
        documented = row.tensors[tensor].documented
        assert list(documented.ranks) == limits["dimension_counts"]
        assert {data_type.name for data_type in documented.data_types} == set(limits["data_types"])
        assert list(documented.dimensions or ()) == limits.get("dimensions", [])
        may_be_null = tensor in optional and tensor not in row.required
        assert may_be_null is limits["optional"]


def test_each_level_accepts_what_lower_levels_accept():
    for name in CATALOG:
        for _, rows in schema_of(name).support.groups:
            assert [row.level for row in rows] == sorted((row.level for row in rows), reverse=True)


@pytest.mark.parametrize("name", [name for name, facts in OPERATORS.items() if facts["fused_activations"]])
def test_fused_activations_match_the_documentation(name):
    facts = OPERATORS[name]["fused_activations"]
    for member in describe(CATALOG[name])["fields"]:
        if member["kind"] in ("operator", "operators"):
            assert documented_activations(member) == {
                level: kept
                for level, names in facts.items()
                if (kept := [n for n in names if n not in member["refused"]])
            }


def documented_activations(member: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the activations by level, without those that only DirectML accepts."""
    levels = {
        level.removeprefix("DML_FEATURE_LEVEL_"): [name for name in names if name not in member["undocumented"]]
        for level, names in member["activations"].items()
    }
    return {level: names for level, names in levels.items() if names}


def test_fusible_activations_are_marked():
    into: dict[str, dict[str, str]] = {}
    for name in CATALOG:
        for member in describe(CATALOG[name])["fields"]:
            for level, names in documented_activations(member).items() if "activations" in member else ():
                for fused in names:
                    into.setdefault(fused, {})[name] = level
    refused = {
        (fused, name)
        for name in CATALOG
        for member in describe(CATALOG[name])["fields"]
        for fused in member.get("refused", ())
    }
    expected = {
        fused: {name: level for name, level in (facts["fusable_into"] or {}).items() if (fused, name) not in refused}
        for fused, facts in OPERATORS.items()
    }
    assert into == {fused: names for fused, names in expected.items() if names}


def test_enums_match_the_header():
    enums = FACTS["enums"]["enums"]
    listed = document("types")["enums"]
    assert set(listed) == set(enums)
    assert set(ENUMS) == set(listed) - {"DML_TENSOR_TYPE", "DML_TENSOR_DATA_TYPE"}
    for name, enum in listed.items():
        valid = {
            key: row for key, row in enums[name]["members"].items() if key not in enums[name].get("never_valid", ())
        }
        assert (enum["from"], enum["members"]) == (enums[name]["from"], valid)
        if name in ENUMS:
            assert {row.name: row.value for row in ENUMS[name]} == {key: row["value"] for key, row in valid.items()}
    members = enums["DML_TENSOR_DATA_TYPE"]["members"]
    assert {row.name: {"value": row.code, "from": row.introduced.short} for row in DataType} == {
        name: member for name, member in members.items() if name != "UNKNOWN"
    }
    for struct, (made, number) in STRUCTS.items():
        found = document("types")["structs"][struct]
        assert list(made._fields) == found["members"] == FACTS["enums"]["structs"][struct]["members"]
        assert number.name == found["number"]


def test_levels_of_attribute_values_match_the_enums():
    """Where the documentation has rows per attribute value, they have the levels of the enum's members."""
    for name, facts in OPERATORS.items():
        if not (facts["attribute_rows"] or {}).get("PaddingMode"):
            continue
        member = next(member for member in schema_of(name).members.attributes if member.name == "PaddingMode")
        assert isinstance(member, Enumerated)
        introduced = CATALOG[name].introduced
        given: dict[str, set[str]] = {}
        for mode in member.type:
            level = max(introduced, member.later.get(mode, introduced))
            given.setdefault(level.short, set()).add(member.prefix + mode.name)
        assert given == {level: set(modes) for level, modes in facts["attribute_rows"]["PaddingMode"].items()}


def test_only_known_attributes_select_support_rows():
    rows = {(name, key) for name, facts in OPERATORS.items() for key in facts["attribute_rows"] or ()}
    assert rows == {("PADDING", "PaddingMode"), ("PADDING1", "PaddingMode"), ("ACTIVATION_SOFTPLUS", "Steepness")}


def test_schemas_are_loaded_on_demand():
    files = {path.stem for path in (ROOT / "client/opwire/schema").glob("*.json")}
    assert files == {kind.family for kind in CATALOG.values()} | {"operator_types", "types"}
    with pytest.raises(KeyError):
        schema_of("NO_SUCH_THING")
