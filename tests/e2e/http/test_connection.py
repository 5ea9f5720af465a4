"""Many requests on one connection: each gets its own response, whatever came before."""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from opwire.wire import BINARY, HEAD_LENGTH
from opwire_service.http.connection.connection import Connection
from opwire_service.http.connection.lingering import has_unread
from opwire_service.process.server import HttpServer
from opwire_service.settings import Settings
from tests.support.http.problems import read_problem
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect, next_answer

OPERATOR = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0]},
}


def request(values: list[float] | str, *headers: str, **fields: object) -> bytes:
    """Returns a complete execute request for one tensor of three elements."""
    text = values if isinstance(values, str) else base64.b64encode(np.array(values, np.float32).tobytes()).decode()
    body = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": text}, **fields}).encode()
    lines = ["POST /v1/execute HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def binary_request(values: list[float]) -> bytes:
    """Returns the same request with binary tails in both directions."""
    head = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": {"binary_data_size": 12}}}).encode()
    lines = [
        *("POST /v1/execute HTTP/1.1", "Host: a", f"Content-Length: {len(head) + 12}"),
        *(f"Content-Type: {BINARY}", f"Accept: {BINARY}", f"{HEAD_LENGTH}: {len(head)}"),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + head + np.array(values, np.float32).tobytes()


def value(body: bytes) -> float:
    """Returns the single output element of a response."""
    data = base64.b64decode(json.loads(body)["outputs"]["OutputTensor"]["data"])
    return float(np.frombuffer(data, np.float32)[0])


def requests_counted(server: HttpServer, code: str = "ok") -> float:
    assert server.url is not None
    text = httpx.get(f"{server.url}/metrics").text
    wanted = f'opwire_requests_total{{code="{code}",route="/v1/execute"}} '
    return sum(float(line.removeprefix(wanted)) for line in text.splitlines() if line.startswith(wanted))


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A server whose only device runs small work inline."""
    with serving(Settings(port=0, devices=("reference",))) as made:
        yield made


@pytest.fixture
def connection(server: HttpServer) -> Iterator[socket.socket]:
    """A connection on which requests in both forms have been answered."""
    with connect(server.url or "") as made:
        for _ in range(4):
            made.sendall(request([1, 2, 3]))
            assert value(next_answer(made)[2]) == 6
            made.sendall(binary_request([1, 2, 3]))
            assert next_answer(made)[0] == 200
        yield made


def test_each_request_has_its_own_answer(connection):
    seen = set()
    for i in range(20):
        connection.sendall(request([i, 0.5, 1e30]))
        status, headers, body = next_answer(connection)
        assert status == 200
        assert value(body) == float(np.float32(1e30))
        connection.sendall(request([i, 0.5, 2]))
        _, headers, body = next_answer(connection)
        assert value(body) == i + 2.5
        answer = json.loads(body)
        assert answer["request_id"] == headers["x-request-id"]
        assert set(answer["timing"]) == {"receive", "parse", "check", "decode", "queue", "run", "encode", "total"}
        assert headers["server-timing"].startswith("receive;dur=")
        assert headers["content-type"] == "application/json"
        assert headers["date"]
        seen.add(headers["x-request-id"])
    assert len(seen) == 20


def test_binary_tails_work_in_both_directions(connection):
    for i in range(5):
        connection.sendall(binary_request([i, 1, 2]))
        status, headers, body = next_answer(connection)
        assert status == 200
        length = int(headers[HEAD_LENGTH.lower()])
        assert json.loads(body[:length])["outputs"]["OutputTensor"]["binary_data_size"] == 4
        assert np.frombuffer(body[length:], np.float32).tolist() == [i + 3]


def test_repeated_requests_are_counted(server, connection):
    before = requests_counted(server)
    for _ in range(10):
        connection.sendall(request([1, 2, 3]))
        next_answer(connection)
    assert requests_counted(server) == before + 10


@pytest.mark.parametrize("text", ["AAAAAAAAAAAAAA==", "AAAAAAAAAAAA*AAA", "=" * 16])
def test_invalid_tensors_are_refused_without_side_effects(connection, text):
    connection.sendall(request(text))
    status, headers, body = next_answer(connection)
    assert status in {400, 422}
    read_problem(status, headers, body, json.loads(request(text).partition(b"\r\n\r\n")[2]))
    connection.sendall(request([1, 2, 3]))
    assert value(next_answer(connection)[2]) == 6


def test_a_request_id_of_the_client_is_echoed(connection):
    for identity in ("first", "first", "first", "second"):
        connection.sendall(request([1, 2, 3], f"X-Request-Id: {identity}"))
        assert next_answer(connection)[1]["x-request-id"] == identity


def test_pipelined_requests_are_answered_in_order(connection):
    connection.sendall(request([1, 2, 3]) + request([4, 5, 6]) + request([7, 8, 9]))
    assert [value(next_answer(connection)[2]) for _ in range(3)] == [6, 15, 24]


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_split_request_is_answered_once_complete(connection, cut):
    whole = request([1, 2, 3])
    connection.sendall(whole[:cut])
    connection.settimeout(0.05)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(20)
    connection.sendall(whole[cut:] + request([4, 5, 6]))
    assert [value(next_answer(connection)[2]) for _ in range(2)] == [6, 15]


def test_connection_close_is_honored(connection):
    for _ in range(2):
        connection.sendall(request([1, 2, 3]))
        next_answer(connection)
    connection.sendall(request([1, 2, 3], "Connection: close"))
    assert next_answer(connection)[1]["connection"] == "close"
    assert connection.recv(1) == b""


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_body_that_arrives_after_the_response_is_skipped(connection, pieces):
    """A response does not wait for a body that it does not need; the skipped bytes do not count as a head."""
    body = bytes(120_000)
    for _ in range(3):
        connection.sendall(b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert next_answer(connection)[0] == 200
        for i in range(pieces):
            connection.sendall(body[i * len(body) // pieces : (i + 1) * len(body) // pieces])
        connection.sendall(request([1, 2, 3]))
        assert value(next_answer(connection)[2]) == 6


def test_http_1_0_connections_are_closed(server):
    for _ in range(3):
        with connect(server.url or "") as made:
            made.sendall(request([1, 2, 3]).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            status, headers, body = next_answer(made)
            assert (status, headers["connection"], value(body)) == (200, "close", 6)
            assert made.recv(1) == b""


def test_upgrade_requests_are_answered_without_upgrading(connection):
    upgrade = request([1, 2, 3], "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    connection.sendall(upgrade + request([4, 5, 6]) + upgrade + request([7, 8, 9]))
    assert [value(next_answer(connection)[2]) for _ in range(4)] == [6, 15, 6, 24]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"Host: a\r\n", b"", "0 Host headers"),
        (b"Host: a\r\n", b"Host: a\r\nHost: b\r\n", "2 Host headers"),
        (b"HTTP/1.1", b"HTTP/2.0", "HTTP/2.0"),
        (b"HTTP/1.1", b"HTTP/1.9", "the request line or a header is not HTTP"),
    ],
)
def test_invalid_heads_are_refused(connection, old, new, said):
    connection.sendall(request([1, 2, 3]).replace(old, new, 1))
    status, headers, body = next_answer(connection)
    problem = read_problem(status, headers, body)
    assert (status, headers["connection"]) == (400, "close")
    assert problem["code"] == "invalid_request"
    assert said in problem["detail"]
    assert connection.recv(1) == b""


def test_garbage_after_a_request_does_not_affect_its_response(server):
    with connect(server.url or "") as made:
        made.sendall(DESCRIBED[-1][0] + b"GET / HTTP/1.1\r\n\r\n")
        status, _, body = next_answer(made)
        assert (status, value(body)) == (200, DESCRIBED[-1][1])
        assert made.recv(1) == b""


def test_requests_with_other_heads_can_be_interleaved(connection):
    for _ in range(3):
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert next_answer(connection)[0] == 200
        connection.sendall(request([1, 2, 3]))
        assert value(next_answer(connection)[2]) == 6
        connection.sendall(request([1, 2, 3], timeout_ms=50_000))
        assert value(next_answer(connection)[2]) == 6


def test_a_draining_server_refuses_requests(server, connection):
    server.drain()
    connection.sendall(request([1, 2, 3]))
    status, headers, body = next_answer(connection)
    assert read_problem(status, headers, body)["code"] == "draining"


def test_each_request_is_logged(server, connection, caplog):
    with caplog.at_level(logging.DEBUG, "opwire.access"):
        for _ in range(3):
            connection.sendall(request([1, 2, 3]))
            next_answer(connection)
        # The line is written after the response.
        until(lambda: len([record for record in caplog.records if record.name == "opwire.access"]) == 3)


def test_a_key_is_required_for_each_request(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one:" + "k" * 40)
    right = f"Authorization: Bearer {'k' * 40}"
    with (
        serving(Settings(port=0, devices=("reference",), api_keys_file=keys)) as server,
        connect(server.url or "") as made,
    ):
        for header, status in ((right, 200), (right, 200), (right, 200), (right.replace("k", "l"), 401), (right, 200)):
            made.sendall(request([1, 2, 3], header))
            assert next_answer(made)[0] == status
        made.sendall(request([1, 2, 3]))
        assert next_answer(made)[0] == 401


def test_requests_reset_the_keep_alive_timeout(server):
    server.config.timeout_keep_alive = 2
    with connect(server.url or "") as made:
        for _ in range(8):
            made.settimeout(20)
            made.sendall(request([1, 2, 3]))
            assert value(next_answer(made)[2]) == 6
            made.settimeout(0.3)
            with pytest.raises(TimeoutError):
                made.recv(1)
        made.settimeout(20)
        assert made.recv(1) == b""


def described(function: str, sizes: list[int], strides: list[int] | None = None) -> bytes:
    """Returns a request on the elements 1, 2 and 3; all have the same head."""
    tensor = {"DataType": "FLOAT32", "Sizes": sizes, **({} if strides is None else {"Strides": strides})}
    desc = {"Function": function, "InputTensor": tensor, "Axes": list(range(len(sizes)))}
    elements = base64.b64encode(np.array([1, 2, 3], np.float32).tobytes()).decode()
    document = {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": elements}}
    return b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n" + json.dumps(document).encode().ljust(
        300
    )


DESCRIBED = [
    (described("SUM", [3]), 6),
    (described("MAX", [3, 1]), 3),
    (described("MULTIPLY", [1, 3]), 6),
    (described("L1", [2, 1, 2], [0, 0, 2]), 8),
    (described("SUM", [1 << 20, 3], [0, 1]), 6 << 20),  # too much to run inline
]


def test_identical_heads_with_different_descs_are_told_apart(server, connection):
    before = requests_counted(server)
    for request_, right in (*DESCRIBED, *DESCRIBED, *reversed(DESCRIBED)):
        connection.sendall(request_)
        status, _, body = next_answer(connection)
        assert (status, value(body)) == (200, right)
    assert requests_counted(server) == before + 3 * len(DESCRIBED)
    assert server.service.engine.memory.held == 0


@pytest.mark.parametrize(
    ("wrong", "status"),
    [(described("SUB", [3]), 422), (described("SUM", [4]), 422), (described("SUM", [3])[:-300] + b" " * 300, 400)],
)
def test_an_invalid_desc_after_an_identical_head_is_refused(server, connection, wrong, status):
    for request_, _ in DESCRIBED:
        connection.sendall(request_)
        assert next_answer(connection)[0] == 200
    connection.sendall(wrong)
    found, headers, body = next_answer(connection)
    assert found == status
    read_problem(found, headers, body, json.loads(wrong[-300:]) if status == 422 else None)
    assert requests_counted(server, "contract_violation") == (status == 422)
    connection.sendall(DESCRIBED[0][0])
    assert value(next_answer(connection)[2]) == 6


def test_pipelining_reads_only_a_few_requests_ahead(server):
    count = 3000
    with connect(server.url or "") as made:
        sender = threading.Thread(target=made.sendall, args=(b"".join(request([i, 0, 1]) for i in range(count)),))
        sender.start()
        ahead = 0
        for i in range(count):
            assert value(next_answer(made)[2]) == i + 1
            ahead = max(ahead, *(len(each.pipeline) for each in server.server_state.connections))
        sender.join()
    assert ahead < 100


def test_a_small_response_arrives_in_one_piece(connection):
    for _ in range(20):
        connection.sendall(binary_request([1, 2, 4]))
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        assert len(body) == int(length.partition(b":")[2]) > 0


def test_a_client_with_unread_bytes_is_not_cut_off_as_slow(server):
    """A slow-client check runs before the server has read the rest of the body."""
    sent = request("A" * 6_000_000)
    half = len(sent) // 2
    with connect(server.url or "") as client:
        client.sendall(sent[:half])
        until(lambda: held(server) > half)
        (connection,) = [
            each
            for each in server.server_state.connections
            if isinstance(each, Connection) and each.transport.get_extra_info("peername") == client.getsockname()
        ]
        rest_is_here = threading.Event()

        def be_late() -> None:
            rest_is_here.wait()
            time.sleep(0.1)
            connection.close_if_slow(60, 0.05)

        connection.loop.call_soon_threadsafe(be_late)
        sender = threading.Thread(target=client.sendall, args=[sent[half:]])
        sender.start()
        until(lambda: has_unread(connection.transport))
        rest_is_here.set()
        assert next_answer(client)[0] == 422, "there are far more bytes than three elements"
        sender.join()


def held(server: HttpServer) -> int:
    """Returns the bytes that all requests hold."""
    name = "opwire_request_memory_bytes "
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))
