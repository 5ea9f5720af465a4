"""What counts as a difference from DirectML's results, and what the rules explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.directml import vocabulary
from tests.directml.computed import Computed, by_operator
from tests.directml.differences import Rule, differences, different, rules
from tests.directml.vocabulary import RULES, Seen


def case_of(name: str, data_type: str) -> Computed:
    """Returns the first case of an operator with a plain input of a type and answers of two machines that agree."""
    return next(
        case
        for case in by_operator()[name]
        if case.operator["desc"]["InputTensor"]["DataType"] == data_type
        and len(case.answers) == 2
        and case.answers[0] == case.answers[1]
        and np.isfinite(case.answer(0, "OutputTensor")).all()
    )


def seen(ours: Any, theirs: Any, dtype: Any = np.float32) -> Seen:
    """Returns a view of values that no case computed."""
    return Seen(
        case_of("ELEMENT_WISE_NEGATE", "FLOAT32"), "OutputTensor", np.array(ours, dtype), np.array(theirs, dtype)
    )


@pytest.mark.parametrize(
    ("dtype", "ours", "theirs", "expected"),
    [
        (np.int32, [1, 2], [1, 3], [False, True]),
        (np.float32, [1, 2, 1e-9], [1.0001, 2.001, 0], [False, True, False]),
        (np.float16, [1, 1], [1.003, 1.006], [False, True]),
        (np.float32, [np.nan, np.nan, 1], [np.nan, 1, np.nan], [False, True, True]),
        (np.float32, [np.inf, np.inf, 1], [np.inf, -np.inf, np.inf], [False, True, True]),
        (np.float32, [0.0, 0.0], [-0.0, 1e-30], [False, True]),
    ],
    ids=["integers", "near", "half", "nan", "infinities", "zeros"],
)
def test_differences_by_element(dtype, ours, theirs, expected):
    np.testing.assert_array_equal(different(np.array(ours, dtype), np.array(theirs, dtype)), expected)


@pytest.mark.parametrize(("name", "data_type"), [("ELEMENT_WISE_NEGATE", "FLOAT32"), ("TILE", "INT32")])
def test_a_wrong_element_is_not_explained(name, data_type):
    case = case_of(name, data_type)
    outputs = {"OutputTensor": case.answer(0, "OutputTensor").copy()}
    assert not list(differences(case, outputs))
    outputs["OutputTensor"].flat[-1] += 1
    (found,) = differences(case, outputs)
    assert found.unexplained.sum() == 1
    assert found.unexplained.flat[-1]


def test_machines_that_disagree_give_no_answer():
    case = case_of("ELEMENT_WISE_NEGATE", "FLOAT32")
    card, other = (dict(each) for each in case.answers)
    other["OutputTensor"] = bytes(len(card["OutputTensor"]))
    unlike = Computed(case.id, case.level, case.operator, case.inputs, (card, other))
    output = case.answer(0, "OutputTensor")
    for ours in (output, np.zeros_like(output), output + 9):
        assert not any(each.unexplained.any() for each in differences(unlike, {"OutputTensor": ours}))


@pytest.mark.parametrize(
    ("rule", "ours", "theirs", "expected"),
    [
        ("NaN is lost", [np.nan, np.nan, 1], [1, np.nan, np.nan], [True, False, False]),
        ("NaN is made", [np.nan, np.inf, 1], [1, np.nan, np.nan], [False, True, True]),
        ("overflows", [1, np.inf, 1], [np.inf, np.nan, 2], [True, False, False]),
        ("saturates", [np.inf, -np.inf, np.inf], [3.4028235e38, 3.4028235e38, 1], [True, False, False]),
        ("denormal results are zero", [1e-39, 1e-39, 1], [0, 1e-38, 0], [True, False, False]),
        ("NaN as zero", [1, 1, 2], [0, 1, 0], [True, False, False]),
    ],
)
def test_rules_explain_only_what_they_say(rule, ours, theirs, expected):
    np.testing.assert_array_equal(RULES[rule](seen(ours, theirs)), expected)


def test_bounds_of_rules():
    found = vocabulary.within(seen([1, 1, 100], [1.5, 2, 101]), absolute=0.5, relative=0.01)
    np.testing.assert_array_equal(found, [True, False, True])
    found = vocabulary.logarithm_cancels(seen([-5, -5, 5, -9], [-5.01, -7, 7, np.nan]), relative=1e-6)
    np.testing.assert_array_equal(found, [True, False, False, True])


def test_rules_are_confined_to_their_cases():
    (rule,) = (each for each in rules()["ELEMENT_WISE_ABS"] if "ScaleBias" in each.when)
    plain = next(case for case in by_operator()["ELEMENT_WISE_ABS"] if "ScaleBias" not in case.operator["desc"])
    array = plain.answer(0, "OutputTensor")
    assert not rule.explains(Seen(plain, "OutputTensor", array, array)).any()


def test_unknown_rules_are_refused():
    with pytest.raises(AssertionError, match="is not a rule"):
        Rule(next(iter(rules()["ELEMENT_WISE_ABS"])).kind, "anything")
