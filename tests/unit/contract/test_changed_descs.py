"""Checks of descs that were changed at random raise nothing but violations, and agree with each other."""

from __future__ import annotations

import pytest

from opwire.check import check, validate
from opwire.errors import ContractViolation
from opwire.schema import CATALOG
from tests.directml.comparing import changed

DESCS = 20
"""Descs of each operator; ``test_directml`` compares many more with DirectML."""


@pytest.mark.parametrize("name", CATALOG)
def test_changed_descs_raise_only_violations(name):
    for desc in changed(name, DESCS):
        operator = {"type": name, "desc": desc}
        found = validate(operator)
        assert found.minimum_feature_level is not None or not found.valid
        assert {"valid", "violations"} <= found.to_json().keys()
        try:
            plan = check(operator)
        except ContractViolation as error:
            computable = [each for each in error.violations if each.code.value != "not_computable"]
            assert found.valid != bool(computable), operator
        else:
            assert found.valid
            assert plan.work >= 0
