"""Every result is DirectML's own, or differs from it for a listed reason."""

from __future__ import annotations

import pytest

from opwire.schema import decisions_of
from tests.directml.computed import by_operator
from tests.directml.differences import rules
from tests.directml.judging import judge, judge_all

SMALL = 512
"""The most work of a case that the reference does in every run; larger ones, an eighth, take most of its time."""


@pytest.mark.parametrize("name", by_operator())
def test_the_cpu_answers_as_directml_does(cpu_device, name):
    judge_all(by_operator()[name], cpu_device)


@pytest.mark.parametrize("name", by_operator())
def test_the_reference_answers_as_directml_does(reference, name):
    judge([case for case in by_operator()[name] if case.plan.work <= SMALL], reference)


@pytest.mark.thorough
@pytest.mark.parametrize("name", by_operator())
def test_the_reference_answers_large_cases_as_directml_does(reference, name):
    judge([case for case in by_operator()[name] if case.plan.work > SMALL], reference)


@pytest.mark.parametrize("name", rules())
def test_every_class_of_listed_differences_is_documented(name):
    assert {rule.kind for rule in rules()[name]} <= {decision.departure for decision in decisions_of(name)}


def test_nothing_is_listed_for_operators_that_do_not_exist():
    assert set(by_operator()) >= set(rules())
