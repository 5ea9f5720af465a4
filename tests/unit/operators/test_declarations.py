"""The declared operators: each is listed once, consistent, and described as JSON."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import opwire.operators
from opwire.describe import describe, levels, summarise
from opwire.operator import Attributes, Operator
from opwire.operators import OPERATORS
from opwire.schema import CATALOG, find
from opwire_service.kernels.executable import EXECUTABLE
from tests.directml.tensor_support import COUNT, FACTS
from tests.support.rows import for_each


def test_every_declared_operator_is_listed():
    folder = Path(opwire.operators.__file__).parent
    names = sorted(path.stem for path in folder.glob("*.py"))
    modules = {name: import_module(f"opwire.operators.{name}") for name in names}
    declared: list[Operator[Any]] = []
    for name, family in ((name, module.FAMILY) for name, module in modules.items() if hasattr(module, "FAMILY")):
        assert {CATALOG[operator.name].family for operator in family} == {name}
        declared += family
    assert sorted(operator.name for operator in declared) == sorted(OPERATORS)
    assert all(OPERATORS[operator.name] is operator for operator in declared)
    assert list(OPERATORS) == sorted(OPERATORS, key=lambda name: CATALOG[name].value)
    assert len(OPERATORS) == len(declared)
    assert "NO_SUCH_THING" not in OPERATORS
    assert {path.name for path in folder.iterdir() if path.suffix != ".py"} <= {"__pycache__"}


def test_executable_operators_are_declared_and_declared_ones_known():
    assert set(EXECUTABLE) <= set(OPERATORS) <= set(CATALOG)
    assert set(FACTS["operators"]) == set(CATALOG)


@for_each(OPERATORS.values())
def test_fields_match_the_attributes(operator):
    names = [member.name for member in operator.members.every]
    assert len(set(names)) == len(names)
    if issubclass(operator.attributes, Attributes):
        return
    required = {field.name for field in dataclasses.fields(operator.attributes) if field.default is dataclasses.MISSING}
    possible = {field.name for field in dataclasses.fields(operator.attributes)}
    given = {member.name for member in operator.members.attributes}
    assert required <= given <= possible


@for_each(OPERATORS.values())
def test_example_names_are_unique(operator):
    assert operator.examples
    for examples in (operator.examples, operator.bad_examples):
        names = [example.name for example in examples]
        assert len(set(names)) == len(names)
        assert all(name.replace("_", "").isalnum() and name == name.lower() for name in names)


@for_each(CATALOG)
def test_a_description_matches_the_documentation(name):
    info = json.loads(json.dumps(describe(CATALOG[name], EXECUTABLE), allow_nan=False))
    value, introduced = FACTS["operators"][name]
    assert (info["type"], info["value"]) == (f"DML_OPERATOR_{name}", value)
    assert info["introduced"] == f"DML_FEATURE_LEVEL_{introduced}"
    assert info["executable"] is (name in EXECUTABLE)
    assert info["declared"] is (name in OPERATORS)
    summary = summarise(CATALOG[name], EXECUTABLE)
    assert {key: info[key] for key in summary} == summary
    assert info["summary"].endswith(".")
    assert info["source"].startswith("https://")
    assert info["fields"]
    assert info["support"]
    assert bool(info["examples"]) <= info["declared"]


@pytest.mark.parametrize("operator", FACTS["fields"])
def test_a_description_lists_the_documented_support(operator):
    info = describe(CATALOG[operator])
    assert info["summary"]
    assert [member["name"] for member in info["fields"]] == FACTS["fields"][operator].replace("?", "").split()
    expected = [
        (
            f"DML_FEATURE_LEVEL_{level}",
            frozenset(title.split()[1:]),
            {
                tensor: (ranks, {FACTS["types"][short] for short in types.split()})
                for tensor, (ranks, types) in row.items()
            },
        )
        for title, rows in FACTS["support"].items()
        if title.split()[0] == operator
        for level, row in rows.items()
    ]
    found = []
    for row in info["support"]:
        tensors = {
            tensor: ([limits["ranks"][0], limits["ranks"][-1]], set(limits["data_types"]))
            for tensor, limits in row["tensors"].items()
        }
        found.append((row["feature_level"], frozenset((row["when"] or {}).get("Function", ())), tensors))
    for entry in expected:
        assert entry in found
    assert len(found) == len(expected)


@pytest.mark.parametrize("name", FACTS["fields"])
def test_fields_are_described_by_kind(name):
    info = describe(CATALOG[name])
    for member in info["fields"]:
        if member["kind"] == "enum":
            assert member["values"] == FACTS["enums"][member["name"]]
        if member["kind"] == "tensor":
            assert member["role"] in ("input", "output", "optional output")


def test_levels_list_what_they_introduced():
    listed = levels()
    assert {level["name"].removeprefix("DML_FEATURE_LEVEL_"): level["value"] for level in listed} == FACTS["levels"]
    brought = {name: level["name"] for level in listed for name in level["introduces"]}
    assert brought == {
        f"DML_OPERATOR_{name}": f"DML_FEATURE_LEVEL_{introduced}"
        for name, (_, introduced) in FACTS["operators"].items()
    }


def test_operators_are_found_by_name_and_value():
    for name, (value, _) in FACTS["operators"].items():
        assert find(name) is find(f"DML_OPERATOR_{name}") is find(value) is CATALOG[name]


@pytest.mark.parametrize("unknown", ["", "dml_operator_argmax", 0, COUNT + 1, None, True, 1.0, [], {}])
def test_unknown_names_find_no_operator(unknown):
    assert find(unknown) is None
