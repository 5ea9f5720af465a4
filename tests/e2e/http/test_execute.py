"""Operators over HTTP: every example in every form, and the other members of responses."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import re
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.examples import IN_EVERY_FORM
from tests.support.http import bodies
from tests.support.http.problems import read_problem

STAGES = ["receive", "parse", "check", "decode", "queue", "run", "encode"]

OPERATOR = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0]},
}
REQUEST = {"operator": OPERATOR, "inputs": {"InputTensor": {"data": [1, 2, 4]}}, "output_format": "numbers"}


@pytest.fixture(scope="session")
def devices(http: httpx.Client) -> list[str]:
    """The server's devices, starting with the default one."""
    info = http.get("/v1/server").json()
    names = [device["name"] for device in info["devices"]]
    assert names[0] == info["default_device"]
    return names


@pytest.mark.parametrize(("operator", "example"), IN_EVERY_FORM)
def test_examples_match_in_every_form_on_every_device(http, devices, operator, example):
    request_operator = {"type": operator.name, "desc": dict(example.desc)}
    for device, form, answer_form in itertools.product(devices, bodies.FORMS, bodies.FORMS):
        tail: list[bytes] = []
        request = bodies.execute_request(request_operator, example.inputs, form, tail)
        request |= {"feature_level": str(example.level), "device": device}
        if answer_form == "numbers":
            request["output_format"] = "numbers"
        answer, rest = bodies.send(http, request, form, answer_form, tail)
        found, left = bodies.outputs(answer, rest)
        assert left == b""
        assert set(found) == set(example.outputs)
        assert (answer["feature_level"], answer["device"]) == (str(example.level), device)
        listed = [given if isinstance(given, list) else [given] for given in answer["outputs"].values()]
        written = [each for given in listed for each in given]
        assert all(("binary_data_size" in each) == (answer_form == "binary") for each in written)
        for name, right in example.outputs.items():
            assert bodies.same(found[name], bodies.rounded_output(answer, name, right)), (device, form)


def test_members_with_a_default_can_be_left_out(http):
    matrix = {"DataType": "FLOAT32", "Sizes": [2, 2]}
    given = {"data": [1, 2, 3, 4]}
    image = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
    for operator, right in [
        ({"type": "GEMM", "desc": {"ATensor": matrix, "BTensor": matrix}}, [[7, 10], [15, 22]]),
        ({"type": "MAX_POOLING", "desc": {"InputTensor": image, "WindowSize": [1, 2]}}, [[[[2], [4]]]]),
        ({"type": "ACTIVATION_THRESHOLDED_RELU", "desc": {"InputTensor": matrix}}, [[0, 2], [3, 4]]),
    ]:
        inputs = {name: given for name in operator["desc"] if name.endswith("Tensor")}
        answer = http.post("/v1/execute", json={"operator": operator, "inputs": inputs, "output_format": "numbers"})
        assert answer.json()["outputs"]["OutputTensor"]["data"] == right


def test_a_response_has_all_members(http, devices):
    response = http.post("/v1/execute", json=REQUEST)
    answer = response.json()
    assert set(answer) == {"outputs", "feature_level", "device", "timing", "request_id"}
    assert answer["outputs"] == {
        "OutputTensor": {"desc": {"DataType": "FLOAT32", "Sizes": [1], "TotalTensorSizeInBytes": 4}, "data": [7.0]}
    }
    assert answer["feature_level"] == "DML_FEATURE_LEVEL_6_4"
    assert answer["device"] == devices[0]
    assert answer["request_id"] == response.headers["x-request-id"]
    assert "server" not in response.headers


def test_each_stage_is_timed(http):
    response = http.post("/v1/execute", json=REQUEST)
    timing = response.json()["timing"]
    assert list(timing) == [*STAGES, "total"]
    assert all(type(us) is int and us >= 0 for us in timing.values())
    assert timing["total"] >= sum(timing[stage] for stage in STAGES) - len(STAGES)  # each stage is rounded down
    assert timing["total"] < 10_000_000
    parts = dict(part.split(";dur=") for part in response.headers["server-timing"].split(", "))
    assert {stage: round(float(ms) * 1000) for stage, ms in parts.items()} == timing


