"""The clients against servers that violate HTTP: each call ends in time with an error, at little cost."""

from __future__ import annotations

import itertools
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from opwire import Client, errors
from tests.support.http.sockets import listening

X = np.zeros((4, 4), np.float32)
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Length: 16\r\n\r\n" + b'{"operators":[]}'
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
Behave = Callable[[socket.socket, threading.Event], None]


def send_and_close(connection: socket.socket, answer: bytes) -> None:
    """Sends a response and a FIN in one packet, so that neither is seen without the other."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    connection.sendall(answer)
    connection.shutdown(socket.SHUT_WR)


def sends(*pieces: bytes, then: bytes = b"", every: float = 0.0) -> Behave:
    """Returns a server that sends ``pieces``, then repeats ``then``."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.settimeout(5)
        for piece in pieces:
            connection.sendall(piece)
        while then and not over.wait(every):
            connection.sendall(then)

    return behave


def drip(text: bytes) -> Behave:
    """Returns a server that sends a text byte by byte, slowly, and repeats the last byte forever."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        for byte in itertools.chain(text, itertools.repeat(text[-1])):
            connection.sendall(bytes([byte]))
            if over.wait(0.02):
                return

    return behave


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ENDLESS = {
    "interim answers": sends(then=CONTINUE * 100),
    "slow interim answers": sends(then=CONTINUE, every=0.05),
    "early hints": sends(then=b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100),
    "trailers": sends(CHUNKED + b"0\r\n", then=b"X: y\r\n" * 1000),
    "slow trailers": sends(CHUNKED + b"0\r\n", then=b"X: y\r\n", every=0.05),
    "trailer": sends(CHUNKED + b"0\r\nX: ", then=b"y" * 10_000),
    "chunk extension": sends(CHUNKED + b"1;", then=b"x" * 10_000),
    "header": sends(OK + b"X: ", then=b"y" * 10_000),
    "headers": sends(OK, then=b"X: y\r\n" * 1000),
    "slow headers": sends(OK, then=b"X: y\r\n", every=0.05),
    "status line": sends(b"HTTP/1.1 200 ", then=b"O" * 10_000),
    "slow status line": drip(b"HTTP/1.1 200 O"),
    "slow chunks": sends(CHUNKED, then=b"1\r\n \r\n", every=0.05),
    "nothing": sends(b"", then=b"", every=0.05),
}


@pytest.mark.parametrize("form", ENDLESS)
@pytest.mark.parametrize("call", [lambda client: client.sum(X, 1), lambda client: client.ready()], ids=["POST", "GET"])
def test_endless_responses_time_out(make_client, form, call):
    with listening(ENDLESS[form]) as url:
        client = make_client(url, timeout=0.25, max_retries=0)
        started = time.monotonic()
        with pytest.raises(errors.TransportError):
            call(client)
        assert time.monotonic() - started < 5
        client.close()


LARGE = {
    "length": sends(OK + b"Content-Length: 4000000000\r\n\r\n", then=b" " * 2**20),
    "chunks": sends(CHUNKED, then=b"100000\r\n" + b" " * 2**20 + b"\r\n"),
    "to the end": sends(OK + b"\r\n", then=b" " * 2**20),
    "gzip": sends(OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", then=b"1\r\n \r\n" * 1000),
    "problem": sends(b"HTTP/1.1 500 Oh\r\nContent-Type: application/problem+json\r\n\r\n", then=b'{"a":' * 100_000),
    "head of a tail": sends(
        OK + b"Inference-Header-Content-Length: 2000000000\r\nContent-Length: 2000000000\r\n\r\n", then=b"[" * 2**20
    ),
}


@pytest.mark.serial
@pytest.mark.parametrize("form", LARGE)
def test_an_endless_body_is_not_read(make_client, form):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with listening(LARGE[form]) as url:
        client = make_client(url, timeout=30)
        started = time.monotonic()
        with pytest.raises(errors.InvalidResponseError, match=r"at most|identity"):
            client.sum(X, 1)
        assert time.monotonic() - started < 10
        client.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


BROKEN = {
    "negative length": OK + b"Content-Length: -1\r\n\r\n",
    "huge length": OK + b"Content-Length: 99999999999999999999999999\r\n\r\n",
    "no number": OK + b"Content-Length: x\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n  ",
    "truncated": OK + b"Content-Length: 9\r\n\r\n{",
    "truncated chunk": CHUNKED + b"9\r\n{",
    "truncated head": OK + b"Content-Le",
    "no chunk end": CHUNKED + b"1\r\n{xx1\r\n}\r\n0\r\n\r\n",
    "chunk overflow": CHUNKED + b"fffffffffffffffff\r\n{",
    "negative chunk": CHUNKED + b"-1\r\n{",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "no header": OK + b"abc\r\n\r\n",
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("form", BROKEN)
def test_malformed_responses_raise_a_transport_error(make_client, form):
    with listening(sends(BROKEN[form])) as url:
        client = make_client(url, timeout=5, max_retries=0)
        with pytest.raises(errors.TransportError):
            client.operators()
        client.close()


GOOD = {
    "length": LENGTH,
    "no reason": LENGTH.replace(b" OK", b""),
    "lower case": LENGTH.replace(b"Content-Length", b"content-length"),
    "chunks": CHUNKED + b'4\r\n{"op\r\nc;x=y\r\nerators":[]}\r\n0\r\nTrailer: t\r\n\r\n',
    "after others": CONTINUE + b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH,
    "to the end": OK + b'\r\n{"operators":[]}',
    "to be closed": LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    "http 1.0": LENGTH.replace(b"1.1", b"1.0"),
    "more than announced": LENGTH + b"more",
    "another answer": LENGTH + LENGTH.replace(b"[]", b"{}"),
}
KEPT = ("length", "no reason", "lower case", "chunks", "after others")


@pytest.mark.parametrize("form", GOOD)
def test_every_response_framing_is_read_and_reusable_connections_are_reused(make_client, form):
    connections: list[socket.socket] = []

    def answers(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        with suppress(OSError):
            while not over.is_set():
                connection.settimeout(0.2)
                with suppress(TimeoutError):
                    if not connection.recv(65536):
                        return
                    if form not in KEPT:
                        send_and_close(connection, GOOD[form])
                        return
                    connection.sendall(GOOD[form])

    with listening(answers) as url:
        client = make_client(url, timeout=10)
        assert [client.operators() for _ in range(3)] == [[]] * 3
        client.close()
    assert len(connections) == (1 if form in KEPT else 3)


def test_an_unsolicited_response_does_not_answer_the_next_request(make_client):
    answered, said = threading.Event(), threading.Event()

    def answers(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(LENGTH)
        answered.wait(10)
        with suppress(OSError):
            connection.sendall(LENGTH.replace(b"[]", b"[7]").replace(b"16", b"17"))
        said.set()
        over.wait(10)

    with listening(answers) as url:
        client = make_client(url, timeout=10)
        assert client.operators() == []
        answered.set()
        assert said.wait(10)
        time.sleep(0.1)  # the client does not check a connection that it has just used
        assert client.operators() == []
        client.close()


@pytest.mark.parametrize("status", [204, 205, 301, 302, 304, 307, 308])
def test_empty_responses_and_redirects_are_invalid(make_client, status):
    answer = f"HTTP/1.1 {status} S\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n".encode()
    with listening(sends(answer)) as url:
        client = make_client(url, timeout=5)
        with pytest.raises(errors.InvalidResponseError) as raised:
            client.operators()
        assert raised.value.status == status
        client.close()


def test_an_early_response_is_read_before_the_request_is_sent(make_client):
    def refuses(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    with listening(refuses) as url:
        client = make_client(url, timeout=10)
        with pytest.raises(errors.InvalidResponseError) as raised:
            client.sum(np.zeros(2**22, np.float32), 0)
        assert raised.value.status == 413
        client.close()


@pytest.fixture
def slow_server() -> Iterator[tuple[str, list[int]]]:
    """A slow server, and the maximum number of requests it handled concurrently."""
    under_way, most, lock = [0], [0], threading.Lock()

    def answers(connection: socket.socket, over: threading.Event) -> None:
        while True:
            connection.settimeout(10)
            if not connection.recv(65536):
                return
            with lock:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            over.wait(0.05)
            with lock:
                under_way[0] -= 1
            connection.sendall(LENGTH)

    with listening(answers) as url:
        yield url, most


def test_threads_wait_for_a_free_connection(slow_server):
    url, most = slow_server
    with Client(url, timeout=60, max_retries=0) as client, ThreadPoolExecutor(256) as threads:
        assert list(threads.map(lambda _: client.operators(), range(512))) == [[]] * 512
    assert most[0] <= 100
