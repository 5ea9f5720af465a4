"""The clients against servers that do not keep to HTTP: each call ends, in its time, with an error, at little cost."""

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
from tests.sockets import listening

X = np.zeros((4, 4), np.float32)
OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"
LENGTH = OK + b"Content-Length: 16\r\n\r\n" + b'{"operators":[]}'
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
Behave = Callable[[socket.socket, threading.Event], None]


def read_request(connection: socket.socket) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(65536) or b"\r\n\r\n"


def say_last(connection: socket.socket, answer: bytes) -> None:
    """Sends an answer and the end of the connection in one packet: nobody sees the one without the other."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    connection.sendall(answer)
    connection.shutdown(socket.SHUT_WR)


def sends(*pieces: bytes, then: bytes = b"", every: float = 0.0) -> Behave:
    """Answers with some bytes, and then with others again and again."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.settimeout(5)
        for piece in pieces:
            connection.sendall(piece)
        while then and not over.wait(every):
            connection.sendall(then)

    return behave


def one_by_one(text: bytes) -> Behave:
    """Answers with a byte every now and then, the last of them for ever."""

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
    "slow status line": one_by_one(b"HTTP/1.1 200 O"),
    "slow chunks": sends(CHUNKED, then=b"1\r\n \r\n", every=0.05),
    "nothing": sends(b"", then=b"", every=0.05),
}


@pytest.mark.parametrize("form", ENDLESS)
@pytest.mark.parametrize("call", [lambda client: client.sum(X, 1), lambda client: client.ready()], ids=["POST", "GET"])
def test_what_never_ends_is_given_up_in_time(make_client, form, call):
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
def test_what_is_no_answer_breaks_the_connection(make_client, form):
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
def test_every_form_of_an_answer_is_read_and_its_connection_used_again_if_it_may_be(make_client, form):
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
                        say_last(connection, GOOD[form])
                        return
                    connection.sendall(GOOD[form])

    with listening(answers) as url:
        client = make_client(url, timeout=10)
        assert [client.operators() for _ in range(3)] == [[]] * 3
        client.close()
    assert len(connections) == (1 if form in KEPT else 3)


def test_what_a_server_says_unasked_is_no_answer_to_the_next_request(make_client):
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
        time.sleep(0.1)  # at a connection that it has just used the client does not look
        assert client.operators() == []
        client.close()


@pytest.mark.parametrize("status", [204, 205, 301, 302, 304, 307, 308])
def test_answers_without_content_and_redirects_are_none(make_client, status):
    answer = f"HTTP/1.1 {status} S\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n".encode()
    with listening(sends(answer)) as url:
        client = make_client(url, timeout=5)
        with pytest.raises(errors.InvalidResponseError) as raised:
            client.operators()
        assert raised.value.status == status
        client.close()


def test_an_answer_that_comes_before_the_request_was_sent_is_taken(make_client):
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
def crowded() -> Iterator[tuple[str, list[int]]]:
    """A server that takes a while for each request, and the most requests that it had at once."""
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


def test_more_threads_than_connections_wait_for_their_turn(crowded):
    url, most = crowded
    with Client(url, timeout=60, max_retries=0) as client, ThreadPoolExecutor(256) as threads:
        assert list(threads.map(lambda _: client.operators(), range(512))) == [[]] * 512
    assert most[0] <= 100
