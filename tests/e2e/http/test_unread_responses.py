"""Responses that clients do not read count as memory until they are read or dropped."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import httpx
import pytest

from opwire.wire import BINARY, JSON
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http.bodies import large_answer
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

FORMS = pytest.mark.parametrize("accept", [JSON, BINARY])


def post(sent: object, accept: str, path: str = "/v1/execute", *fields: str) -> bytes:
    body = json.dumps(sent).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Accept: {accept}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def slow_reader(url: str) -> socket.socket:
    """Opens a connection with small buffers that reads almost nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    address = httpx.URL(url)
    connection.connect((address.host, address.port))
    return connection


def held(server: HttpServer) -> int:
    return server.service.engine.memory.held


def received(connection: socket.socket) -> int:
    """Counts the bytes that still arrive."""
    size = 0
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(2**20):
            size += len(piece)
    return size


@FORMS
@pytest.mark.parametrize("fields", [(), ("Connection: close",)])
def test_a_client_that_does_not_read_is_cut_off(accept, fields):
    with serving(Settings(port=0)) as server, slow_reader(server.url or "") as connection:
        began = time.monotonic()
        connection.sendall(post(large_answer(2**22, timeout_ms=1500), accept, "/v1/execute", *fields))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        assert held(server) >= 2**24
        until(lambda: held(server) == 0)
        assert time.monotonic() - began > 1.3
        assert received(connection) < 2**23
        text = httpx.get(f"{server.url}/metrics").text
        assert 'opwire_requests_total{code="deadline_exceeded",route="/v1/execute"} 1.0' in text


@FORMS
@pytest.mark.parametrize(
    ("path", "sent"),
    [("/v1/execute", large_answer(2**20)), ("/v1/batch", {"requests": [large_answer(2**20)] * 2})],
    ids=["execute", "batch"],
)
def test_reading_a_response_releases_its_memory(accept, path, sent):
    with serving(Settings(port=0)) as server, slow_reader(server.url or "") as connection:
        connection.sendall(post(sent, accept, path))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        assert held(server) >= 2**22
        connection.setblocking(False)

        def nothing_is_held() -> bool:
            with contextlib.suppress(BlockingIOError):
                while connection.recv(2**20):
                    pass
            return held(server) == 0

        until(nothing_is_held)


@FORMS
def test_a_stalled_reader_is_dropped_when_others_wait_for_memory(accept):
    """Each response alone takes all the memory; without this, the other would wait for a minute."""
    limits = Limits(memory_bytes=2**25)
    with (
        serving(Settings(port=0, limits=limits)) as server,
        slow_reader(server.url or "") as first,
        connect(server.url or "") as second,
    ):
        first.sendall(post(large_answer(2**23), accept))
        assert first.recv(100).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        second.sendall(post(large_answer(2**23), accept))
        until(lambda: server.service.engine.memory.waiting == 1)
        assert second.recv(100).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - began < 30
        assert received(first) < 2**23


def test_a_slow_reader_gets_the_whole_response(server_url):
    with connect(server_url) as connection:
        connection.sendall(post(large_answer(2**21), JSON, "/v1/execute", "Connection: close"))
        size = 0
        while piece := connection.recv(2**18):
            size += len(piece)
            time.sleep(0.005)
    assert size > 2**23 / 3 * 4
