"""Waiting and refused connections cost the server little, and nothing for long."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opwire_service.http.connection.connection import Connection
from opwire_service.http.connection.cycle import Cycle
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect, next_answer

SIZE = 8_000_000
HEAD = f"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n".encode()
LINGERING = 128


@pytest.fixture
def full() -> Iterator[HttpServer]:
    """A server whose memory is taken by one client, and that lets no other wait for it."""
    limits = Limits(memory_bytes=3_000_000, queued=0, timeout_ms=120_000, receive_ms=120_000)
    with serving(Settings(port=0, devices=("reference",), limits=limits)) as server, connect(server.url or "") as first:
        first.sendall(HEAD + bytes(1000))
        until(lambda: server.service.engine.memory.held > 1_000_000)
        yield server


def refused(server: HttpServer) -> socket.socket:
    """Returns a connection that the server has refused and the client keeps open."""
    made = connect(server.url or "")
    made.sendall(HEAD + bytes(50_000))
    assert next_answer(made)[0] == 429
    return made


def test_the_number_of_lingering_connections_is_bounded(full):
    clients = [refused(full) for _ in range(LINGERING + 20)]
    assert len(full.server_state.connections) <= 1 + LINGERING + 1, "the last one to leave may still be closing"
    for client in clients:
        client.close()
    until(lambda: len(full.server_state.connections) == 1)


@contextmanager
def no_garbage_left() -> Iterator[None]:
    """Checks that connections and requests made in the context are freed without garbage collection."""
    gc.collect()
    before = {id(each) for each in _connection_objects()}
    gc.disable()
    try:
        yield
        until(lambda: all(id(each) in before for each in _connection_objects()))
    finally:
        gc.enable()


def _connection_objects() -> list[object]:
    # type, not isinstance: that would ask a weak proxy, whose referent may be gone, for its class.
    return [each for each in gc.get_objects() if issubclass(type(each), Connection | Cycle)]


def test_refused_connections_leave_no_garbage(full):
    with no_garbage_left():
        for _ in range(10):
            refused(full).close()


def test_answered_connections_leave_no_garbage():
    with serving(Settings(port=0, devices=("reference",))) as server, no_garbage_left():
        for size in (10, 100_000, SIZE):
            with connect(server.url or "") as client:
                client.sendall(HEAD.replace(b"%d" % SIZE, b"%d" % size) + bytes(size))
                assert next_answer(client)[0] == 400, "the body is not JSON"


def test_the_receive_buffer_stays_small():
    """The system would otherwise enlarge the buffer the more data a connection has carried."""
    with serving(Settings(port=0, devices=("reference",))) as server, connect(server.url or "") as client:
        for _ in range(4):
            client.sendall(HEAD + bytes(SIZE))
            assert next_answer(client)[0] == 400
        (connection,) = server.server_state.connections
        assert isinstance(connection, Connection)
        there: socket.socket = connection.transport.get_extra_info("socket")
        assert there.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 2 * 256 * 1024
