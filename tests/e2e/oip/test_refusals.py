"""Invalid inference requests, byte by byte: status, problem, and where it points."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from opwire_service.settings import Limits, Settings
from tests.support.http.bodies import HEAD_LENGTH, JSON
from tests.support.http.inference import binary_infer_request, infer_request, infer_tensor, split_answer
from tests.support.http.problems import read_problem
from tests.support.http.serving import serving

INFER = "/v2/models/ARGMAX/infer"
POOL = "/v2/models/MAX_POOLING1/infer"
BINARY = {"binary_data_output": True}


def without(tensor: dict[str, Any], member: str) -> dict[str, Any]:
    return {name: value for name, value in tensor.items() if name != member}


def problem_of(response: httpx.Response, sent: object = None) -> Any:
    return read_problem(response.status_code, response.headers, response.content, sent, JSON)


def refused(http: httpx.Client, sent: object, path: str = INFER) -> tuple[int, list[tuple[str, str]]]:
    """Returns the problem's status, and code and pointer of each violation."""
    response = http.post(path, content=json.dumps(sent))
    problem = problem_of(response, sent)
    return response.status_code, [(found["code"], found["pointer"]) for found in problem.get("violations", ())]


def malformed(
    http: httpx.Client, content: bytes, headers: dict[str, str] | None = None, status: int = 400, sent: object = None
) -> Any:
    response = http.post(INFER, content=content, headers=headers)
    assert response.status_code == status
    return problem_of(response, sent)


@pytest.mark.parametrize("content", [b"", b" ", b"{", b"{'a': 1}", b"\xff", b"[" * 10_000, b'{"id": "\\ud800"}'])
def test_invalid_json_is_refused(http, content):
    assert malformed(http, content)["code"] == "invalid_json"


TENSOR = infer_tensor()
NAN = '{"inputs": [{"name": "InputTensor", "datatype": "FP32", "shape": [3], "data": [NaN, -Infinity, Infinity]}], '


@pytest.mark.parametrize(
    ("sent", "code", "pointer"),
    [
        (None, "wrong_type", ""),
        ([], "wrong_type", ""),
        ("x", "wrong_type", ""),
        (infer_request(inputs=None), "wrong_type", ""),
        (infer_request(inputs={}), "wrong_type", "/inputs"),
        (infer_request(inputs=[5]), "wrong_type", "/inputs/0"),
        (infer_request(inputs=[without(TENSOR, "name")]), "missing_field", "/inputs/0"),
        (infer_request(inputs=[without(TENSOR, "datatype")]), "missing_field", "/inputs/0"),
        (infer_request(inputs=[infer_tensor(shape=None)]), "missing_field", "/inputs/0"),
        (infer_request(inputs=[without(TENSOR, "data")]), "wrong_type", "/inputs/0"),
        (infer_request(inputs=[infer_tensor(parameters={"binary_data_size": 12})]), "wrong_type", "/inputs/0"),
        (infer_request(inputs=[infer_tensor(parameters=[])]), "wrong_type", "/inputs/0/parameters"),
        (infer_request(inputs=[TENSOR, TENSOR]), "wrong_type", "/inputs/1/name"),
        (infer_request(**{"a/b~": 1}), "unknown_field", "/a~1b~0"),
        (infer_request(id=5), "wrong_type", "/id"),
        (infer_request(parameters=[]), "wrong_type", "/parameters"),
        (infer_request(outputs={"name": "OutputTensor"}), "wrong_type", "/outputs"),
        (infer_request(outputs=[5]), "wrong_type", "/outputs/0"),
        (infer_request(outputs=[{}]), "missing_field", "/outputs/0"),
        (infer_request(outputs=[{"name": "OutputTensor"}] * 2), "wrong_type", "/outputs/1/name"),
    ],
)
def test_malformed_requests_are_refused(http, sent, code, pointer):
    assert refused(http, sent) == (400, [(code, pointer)])


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("priority", "high", "wrong_type"),
        ("priority", 1.5, "wrong_type"),
        ("priority", -1, "out_of_range"),
        ("timeout", True, "wrong_type"),
        ("timeout", -1, "out_of_range"),
        ("binary_data_output", 1, "wrong_type"),
        ("headers", "x", "unknown_field"),
        ("triton_enable_empty_final_response", True, "unknown_field"),
        ("InputTensor", "{}", "unknown_field"),
        ("a/b", 1, "unknown_field"),
    ],
)
def test_invalid_parameters_are_refused(http, name, value, code):
    sent = infer_request()
    sent["parameters"][name] = value
    assert refused(http, sent) == (400, [(code, f"/parameters/{name.replace('/', '~1')}")])


