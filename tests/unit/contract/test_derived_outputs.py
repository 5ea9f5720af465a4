"""A desc without its outputs is valid at the same levels as with the outputs that opwire derives for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from opwire.level import FeatureLevel
from opwire.operators import OPERATORS
from opwire.reading import read_desc
from opwire.rules import Undecided
from opwire.tensor_names import grouped
from tests.directml.recorded import recorded

_DESCS = 30
"""The number of descs for each operator."""


@cache
def recorded_descs() -> dict[str, list[Mapping[str, Any]]]:
    """Returns recorded descs by operator."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in recorded():
        found.setdefault(each.type, []).append(each.desc)
    return found


def without_outputs(name: str) -> Iterator[dict[str, Any]]:
    """Yields descs of an operator, right and wrong ones, without their outputs."""
    results = {member.name for member in OPERATORS[name].members.outputs}
    examples = [example.desc for example in OPERATORS[name].examples]
    for desc in examples + recorded_descs().get(name, [])[:_DESCS]:
        yield {key: value for key, value in desc.items() if key.partition("[")[0] not in results}


def valid_levels(name: str, desc: dict[str, Any]) -> list[FeatureLevel]:
    read = read_desc({"type": name, "desc": desc}, "")
    return [level for level in FeatureLevel if not read.violations_at(level)]


@pytest.mark.parametrize("name", OPERATORS)
def test_derived_outputs_are_held_to_the_same_rules_as_given_ones(name):
    has_derived = False
    for desc in without_outputs(name):
        derived = read_desc({"type": name, "desc": desc}, "").outputs
        if derived:
            written = grouped({output: tensor.to_json() for output, tensor in derived.items()})
            assert valid_levels(name, desc) == valid_levels(name, {**desc, **written}), desc
            has_derived = True
    members = {member.name: member.role.is_optional for member in OPERATORS[name].members.outputs}
    outputs = OPERATORS[name].outputs
    never = all(is_optional or isinstance(outputs[output], Undecided) for output, is_optional in members.items())
    assert has_derived is not never
