"""HTTP byte by byte, for requests that no client would send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


def connect(server_url: str) -> socket.socket:
    """Connects to a server."""
    url = urlsplit(server_url)
    assert url.hostname is not None
    return socket.create_connection((url.hostname, url.port), timeout=60)


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and everything that follows, once the server has closed the connection."""
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


def next_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body of the next response on a connection that stays open."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(1)
        if not piece:
            raise EOFError("the server closed the connection")
        answer += piece
    status, *lines = answer.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = b""
    while len(body) < int(headers["content-length"]):
        body += connection.recv(int(headers["content-length"]) - len(body))
    return int(status.split()[1]), headers, body


def talk(server_url: str, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Sends any bytes and returns the response, after which the server must close the connection."""
    with connect(server_url) as connection:
        connection.sendall(data)
        return read_answer(connection)


@contextmanager
def listening(behave: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Runs a server that calls ``behave`` with each connection and a stop event; yields its URL."""
    over = threading.Event()
    threads = []

    def accept() -> None:
        while not over.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            behave(connection, over)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
            for thread in threads:
                thread.join()
