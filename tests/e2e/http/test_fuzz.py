"""Fuzzing: whatever a server receives, it responds or refuses properly, and keeps serving."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.fields import Count, Enumerated, Role, TensorMember
from opwire.tensor import DataType
from opwire_service.kernels.executable import EXECUTABLE
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.strategies import mutation
from tests.support.examples import ROWS
from tests.support.http import bodies
from tests.support.http.problems import LEAKS, check_problem, read_problem
from tests.support.http.serving import serving
from tests.support.http.sockets import connect
from tests.support.profiles import request_examples

LIMITS = Limits(
    body_bytes=2**20, tensor_elements=2**14, output_bytes=2**16, work=2**14, batch_requests=8, receive_ms=500
)

EXAMPLES: list[tuple[dict[str, Any], Any]] = [(row.request, row.example.inputs) for row in ROWS]
PATHS = ("/v1/execute", "/v1/batch", "/v1/validate")
TYPES = [row.name for row in DataType] + ["FLOAT32"] * 6 + ["INT32", "INT8", "UNKNOWN", 1]
ALLOWED = (200, 400, 404, 405, 408, 411, 413, 415, 422, 504)


class ErrorLog(logging.Handler):
    """Collects what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    errors = ErrorLog()
    logging.getLogger().addHandler(errors)
    with serving(Settings(port=0, limits=LIMITS)) as started:
        yield started
    logging.getLogger().removeHandler(errors)
    assert errors.lines == []


@pytest.fixture(scope="module")
def http(server: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url or "", timeout=20) as client:
        yield client


@st.composite
def valid(draw: st.DrawFn) -> tuple[str, Any, list[bytes]]:
    """Draws a path, a valid document for it, and the document's tail."""
    path = draw(st.sampled_from(PATHS))
    form = draw(st.sampled_from(bodies.FORMS))
    tail: list[bytes] = []
    requests = []
    for operator, inputs in draw(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=3)):
        request = bodies.execute_request(operator, inputs, form, tail if path != "/v1/validate" else [])
        options = st.fixed_dictionaries(
            {},
            optional={
                "feature_level": st.sampled_from(["6_4", "5_0", "2_1", 0x3000, "DML_FEATURE_LEVEL_1_0"]),
                "timeout_ms": st.integers(1, 100_000),
                "priority": st.integers(0, 9),
                "device": st.sampled_from(["auto", "reference"]),
                "output_format": st.sampled_from(["base64", "numbers"]),
            },
        )
        requests.append({**request, **draw(options)})
        if path == "/v1/execute":
            return path, requests[0], tail
        if path == "/v1/validate":
            return path, {"operator": operator}, tail
    return path, {"requests": requests}, tail


