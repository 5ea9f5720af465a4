"""The clients when the network or the server fails: which error they raise, and how soon."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from opwire import AsyncClient, Client, errors
from tests.support.http.sockets import listening

X = np.zeros((4, 4), np.float32)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"


def never_responds(connection: socket.socket, over: threading.Event) -> None:
    """Reads the request and never responds."""
    connection.settimeout(0.05)
    while not over.is_set():
        with suppress(TimeoutError):
            if not connection.recv(65536):
                return


def does_not_read(connection: socket.socket, over: threading.Event) -> None:
    """Leaves the request in the socket buffers."""
    over.wait()


def reads_slowly(connection: socket.socket, over: threading.Event) -> None:
    """Reads the request so slowly that sending takes long, though no single wait does."""
    while not over.wait(0.01):
        connection.recv(65536)


def drips(connection: socket.socket, over: threading.Event) -> None:
    """Responds so slowly that it never finishes, though no single wait is long."""
    connection.recv(65536)
    connection.sendall(ANSWER)
    while not over.wait(0.05):
        connection.sendall(b" ")


def hangs_up(connection: socket.socket, over: threading.Event) -> None:
    """Reads the request and disconnects."""
    connection.recv(65536)


def disconnects_halfway(connection: socket.socket, over: threading.Event) -> None:
    """Disconnects in the middle of the response."""
    connection.recv(65536)
    connection.sendall(ANSWER + b"{")


def speaks_ssh(connection: socket.socket, over: threading.Event) -> None:
    """Responds with something that is not HTTP."""
    connection.recv(65536)
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


@pytest.mark.parametrize("behave", [never_responds, drips])
def test_the_timeout_covers_the_whole_call(make_client, behave):
    with listening(behave) as url:
        client = make_client(url, timeout=0.3)
        started = time.monotonic()
        with pytest.raises(errors.TransportTimeout):
            client.sum(X, 1)
        assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize("behave", [does_not_read, reads_slowly])
def test_the_timeout_covers_sending(make_client, behave):
    with listening(behave) as url:
        started = time.monotonic()
        with pytest.raises(errors.TransportTimeout):
            make_client(url).sum(np.zeros(2**24, np.float32), 0, timeout=0.3)
        assert time.monotonic() - started >= 0.3


def test_a_timeout_of_none_waits_indefinitely(make_client):
    def is_late(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        over.wait(0.6)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with listening(is_late) as url:
        client = make_client(url, timeout=0.1)
        with pytest.raises(errors.InvalidResponseError):
            client.sum(X, 1, timeout=None)


@pytest.mark.parametrize("behave", [hangs_up, disconnects_halfway, speaks_ssh])
def test_a_broken_connection_raises_connect_error(make_client, behave):
    with listening(behave) as url, pytest.raises(errors.ConnectError, match="the connection broke"):
        make_client(url).sum(X, 1)


def test_a_client_recovers_from_a_broken_connection(make_client, server_url):
    client = make_client(server_url)
    assert client.sum(X, 1).output.shape == (4, 1)
    with pytest.raises((errors.TransportTimeout, errors.DeadlineExceededError)):
        client.sum(np.zeros(2**20, np.float32), 0, timeout=0.001)
    assert client.sum(X, 1).output.shape == (4, 1)


def test_a_closed_port_raises_connect_error(make_client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    client = make_client(url)
    with pytest.raises(errors.ConnectError, match="no connection"):
        client.sum(X, 1)
    with pytest.raises(errors.TransportTimeout, match=r"not ready within 1 s: no connection"):
        client.wait_ready(timeout=1)


def test_a_missed_deadline_names_the_stage(make_client, server_url):
    client = make_client(server_url)
    source = {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]}
    endless = {"type": "REDUCE", "desc": {"Function": "SUM_SQUARE", "InputTensor": source, "Axes": [0]}}
    with pytest.raises(errors.DeadlineExceededError) as late:
        client.execute(endless, np.ones(1, np.float32), timeout=1, device="reference")
    assert late.value.stage in ("queue", "run")
    assert late.value.status == 504


def serves_in_sequence(connections: list[socket.socket]) -> Callable[[socket.socket, threading.Event], None]:
    """Returns a handler that answers each request on a connection with 200 and keeps the connection open."""

    def answers(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        connection.settimeout(0.05)
        while not over.is_set():
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    return answers


def test_one_connection_serves_calls_in_sequence(make_client):
    connections: list[socket.socket] = []
    with listening(serves_in_sequence(connections)) as url:
        client = make_client(url)
        derived = client.with_options(timeout=5)
        assert [asked.ready() for asked in (client, derived, client, derived)] == [True] * 4
        client.close()
    assert len(connections) == 1


def test_a_connection_in_use_when_its_client_is_closed_is_closed_after_its_answer():
    asked, may_answer, closed = threading.Event(), threading.Event(), threading.Event()

    def answers_late(connection: socket.socket, over: threading.Event) -> None:
        read_head(connection)
        asked.set()
        may_answer.wait(60)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.settimeout(60)
        if not connection.recv(1):
            closed.set()

    with listening(answers_late) as url, ThreadPoolExecutor(1) as threads:
        client = Client(url)
        call = threads.submit(client.ready)
        assert asked.wait(60)
        client.close()
        may_answer.set()
        assert call.result()
        assert closed.wait(60)


FORKING = """
import os, sys
from opwire import Client

