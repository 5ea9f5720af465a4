"""Every way to send an invalid request: status, problem, and where it points."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from opwire.violation import Code
from opwire_service.kernels.executable import EXECUTABLE
from tests.support.http import bodies
from tests.support.http.problems import STATUSES, read_problem

SOURCE = {"DataType": "FLOAT32", "Sizes": [3]}
OPERATOR = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": SOURCE, "Axes": [0]}}
TEXT = base64.b64encode(bytes(12)).decode()
REQUEST = {"operator": OPERATOR, "inputs": {"InputTensor": TEXT}}
JSON = {"Content-Type": "application/json"}
DATA_ROUTES = ("/v1/execute", "/v1/batch", "/v1/validate")


def refused(http: httpx.Client, sent: Any, path: str = "/v1/execute") -> tuple[str, list[tuple[str, str]]]:
    """Returns the problem's code, and code and pointer of each violation."""
    response = http.post(path, content=json.dumps(sent).encode(), headers=JSON)
    problem = read_problem(response.status_code, response.headers, response.content, sent)
    return problem["code"], [(found["code"], found["pointer"]) for found in problem.get("violations", ())]


def posted(http: httpx.Client, content: bytes, path: str = "/v1/execute", **headers: str) -> Any:
    """Posts any bytes and returns the problem, which must not point anywhere, and the response."""
    given = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    response = http.post(path, content=content, headers=given)
    return read_problem(response.status_code, response.headers, response.content), response


@pytest.mark.parametrize("path", DATA_ROUTES)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"{",
        b'{"operator": }',
        b"{'operator': 1}",
        b"\xff\xfe",
        b'{"operator": "\xff"}',
        b"{} {}",
        b"[1,]",
        b'{"a": 01}',
        b'"\\ud800"',
        b'{"a": "\x01"}',
        b"[" * 10_000,
        b"nul",
        b"\xef\xbb\xbf{}",
        b"-",
        b"1e",
    ],
)
def test_invalid_json_is_refused(http, path, content):
    problem, _ = posted(http, content, path)
    assert problem["code"] == "invalid_json"
    assert "violations" not in problem


@pytest.mark.parametrize("path", DATA_ROUTES)
@pytest.mark.parametrize("sent", [None, 1, "text", [], [{}], True, 1.5])
def test_json_other_than_objects_is_refused(http, path, sent):
    assert refused(http, sent, path) == ("invalid_request", [("wrong_type", "")])


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ({}, [("missing_field", ""), ("missing_field", "")]),
        ({"operator": OPERATOR}, [("missing_field", "")]),
        ({**REQUEST, "input": {}}, [("unknown_field", "/input")]),
        ({**REQUEST, "": 1, "a/b": 2, "~": 3}, [("unknown_field", place) for place in ("/", "/a~1b", "/~0")]),
        ({**REQUEST, "inputs": []}, [("wrong_type", "/inputs")]),
        ({**REQUEST, "inputs": None}, [("wrong_type", "/inputs")]),
        ({**REQUEST, "inputs": {"InputTensor": 5}}, [("wrong_type", "/inputs/InputTensor")]),
        ({**REQUEST, "inputs": {"InputTensor": [1, 2, 4]}}, [("wrong_type", "/inputs/InputTensor")]),
        ({**REQUEST, "inputs": {"InputTensor": {}}}, [("wrong_type", "/inputs/InputTensor")]),
        ({**REQUEST, "inputs": {"InputTensor": {"data": [], "x": 1}}}, [("wrong_type", "/inputs/InputTensor")]),
        ({**REQUEST, "timeout_ms": 0}, [("out_of_range", "/timeout_ms")]),
        ({**REQUEST, "timeout_ms": 2**31}, [("out_of_range", "/timeout_ms")]),
        ({**REQUEST, "timeout_ms": "9"}, [("wrong_type", "/timeout_ms")]),
        ({**REQUEST, "timeout_ms": 1.5}, [("wrong_type", "/timeout_ms")]),
        ({**REQUEST, "priority": -1}, [("out_of_range", "/priority")]),
        ({**REQUEST, "priority": 10}, [("out_of_range", "/priority")]),
        ({**REQUEST, "priority": True}, [("wrong_type", "/priority")]),
        ({**REQUEST, "device": 3}, [("wrong_type", "/device")]),
        ({**REQUEST, "device": "tpu"}, [("unknown_value", "/device")]),
        ({**REQUEST, "output_format": "binary"}, [("unknown_value", "/output_format")]),
        ({**REQUEST, "output_format": 1}, [("unknown_value", "/output_format")]),
        (
            {"inputs": 1, "timeout_ms": [], "priority": {}, "device": [], "output_format": {}},
            [
                ("missing_field", ""),
                ("unknown_value", "/output_format"),
                *(("wrong_type", f"/{name}") for name in ("device", "inputs", "priority", "timeout_ms")),
            ],
        ),
    ],
)
def test_malformed_requests_are_refused(http, sent, found):
    code, violations = refused(http, sent)
    assert code == "invalid_request"
    assert sorted(violations) == sorted(found)