def json_or_none(text: bytes) -> Any:
    """Returns the JSON that was sent, or None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def check_answer(status: int, headers: Any, body: bytes, sent: Any = None) -> None:
    """Checks for a problem that points into what was sent, or a response without problems of its own."""
    assert status in ALLOWED, body
    if status >= 400:
        read_problem(status, headers, body, sent)
        return
    answer, _ = bodies.split_answer(headers, body)
    for result in answer.get("results", ()):
        if "code" in result:
            check_problem(result, sent)
            assert result["status"] in ALLOWED
    for violation in answer.get("violations", ()):
        check_problem(
            {
                "status": 422,
                "code": "contract_violation",
                "type": "urn:opwire:problem:contract_violation",
                "title": "a",
                "detail": "b",
                "error": "a: b",
                "request_id": "c",
                "violations": [violation],
            },
            sent,
        )


def post(http: httpx.Client, path: str, head: bytes, tail: list[bytes], raw: bool) -> None:
    headers = {"Content-Type": bodies.JSON}
    if raw:
        headers = {"Content-Type": bodies.BINARY, bodies.HEAD_LENGTH: str(len(head)), "Accept": bodies.BINARY}
    response = http.post(path, content=b"".join((head, *tail)), headers=headers)
    check_answer(response.status_code, response.headers, response.content, json_or_none(head))


def test_mutated_documents_are_handled(http):
    @request_examples(150)
    @given(st.data())
    def holds(data):
        path, document, tail = data.draw(valid())
        changed = data.draw(mutation.documents(document))
        post(http, path, json.dumps(changed).encode(), tail, bool(tail))

    holds()
    assert http.get("/readyz").status_code == 200


def test_mutated_texts_are_handled(http):
    @request_examples(150)
    @given(st.data())
    def holds(data):
        path, document, tail = data.draw(valid())
        text = data.draw(mutation.texts(json.dumps(document).encode()))
        post(http, path, text, tail, bool(tail) or data.draw(st.booleans()))

    holds()
    assert http.get("/readyz").status_code == 200


def test_any_json_is_handled(http):
    @request_examples(75)
    @given(st.sampled_from(PATHS), mutation.values, st.booleans())
    def holds(path, document, raw):
        post(http, path, json.dumps(document).encode(), [], raw)

    holds()


SIZES = st.sampled_from(
    [1, 2, 3, 4, 5, 7, 12] * 5 + [64, 1000, 65535, 65536, 2**31, 2**32 - 1] + [0, -1, 2**32, 1.0, None]
)
STEPS = st.sampled_from([0, 1, 1, 2, 3, 4, 12] * 4 + [100, 65535, 2**31 - 1, 2**31, 2**32 - 1] + [-1, "1"])


@st.composite
def tensors(draw: st.DrawFn, rank: int) -> Any:
    """Draws tensor descs that are almost valid."""
    rank = draw(st.sampled_from([rank, rank, rank, rank, rank + 1, 0, 9]))
    lists = {"Sizes": SIZES, "Strides": STEPS}
    desc: dict[str, Any] = {"DataType": draw(st.sampled_from(TYPES))}
    for name, items in lists.items():
        if name == "Sizes" or draw(st.booleans()):
            desc[name] = draw(st.lists(items, min_size=rank, max_size=rank))
    extra = {
        "DimensionCount": st.sampled_from([rank, 4, None]),
        "TotalTensorSizeInBytes": st.sampled_from([0, 4, 8, 10, 64, 4000, 2**40, 2**64 - 1, 2**64]),
        "Flags": st.sampled_from([0, 1, 2, "NONE", "OWNED_BY_DML", ["NONE"], ["OWNED_BY_DML", 0], []]),
        "GuaranteedBaseOffsetAlignment": st.sampled_from([0, 1, 2, 3, 8, 256, 2**31]),
    }
    desc |= draw(st.fixed_dictionaries({}, optional=extra))
    return draw(st.sampled_from([desc, desc, desc, {"Desc": desc}, {"Type": "BUFFER", "Desc": desc}]))


@st.composite
def operators(draw: st.DrawFn) -> Any:
    """Draws operators whose fields are almost valid."""
    declared = draw(st.sampled_from(list(EXECUTABLE.values())))
    rank = draw(st.sampled_from([1, 2, 3, 4, 4, 4, 5, 5, 8]))
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for member in declared.members.every:
        if isinstance(member, TensorMember):
            fields[member.name] = tensors(rank) if member.role is Role.INPUT else st.none() | tensors(rank)
        elif isinstance(member, Enumerated):
            fields[member.name] = st.sampled_from([*(row.name for row in member.type), 0, 1, 12, "X"])
        elif isinstance(member, Count):
            fields[member.name] = st.sampled_from([None, None, 0, 1, rank - 2, -1])
        elif member.name == "Axes":
            fields[member.name] = st.lists(st.integers(0, rank), max_size=rank)
        else:
            fields[member.name] = st.lists(STEPS, min_size=max(rank - 2, 0), max_size=max(rank - 2, 0)) | st.none()
    desc = draw(st.fixed_dictionaries(fields))
    if draw(st.integers(0, 4)) == 0:
        desc.pop(draw(st.sampled_from(sorted(desc))))
    return {"type": declared.name, "desc": desc}


def test_almost_valid_operators_are_handled(http):
    @request_examples(150)
    @given(st.sampled_from(PATHS), operators(), st.sampled_from(["6_4", "3_0", "1_0"]), mutation.values)
    def holds(path, operator, level, inputs):
        request: Any = {"operator": operator, "feature_level": level}
        if path != "/v1/validate":
            request["inputs"] = {"InputTensor": inputs}
        post(http, path, json.dumps({"requests": [request]} if path == "/v1/batch" else request).encode(), [], False)

    holds()


def test_any_desc_is_handled(http):
    """Draws descs with any fields and values."""
    fields = st.dictionaries(st.sampled_from(mutation.NAMES), mutation.values, max_size=8)
    chosen = st.fixed_dictionaries({"type": st.sampled_from([*EXECUTABLE, "GEMM", 55, None]), "desc": fields})

    @request_examples(75)
    @given(chosen)
    def holds(operator):
        post(http, "/v1/validate", json.dumps({"operator": operator}).encode(), [], False)

    holds()


def test_tails_of_any_length_are_handled(http):
    @request_examples(75)
    @given(st.data())
    def holds(data):
        path, document, tail = data.draw(valid())
        joined = b"".join(tail)
        keep = data.draw(st.integers(0, len(joined)))
        post(http, path, json.dumps(document).encode(), [joined[:keep], data.draw(st.binary(max_size=9))], True)

    holds()


TOKENS = st.sampled_from(
    [
        *("", "0", "1", "-1", "5", "100", "99999999999999999999", "1e3", "0x10", "a", "\t", "*/*", "gzip", "identity"),
        *(
            "application/json",
            "application/octet-stream",
            "application/JSON;charset=x",
            "text/html;q=0.5, */*",
            ";",
            ",",
        ),
        *("chunked", "close", "keep-alive", "upgrade", "100-continue", "\x80\xff", "a" * 3000, "bytes=0-1", "=?utf-8?"),
    ]
) | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("Content-Type", "Accept", "Content-Encoding", "Inference-Header-Content-Length", "X-Request-Id"),
            *("Accept-Encoding", "Authorization", "Host", "Origin", "Range", "If-None-Match", "Cookie", "TE", "Via"),
            *("X-Forwarded-For", "Forwarded", "Upgrade", "Connection", "Expect", "Sec-WebSocket-Key", "Content-Length"),
        ]
    ),
    TOKENS,
    max_size=5,
)


def exchange(server: HttpServer, data: bytes, sent: Any = None) -> None:
    """Sends bytes and half-closes; anything that comes back must be an HTTP response."""
    assert server.url is not None
    with connect(server.url) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert not [leak for leak in LEAKS if leak.encode() in answer]
    for status in re.findall(rb"HTTP/1.1 (\d+)", answer):
        assert int(status) in (100, 307, *ALLOWED), answer


def test_any_headers_are_handled(server):
    @request_examples(150)
    @given(st.data(), HEADERS)
    def holds(data, headers):
        path, document, tail = data.draw(valid())
        method = data.draw(st.sampled_from(["POST", "POST", "POST", "GET", "HEAD", "OPTIONS", "PUT", "XYZ"]))
        target = data.draw(
            st.sampled_from([path, path, path, "/v1/server", "/", "/livez", "*", "//", "/v1/operators/%00"])
        )
        given_headers, body = bodies.encoded_request(document, tail)
        lines = {**given_headers, "Host": "a", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        exchange(server, f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body)

    holds()
    assert server.started


def test_any_bytes_are_handled(server):
    request = b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}GET /livez HTTP/1.1\r\n\r\n"

    @request_examples(75)
    @given(st.binary(max_size=200) | mutation.texts(request))
    def holds(data):
        exchange(server, data)

    holds()


def test_the_server_still_works_after_fuzzing(http):
    operator, inputs = EXAMPLES[0]
    request = bodies.execute_request(operator, inputs, "numbers", [])
    for _ in range(10):
        assert http.post("/v1/execute", json=request).status_code == 200
