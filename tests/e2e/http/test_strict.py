"""Warnings for what only DirectML's documentation forbids, and ``strict``, which makes them violations, everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opwire import Client
from tests.support.commands import opwire

TENSOR = {"DataType": "FLOAT32", "Sizes": [2]}
DESC = {"Axis": 0, "InputTensor": TENSOR, "OutputTensors": [TENSOR], "OutputTensors[0]": TENSOR}
"""DirectML's struct has no member for a single output, so it never sees the last one."""

SPLIT = {"type": "SPLIT", "desc": DESC}
REQUEST = {"operator": SPLIT, "inputs": {"InputTensor": {"data": [1, 2]}}, "output_format": "numbers"}


def warned(answer: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(each["pointer"], each["documented"]) for each in answer["warnings"]]


def test_a_warning_does_not_make_a_desc_invalid_unless_strict(http):
    answer = http.post("/v1/validate", json={"operator": SPLIT}).json()
    assert answer["valid"]
    assert warned(answer) == [("/operator/desc/OutputTensors[0]", True)]
    strict = http.post("/v1/validate", json={"operator": SPLIT, "strict": True}).json()
    assert (strict["valid"], strict["warnings"], strict["minimum_feature_level"]) == (False, [], None)
    assert [each["pointer"] for each in strict["violations"]] == ["/operator/desc/OutputTensors[0]"]


def test_a_request_runs_unless_strict(http):
    assert http.post("/v1/execute", json=REQUEST).json()["outputs"]["OutputTensors"][0]["data"] == [1, 2]
    for _ in range(3):  # neither the plan nor the template of the request before serves this one
        refused = http.post("/v1/execute", json={**REQUEST, "strict": True})
        assert (refused.status_code, refused.json()["code"]) == (422, "contract_violation")
        assert http.post("/v1/execute", json=REQUEST).status_code == 200
    both = http.post("/v1/batch", json={"requests": [REQUEST, {**REQUEST, "strict": True}]}).json()["results"]
    assert ["outputs" in each for each in both] == [True, False]


def test_strict_is_true_or_false(http):
    for route in ("execute", "validate"):
        request = {**REQUEST, "strict": 1} if route == "execute" else {"operator": SPLIT, "strict": 1}
        refused = http.post(f"/v1/{route}", json=request)
        assert refused.status_code == 400
        assert refused.json()["violations"][0]["pointer"] == "/strict"


def test_the_client_takes_strict_for_all_or_for_one_call(server_url):
    with Client(server_url) as client:
        assert [each.pointer for each in client.validate(SPLIT).warnings] == ["/operator/desc/OutputTensors[0]"]
        assert not client.validate(SPLIT, strict=True).valid
        strict = client.with_options(strict=True)
        assert not strict.validate(SPLIT).valid
        assert strict.validate(SPLIT, strict=False).valid


def test_an_operator_that_opwire_cannot_compute_is_valid_and_does_not_run(http):
    # DirectML does not notice that elements of this output share addresses.
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 2, 2]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 2, 2], "Strides": [5, 4, 1]},
    }
    operator = {"type": "ELEMENT_WISE_ABS", "desc": desc}
    answer = http.post("/v1/validate", json={"operator": operator}).json()
    assert answer["valid"]
    assert [each["code"] for each in answer["warnings"]] == ["not_computable"]
    inputs = {"InputTensor": {"data": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}}
    refused = http.post("/v1/execute", json={"operator": operator, "inputs": inputs})
    assert refused.status_code == 422
    assert [each["code"] for each in refused.json()["violations"]] == ["not_computable"]


@pytest.mark.parametrize("command", ["validate", "run"])
def test_the_command_line_has_the_option(command, tmp_path):
    file = tmp_path / "split.json"
    file.write_text(json.dumps(REQUEST))
    done = opwire(command, file)
    assert done.returncode == 0
    if command == "validate":
        assert "1 warning" in done.stdout
    strict = opwire(command, file, "--strict")
    assert strict.returncode == 1
    assert "OutputTensors[0]" in strict.stdout + strict.stderr


def test_a_registered_graph_is_checked_strictly_where_asked(http):
    node = {**SPLIT, "inputs": {"InputTensor": "input:x"}}
    graph = {"nodes": {"split": node}, "outputs": {"y": "split.OutputTensors[0]"}}
    assert http.put("/v1/graphs/warned", json={"graph": graph, "strict": True}).status_code == 422
    assert http.put("/v1/graphs/warned", json={"graph": graph}).status_code == 201
    run = {"graph": "warned", "inputs": {"x": {"data": [1, 2]}}}
    assert http.post("/v1/execute", json=run).status_code == 200
    assert http.post("/v1/execute", json={**run, "strict": True}).status_code == 422
    assert http.post("/v1/validate", json={"graph": "warned"}).json()["warnings"]
    assert http.delete("/v1/graphs/warned").status_code == 200


def test_strict_is_a_parameter_of_the_open_inference_protocol(http):
    numbers = {"name": "InputTensor", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    route = "/v2/models/ELEMENT_WISE_ABS/infer"
    for strict in (True, False):
        assert http.post(route, json={"inputs": [numbers], "parameters": {"strict": strict}}).status_code == 200
    refused = http.post(route, json={"inputs": [numbers], "parameters": {"strict": "yes"}})
    assert refused.status_code == 400
