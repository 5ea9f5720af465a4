"""The ONNX node tests as descs: valid from their stated level on, and refused if no level takes them."""

from __future__ import annotations

import pytest

from opwire.check import validate
from opwire.level import FeatureLevel
from tests.support.onnx_cases import ABSENT, cases
from tests.support.rows import for_each

VALID, REFUSED = cases("onnx.jsonl.gz"), cases("onnx-refused.jsonl.gz")
pytestmark = pytest.mark.skipif(not VALID, reason=ABSENT)


@for_each(VALID)
def test_descs_are_valid_from_their_stated_level_on(record):
    lowest = FeatureLevel.parse(record["min_feature_level"])
    for level in (FeatureLevel.V6_4, lowest):
        assert validate(record["operator"], level).violations == ()
    assert validate(record["operator"]).minimum_feature_level is lowest
    below = [level for level in FeatureLevel if level < lowest]
    if below:
        found = validate(record["operator"], below[-1]).violations
        assert any(violation.available_from is not None for violation in found)


@for_each(REFUSED)
def test_descs_without_a_level_are_refused(record):
    found = validate(record["operator"])
    assert found.violations
    assert found.minimum_feature_level is None