@pytest.mark.parametrize(
    ("where", "parameters", "pointer"),
    [
        ("inputs", {"shared_memory_region": 5}, "/inputs/0/parameters/shared_memory_region"),
        ("inputs", {"binary_data_size": "12"}, "/inputs/0/parameters/binary_data_size"),
        ("inputs", {"binary_data_size": -1}, "/inputs/0/parameters/binary_data_size"),
        ("outputs", {"shared_memory_region": 5}, "/outputs/0/parameters/shared_memory_region"),
        ("outputs", {"classification": 2}, "/outputs/0/parameters/classification"),
        ("outputs", {"binary_data": "yes"}, "/outputs/0/parameters/binary_data"),
    ],
)
def test_invalid_tensor_parameters_are_refused(http, where, parameters, pointer):
    tensor = infer_tensor() if where == "inputs" else {"name": "OutputTensor"}
    status, violations = refused(http, infer_request(**{where: [{**tensor, "parameters": parameters}]}))
    assert status == 400
    assert [found[1] for found in violations] == [pointer]


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"name": "InputsTensor"}, "unknown_tensor", "/inputs/0/name"),
        ({"name": 5}, "unknown_tensor", "/inputs/0/name"),
        ({"datatype": "BF16"}, "unknown_value", "/inputs/0/datatype"),
        ({"datatype": 1}, "unknown_value", "/inputs/0/datatype"),
        ({"datatype": "FP64"}, "data_type_not_in_level", "/inputs/0/datatype"),
        ({"shape": 3}, "wrong_type", "/inputs/0/shape"),
        ({"shape": [3.0]}, "wrong_type", "/inputs/0/shape/0"),
        ({"shape": [0]}, "out_of_range", "/inputs/0/shape/0"),
        ({"shape": [2**64]}, "out_of_range", "/inputs/0/shape/0"),
        ({"shape": []}, "out_of_range", "/inputs/0/shape"),
        ({"shape": [4]}, "shape_mismatch", "/inputs/0/data"),
        ({"shape": [1, 3], "data": [[1, 2], [3]]}, "shape_mismatch", "/inputs/0/data"),
        ({"data": "AAAA"}, "shape_mismatch", "/inputs/0/data"),
        ({"data": [1, "two", 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"data": [1, None, 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"data": [1, True, 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"data": [1, 2, 4e38]}, "invalid_number", "/inputs/0/data/2"),
        ({"datatype": "FP16", "data": [1, 65520, 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"datatype": "INT8", "data": [1, 128, 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"datatype": "UINT64", "data": [1, 2**64, 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"datatype": "UINT64", "data": [1, -1, 3]}, "invalid_number", "/inputs/0/data/1"),
        ({"datatype": "INT32", "data": [1.0, 1, 3]}, "invalid_number", "/inputs/0/data/0"),
        ({"datatype": "INT32", "shape": [1, 3], "data": [[1, 2, 10**400]]}, "invalid_number", "/inputs/0/data/0/2"),
    ],
)
def test_invalid_tensors_are_refused(http, changes, code, pointer):
    status, violations = refused(http, infer_request(inputs=[infer_tensor(**changes)]))
    assert status == 422
    assert (code, pointer) in violations


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"Axes": None}, [("missing_field", "/parameters/Axes")]),
        ({"Axes": "0,"}, [("wrong_type", "/parameters/Axes")]),
        ({"Axes": "[" * 10_000}, [("wrong_type", "/parameters/Axes")]),
        ({"Axes": "[NaN]"}, [("wrong_type", "/parameters/Axes")]),
        ({"Axes": -1}, [("out_of_range", "/parameters/Axes")]),
        ({"AxisDirection": "UP", "Axes": 7}, [("axis_out_of_range", "/parameters/Axes")]),
        ({"AxisCount": 2}, [("count_mismatch", "/parameters/AxisCount")]),
        ({"OutputTensor": "FLOAT32"}, [("wrong_type", "/parameters/OutputTensor")]),
        ({"OutputTensor": '{"DataType": "UINT32", "Sizes": [3]}'}, [("sizes_mismatch", "/parameters/OutputTensor")]),
    ],
)
def test_invalid_attributes_are_refused(http, changes, found):
    sent = infer_request()
    sent["parameters"] |= changes
    status, violations = refused(http, sent)
    assert status == 422
    assert set(found) <= set(violations)


def test_the_error_string_contains_every_violation(http):
    sent = infer_request(inputs=[infer_tensor(shape=[2, 2])], parameters={"Axes": "[5]", "AxisDirection": "UP"})
    problem = problem_of(http.post(INFER, json=sent), sent)
    assert len(problem["violations"]) == 2
    for violation in problem["violations"]:
        assert violation["message"] in problem["error"]
    many = infer_request(parameters={"Axes": json.dumps([9] * 50), "AxisDirection": "INCREASING"})
    many = problem_of(http.post(INFER, json=many), many)
    assert len(many["violations"]) > 10
    assert many["error"].endswith(f"and {len(many['violations']) - 10} more")


