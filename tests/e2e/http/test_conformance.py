"""The third-party cases over HTTP: outputs, lowest levels, and operators that do not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from opwire.check import check
from opwire.level import FeatureLevel
from tests.oracles import oracle
from tests.support import conformance
from tests.support.conformance import ThirdPartyCase
from tests.support.http import bodies
from tests.support.http.problems import check_problem

CASES = conformance.load()
EXECUTABLE = [case for case in CASES if case.executable]
pytestmark = pytest.mark.skipif(not CASES, reason=conformance.ABSENT)


def request_for(case: ThirdPartyCase, level: FeatureLevel, device: str, tail: list[bytes]) -> dict[str, Any]:
    """Returns the request of a case; its tensors are appended to ``tail``."""
    tail += [array.tobytes() for array in case.inputs.values()]
    inputs = {name: {"binary_data_size": array.nbytes} for name, array in case.inputs.items()}
    return {"operator": case.operator, "feature_level": str(level), "device": device, "inputs": inputs}


def outcomes(
    http: httpx.Client, asked: list[tuple[ThirdPartyCase, FeatureLevel]], device: str = "reference"
) -> Iterator[tuple[Any, Any]]:
    """Runs each case at its level and yields the result, with outputs as arrays if it has any."""
    most = http.get("/v1/server").json()["limits"]["batch_requests"]
    for start in range(0, len(asked), most):
        tail: list[bytes] = []
        sent = {"requests": [request_for(case, level, device, tail) for case, level in asked[start : start + most]]}
        answer, rest = bodies.send(http, sent, "binary", "binary", tail, "/v1/batch")
        for result in answer["results"]:
            if "outputs" not in result:
                yield check_problem(result, sent), None
                continue
            arrays = {}
            for name, output in result["outputs"].items():
                size = output["binary_data_size"]
                dtype = bodies.dtype(output["desc"]["DataType"])
                arrays[name] = np.frombuffer(rest[:size], dtype).reshape(output["desc"]["Sizes"])
                rest = rest[size:]
            yield result, arrays
        assert rest == b""


def below(level: FeatureLevel) -> FeatureLevel | None:
    return max((lower for lower in FeatureLevel if lower < level), default=None)


def test_all_third_party_cases_are_present():
    assert len([case for case in CASES if case.own]) == 372
    assert len(EXECUTABLE) > 300


def test_every_device_gives_the_published_outputs(http):
    """Bit for bit, and logarithms within 1 ULP."""
    asked = [(case, FeatureLevel.V6_4) for case in EXECUTABLE]
    for device in (device["name"] for device in http.get("/v1/server").json()["devices"]):
        for (case, level), (result, arrays) in zip(asked, outcomes(http, asked, device), strict=True):
            assert arrays is not None, (case.id, result)
            assert (result["feature_level"], result["device"]) == (str(level), device)
            oracle.assert_answers(check(case.operator), arrays, case.outputs)


def test_each_case_passes_at_its_lowest_level(http):
    asked = [(case, case.lowest) for case in EXECUTABLE if case.own]
    for (case, level), (result, arrays) in zip(asked, outcomes(http, asked), strict=True):
        assert arrays is not None, (case.id, result)
        assert result["feature_level"] == str(level)
        oracle.assert_answers(check(case.operator), arrays, case.outputs)


def test_each_case_is_refused_one_level_below(http):
    levels = [(case, below(case.lowest)) for case in EXECUTABLE if case.own]
    asked = [(case, level) for case, level in levels if level is not None]
    assert len(asked) > 100
    for (case, _), (result, arrays) in zip(asked, outcomes(http, asked), strict=True):
        assert arrays is None, case.id
        assert result["code"] == "contract_violation"
        available = {violation["available_from"] for violation in result["violations"]}
        assert str(case.lowest) in available, case.id


def test_validate_reports_the_lowest_level(http):
    for case in EXECUTABLE:
        if case.own:
            answer = http.post("/v1/validate", json={"operator": case.operator}).json()
            assert answer["minimum_feature_level"] == str(case.lowest), case.id
            assert answer["valid"]
