"""Batches over HTTP: every request has an outcome of its own, and none affects another."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from opwire_service.settings import Limits, Settings
from tests.support.examples import ROWS, VARIED, Row, in_batches
from tests.support.http import bodies
from tests.support.http.problems import check_problem, read_problem
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

SOURCE = {"DataType": "FLOAT32", "Sizes": [3]}
OPERATOR = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": SOURCE, "Axes": [0]}}
GOOD: dict[str, Any] = {
    "operator": OPERATOR,
    "inputs": {"InputTensor": {"data": [1, 2, 4]}},
    "output_format": "numbers",
}

BAD = [
    (None, "invalid_request", ""),
    ({}, "invalid_request", ""),
    ({**GOOD, "device": "tpu"}, "invalid_request", "/device"),
    ({**GOOD, "feature_level": "9_9"}, "contract_violation", "/feature_level"),
    ({**GOOD, "feature_level": "2_0"}, "contract_violation", "/operator/desc/InputTensor/Sizes"),
    ({**GOOD, "operator": {"type": "GEMMM", "desc": {}}}, "contract_violation", "/operator/type"),
    ({**GOOD, "operator": None}, "contract_violation", "/operator"),
    ({**GOOD, "inputs": {}}, "contract_violation", "/inputs"),
    ({**GOOD, "inputs": {"InputTensor": {"data": [1, 2, "x"]}}}, "contract_violation", "/inputs/InputTensor/data/2"),
    ({**GOOD, "inputs": {"InputTensor": "%%%%"}}, "invalid_base64", "/inputs/InputTensor"),
]


def answered(results: list[Any], sent: Any) -> list[Any]:
    """Returns the outputs of each result, or the code and pointers of its problem."""
    found = []
    for result in results:
        if "outputs" in result:
            assert set(result) == {"outputs", "feature_level", "device", "timing", "request_id"}
            found.append(result["outputs"]["OutputTensor"]["data"])
        else:
            problem = check_problem(result, sent)
            found.append((problem["code"], [violation["pointer"] for violation in problem.get("violations", ())]))
    return found


def test_an_empty_batch_is_valid(http):
    response = http.post("/v1/batch", json={"requests": []})
    assert response.status_code == 200
    assert response.json() == {"results": [], "request_id": response.headers["x-request-id"]}


def test_outcomes_come_in_the_order_of_the_requests(http):
    requests = [{**GOOD, "inputs": {"InputTensor": {"data": [i, i, i]}}, "priority": 9 - i} for i in range(10)]
    response = http.post("/v1/batch", json={"requests": requests})
    assert answered(response.json()["results"], {"requests": requests}) == [[3 * i] for i in range(10)]
    ids = {result["request_id"] for result in response.json()["results"]}
    assert ids == {response.headers["x-request-id"]}


def test_a_failed_request_does_not_affect_the_others(http):
    requests = [request for bad, _, _ in BAD for request in (GOOD, bad)] + [GOOD]
    sent = {"requests": requests}
    response = http.post("/v1/batch", json=sent)
    assert response.status_code == 200
    results = answered(response.json()["results"], sent)
    assert results[::2] == [[7]] * (len(BAD) + 1)
    for i, (_, code, place) in enumerate(BAD):
        found, places = results[2 * i + 1]
        assert found == code
        assert f"/requests/{2 * i + 1}{place}" in places


def test_a_missing_tail_does_not_affect_other_requests(http):
    sent = {"requests": [GOOD, {**GOOD, "inputs": {"InputTensor": {"binary_data_size": 12}}}, GOOD]}
    response = http.post("/v1/batch", json=sent)
    assert response.status_code == 200
    assert answered(response.json()["results"], sent) == [[7], ("invalid_framing", []), [7]]


def outcomes(
    http: httpx.Client, rows: list[Row], device: str, form: str, answer_form: str
) -> Iterator[tuple[str, Any, dict[str, list[Any]]]]:
    """Runs examples as one batch and yields the name, expected outputs and actual outputs of each."""
    tail: list[bytes] = []
    requests = []
    for row in rows:
        request = bodies.execute_request(row.request, row.example.inputs, form, tail)
        requests.append({**request, "feature_level": str(row.example.level), "device": device})
    answer, rest = bodies.send(http, {"requests": requests}, form, answer_form, tail, "/v1/batch")
    assert len(answer["results"]) == len(rows)
    for row, result in zip(rows, answer["results"], strict=True):
        assert "outputs" in result, (str(row), result)
        found, rest = bodies.outputs(result, rest)
        assert set(found) == set(row.example.outputs), str(row)
        right = {name: bodies.rounded_output(result, name, value) for name, value in row.example.outputs.items()}
        yield str(row), right, found
    assert rest == b""


@pytest.mark.parametrize("form", bodies.FORMS)
@pytest.mark.parametrize("answer_form", ["base64", "binary"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_examples_in_batches_match(http, request, device, form, answer_form):
    """All examples as raw bytes; in the other forms those that cover all kinds of tensors."""
    every = form == answer_form == "binary" or request.config.getoption("--thorough")
    for rows in in_batches(row for row in ROWS if every or str(row) in VARIED):
        for name, right, found in outcomes(http, rows, device, form, answer_form):
            assert all(bodies.same(found[output], right[output]) for output in right), (name, found, right)


def test_a_refused_request_still_consumes_its_part_of_the_tail(http):
    """Whatever is wrong with a request, the tensors of those after it are found in the tail."""
    numbers = [[float(i), 2.0 * i, 0.5] for i in range(8)]
    tail: list[bytes] = []
    requests = [bodies.execute_request(OPERATOR, {"InputTensor": each}, "binary", tail) for each in numbers]
    requests[1]["priority"] = 99
    requests[2]["feature_level"] = "2_0"
    requests[3]["inputs"]["Other"] = {"binary_data_size": 4}
    tail.insert(4, b"1234")
    requests[4]["unknown"] = True
    del requests[5]["operator"]
    requests[6]["operator"] = {"type": "ARGMAX", "desc": {}}
    answer, rest = bodies.send(http, {"requests": requests}, "binary", "binary", tail, "/v1/batch")
    codes = [result.get("code") for result in answer["results"]]
    refused = ["invalid_request", "contract_violation", "contract_violation", "invalid_request", "invalid_request"]
    assert codes == [None, *refused, "contract_violation", None]
    for i in (0, 7):
        found, rest = bodies.outputs(answer["results"][i], rest)
        assert found == {"OutputTensor": [sum(numbers[i])]}
    assert rest == b""


def test_a_tail_of_the_wrong_length_is_refused(http):
    for size, tail in ((12, bytes(11)), (12, bytes(25)), ("12", bytes(24))):
        request = {"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": size}}}
        headers, body = bodies.encoded_request({"requests": [request, request]}, [tail])
        response = http.post("/v1/batch", content=body, headers=headers)
        assert read_problem(400, response.headers, response.content)["code"] == "invalid_framing"


def test_a_batch_can_mix_forms(http):
    tail: list[bytes] = []
    requests = [
        bodies.execute_request(OPERATOR, {"InputTensor": [1, 2, i]}, form, tail) for i, form in enumerate(bodies.FORMS)
    ]
    requests[0]["output_format"] = "numbers"
    answer, rest = bodies.send(http, {"requests": requests}, "binary", "base64", tail, "/v1/batch")
    assert [bodies.outputs(result, b"")[0]["OutputTensor"] for result in answer["results"]] == [[3], [4], [5]]
    assert answer["results"][0]["outputs"]["OutputTensor"]["data"] == [3]
    assert rest == b""


def test_a_batch_is_limited_to_the_advertised_number_of_requests(http):
    limit = http.get("/v1/server").json()["limits"]["batch_requests"]
    response = http.post("/v1/batch", content=json.dumps({"requests": [GOOD] * limit}))
    assert answered(response.json()["results"], None) == [[7]] * limit
    response = http.post("/v1/batch", content=json.dumps({"requests": [GOOD] * (limit + 1)}))
    problem = read_problem(413, response.headers, response.content)
    assert (problem["code"], problem["limit"], problem["size"]) == ("batch_too_large", limit, limit + 1)


def test_the_outputs_of_a_batch_are_bounded_together():
    """Each output would be allowed on its own; a few bytes describe them."""
    source = {"DataType": "UINT8", "Sizes": [1, 1, 1, 600], "Strides": [0] * 4}
    window = {"Strides": [1, 1], "WindowSize": [1, 1], "StartPadding": [0, 0], "EndPadding": [0, 0]}
    operator = {"type": "MAX_POOLING", "desc": {"InputTensor": source, **window}}
    requests = [{"operator": operator, "inputs": {"InputTensor": "AQAAAA=="}}] * 5
    with serving(Settings(port=0, devices=("reference",), limits=Limits(output_bytes=1300))) as server:
        results = httpx.post(f"{server.url}/v1/batch", json={"requests": requests}, timeout=30).json()["results"]
        assert ["outputs" in result for result in results] == [True, True, False, False, False]
        assert {check_problem(result)["code"] for result in results[2:]} == {"tensor_too_large"}
        assert results[2]["limit"] == 1300
        until(lambda: server.service.engine.memory.held == 0)


def test_large_results_are_streamed():
    """The first result arrives while the last operator still runs, and the client can disconnect then."""
    source = {"DataType": "FLOAT32", "Sizes": [40_000]}
    first = {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": source, "Axes": []}}
    endless = {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]}
    last = {"type": "REDUCE", "desc": {"Function": "LOG_SUM_EXP", "InputTensor": endless, "Axes": [0]}}
    requests = [
        {"operator": first, "inputs": {"InputTensor": base64.b64encode(bytes(160_000)).decode()}},
        {"operator": last, "inputs": {"InputTensor": "AAAAAA=="}},
    ]
    body = json.dumps({"requests": requests}).encode()
    with serving(Settings(port=0, devices=("reference",))) as server, connect(server.url or "") as connection:
        connection.sendall(b"POST /v1/batch HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while len(answer) < 200_000:
            answer += connection.recv(100_000)
        assert b"transfer-encoding: chunked" in answer.partition(b"\r\n\r\n")[0]
        assert b'{"results":[{"outputs":{"OutputTensor":' in answer
        assert server.service.engine.memory.held > 0
        connection.close()
        until(lambda: server.service.engine.memory.held == 0)