def test_optional_outputs_are_requested_by_parameters(http):
    pooling = {"Strides": "1,1", "WindowSize": "1,1", "StartPadding": "0,0", "EndPadding": "0,0"}
    tensor = infer_tensor(shape=[1, 1, 1, 3])
    sent = infer_request(inputs=[tensor], parameters={**pooling, "OutputIndicesTensor": None})
    answer = http.post(POOL, json=sent).json()
    assert [output["data"] for output in answer["outputs"]] == [[1, 5, 2], [0, 1, 2]]
    sent["parameters"]["OutputIndicesTensor"] = '{"DataType": "INT8", "Sizes": [1, 1, 1, 3]}'
    assert refused(http, sent, POOL) == (422, [("data_type_not_in_level", "/parameters/OutputIndicesTensor")])


@pytest.mark.parametrize("length", ["-1", "x", "", "1e2", "+5", "9" * 30, "999999"])
def test_invalid_header_lengths_are_refused(http, length):
    head, tail = binary_infer_request()
    assert malformed(http, head + tail, {HEAD_LENGTH: length})["code"] in ("invalid_framing", "invalid_json")


def test_a_body_without_a_json_head_is_refused(http):
    detail = malformed(http, bytes(12), {HEAD_LENGTH: "0"})["detail"]
    assert "send a JSON head" in detail


@pytest.mark.parametrize(
    ("size", "cut", "status", "code"),
    [
        (12, 11, 400, "invalid_framing"),
        (12, 13, 400, "invalid_framing"),
        (16, 12, 400, "invalid_framing"),
        (2**70, 12, 400, "invalid_framing"),
        (8, 8, 422, "contract_violation"),
        (16, 16, 422, "contract_violation"),
        (0, 0, 422, "contract_violation"),
    ],
)
def test_tails_of_the_wrong_length_are_refused(http, size, cut, status, code):
    head, tail = binary_infer_request(size)
    tail = (tail + bytes(8))[:cut]
    problem = malformed(http, head + tail, {HEAD_LENGTH: str(len(head))}, status, json.loads(head))
    assert problem["code"] == code


def test_a_tail_without_its_header_is_refused(http):
    head, _ = binary_infer_request()
    assert "without Inference-Header-Content-Length" in malformed(http, head)["detail"]


@pytest.mark.parametrize("media", [None, "text/plain", "application/x-www-form-urlencoded", "application/octet-stream"])
def test_the_content_type_is_ignored(http, media):
    headers = {} if media is None else {"Content-Type": media}
    response = http.post(INFER, content=json.dumps(infer_request()), headers=headers)
    assert response.json()["outputs"][0]["data"] == [1]


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, deflate", "x"])
def test_unsupported_encodings_are_refused(http, encoding):
    problem = malformed(http, b"{}", {"Content-Encoding": encoding}, 415)
    assert "allowed: gzip, deflate" in problem["detail"]


DECODE: dict[str | None, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}
PACKED = gzip.compress(json.dumps(infer_request()).encode(), mtime=0)


@pytest.mark.parametrize("content", [b"", b"{}", PACKED[:-1], PACKED[:20], PACKED + b"x", PACKED + PACKED, PACKED[1:]])
def test_invalid_gzip_is_refused(http, content):
    assert malformed(http, content, {"Content-Encoding": "gzip"})["code"] == "invalid_framing"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_cached_request_is_not_mistaken_for_a_compressed_one(http, encoding):
    """Even if only the head differs: identical bytes may be answered from a cache."""
    content = json.dumps(infer_request()).encode()
    for _ in range(5):
        assert http.post(INFER, content=content).json()["outputs"][0]["data"] == [1]
    for _ in range(2):
        assert malformed(http, content, {"Content-Encoding": encoding})["code"] == "invalid_framing"
        assert http.post(INFER, content=content).status_code == 200


def test_encoding_names_ignore_case(http):
    answer = http.post(INFER, content=PACKED, headers={"Content-Encoding": "GZIP"}).json()
    assert answer["outputs"][0]["data"] == [1]


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("Deflate", "deflate"),
        ("gzip, deflate", None),
        ("gzip;q=1", None),
        ("br", None),
        ("*", None),
        ("identity", None),
    ],
)
def test_responses_are_compressed_only_for_a_single_encoding(http, accepted, encoding):
    head, tail = binary_infer_request(id="i")
    headers = {HEAD_LENGTH: str(len(head)), "Accept-Encoding": accepted}
    with http.stream("POST", INFER, content=head + tail, headers=headers) as response:
        raw = b"".join(response.iter_raw())
    assert response.headers.get("content-encoding") == encoding
    assert int(response.headers["content-length"]) == len(raw)
    assert json.loads(DECODE[encoding](raw))["id"] == "i"
    for path in ("/v2", "/v2/models/stats"):
        assert "content-encoding" not in http.get(path, headers={"Accept-Encoding": accepted}).headers


