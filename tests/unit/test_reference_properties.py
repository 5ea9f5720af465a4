"""Whatever valid desc is drawn, a device answers what plain Python answers, and writes nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given

from opwire.check import check
from opwire_service.kernels.executable import EXECUTABLE
from tests import oracle
from tests.execution import execute
from tests.profiles import examples, shared_examples
from tests.strategies import Case, cases

OF_REDUCE = 100
"""Examples: it is twelve operators."""


def run_case(device, case: Case) -> None:
    plan = check(case.operator, case.level)
    oracle.assert_answers(plan, execute(device, plan, case.buffers), oracle.expected(plan, case.inputs))


@pytest.mark.parametrize("name", EXECUTABLE)
def test_answers_are_those_of_plain_python(device, name):
    @(examples(OF_REDUCE) if name == "REDUCE" else shared_examples(240, len(EXECUTABLE)))
    @given(cases((name,)))
    def holds(case):
        run_case(device, case)

    holds()
