"""Sockets whose calls have a timeout, enforced by the kernel or otherwise."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from opwire.transport.timed import TimedByKernel, TimedByPython, timed

linux = pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone it is known how to say the time")
KINDS = [TimedByPython, pytest.param(TimedByKernel, marks=linux)]

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname(), timeout=5)
        far, _ = listening.accept()
    with near, far:
        yield near, far


@linux
def test_the_kernel_enforces_timeouts_of_plain_connections(pair):
    assert isinstance(timed(pair[0]), TimedByKernel)


@pytest.mark.parametrize("kind", KINDS)
def test_sent_bytes_are_received(pair, kind):
    near, far = (kind(each) for each in pair)
    near.send(b"question", lambda: 5.0)
    assert far.receive(100, lambda: None) == b"question"
    far.send(b"answer", lambda: None)
    assert near.receive(3, lambda: 5.0) + near.receive(100, lambda: 5.0) == b"answer"
    pair[1].close()
    assert near.receive(100, lambda: 5.0) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_calls_end_at_their_timeout(pair, kind):
    near = kind(pair[0])
    for seconds in (0.05, 1e-9):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            near.receive(100, lambda seconds=seconds: seconds)
        assert time.monotonic() - began < 2
    with pytest.raises(TimeoutError):
        near.send(bytes(64 << 20), lambda: 0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_large_data_reaches_a_slow_reader_completely(pair, kind):
    data = bytes(range(256)) * 40_000
    found = bytearray()

    def read() -> None:
        while len(found) < len(data):
            time.sleep(0.001)
            found.extend(pair[1].recv(100_000))

    reader = threading.Thread(target=read)
    reader.start()
    kind(pair[0]).send(data, lambda: 20.0)
    reader.join()
    assert found == data


@pytest.mark.parametrize("kind", KINDS)
def test_the_timeout_is_read_before_each_call(pair, kind):
    def none_left() -> float:
        raise RuntimeError("over")

    near = kind(pair[0])
    with pytest.raises(RuntimeError):
        near.receive(100, none_left)
    with pytest.raises(RuntimeError):
        near.send(b"a", none_left)