def test_nan_and_infinities_pass_in_both_directions(http):
    text = NAN + '"parameters": {"Function": "MAX", "Axes": ""}}'
    response = http.post("/v2/models/REDUCE/infer", content=text)
    assert '"data":[NaN,-Infinity,Infinity]' in response.text
    binary = NAN + '"parameters": {"Function": "MAX", "Axes": "", "binary_data_output": true}}'
    response = http.post("/v2/models/REDUCE/infer", content=binary)
    answer, tail = split_answer(response.headers, response.content)
    assert answer["outputs"][0]["parameters"] == {"binary_data_size": 12}
    assert struct.unpack("<3f", tail)[1:] == (-float("inf"), float("inf"))


def test_parameters_can_be_given_in_a_header(http):
    sent = infer_request(parameters={"AxisDirection": "INCREASING"})
    given = {"Opwire-Parameters": '{"Axes": [0], "AxisDirection": "UP"}'}
    assert http.post(INFER, json=sent, headers=given).json()["outputs"][0]["data"] == [1]
    unknown = problem_of(http.post(INFER, json=sent, headers={"Opwire-Parameters": '{"Axis": 0}'}), sent)
    assert [found["pointer"] for found in unknown["violations"]] == [""]
    for text in ("[]", "{", "x" * 1000):
        problem = problem_of(http.post(INFER, json=sent, headers={"Opwire-Parameters": text}), sent)
        assert "it must be a JSON object" in problem["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/v2/",
        "/v2/models",
        "/v2/models/",
        "/v2/models/ARGMAX/",
        "/v2/models/ARGMAX/versions",
        "/v2/models/ARGMAX/versions/6_4",
        "/v2/models/ARGMAX/versions/6400/x",
        "/v2/models/a%2Fb",
        "/v2/models/%00",
        "/v2/models/argmax/ready",
        "/v2/trace/setting",
        "/v2/cudasharedmemory/status",
    ],
)
def test_unknown_paths_are_not_found(http, path):
    response = http.get(path)
    assert response.status_code == 404
    assert problem_of(response)["code"] in ("not_found", "unknown_operator")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", INFER, "POST"),
        ("POST", "/v2", "GET"),
        ("DELETE", "/v2/health/ready", "GET"),
        ("GET", "/v2/repository/index", "POST"),
        ("PUT", "/v2/models/ARGMAX/stats", "GET"),
    ],
)
def test_wrong_methods_are_refused_with_allow(http, method, path, allow):
    response = http.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allow
    assert problem_of(response)["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/v2", "/v2/health/live", "/v2/models/ARGMAX", "/v2/models/stats"])
def test_head_is_get_without_the_body(http, path):
    response = http.head(path)
    assert response.status_code == 200
    assert response.content == b""
    if path != "/v2/models/stats":
        assert response.headers["content-length"] == http.get(path).headers["content-length"]


def test_unneeded_bodies_are_ignored(http):
    for content in (b"", b"{}", b'{"ready": true}', b"no JSON", bytes(100_000)):
        assert http.post("/v2/repository/index", content=content).status_code == 200
        assert http.post("/v2/repository/models/ARGMAX/load", content=content).json() == {}
        response = http.post("/v2/repository/models/ARGMAX/unload", content=content)
        assert problem_of(response)["code"] == "invalid_request"


@pytest.fixture(scope="module")
def small() -> Iterator[httpx.Client]:
    limits = Limits(body_bytes=100_000, memory_bytes=300_000, tensor_elements=5000)
    with (
        serving(Settings(port=0, limits=limits)) as server,
        httpx.Client(base_url=server.url or "", timeout=30) as client,
    ):
        yield client


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_decompressed_bodies_are_bounded(small, encoding, pack):
    for size, status in ((90_000, 200), (100_001, 413), (50_000_000, 413)):
        text = json.dumps(infer_request()).encode()
        content = pack(text + b" " * (size - len(text)))
        response = small.post(INFER, content=content, headers={"Content-Encoding": encoding})
        assert response.status_code == status
        if status == 413:
            problem = problem_of(response)
            assert (problem["code"], problem["limit"]) == ("body_too_large", 100_000)
            assert problem["size"] < 20_000_000


def test_oversized_bodies_and_tensors_are_refused(small):
    response = small.post(INFER, content=bytes(100_001))
    assert (response.status_code, problem_of(response)["code"]) == (413, "body_too_large")
    sent = infer_request(inputs=[infer_tensor(shape=[6000])])
    response = small.post(INFER, json=sent)
    assert (response.status_code, problem_of(response, sent)["code"]) == (413, "tensor_too_large")
