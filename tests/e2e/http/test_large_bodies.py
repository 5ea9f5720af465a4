"""Large bodies, received in pieces into their own buffers, and the requests before and after them."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from opwire.wire import BINARY, HEAD_LENGTH
from opwire_service.process.memory_trim import MIN_TAKEN_BYTES
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http.problems import read_problem
from tests.support.http.processes import process, until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect, next_answer, talk

COUNT = 400_000
VALUES = np.arange(COUNT, dtype=np.float32)
OPERATOR = {
    "type": "ARGMAX",
    "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [COUNT]}, "Axes": [0], "AxisDirection": "INCREASING"},
}


def request(values: np.ndarray, *headers: str, binary: bool = False) -> tuple[bytes, bytes]:
    """Returns head and body of an execute request."""
    tensor: object = {"binary_data_size": values.nbytes} if binary else base64.b64encode(values.tobytes()).decode()
    body = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": tensor}, "output_format": "numbers"}).encode()
    lines = ["POST /v1/execute HTTP/1.1", "Host: a", *headers]
    if binary:
        lines += [f"Content-Type: {BINARY}", f"{HEAD_LENGTH}: {len(body)}"]
        body += values.tobytes()
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode(), body


def output_index(body: bytes) -> int:
    """Returns the single index in a response."""
    found = json.loads(body)["outputs"]["OutputTensor"]["data"]
    assert isinstance(found, list)
    return int(found[0])


SMALL = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("piece", [7_919, 262_144, 10**7])
def test_a_body_can_arrive_in_pieces_of_any_size(server_url, binary, piece):
    with connect(server_url) as connection:
        for turn in range(2):
            head, body = request(np.roll(VALUES, turn), binary=binary)
            whole = head + body
            for start in range(0, len(whole), piece):
                connection.sendall(whole[start : start + piece])
            status, _, answer = next_answer(connection)
            assert (status, output_index(answer)) == (200, (COUNT - 1 + turn) % COUNT)


@pytest.mark.parametrize("binary", [False, True])
def test_an_idle_connection_holds_no_body(binary):
    head, body = request(VALUES, binary=binary)
    with serving(Settings(port=0)) as server, connect(server.url or "") as connection:
        connection.sendall(head + body)
        assert next_answer(connection)[0] == 200
        tracemalloc.start()
        try:
            connection.sendall(head + body)
            assert next_answer(connection)[0] == 200
            until(lambda: tracemalloc.get_traced_memory()[0] < len(body) / 2)
            assert tracemalloc.get_traced_memory()[1] > len(body) / 2
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("binary", [False, True])
def test_requests_can_be_pipelined_around_large_bodies(server_url, binary):
    head, body = request(VALUES, binary=binary)
    with connect(server_url) as connection:
        connection.sendall(SMALL + head + body + SMALL + head + body + SMALL)
        answers = [next_answer(connection) for _ in range(5)]
    assert [status for status, _, _ in answers] == [200] * 5
    assert [output_index(answers[i][2]) for i in (1, 3)] == [COUNT - 1] * 2


def test_expect_100_continue_is_answered(server_url):
    head, body = request(VALUES, "Expect: 100-continue")
    with connect(server_url) as connection:
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert output_index(next_answer(connection)[2]) == COUNT - 1
        connection.sendall(SMALL)
        assert next_answer(connection)[0] == 200


@pytest.mark.parametrize("sent", [0, 1000, 1_000_000])
def test_a_disconnect_while_sending_releases_the_memory(sent):
    head, body = request(VALUES)
    with serving(Settings(port=0)) as server, httpx.Client(base_url=server.url or "", timeout=30) as http:
        for _ in range(3):
            with connect(server.url or "") as connection:
                connection.sendall(head + body[:sent])
                time.sleep(0.05)
        gone = 'opwire_requests_total{code="client_gone",route="/v1/execute"} 3.0'
        until(lambda: gone in http.get("/metrics").text)
        until(lambda: "opwire_request_memory_bytes 0.0" in http.get("/metrics").text)


@contextmanager
def full(limits: Limits) -> Iterator[tuple[HttpServer, socket.socket, socket.socket]]:
    """Runs a server that is receiving a first body, beside which a second one does not fit."""
    head, body = request(VALUES)
    with (
        serving(Settings(port=0, limits=limits)) as server,
        connect(server.url or "") as first,
        connect(server.url or "") as second,
    ):
        memory = server.service.engine.memory
        first.sendall(head + body[:1000])
        until(lambda: memory.held > 1_000_000)
        second.sendall(head + body[:1000])
        until(lambda: memory.waiting == 1)
        yield server, first, second


def test_a_body_waits_for_memory():
    _, body = request(VALUES)
    with full(Limits(memory_bytes=3_000_000)) as (server, first, second):
        memory = server.service.engine.memory
        with connect(server.url or "") as small:  # these have reserved memory
            small.sendall(SMALL)
            assert next_answer(small)[0] == 200
        first.sendall(body[1000:])
        assert output_index(next_answer(first)[2]) == COUNT - 1
        second.sendall(body[1000:])
        assert output_index(next_answer(second)[2]) == COUNT - 1
        until(lambda: memory.held == 0)
        assert memory.waiting == 0


def test_a_disconnect_ends_the_wait_for_memory():
    head, body = request(VALUES)
    with serving(Settings(port=0, limits=Limits(memory_bytes=3_000_000))) as server, connect(server.url or "") as first:
        memory = server.service.engine.memory
        first.sendall(head + body[:1000])
        until(lambda: memory.held > 1_000_000)
        with connect(server.url or "") as gone:
            gone.sendall(head + body[:1000])
            until(lambda: memory.waiting == 1)
        first.sendall(body[1000:])
        assert output_index(next_answer(first)[2]) == COUNT - 1
        until(lambda: memory.waiting == 0 and memory.held == 0)


@pytest.mark.parametrize("sent", [0, 1000, 100_000])
def test_a_request_is_refused_by_its_head_if_too_many_wait_for_memory(sent):
    named, body = request(VALUES, "X-Request-Id: third")
    with full(Limits(memory_bytes=3_000_000, queued=1)) as (server, *_):
        status, fields, answer = talk(server.url or "", named + body[:sent])
        problem = read_problem(status, fields, answer)
        assert (status, problem["code"], problem["request_id"]) == (429, "memory_full", "third")
        assert fields["connection"] == "close"
        assert int(fields["retry-after"]) >= 1


def test_the_deadline_covers_the_wait_for_memory():
    head, body = request(VALUES)
    with (
        serving(Settings(port=0, limits=Limits(memory_bytes=3_000_000, timeout_ms=300))) as server,
        connect(server.url or "") as first,
    ):
        first.sendall(head + body[:1000])
        until(lambda: server.service.engine.memory.held > 1_000_000)
        status, fields, answer = talk(server.url or "", head)
        problem = read_problem(status, fields, answer)
        assert (status, problem["code"], problem["stage"]) == (504, "deadline_exceeded", "memory")


def test_a_refused_client_can_still_read_the_response():
    """The client keeps sending and reads the response only afterwards."""
    head, body = request(VALUES)
    with serving(Settings(port=0, limits=Limits(body_bytes=300_000))) as server:
        refused = connect(server.url or "")
        with refused:
            refused.sendall(head)
            for _ in range(3):
                time.sleep(0.1)
                refused.sendall(body[:10_000])
            assert next_answer(refused)[0] == 413
            # Close with a reset, as a client that has not sent everything would.
            refused.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: not server.server_state.connections)


def test_a_stalled_body_times_out():
    head, body = request(VALUES)
    with serving(Settings(port=0, limits=Limits(receive_ms=300))) as server, connect(server.url or "") as connection:
        connection.sendall(head + body[: len(body) // 2])
        status, headers, answer = next_answer(connection)
        assert read_problem(status, headers, answer)["code"] == "slow_body"
        assert headers["connection"] == "close"
        assert connection.recv(1) == b""


def test_large_bodies_arrive_over_tls(certificate):
    head, body = request(VALUES, binary=True)
    file, key = certificate
    context = ssl.create_default_context(cafile=str(file))
    with (
        serving(Settings(port=0, tls_certificate=file, tls_key=key)) as server,
        connect(server.url or "") as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        for _ in range(2):
            connection.sendall(head + body + SMALL)
            assert output_index(next_answer(connection)[2]) == COUNT - 1
            assert next_answer(connection)[0] == 200


def test_an_idle_server_returns_memory_to_the_system():
    with process("--device", "reference", "--log-level", "debug") as served:
        head, body = request(VALUES)
        with connect(served.url) as connection:
            for _ in range(1 + MIN_TAKEN_BYTES // len(body)):
                connection.sendall(head + body)
                assert next_answer(connection)[0] == 200
            until(lambda: any("returning freed memory" in line for line in list(served.lines)))
            connection.sendall(head + body)
            assert next_answer(connection)[0] == 200