client = Client(sys.argv[1])
assert client.ready()
child = os.fork()
if not child:
    os._exit(not all(client.ready() for _ in range(3)))
assert os.waitpid(child, 0)[1] == 0
assert client.ready()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_connections_of_its_own():
    connections: list[socket.socket] = []
    with listening(serves_in_sequence(connections)) as url:
        subprocess.run([sys.executable, "-c", FORKING, url], check=True, timeout=60)
    assert len(connections) == 2


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of the connections of a loop that has ended
def test_an_asynchronous_client_serves_one_event_loop_after_another_and_several_at_once(server_url):
    client = AsyncClient(server_url, max_retries=0)

    async def shape() -> tuple[int, ...]:
        return (await client.sum(X, 1)).output.shape

    assert [asyncio.run(shape()) for _ in range(3)] == [(4, 1)] * 3
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda _: asyncio.run(shape()), range(6))) == [(4, 1)] * 6
    asyncio.run(client.aclose())
    with pytest.raises(RuntimeError, match="the client is closed"):
        asyncio.run(shape())
    gc.collect()


@pytest.mark.serial
def test_many_calls_at_once_cost_no_more_than_one_after_another(server_url):
    async def seconds(most: int) -> float:
        turns = asyncio.Semaphore(most)

        async def total(client: AsyncClient) -> float:
            async with turns:
                return float((await client.sum(X + 1, (0, 1))).output.sum())

        async with AsyncClient(server_url) as client:
            start = time.thread_time()
            assert await asyncio.gather(*(total(client) for _ in range(400))) == [16] * 400
            return time.thread_time() - start

    at_once = asyncio.run(seconds(400))
    assert at_once < 3 * asyncio.run(seconds(1))


