"""The clients without a server: options, headers, responses, errors."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest

import opwire
from opwire import errors
from opwire.errors import PROBLEMS, ProblemCode
from opwire.level import FeatureLevel
from tests.support.http.clients import FakeServer, pooling_answer, problem_answer, result_answer

X = np.zeros((2, 3), np.float32)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer(result_answer())


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPWIRE_URL", "OPWIRE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        ({}, "http://127.0.0.1:8000/v1/execute"),
        ({"base_url": "https://gpu.example:4443"}, "https://gpu.example:4443/v1/execute"),
        ({"base_url": "http://gateway/opwire/"}, "http://gateway/opwire/v1/execute"),
    ],
)
def test_the_base_url_prefixes_paths(make_client, server, arguments, url):
    make_client(**arguments, transport=server.transport).sum(X, 0)
    assert str(server.request.url) == url
    assert server.request.method == "POST"
    assert server.request.headers["Host"] == server.request.url.netloc.decode()


def test_server_and_key_default_to_the_environment(make_client, server, monkeypatch):
    monkeypatch.setenv("OPWIRE_URL", "http://elsewhere:1")
    monkeypatch.setenv("OPWIRE_API_KEY", "k1")
    make_client(transport=server.transport).sum(X, 0)
    assert str(server.request.url) == "http://elsewhere:1/v1/execute"
    assert server.request.headers["Authorization"] == "Bearer k1"
    make_client("http://here:2", api_key="k2", transport=server.transport).sum(X, 0)
    assert str(server.request.url) == "http://here:2/v1/execute"
    assert server.request.headers["Authorization"] == "Bearer k2"
    make_client(headers={"authorization": "Basic eA=="}, transport=server.transport).sum(X, 0)
    assert server.request.headers.get_list("Authorization") == ["Basic eA=="]


@pytest.mark.parametrize(
    "base_url",
    [
        "127.0.0.1",
        "/path",
        "http://",
        "http://[::1",
        "localhost:8000",
        "http://h/?a=b",
        "http://h#f",
        "ftp://h",
        "http://u:p@h",
    ],
)
def test_invalid_base_urls_are_refused(make_client, base_url):
    with pytest.raises(ValueError, match=r"is not a URL|is not an http|query or a fragment|a user name") as refused:
        make_client(base_url)
    assert "u:p" not in str(refused.value)


@pytest.mark.parametrize("base_url", ["http://me:secret@h", "https://me@h/p", "http://h:99999", "http://h:0"])
def test_base_urls_with_a_user_or_an_invalid_port_are_refused(make_client, base_url):
    with pytest.raises(ValueError, match=r"has a user name|ports range from 1 to 65535") as refused:
        make_client(base_url)
    assert "secret" not in str(refused.value)


def test_requests_have_only_the_necessary_headers(make_client, server):
    make_client("http://h", headers={"X-Team": "a"}, transport=server.transport).sum(X, 0)
    names = {"host", "user-agent", "x-team", "content-type", "accept", "inference-header-content-length"}
    assert set(server.request.headers) == names | {"content-length", "accept-encoding"}
    assert server.request.headers["Accept-Encoding"] == "identity"
    assert server.request.headers["User-Agent"] == f"opwire/{opwire.__version__}"
    assert int(server.request.headers["Content-Length"]) == len(server.request.content)


OWN_HEADERS = ["Accept", "Accept-Encoding", "content-type", "Content-Length", "Inference-Header-Content-Length"]


@pytest.mark.parametrize(
    "headers", [{"X-A": "a\r\nX-B: b"}, {"X-A\r\nX-B": "b"}, {"X A": "b"}, {"X-A": "\0"}], ids=repr
)
def test_invalid_headers_are_refused(make_client, headers):
    with pytest.raises(ValueError, match="is not a valid header"):
        make_client(headers=headers)


@pytest.mark.parametrize("name", OWN_HEADERS)
def test_headers_set_by_the_client_cannot_be_overridden(make_client, name):
    with pytest.raises(ValueError, match="cannot be set"):
        make_client(headers={name: "x"})


OPTIONS = {"feature_level": "4_1", "timeout": 1.5, "device": "cpu", "priority": 0, "encoding": "base64"}
MEMBERS = {"feature_level": "4_1", "timeout_ms": 1500, "device": "cpu", "priority": 0}


def sent(server: FakeServer) -> dict[str, object]:
    """Returns the options of the last request."""
    return {name: value for name, value in server.head.items() if name not in ("operator", "inputs")}


def test_options_come_from_client_derived_client_or_call(make_client, server):
    plain = make_client(transport=server.transport)
    plain.sum(X, 0)
    assert sent(server) == {"timeout_ms": 60_000}
    for client, options in (
        (make_client(transport=server.transport, **OPTIONS), {}),
        (plain.with_options(**OPTIONS), {}),
        (plain, OPTIONS),
        (plain.with_options(device="gpu", priority=9), OPTIONS),
        (plain.with_options(encoding="numbers").with_options(**OPTIONS), {}),
    ):
        client.sum(X, 0, **options)
        assert sent(server) == MEMBERS
        assert server.request.headers["Content-Type"] == "application/json"
    plain.sum(X, 0, timeout=None, feature_level=FeatureLevel.V5_0)
    assert sent(server) == {"feature_level": "DML_FEATURE_LEVEL_5_0"}
    plain.sum(X, 0)
    assert sent(server) == {"timeout_ms": 60_000}


def test_a_short_timeout_is_rounded_up(make_client, server):
    make_client(transport=server.transport).sum(X, 0, timeout=0.0004)
    assert sent(server) == {"timeout_ms": 1}


@pytest.mark.parametrize(("timeout", "connect"), [(60, 5), (2, 2.25), (None, 5)])
def test_connecting_takes_at_most_five_seconds_of_the_timeout(make_client, server, timeout, connect):
    make_client(transport=server.transport, timeout=timeout).sum(X, 0)
    limits = dict(server.request.extensions["timeout"])
    assert limits.keys() == {"connect", "read", "write", "pool"}
    assert limits.pop("connect") == pytest.approx(connect, abs=1)
    if timeout is None:
        assert set(limits.values()) == {None}
    else:
        assert all(timeout - 1 < left < timeout + 0.25 for left in limits.values())


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 2**31 / 1000])
def test_invalid_timeouts_are_refused(make_client, server, timeout):
    with pytest.raises(ValueError, match="timeout"):
        make_client(timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        make_client(transport=server.transport).sum(X, 0, timeout=timeout)
    assert server.requests == []


def test_unknown_options_are_refused(make_client, server):
    client = make_client(transport=server.transport)
    for refuse in (make_client, client.with_options, partial(client.sum, X, 0)):
        with pytest.raises(TypeError, match="retries"):
            refuse(retries=3)
    with pytest.raises(ValueError, match="hex"):
        client.sum(X, 0, encoding="hex")
    assert server.requests == []


def test_a_result_has_everything_in_the_response(make_client):
    server = FakeServer(pooling_answer())
    result = make_client(transport=server.transport).max_pooling(np.zeros((1, 1, 1, 1), np.uint8), 1, indices=True)
    assert isinstance(result, opwire.PoolingResult)
    assert (result.output.tolist(), result.indices.tolist()) == ([[[[7]]]], [[[[0]]]])
    assert (result.device, result.request_id, result.timing) == ("fake", "r1", {"total": 1})


@pytest.mark.parametrize("code", list(ProblemCode))
def test_each_problem_raises_its_error(make_client, code):
    status = PROBLEMS[code].status
    violation = {"code": "axis_out_of_range", "pointer": "/operator/desc/Axes/0", "message": "m", "allowed": [0]}
    members: dict[str, Any] = {
        "request_id": "r7",
        "violations": [violation],
        "limit": 5,
        "size": 6,
        "retry_after": 2,
        "stage": "run",
    }
    server = FakeServer(problem_answer(status, code.value, **members))
    with pytest.raises(errors.OpwireError) as raised:
        make_client(transport=server.transport, max_retries=0, timeout=1).sum(X, 0)
    error = raised.value
    assert type(error) is PROBLEMS[code].exception
    assert (error.code, error.status, error.detail, error.request_id) == (code, status, "d", "r7")
    assert [(found.code.value, found.pointer) for found in error.violations] == [
        ("axis_out_of_range", "/operator/desc/Axes/0")
    ]
    assert error.members == {"limit": 5, "size": 6, "retry_after": 2, "stage": "run"}


def test_the_request_id_of_an_error_can_come_from_a_header(make_client):
    answers = (
        problem_answer(404, "not_found", {"X-Request-Id": "h1"}),
        httpx.Response(502, headers={"x-request-id": "h2"}),
    )
    client = make_client(transport=FakeServer(*answers).transport)
    for request_id in ("h1", "h2"):
        with pytest.raises(errors.OpwireError) as raised:
            client.server()
        assert raised.value.request_id == request_id


NO_ANSWERS = [
    httpx.Response(200, content=b"<html>fine</html>", headers={"Content-Type": "text/html"}),
    httpx.Response(200, content=b""),
    httpx.Response(200, json={"outputs": {}}),
    httpx.Response(200, json={"results": []}),
    httpx.Response(204),
    httpx.Response(302, headers={"Location": "http://elsewhere/"}, json=json.loads(result_answer().content)),
    httpx.Response(401, json={"code": "unauthorized", "detail": "by a gateway"}),
    httpx.Response(502, content=b"<h1>Bad Gateway</h1>" * 200, headers={"Content-Type": "text/html"}),
    httpx.Response(500, content=b"not json", headers={"Content-Type": "application/problem+json"}),
    httpx.Response(500, content=b"[]", headers={"Content-Type": "application/problem+json"}),
    httpx.Response(500, content=b"{}", headers={"Content-Type": "application/problem+json"}),
    problem_answer(418, "teapot"),
    problem_answer(422, "contract_violation", violations=[{"code": "unheard_of"}]),
    problem_answer(422, "contract_violation", violations=7),
    problem_answer(422, "contract_violation", violations=[7]),
    problem_answer(429, "queue_full", retry_after="soon"),
    problem_answer(413, "body_too_large", limit="8", size=9),
    problem_answer(404, "not_found", request_id=7),
    problem_answer(404, "not_found", detail=["d"]),
    httpx.Response(206, json=json.loads(result_answer().content)),
]


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=lambda answer: f"{answer.status_code}-{answer.content[:24]!r}")
def test_invalid_responses_are_kept_in_the_error(make_client, answer):
    with pytest.raises(errors.InvalidResponseError) as raised:
        make_client("http://h/p", transport=FakeServer(answer).transport, max_retries=0).sum(X, 0)
    error = raised.value
    assert (error.status, error.body, error.code) == (answer.status_code, answer.content[:1024], None)
    assert f"POST /v1/execute was answered with {answer.status_code}" in str(error)


READERS = {
    "/v1/operators": lambda client: client.operators(),
    "/v1/operators/A%2FB": lambda client: client.operator("A/B"),
    "/v1/feature-levels": lambda client: client.feature_levels(),
    "/v1/server": lambda client: client.server(),
}


@pytest.mark.parametrize("path", READERS)
def test_descriptions_are_returned_unchanged(make_client, path):
    found = {"operators": [1], "feature_levels": [2], "name": "opwire"}
    server = FakeServer(httpx.Response(200, json=found))
    expected = {"/v1/operators": [1], "/v1/feature-levels": [2]}.get(path, found)
    assert READERS[path](make_client(transport=server.transport)) == expected
    assert (server.request.method, server.request.url.raw_path.decode()) == ("GET", path)
    assert server.request.headers["Accept"] == "application/json"


@pytest.mark.parametrize("path", ["/v1/operators", "/v1/feature-levels"])
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"null"])
def test_malformed_descriptions_are_invalid_responses(make_client, path, body):
    client = make_client(transport=FakeServer(httpx.Response(200, content=body)).transport)
    with pytest.raises(errors.InvalidResponseError):
        READERS[path](client)


def test_validation_sends_the_level(make_client):
    answer = {"valid": True, "violations": [], "minimum_feature_level": "DML_FEATURE_LEVEL_3_0", "outputs": {}}
    server = FakeServer(httpx.Response(200, json=answer))
    client = make_client(transport=server.transport, feature_level="5_0")
    operator = {"type": "ARGMAX", "desc": {"Axes": np.arange(1)}}
    expected = opwire.Validation((), FeatureLevel.V3_0, {})
    for arguments, level in (((operator,), "5_0"), ((operator, FeatureLevel.V2_0), "DML_FEATURE_LEVEL_2_0")):
        assert client.validate(*arguments) == expected
        assert server.head == {"operator": {"type": "ARGMAX", "desc": {"Axes": [0]}}, "feature_level": level}
    assert server.request.url.path == "/v1/validate"


def test_execute_many_sends_one_request(make_client):
    good = json.loads(result_answer().content)
    refused = {"code": "queue_full", "status": 429, "detail": "full"}
    server = FakeServer(httpx.Response(200, json={"results": [good, refused], "request_id": "r"}))
    client = make_client(transport=server.transport, device="cpu", timeout=2)
    calls = [opwire.prepare.sum(X, 0), opwire.prepare.argmax(X, 1, device="gpu", feature_level="5_0", timeout=1)]
    result, error = client.execute_many(iter(calls), priority=3)
    assert result.output.tolist() == [[7, 7, 7]]
    assert isinstance(error, errors.OverloadedError)
    head, tail = server.parts
    assert (server.request.url.path, len(server.requests), len(tail)) == ("/v1/batch", 1, 48)
    first, second = head["requests"]
    assert {name: first[name] for name in first.keys() - {"operator", "inputs"}} == {
        "device": "cpu",
        "timeout_ms": 2000,
        "priority": 3,
    }
    assert (second["device"], second["timeout_ms"], second["feature_level"]) == ("gpu", 1000, "5_0")
    assert second["operator"]["type"] == "DML_OPERATOR_ARGMAX"
    with pytest.raises(errors.InvalidResponseError, match="2 results for 1 requests"):
        client.execute_many(calls[:1])


@pytest.mark.parametrize("option", [{"encoding": "base64"}, {"max_retries": 1}])
def test_prepared_calls_refuse_options_of_the_batch(option):
    with pytest.raises(TypeError, match="execute_many"):
        opwire.prepare.sum(X, 0, **option)


BUSY = problem_answer(503, "draining", {"Retry-After": "0.02"})


def test_a_call_is_retried_until_it_succeeds(make_client):
    failures = (httpx.ConnectError("refused"), problem_answer(429, "queue_full", retry_after=0.01), BUSY)
    server = FakeServer(*failures, result_answer())
    result = make_client(transport=server.transport, max_retries=3, timeout=30, encoding="base64").sum(X, 0)
    assert result.output.tolist() == [[7, 7, 7]]
    assert [request.headers.get("X-Retry-Count") for request in server.requests] == [None, "1", "2", "3"]
    bodies = [json.loads(request.content) for request in server.requests]
    given = [body.pop("timeout_ms") for body in bodies]
    assert given[0] == 30_000
    assert given == sorted(given, reverse=True)
    assert given[-1] <= 30_000 - 30
    assert all(body == bodies[0] for body in bodies)


@pytest.mark.parametrize(("options", "tries"), [({}, 3), ({"max_retries": 1}, 2), ({"max_retries": 0}, 1)])
def test_max_retries_is_an_option_at_every_level(make_client, options, tries):
    for made, derived, given in ((options, {}, {}), ({}, options, {}), ({}, {}, options)):
        server = FakeServer(httpx.ConnectError("refused"))
        client = make_client(transport=server.transport, **made).with_options(**derived)
        with pytest.raises(errors.ConnectError) as raised:
            client.sum(X, 0, **given)
        assert (len(server.requests), raised.value.retries) == (tries, tries - 1)
    with pytest.raises(ValueError, match="max_retries"):
        make_client(max_retries=-1)


FULL = problem_answer(429, "queue_full", retry_after=0.001)


@pytest.mark.parametrize("busy", [FULL, httpx.Response(503, headers={"Retry-After": "0.001"})], ids=["429", "gateway"])
def test_a_busy_server_is_retried_beyond_max_retries(make_client, busy):
    server = FakeServer(*[busy] * 50, result_answer())
    result = make_client(transport=server.transport, timeout=100, max_retries=0).sum(X, 0)
    assert result.output.tolist() == [[7, 7, 7]]
    assert len(server.requests) == 51
    assert server.request.headers["X-Retry-Count"] == "50"


@pytest.mark.serial
def test_retrying_a_busy_server_ends_with_the_timeout(make_client):
    server = FakeServer(problem_answer(503, "draining", {"Retry-After": "0.02"}))
    started = time.monotonic()
    with pytest.raises(errors.UnavailableError) as raised:
        make_client(transport=server.transport, timeout=0.5).sum(X, 0)
    assert 0.1 < time.monotonic() - started < 5
    assert raised.value.retries == len(server.requests) - 1 > 2
    assert raised.value.members == {"retry_after": 0.02}


def test_retry_after_can_be_a_date(make_client):
    server = FakeServer(httpx.Response(503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}), result_answer())
    make_client(transport=server.transport, max_retries=0).sum(X, 0)
    far = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    server = FakeServer(httpx.Response(429, headers={"Retry-After": far}))
    with pytest.raises(errors.InvalidResponseError) as raised:
        make_client(transport=server.transport).sum(X, 0)
    assert len(server.requests) == 1
    assert raised.value.members["retry_after"] == pytest.approx(3600, abs=60)


def test_a_503_without_retry_after_counts_as_a_failure(make_client):
    server = FakeServer(httpx.Response(503))
    with pytest.raises(errors.InvalidResponseError) as raised:
        make_client(transport=server.transport, max_retries=1).sum(X, 0)
    assert (len(server.requests), raised.value.retries) == (2, 1)


@pytest.mark.parametrize(
    "answer",
    [
        problem_answer(504, "deadline_exceeded", stage="run"),
        problem_answer(500, "internal_error"),
        httpx.Response(502),
        httpx.ReadTimeout("slow"),
        problem_answer(429, "queue_full", {"Retry-After": "20"}),
    ],
    ids=["504-run", "500", "502", "timeout", "later-than-the-deadline"],
)
def test_hopeless_calls_are_not_retried(make_client, answer):
    server = FakeServer(answer)
    with pytest.raises(errors.OpwireError) as raised:
        make_client(transport=server.transport, timeout=10).sum(X, 0)
    assert (len(server.requests), raised.value.retries) == (1, 0)


def test_a_503_of_a_gateway_is_retried(make_client):
    server = FakeServer(httpx.Response(503, headers={"Retry-After": "0.01"}, content=b"wait"), result_answer())
    assert make_client(transport=server.transport).sum(X, 0).output.tolist() == [[7, 7, 7]]


@pytest.mark.parametrize("call", [lambda client: client.server(), lambda client: client.validate({"type": "ARGMAX"})])
def test_all_kinds_of_requests_are_retried(make_client, call):
    server = FakeServer(BUSY, httpx.ConnectError("refused"), problem_answer(404, "not_found"))
    with pytest.raises(errors.NotFoundError) as raised:
        call(make_client(transport=server.transport))
    assert (len(server.requests), raised.value.retries) == (3, 2)


def test_cookies_and_redirects_are_ignored(make_client, server):
    server.answers = [
        httpx.Response(404, headers={"Set-Cookie": "a=b"}),
        httpx.Response(307, headers={"Location": "/"}),
    ]
    client = make_client("http://h", transport=server.transport)
    for _ in range(2):
        with pytest.raises(errors.InvalidResponseError):
            client.server()
    assert len(server.requests) == 2
    assert "Cookie" not in server.request.headers


HTTPX_ERRORS = [
    (httpx.ConnectError("refused"), errors.ConnectError),
    (httpx.ConnectTimeout("slow"), errors.ConnectError),
    (httpx.ReadError("reset"), errors.ConnectError),
    (httpx.WriteError("reset"), errors.ConnectError),
    (httpx.RemoteProtocolError("half an answer"), errors.ConnectError),
    (httpx.ProxyError("no"), errors.ConnectError),
    (httpx.UnsupportedProtocol("ftp"), errors.ConnectError),
    (httpx.ReadTimeout("slow"), errors.TransportTimeout),
    (httpx.WriteTimeout("slow"), errors.TransportTimeout),
    (httpx.PoolTimeout(""), errors.TransportTimeout),
    (httpx.DecodingError("gzip"), errors.TransportError),
]


@pytest.mark.parametrize(("cause", "expected"), HTTPX_ERRORS, ids=lambda value: type(value).__name__)
def test_transport_errors_are_translated(make_client, cause, expected):
    client = make_client("http://h/p", transport=FakeServer(cause).transport, max_retries=0)
    with pytest.raises(errors.TransportError) as raised:
        client.sum(X, 0)
    assert type(raised.value) is expected
    assert raised.value.__cause__ is cause
    assert (raised.value.code, raised.value.status) == (None, None)
    assert str(raised.value).endswith(f"(POST http://h/p/v1/execute): {str(cause) or 'PoolTimeout'}")


def test_ready_returns_the_servers_readiness(make_client):
    server = FakeServer(httpx.Response(200), problem_answer(503, "not_ready"), httpx.ConnectError("refused"))
    client = make_client(transport=server.transport)
    assert (client.ready(), client.ready()) == (True, False)
    assert server.request.url.path == "/readyz"
    with pytest.raises(errors.ConnectError):
        client.ready()


def test_wait_ready_returns_once_the_server_is_ready(make_client):
    early = (httpx.ConnectError("refused"), problem_answer(503, "not_ready"), httpx.Response(502))
    server = FakeServer(*early, httpx.Response(200))
    make_client(transport=server.transport).wait_ready(timeout=20)
    assert len(server.requests) == 4


def test_wait_ready_times_out_with_the_last_reason(make_client):
    server = FakeServer(httpx.ConnectError("refused"), problem_answer(503, "draining"))
    with pytest.raises(errors.TransportTimeout, match=r"not ready within 2 s: d$"):
        make_client(transport=server.transport).wait_ready(timeout=2)
    assert 2 <= len(server.requests) <= 10


def test_wait_ready_fails_at_once_on_permanent_errors(make_client):
    server = FakeServer(problem_answer(401, "unauthorized"))
    with pytest.raises(errors.AuthenticationError):
        make_client(transport=server.transport).wait_ready()
    assert len(server.requests) == 1


def test_closing_a_derived_client_keeps_connections_open(make_client, server):
    with make_client(transport=server.transport) as client:
        derived = client.with_options(device="cpu")
        derived.close()
        with client.with_options(device="gpu") as other:
            other.sum(X, 0)
        client.sum(X, 0)
    for closed in (client, derived):
        with pytest.raises(RuntimeError, match="closed"):
            closed.sum(X, 0)


def test_the_repr_of_a_client_hides_its_key(make_client):
    assert repr(make_client("http://h", api_key="secret")) in ("<Client http://h>", "<AsyncClient http://h>")