@pytest.mark.parametrize("given", ["abc", "A-1_b.c:d", "x" * 128])
def test_a_valid_request_id_is_kept(http, given):
    response = http.post("/v1/execute", json=REQUEST, headers={"X-Request-Id": given})
    assert response.headers["x-request-id"] == response.json()["request_id"] == given
    response = http.post("/v1/execute", json={}, headers={"X-Request-Id": given})
    assert response.headers.get_list("x-request-id") == [given]
    assert read_problem(400, response.headers, response.content, {})["request_id"] == given
    for path in ("/v1/operators", "/livez", "/nothing"):
        assert http.get(path, headers={"X-Request-Id": given}).headers.get_list("x-request-id") == [given]


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\u00e9".encode(), "<script>", "a,b", '"'])
def test_an_invalid_request_id_is_replaced(http, given):
    seen = set()
    for path in ("/v1/execute", "/livez"):
        found = http.get(path, headers={"X-Request-Id": given}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{32}", found)
        seen.add(found)
    assert len(seen) == 2


@pytest.mark.parametrize("level", ["DML_FEATURE_LEVEL_4_1", "4_1", 0x4100, "0x4100", None])
def test_levels_are_accepted_in_every_spelling(http, level):
    answer, _ = bodies.send(http, {**REQUEST, "feature_level": level}, "json")
    assert answer["feature_level"] == ("DML_FEATURE_LEVEL_6_4" if level is None else "DML_FEATURE_LEVEL_4_1")


def test_each_device_can_be_selected(http, devices):
    for given, found in ((None, devices[0]), ("auto", devices[0]), *((name, name) for name in devices)):
        answer, _ = bodies.send(http, {**REQUEST, "device": given}, "json")
        assert answer["device"] == found


@pytest.mark.parametrize(
    "options",
    [{"timeout_ms": 60_000}, {"timeout_ms": 2**31 - 1}, {"timeout_ms": None}, {"priority": 0}, {"priority": 9}],
)
def test_all_options_are_accepted(http, options):
    answer, _ = bodies.send(http, REQUEST | options, "json")
    assert answer["outputs"]["OutputTensor"]["data"] == [7]


@pytest.mark.parametrize(
    ("media", "accept", "answer"),
    [
        ("application/json", "*/*", "application/json"),
        ("application/json; charset=utf-8", "application/json", "application/json"),
        ("Application/JSON", "text/html, application/json;q=0.9", "application/json"),
        (None, None, "application/json"),
        ("application/json", "application/octet-stream", "application/octet-stream"),
        ("application/json", "application/json, application/octet-stream", "application/octet-stream"),
    ],
)
def test_media_types_select_the_response_form(http, media, accept, answer):
    headers = {name: value for name, value in (("Content-Type", media), ("Accept", accept)) if value is not None}
    request = http.build_request("POST", "/v1/execute", content=json.dumps(REQUEST), headers=headers)
    if media is None:
        request.headers.pop("content-type", None)
    response = http.send(request)
    assert response.status_code == 200
    assert response.headers["content-type"] == answer


def test_header_names_ignore_case_and_the_connection_stays_open(server_url):
    url = urlsplit(server_url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
    head = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": 12}}}).encode()
    for name in (
        "Inference-Header-Content-Length",
        "inference-header-content-length",
        "INFERENCE-HEADER-CONTENT-LENGTH",
    ):
        body = head + bodies.buffer({"DataType": "FLOAT32", "Sizes": [3]}, [1, 2, 4])
        connection.request(
            "POST", "/v1/execute", body, {"content-type": "APPLICATION/octet-stream", name: str(len(head))}
        )
        answer = connection.getresponse()
        socket = connection.sock
        assert json.loads(answer.read())["outputs"]["OutputTensor"]["data"] == base64.b64encode(b"\0\0\xe0@").decode()
        assert connection.sock is socket is not None
    connection.close()


def test_a_buffer_has_three_valid_lengths(http):
    """A buffer may end at its last element, at DirectML's rounded minimum, or at its total size."""
    desc = {"DataType": "UINT8", "Sizes": [5], "TotalTensorSizeInBytes": 12}
    operator = {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": desc, "Axes": [0]}}
    for size in (5, 8, 12):
        data = bytes([1, 2, 3, 9, 5]) + b"\xff" * (size - 5)
        text = {"operator": operator, "inputs": {"InputTensor": base64.b64encode(data).decode()}}
        answer, rest = bodies.send(http, text, "base64")
        assert bodies.outputs(answer, rest)[0] == {"OutputTensor": [9]}
        raw = {"operator": operator, "inputs": {"InputTensor": {"binary_data_size": size}}}
        answer, rest = bodies.send(http, raw, "binary", "binary", [data])
        assert bodies.outputs(answer, rest) == ({"OutputTensor": [9]}, b"")


@pytest.mark.parametrize("shift", range(5))
def test_a_tail_can_be_unaligned(http, shift):
    numbers = [0.5, -3, 7, 11]
    desc = {"DataType": "FLOAT32", "Sizes": [4]}
    operator = {"type": "REDUCE", "desc": {"Function": "MIN", "InputTensor": desc, "Axes": [0]}}
    tail: list[bytes] = []
    request = bodies.execute_request(operator, {"InputTensor": numbers}, "binary", tail)
    headers, body = bodies.encoded_request(request, tail)
    length = int(headers[bodies.HEAD_LENGTH])
    body = body[:length] + b" " * shift + body[length:]
    headers[bodies.HEAD_LENGTH] = str(length + shift)
    response = http.post("/v1/execute", content=body, headers=headers)
    assert bodies.outputs(response.json(), b"")[0] == {"OutputTensor": [-3]}


@pytest.mark.parametrize("count", [100, 5000, 33_000])
def test_large_tensors_match_in_every_form(http, count):
    """Small tensors are read at once, large ones in a thread, and long base64 in place."""
    numbers = [(i * 7919) % 10007 for i in range(count)]
    desc = {"DataType": "INT64", "Sizes": [count // 100, 100]}
    output = {"DataType": "INT64", "Sizes": [count // 100, 100], "Strides": [1, count // 100]}
    desc_of = {"Function": "MAX", "InputTensor": desc, "OutputTensor": output, "Axes": []}
    for form in bodies.FORMS:
        for answer_form in ("base64", "binary"):
            tail: list[bytes] = []
            operator = {"type": "REDUCE", "desc": desc_of}
            request = bodies.execute_request(operator, {"InputTensor": numbers}, form, tail)
            answer, rest = bodies.send(http, request, form, answer_form, tail)
            found, left = bodies.outputs(answer, rest)
            assert found["OutputTensor"] == numbers
            assert left == b""


def test_base64_can_have_escaped_slashes(http):
    data = bytes(range(255, -1, -1)) * 16
    text = base64.b64encode(data).decode()
    assert "/" in text
    operator = {
        "type": "REDUCE",
        "desc": {"Function": "MIN", "InputTensor": {"DataType": "UINT8", "Sizes": [4096]}, "Axes": [0]},
    }
    body = json.dumps({"operator": operator, "inputs": {"InputTensor": text}}).replace("/", "\\/")
    response = http.post("/v1/execute", content=body, headers={"Content-Type": "application/json"})
    assert bodies.outputs(response.json(), b"")[0] == {"OutputTensor": [0]}


def test_strided_outputs_are_returned_as_whole_buffers(http):
    output = {"DataType": "UINT16", "Sizes": [2, 2], "Strides": [1, 3]}
    source = {"DataType": "UINT16", "Sizes": [2, 2], "Strides": [0, 1]}
    desc = {"Function": "MAX", "InputTensor": source, "OutputTensor": output, "Axes": []}
    request = {
        "operator": {"type": "REDUCE", "desc": desc},
        "inputs": {"InputTensor": base64.b64encode(b"\x05\x00\x07\x00").decode()},
    }
    answer, _ = bodies.send(http, request, "base64")
    found = answer["outputs"]["OutputTensor"]
    assert found["desc"] == {**output, "TotalTensorSizeInBytes": 12}
    data = base64.b64decode(found["data"])
    assert len(data) == 10
    assert bodies.elements(output, data) == [5, 7, 5, 7]
    assert data[4:6] == b"\0\0"


def test_validate_returns_violations_and_outputs(http):
    response = http.post("/v1/validate", json={"operator": OPERATOR})
    assert response.status_code == 200
    assert response.json() == {
        "valid": True,
        "violations": [],
        "warnings": [],
        "minimum_feature_level": "DML_FEATURE_LEVEL_3_0",
        "outputs": {"OutputTensor": {"DataType": "FLOAT32", "Sizes": [1], "TotalTensorSizeInBytes": 4}},
    }
    early = http.post("/v1/validate", json={"operator": OPERATOR, "feature_level": "2_1"}).json()
    assert early["valid"] is False
    assert early["minimum_feature_level"] == "DML_FEATURE_LEVEL_3_0"
    (violation,) = early["violations"]
    assert violation["code"] == "rank_not_in_level"
    assert violation["pointer"] == "/operator/desc/InputTensor/Sizes"
    assert violation["allowed"] == [4]
    assert violation["available_from"] == "DML_FEATURE_LEVEL_3_0"
    headers, body = bodies.encoded_request({"operator": OPERATOR}, raw=True)
    assert http.post("/v1/validate", content=body, headers=headers).json()["valid"] is True


@pytest.mark.parametrize("given", [None, 5, "ARGMAX", [], {}, {"type": 5, "desc": 6}, {"type": "GEMM", "desc": {}}])
def test_validate_accepts_any_json_as_an_operator(http, given):
    answer = http.post("/v1/validate", json={"operator": given}).json()
    assert answer["valid"] is False
    assert answer["minimum_feature_level"] is None
    assert answer["outputs"] == {}
    assert answer["violations"]


def test_a_repeated_desc_gives_the_same_result(http):
    """Including when the plan is cached: at another level, for other tensors, and when refused."""
    answers = [bodies.send(http, REQUEST, "json")[0]["outputs"] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    other = {**REQUEST, "inputs": {"InputTensor": {"data": [8, 8, 8]}}}
    assert bodies.send(http, other, "json")[0]["outputs"]["OutputTensor"]["data"] == [24]
    for _ in range(2):
        response = http.post("/v1/execute", json={**REQUEST, "feature_level": "2_1"})
        problem = read_problem(422, response.headers, response.content, {**REQUEST, "feature_level": "2_1"})
        assert problem["violations"][0]["pointer"] == "/operator/desc/InputTensor/Sizes"
