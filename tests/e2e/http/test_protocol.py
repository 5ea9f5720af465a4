"""HTTP itself: methods, lengths, connections, hosts, upgrades, and input that is not HTTP."""

from __future__ import annotations

import pytest

from tests.support.http.problems import read_problem
from tests.support.http.sockets import connect, read_answer, talk

JSON = {"Content-Type": "application/json"}
DATA_ROUTES = ("/v1/execute", "/v1/batch", "/v1/validate")


@pytest.mark.parametrize("path", DATA_ROUTES)
def test_chunked_bodies_are_refused_with_411(http, path):
    response = http.post(path, content=iter([b"{", b"}"]), headers=JSON)
    assert response.request.headers["transfer-encoding"] == "chunked"
    assert read_problem(411, response.headers, response.content)["code"] == "length_required"
    assert http.get("/livez").status_code == 200


def test_the_connection_is_closed_after_an_unfinished_body_is_refused(server_url):
    with connect(server_url) as connection:
        connection.sendall(b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        status, headers, body = read_answer(connection)
    assert read_problem(status, headers, body)["code"] == "length_required"
    assert headers["connection"] == "close"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", DATA_ROUTES)
def test_data_routes_accept_only_post(http, path, method):
    response = http.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if method == "HEAD":
        assert response.content == b""
    else:
        problem = read_problem(405, response.headers, response.content)
        assert problem["allow"] == ["POST"]


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"GET /\xe9 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /livez HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    ],
)
def test_invalid_http_is_refused_with_400(server_url, data):
    status, headers, body = talk(server_url, data)
    assert read_problem(status, headers, body)["code"] == "invalid_request"
    assert status == 400
    assert headers["connection"] == "close"


@pytest.mark.parametrize("host", ["[", "a b", "::1", "a:99999999", "[::1", "\x7f", "http://x", "%", "", "a,b", "a@b"])
@pytest.mark.parametrize("target", ["/nothing", "/v1/operators", "/v1/operators/", "/v1/execute", "/", "/docs"])
def test_malformed_host_headers_are_handled(server_url, host, target):
    data = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1")
    status, headers, body = talk(server_url, data)
    assert status < 500
    if status >= 400:
        read_problem(status, headers, body)
    else:
        assert host not in headers.get("location", "/") or host == ""


@pytest.mark.parametrize(
    "upgrade",
    [
        "Upgrade: websocket\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13",
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        "Upgrade: nothing",
    ],
)
def test_upgrades_are_ignored(server_url, upgrade):
    for target, expected in (("/livez", 200), ("/v1/execute", 405), ("/nothing", 404)):
        data = f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\n{upgrade}\r\n\r\n".encode()
        status, headers, body = talk(server_url, data)
        assert status == expected
        if status >= 400:
            read_problem(status, headers, body)


def test_pipelined_requests_are_answered_in_order(server_url):
    one = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    _, _, rest = talk(server_url, one + one + last)
    assert rest.count(b"HTTP/1.1 200") == 1
    assert rest.count(b"HTTP/1.1 404") == 1
    assert rest.index(b" 200 ") < rest.index(b" 404 ")