def recording_proxy(requests: list[bytes]) -> Callable[[socket.socket, threading.Event], None]:
    """Returns a proxy that records requests and responds itself."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        requests.append(read_head(connection))
        connection.sendall(OPERATORS)

    return answer


def set_proxy_environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_proxy_from_the_environment_is_used(make_client, monkeypatch, name):
    requests: list[bytes] = []
    with listening(recording_proxy(requests)) as proxy:
        set_proxy_environment(monkeypatch, **{name: proxy.replace("://", "://user:pa%3Ass@")})
        client = make_client("http://opwire.invalid:81/p")
        assert client.operators() == []
        client.close()
    (head,) = requests
    assert head.startswith(b"GET http://opwire.invalid:81/p/v1/operators HTTP/1.1\r\n")
    assert b"\r\nhost: opwire.invalid:81\r\n" in head.lower()
    assert b"Proxy-Authorization: Basic dXNlcjpwYTpzcw==\r\n" in head


def test_tls_goes_through_a_tunnel_of_the_proxy(make_client, monkeypatch):
    requests: list[bytes] = []

    def refuses(connection: socket.socket, over: threading.Event) -> None:
        requests.append(read_head(connection))
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with listening(refuses) as proxy:
        set_proxy_environment(monkeypatch, HTTPS_PROXY=proxy.removeprefix("http://"))
        with pytest.raises(errors.ConnectError, match=r"no connection.*403"):
            make_client("https://opwire.invalid", max_retries=0).operators()
    (head,) = requests
    assert head.startswith(b"CONNECT opwire.invalid:443 HTTP/1.")


@pytest.mark.parametrize("bypass", ["127.0.0.1", "*", "example.org, 127.0.0.1"])
def test_no_proxy_is_respected(make_client, monkeypatch, server_url, bypass):
    set_proxy_environment(monkeypatch, HTTP_PROXY="http://127.0.0.1:9", NO_PROXY=bypass)
    assert make_client(server_url).sum(X, 1).output.shape == (4, 1)


@pytest.mark.parametrize(("url", "variable"), [("http://opwire.invalid", "HTTP_PROXY"), ("https://a", "HTTPS_PROXY")])
def test_an_unreachable_proxy_is_named_without_its_password(make_client, monkeypatch, url, variable):
    set_proxy_environment(monkeypatch, **{variable: "http://user:secret@127.0.0.1:9"})
    with pytest.raises(errors.ConnectError, match=r"no connection through the proxy 127\.0\.0\.1 ") as refused:
        make_client(url, max_retries=0).sum(X, 1)
    assert "secret" not in str(refused.value)


def test_a_proxy_with_an_unsupported_scheme_is_refused(make_client, monkeypatch):
    set_proxy_environment(monkeypatch, HTTP_PROXY="ftp://127.0.0.1:9")
    with pytest.raises(ValueError, match="ftp"):
        make_client("http://opwire.invalid")


OPERATORS = b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"operators":[]}'


def read_head(connection: socket.socket) -> bytes:
    """Reads a request without a body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError
        head += piece
    return head


def test_a_dead_reused_connection_is_replaced(make_client):
    heads: list[bytes] = []

    def serves_once(connection: socket.socket, over: threading.Event) -> None:
        heads.append(read_head(connection))
        connection.sendall(OPERATORS)
        heads.append(read_head(connection))

    with listening(serves_once) as url:
        client = make_client(url)
        assert [client.operators() for _ in range(4)] == [[]] * 4
        client.close()
    counts = [b"X-Retry-Count: 1" in head for head in heads]
    assert counts == [False] + [False, True] * 3


@pytest.mark.parametrize("behave", [hangs_up, disconnects_halfway])
def test_broken_connections_are_retried_up_to_the_limit(make_client, behave):
    connections = []

    def counted(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        behave(connection, over)

    with listening(counted) as url, pytest.raises(errors.ConnectError) as raised:
        make_client(url, max_retries=3).sum(X, 1)
    assert (len(connections), raised.value.retries) == (4, 3)


def test_a_timeout_is_not_retried(make_client):
    connections = []

    def counted(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        never_responds(connection, over)

    with listening(counted) as url, pytest.raises(errors.TransportTimeout) as raised:
        make_client(url, timeout=1).sum(X, 1)
    assert (len(connections), raised.value.retries) == (1, 0)


@pytest.mark.serial
def test_one_timeout_covers_all_retries(make_client):
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 0.1\r\nContent-Length: 0\r\n\r\n"
    requests = []

    def is_busy(connection: socket.socket, over: threading.Event) -> None:
        while True:
            requests.append(read_head(connection))
            connection.sendall(busy)

    with listening(is_busy) as url:
        client = make_client(url, timeout=1)
        started = time.monotonic()
        with pytest.raises(errors.InvalidResponseError) as raised:
            client.server()
        assert time.monotonic() - started < 5
        client.close()
    assert raised.value.retries == len(requests) - 1
    assert 3 <= raised.value.retries <= 20


def test_a_server_that_starts_late_is_reached(make_client):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)
        port = listener.getsockname()[1]

        def starts_late() -> None:
            time.sleep(0.3)
            listener.listen()
            connection, _ = listener.accept()
            with connection:
                read_head(connection)
                connection.sendall(OPERATORS)

        late = threading.Thread(target=starts_late)
        late.start()
        assert make_client(f"http://127.0.0.1:{port}", max_retries=50, timeout=20).operators() == []
        late.join()