@pytest.mark.parametrize(
    ("sent", "found"),
    [({}, [("missing_field", "")]), ({"operator": OPERATOR, "inputs": {}}, [("unknown_field", "/inputs")])],
)
def test_malformed_validation_requests_are_refused(http, sent, found):
    assert refused(http, sent, "/v1/validate") == ("invalid_request", found)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ({}, [("wrong_type", "")]),
        ({"requests": {}}, [("wrong_type", "/requests")]),
        ({"requests": None}, [("wrong_type", "/requests")]),
        ({"requests": [], "feature_level": "1_0"}, [("unknown_field", "/feature_level")]),
    ],
)
def test_malformed_batches_are_refused(http, sent, found):
    assert refused(http, sent, "/v1/batch") == ("invalid_request", found)


@pytest.mark.parametrize("level", ["9_9", 5, True, [], {}, 16640.0, "4.1"])
def test_unknown_levels_are_refused(http, level):
    sent = {"operator": OPERATOR, "feature_level": level}
    assert refused(http, sent, "/v1/validate") == ("contract_violation", [("unknown_feature_level", "/feature_level")])
    assert refused(http, {**sent, "inputs": {"InputTensor": TEXT}}) == (
        "contract_violation",
        [("unknown_feature_level", "/feature_level")],
    )


@pytest.mark.parametrize("operator", EXECUTABLE.values(), ids=lambda operator: operator.name)
def test_bad_examples_are_refused(http, operator):
    for bad in operator.bad_examples:
        request = {"operator": {"type": operator.name, "desc": dict(bad.desc)}, "feature_level": str(bad.level)}
        code, violations = refused(http, {**request, "inputs": {}})
        assert code == "contract_violation"
        assert (bad.code.value, f"/operator/desc{bad.pointer}") in violations
        answer = http.post("/v1/validate", json=request).json()
        is_valid = bad.code is Code.NOT_COMPUTABLE
        assert answer["valid"] is is_valid
        given = answer["warnings" if is_valid else "violations"]
        assert [(found["code"], found["pointer"]) for found in given] == violations


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ({}, [("missing_tensor", "/inputs")]),
        ({"Input": TEXT}, [("missing_tensor", "/inputs"), ("unknown_tensor", "/inputs/Input")]),
        (
            {"InputTensor": TEXT, "b": TEXT, "a": TEXT, "c": TEXT},
            [("unknown_tensor", f"/inputs/{name}") for name in "bac"],
        ),
        ({"InputTensor": base64.b64encode(bytes(11)).decode()}, [("byte_count_mismatch", "/inputs/InputTensor")]),
        ({"InputTensor": base64.b64encode(bytes(16)).decode()}, [("byte_count_mismatch", "/inputs/InputTensor")]),
        ({"InputTensor": ""}, [("byte_count_mismatch", "/inputs/InputTensor")]),
        ({"InputTensor": "AAAA" * 10_000}, [("byte_count_mismatch", "/inputs/InputTensor")]),
        ({"InputTensor": {"data": [1, 2]}}, [("shape_mismatch", "/inputs/InputTensor/data")]),
        ({"InputTensor": {"data": [[1, 2, 4]]}}, [("shape_mismatch", "/inputs/InputTensor/data")]),
        ({"InputTensor": {"data": [1, 2, [4]]}}, [("invalid_number", "/inputs/InputTensor/data/2")]),
        ({"InputTensor": {"data": 5}}, [("shape_mismatch", "/inputs/InputTensor/data")]),
        ({"InputTensor": {"data": None}}, [("shape_mismatch", "/inputs/InputTensor/data")]),
        ({"InputTensor": {"data": {}}}, [("shape_mismatch", "/inputs/InputTensor/data")]),
        ({"InputTensor": {"data": [1, None, 4]}}, [("invalid_number", "/inputs/InputTensor/data/1")]),
        ({"InputTensor": {"data": [1, True, 4]}}, [("invalid_number", "/inputs/InputTensor/data/1")]),
        ({"InputTensor": {"data": [1, 2, "nan"]}}, [("invalid_number", "/inputs/InputTensor/data/2")]),
        ({"InputTensor": {"data": [1, 1e39, 0]}}, [("invalid_number", "/inputs/InputTensor/data/1")]),
        ({"InputTensor": {"data": [10**400, 0, 0]}}, [("invalid_number", "/inputs/InputTensor/data/0")]),
    ],
)
def test_tensors_that_do_not_match_the_desc_are_refused(http, inputs, found):
    code, violations = refused(http, {"operator": OPERATOR, "inputs": inputs})
    assert code == "contract_violation"
    assert violations == found


