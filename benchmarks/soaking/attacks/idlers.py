"""Slow clients: they do not read what they asked for, or do not send what they announced."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from .wire import BINARY, EXECUTE, JSON, Target, execute, json_bytes, read_answer, reduction

_UNREAD = 4096
_TICK = 0.25
_REST = 0.5


def _hold(
    target: Target, open_: Sequence[Callable[[], socket.socket]], seconds: float
) -> Iterator[list[socket.socket]]:
    """Opens connections and holds them for a while, yielding them repeatedly meanwhile."""
    with contextlib.ExitStack() as stack:
        held: list[socket.socket] = []
        for make in open_:
            with contextlib.suppress(OSError):
                held.append(stack.enter_context(make()))
        ends = time.monotonic() + min(seconds, target.left)
        while time.monotonic() < ends:
            yield held
            time.sleep(_TICK)


def _sent(target: Target, data: bytes, received: int | None = None) -> socket.socket:
    connection = target.connect(received=received)
    with contextlib.suppress(OSError):
        connection.sendall(data)
    return connection


def unread_answers(target: Target) -> None:
    """Nine clients ask for 256 MiB each, more than the server has, and never read; once dropped, they come back."""
    body = json_bytes(execute(reduction([2**26 - 1], [], "MAX")))
    ask = target.post(EXECUTE, body, {"Connection": "keep-alive"})
    for _ in range(target.size(2, 1)):
        for _held in _hold(target, [partial(_sent, target, ask, _UNREAD)] * 9, target.size(8, 4)):
            pass
        for _ in range(9):
            target.tally.sent("not read")
        time.sleep(_REST)


def unread_batches(target: Target) -> None:
    """Two clients ask for batches whose answers fill the entire memory budget, and read a little now and then."""
    one = execute(reduction([2**26 - 1], [], "MAX"))
    ask = target.post("/v1/batch", json_bytes({"requests": [one] * 8}), {"Accept": JSON})
    for held in _hold(target, [partial(_sent, target, ask, _UNREAD)] * 2, target.size(10, 3)):
        _read_a_little(held)
    target.tally.sent("hardly read")


def unread_pipeline(target: Target) -> None:
    """Thousands of small requests per connection, whose answers are never read."""
    ask = target.post(EXECUTE, json_bytes(execute(reduction([3], [0]))), {"Connection": "keep-alive"})
    data = ask * target.size(4000, 1000)

    def open_() -> socket.socket:
        connection = target.connect(received=_UNREAD)
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(data)
        return connection

    for _ in _hold(target, [open_] * 16, target.size(5, 2)):
        pass
    target.tally.sent("not read")


def slow_senders(target: Target) -> None:
    """Heads, bodies and chunks sent byte by byte, beside connections that send nothing."""
    body = json_bytes(execute(reduction([3], [0])))
    whole = target.post(EXECUTE, body)
    chunked = target.head("POST", EXECUTE, {"Content-Type": JSON, "Transfer-Encoding": "chunked"})
    starts = (b"", b"P", whole[:40], whole[: -len(body)], chunked, chunked + b"ffff\r\n")
    open_ = [partial(_sent, target, starts[i % len(starts)]) for i in range(target.size(240, 60))]
    for held in _hold(target, open_, target.size(12, 3)):
        for connection in held:
            with contextlib.suppress(OSError):
                connection.send(b"a")
    target.tally.sent("slow")


def announced(target: Target) -> None:
    """Announced bodies of 256 MiB each that never arrive: they must not take memory from others."""
    fields = {"Content-Type": BINARY, "Content-Length": str(2**28), "Inference-Header-Content-Length": "100"}
    data = target.head("POST", EXECUTE, fields)
    rest = bytes(64 * 1024)
    open_ = [partial(_sent, target, data + (rest if i % 2 else b"")) for i in range(target.size(64, 32))]
    for _ in _hold(target, open_, target.size(8, 3)):
        pass
    target.tally.sent("announced")
    answer = target.ask(target.post(EXECUTE, json_bytes(execute(reduction([3], [0]))), {"Accept": JSON}), "a small sum")
    target.tally.expect(answer is not None and answer.status == 200, "a small sum was refused after announcements")


def many_connections(target: Target) -> None:
    """Connections that come and go, with and without a request, some of them reset."""
    ask = target.post(EXECUTE, json_bytes(execute(reduction([3], [0]))), {"Connection": "keep-alive"})
    for number in range(target.size(2000, 300)):
        if target.left < 0:
            return
        with contextlib.suppress(OSError), target.connect() as connection:
            if number % 3:
                connection.sendall(ask if number % 3 == 1 else ask[: target.chance.randrange(len(ask))])
            if number % 3 == 1:
                with connection.makefile("rb") as file:
                    answer = read_answer(file)
                target.tally.expect(answer is not None and answer.status == 200, "a small sum was not answered")
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        target.tally.sent("came and went")


def _read_a_little(held: Sequence[socket.socket]) -> None:
    for connection in held:
        connection.settimeout(0.05)
        with contextlib.suppress(OSError):
            connection.recv(100)
