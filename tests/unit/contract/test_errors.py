"""Errors on their way from one process to another."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from opwire import Client, Code, ContractViolation, OpwireError, Violation, errors
from opwire.errors import PROBLEMS, ProblemCode
from opwire.level import FeatureLevel

VIOLATION = Violation(Code.OUT_OF_RANGE, "/operator/desc/Axis", "-1 given")

ERRORS: list[OpwireError] = [
    *(row.exception(code, "why", limit=3, size=4) for code, row in PROBLEMS.items() if row.status != 422),
    errors.NotExecutableError(ProblemCode.OPERATOR_NOT_EXECUTABLE, "why", violations=[VIOLATION], devices=[]),
    ContractViolation([VIOLATION], request_id="r1"),
    errors.ConnectError("nobody listens"),
    errors.TransportTimeout("late"),
    errors.InvalidResponseError("a page", status=502, body=b"<html>", retry_after=2.5),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}-{error.code}")
def test_an_error_may_be_pickled_and_copied(error: OpwireError):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (str(other), repr(other), vars(other)) == (str(error), repr(error), vars(error))


def _ask(url: str) -> object:
    return Client(url).sum(np.ones((2, 2), np.float32), 1, device="nowhere")


def test_an_error_of_another_process_is_raised_in_this_one(server_url):
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        asked = processes.submit(_ask, server_url)
        with pytest.raises(errors.RequestError, match="nowhere"):
            asked.result()


def test_a_printed_violation_names_the_level_that_accepts_it():
    early = Violation(Code.OPERATOR_NOT_IN_LEVEL, "/type", "too early", available_from=FeatureLevel.V5_0)
    wrong = Violation(Code.OUT_OF_RANGE, "", "too large")
    assert str(ContractViolation([early, wrong])).splitlines()[1:] == [
        "  /type: too early [operator_not_in_level, from DML_FEATURE_LEVEL_5_0 on]",
        "  (request): too large [out_of_range]",
    ]