@pytest.mark.parametrize("sizes", [[2, 2], [1, 1, 2, 2]])
def test_an_invalid_number_is_located(http, sizes):
    desc = {"Function": "MAX", "InputTensor": {"DataType": "INT8", "Sizes": sizes}, "Axes": []}
    nested: Any = [[1, 2], [3, 128]]
    for size in reversed(sizes[:-2]):
        nested = [nested] * size
    place = "/0" * (len(sizes) - 2) + "/1/1"
    for data, at in ((nested, place), ([1, 2, 3, -129], "/3"), ([1.0, 2, 3, 4], "/0")):
        sent = {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": {"data": data}}}
        assert refused(http, sent) == ("contract_violation", [("invalid_number", f"/inputs/InputTensor/data{at}")])


def test_elements_that_share_an_address_must_agree(http):
    source = {"DataType": "INT32", "Sizes": [3], "Strides": [0]}
    sent = {
        "operator": {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": source, "Axes": [0]}},
        "inputs": {"InputTensor": {"data": [2, 2, 3]}},
    }
    assert refused(http, sent) == ("contract_violation", [("overlap_conflict", "/inputs/InputTensor/data")])
    sent["inputs"] = {"InputTensor": {"data": [2, 2, 2]}}
    assert bodies.outputs(http.post("/v1/execute", json=sent).json(), b"")[0] == {"OutputTensor": [6]}


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "AAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAA!",
        "AAAAAAAAAAAAAAA\u00e9",
        "AAAAAAAAAAAAAA=A",
        "=AAAAAAAAAAAAAAA",
        "AAAA AAAA AAAA AAAA",
        "AAAAAAAAAAAAAAA\n",
        "____AAAAAAAAAAAA",
        "not base64 at all",
        "!" * 5000,
    ],
)
def test_invalid_base64_is_refused(http, text):
    for tensor in (text, {"data": text}):
        sent = {"operator": OPERATOR, "inputs": {"InputTensor": tensor}}
        assert refused(http, sent) == ("invalid_base64", [("invalid_base64", "/inputs/InputTensor")])


@pytest.mark.parametrize(
    ("length", "tail"),
    [
        ("-1", b""),
        ("x", b""),
        ("", b""),
        ("1e3", b""),
        ("\u0663".encode(), b""),
        ("99999999", b""),
        ("9" * 5000, b""),
        ("+5", b""),
        ("0x10", b""),
        (None, b""),
        ("head", bytes(11)),
        ("head", bytes(13)),
        ("head", b""),
    ],
)
def test_invalid_framing_is_refused(http, length, tail):
    head = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": 12}}}).encode()
    headers = {"Content-Type": bodies.BINARY}
    if length is not None:
        headers[bodies.HEAD_LENGTH] = str(len(head)) if length == "head" else length
    for path in ("/v1/execute", "/v1/batch"):
        body = head if path == "/v1/execute" else b'{"requests": [' + head + b"]}"
        if length == "head":
            headers[bodies.HEAD_LENGTH] = str(len(body))
        response = http.post(path, content=body + tail, headers=headers)
        assert read_problem(response.status_code, response.headers, response.content)["code"] == "invalid_framing"


@pytest.mark.parametrize("size", [-1, 1.5, "12", None, True, 2**70, [12]])
def test_invalid_binary_sizes_are_refused(http, size):
    head = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": size}}}).encode()
    headers = {"Content-Type": bodies.BINARY, bodies.HEAD_LENGTH: str(len(head))}
    response = http.post("/v1/execute", content=head + bytes(12), headers=headers)
    assert read_problem(400, response.headers, response.content)["code"] == "invalid_framing"


def test_a_truncated_json_head_is_refused(http):
    head = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": 12}}}).encode()
    headers = {"Content-Type": bodies.BINARY, bodies.HEAD_LENGTH: str(len(head) - 1)}
    response = http.post("/v1/execute", content=head + bytes(12), headers=headers)
    assert read_problem(400, response.headers, response.content)["code"] == "invalid_json"


def test_a_tail_outside_the_binary_form_is_refused(http):
    sent = {"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": 12}}}
    assert refused(http, sent) == ("invalid_framing", [])
    problem, _ = posted(http, json.dumps(sent).encode(), Inference_Header_Content_Length="10")
    assert problem["code"] == "invalid_framing"
    # Validation takes no tensors.
    headers, body = bodies.encoded_request({"operator": OPERATOR}, [b"1234"])
    response = http.post("/v1/validate", content=body, headers=headers)
    assert read_problem(400, response.headers, response.content)["code"] == "invalid_framing"


@pytest.mark.parametrize("path", DATA_ROUTES)
@pytest.mark.parametrize(
    "media", ["text/plain", "application/xml", "multipart/form-data; boundary=x", "", "*/*", "json"]
)
def test_unsupported_media_types_are_refused(http, path, media):
    problem, _ = posted(http, b"{}", path, Content_Type=media)
    assert problem["code"] == "unsupported_media_type"
    assert "application/json" in problem["detail"]


@pytest.mark.parametrize("path", DATA_ROUTES)
@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "x"])
def test_content_encodings_are_refused(http, path, encoding):
    problem, _ = posted(http, b"{}", path, Content_Encoding=encoding)
    assert problem["code"] == "unsupported_media_type"
    assert posted(http, b"{", path, Content_Encoding="identity")[0]["code"] == "invalid_json"


def test_the_openapi_document_lists_every_code(http):
    schemas = http.get("/openapi.json").json()["components"]["schemas"]
    assert set(schemas["Problem"]["properties"]["code"]["enum"]) == set(STATUSES)
