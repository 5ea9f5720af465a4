"""The transport of the client: the forms that an answer may have, and the connections that it keeps."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import httpx
import pytest

from opwire._sockets import SocketTransport

SECONDS = dict.fromkeys(("connect", "read", "write", "pool"), 5.0)


@contextmanager
def answering(*connections: Sequence[bytes]) -> Iterator[str]:
    """The URL of a server that answers so: for each connection, what it sends for each request, and then closes."""

    def serve() -> None:
        for answers in connections:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    for answer in answers:
                        head = b""
                        while not head.endswith(b"\r\n\r\n"):
                            head += connection.recv(65536) or b"\r\n\r\n"
                        connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


@pytest.fixture
def transport() -> Iterator[SocketTransport]:
    made = SocketTransport(verify=True)
    yield made
    made.close()


def ask(transport: SocketTransport, url: str) -> tuple[int, bytes]:
    response = transport.handle_request(httpx.Request("GET", f"{url}/a?b", extensions={"timeout": SECONDS}))
    try:
        assert isinstance(response.stream, httpx.SyncByteStream)
        return response.status_code, b"".join(response.stream)
    finally:
        response.close()


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
FORMS = {
    "length": LENGTH,
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: t\r\n\r\n",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH,
    "no reason": b"HTTP/1.1 200\r\ncontent-length:3\r\n\r\nabc",
}
BODIES = {"empty": b"", "no content": b""}


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_read_to_its_end_and_its_connection_used_again(transport, form):
    with answering([FORMS[form]] * 3) as url:
        for _ in range(3):
            status, body = ask(transport, url)
            assert (status, body) == (204 if form == "no content" else 200, BODIES.get(form, b"abc"))


CLOSED = {
    "close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    "http 1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "more than announced": LENGTH + b"more",
}


@pytest.mark.parametrize("form", CLOSED)
def test_after_an_answer_that_ends_its_connection_there_is_a_new_one(transport, form):
    with answering([CLOSED[form]], [CLOSED[form]]) as url:
        assert [ask(transport, url) for _ in range(2)] == [(200, b"abc")] * 2


NONSENSE = {
    "not http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "http 2": b"HTTP/2 200\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "no header": b"HTTP/1.1 200 OK\r\nabc\r\n\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    "negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
    "short body": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    "short chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    "nothing": b"",
}


@pytest.mark.parametrize("form", NONSENSE)
def test_what_is_no_answer_is_an_error(transport, form):
    with answering([NONSENSE[form]]) as url, pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        ask(transport, url)


def test_a_connection_that_was_closed_meanwhile_is_not_used(transport):
    with answering([LENGTH], [LENGTH]) as url:
        assert ask(transport, url) == (200, b"abc")
        threading.Event().wait(0.05)  # the server closes behind its answer
        assert ask(transport, url) == (200, b"abc")


def test_an_answer_that_comes_before_the_request_was_sent_is_taken(transport):
    def refuse() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        request = httpx.Request("POST", url, content=bytes(2**22), extensions={"timeout": SECONDS})
        response = transport.handle_request(request)
        response.close()
        thread.join()
    assert response.status_code == 413


def test_other_schemes_are_refused(transport):
    with pytest.raises(httpx.UnsupportedProtocol):
        ask(transport, "ftp://127.0.0.1")
