"""The ONNX node tests as descs: valid from the level on that they state, and refused where no level takes them.

The files are no part of the project; where they lie beside or inside the repository the tests use them.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from opwire.check import validate
from opwire.level import FeatureLevel
from opwire.operators import OPERATORS
from tests.conformance import PLACES


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file for the declared operators; none where it is absent."""
    found = next((place / name for place in PLACES if (place / name).is_file()), None)
    if found is None:
        return []
    with gzip.open(found, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [record for record in records if kind(record) in OPERATORS]


def kind(record: dict[str, Any]) -> str:
    name: str = record["operator"]["type"]
    return name.removeprefix("DML_OPERATOR_")


VALID, REFUSED = cases("onnx.jsonl.gz"), cases("onnx-refused.jsonl.gz")


ABSENT = "conformance/onnx.jsonl.gz is neither in the repository nor in ../shared"
pytestmark = pytest.mark.skipif(not VALID, reason=ABSENT)


@pytest.mark.parametrize("record", VALID, ids=lambda record: record["id"])
def test_descs_are_valid_from_their_level_on(record):
    lowest = FeatureLevel.parse(record["min_feature_level"])
    for level in (FeatureLevel.V6_4, lowest):
        assert validate(record["operator"], level).violations == ()
    assert validate(record["operator"]).minimum_feature_level is lowest
    below = [level for level in FeatureLevel if level < lowest]
    if below:
        found = validate(record["operator"], below[-1]).violations
        assert any(violation.available_from is not None for violation in found)


@pytest.mark.parametrize("record", REFUSED, ids=lambda record: record["id"])
def test_what_no_level_takes_is_refused(record):
    found = validate(record["operator"])
    assert found.violations
    assert found.minimum_feature_level is None
