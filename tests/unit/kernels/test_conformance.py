"""The third-party cases on every device, and at their stated levels."""

from __future__ import annotations

import pytest

from opwire.check import check, validate
from opwire.errors import ContractViolation
from opwire.level import FeatureLevel
from tests.oracles import oracle
from tests.support import conformance
from tests.support.execution import execute
from tests.support.rows import for_each

CASES = conformance.load()
pytestmark = pytest.mark.skipif(not CASES, reason=conformance.ABSENT)


RUN = [case for case in CASES if case.executable]


@pytest.mark.parametrize("case", RUN, ids=lambda case: case.id)
def test_outputs_match_the_published_ones(device, case):
    plan = check(case.operator)
    actual = execute(device, plan, {name: array.tobytes() for name, array in case.inputs.items()})
    # The published values are exact results rounded once, so they must match bit for bit; logarithms within 1 ULP.
    oracle.assert_answers(plan, actual, case.outputs)


@for_each(case for case in RUN if case.own)
def test_the_stated_level_is_the_lowest(case):
    assert check(case.operator, case.lowest).level is case.lowest
    below = [level for level in FeatureLevel if level < case.lowest]
    if below:
        with pytest.raises(ContractViolation):
            check(case.operator, below[-1])
    assert validate(case.operator).minimum_feature_level is case.lowest
