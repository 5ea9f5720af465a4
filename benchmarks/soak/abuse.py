"""Misbehaving clients: each misbehaves once, and returns the status it got, or 0 for none."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np

from opwire import Client, prepare
from opwire.errors import OpwireError
from opwire.wire import Call, Encoding, write_call

_PATIENCE = 20.0
_LARGE = np.zeros((512, 2048), np.float32)


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), _PATIENCE)


def _head(length: int, *fields: str) -> bytes:
    lines = ["POST /v1/execute HTTP/1.1", "Host: h", f"Content-Length: {length}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def _request(call: Call) -> bytes:
    headers, chunks = write_call(call, Encoding.BINARY)
    length = int(headers.pop("Content-Length"))
    return _head(length, *(f"{name}: {value}" for name, value in headers.items())) + b"".join(chunks)


_WHOLE = _request(prepare.sum(_LARGE, 1))
_LARGE_ANSWER = _request(prepare.sum(_LARGE, []))
"""Reduced over no axis, the sum is as large as the tensor."""


def _status(connection: socket.socket) -> int:
    found = re.match(rb"HTTP/1.1 (\d{3})", connection.recv(65536))
    return int(found[1]) if found else 0


def leaves_within_the_body(url: str, chance: random.Random) -> int:
    """Sends part of a request and disconnects."""
    with _connect(url) as connection:
        connection.sendall(_WHOLE[: chance.randrange(1, len(_WHOLE))])
    return 0


def leaves_before_the_answer(url: str, chance: random.Random) -> int:
    """Sends a request and disconnects after a moment."""
    with _connect(url) as connection:
        connection.sendall(_WHOLE)
        time.sleep(chance.random() * 0.01)
    return 0


def is_slow(url: str, chance: random.Random) -> int:
    """Sends a request in small pieces with pauses, then gives up."""
    with _connect(url) as connection:
        for start in range(0, chance.randrange(200, 2000), 100):
            connection.sendall(_WHOLE[start : start + 100])
            time.sleep(0.05)
    return 0


def does_not_read(url: str, chance: random.Random) -> int:
    """Asks for a large answer and does not read it."""
    with _connect(url) as connection:
        connection.sendall(_LARGE_ANSWER)
        time.sleep(chance.random())
    return 0


def is_in_a_hurry(url: str, chance: random.Random) -> int:
    """Sets a timeout shorter than the work takes."""
    with Client(url, timeout=0.001 + chance.random() * 0.02, max_retries=0) as client:
        try:
            client.sum(_LARGE, 1)
        except OpwireError as error:
            return error.status or 0
    return 200


def is_oversize(url: str, chance: random.Random) -> int:
    """Announces a larger body than any server accepts."""
    with _connect(url) as connection:
        connection.sendall(_head(10**12, "Content-Type: application/json") + b"{" * 1000)
        return _status(connection)


_NONSENSE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    b"GET / HTTP/9.9\r\n\r\n",
    _head(5, "Content-Type: application/json") + b'{"a":',
    _head(2, "Content-Type: application/json") + b"[]",
    _head(9, "Content-Type: application/octet-stream", "Inference-Header-Content-Length: 99") + b"{}1234567",
    _head(200_000, "Content-Type: application/json") + b"[" * 200_000,
)


def is_malformed(url: str, chance: random.Random) -> int:
    """Sends something that is not a valid request."""
    with _connect(url) as connection:
        connection.sendall(chance.choice(_NONSENSE))
        return _status(connection)


_WIDE = b'{"operator":' + b"[" + b"0," * 1_000_000 + b"0]}"
_TEXT = b'{"operator":"' + rb"\u4e2d" * 300_000 + b'"}'


def is_wide_or_long(url: str, chance: random.Random) -> int:
    """Sends JSON that is much larger in memory than on the wire."""
    body = chance.choice((_WIDE, _TEXT))
    with _connect(url) as connection:
        connection.sendall(_head(len(body), "Content-Type: application/json") + body)
        return _status(connection)


def asks_for_much(url: str, chance: random.Random) -> int:
    """Asks for huge work on one repeated element, alone or in a batch of huge outputs, in little time."""
    sizes = [1 << chance.randrange(20, 29)]
    tensor = {"DataType": "FLOAT32", "Sizes": sizes, "Strides": [0]}
    desc = {"Function": "MAX", "InputTensor": tensor, "Axes": chance.choice(([0], []))}
    asked = {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": "AAAAAA=="}, "timeout_ms": 100}
    path, body = "execute", json.dumps(asked).encode()
    if chance.random() < 0.5:
        path, body = "batch", json.dumps({"requests": [asked] * 20}).encode()
    head = _head(len(body), "Content-Type: application/json").replace(b"/execute", f"/{path}".encode())
    with _connect(url) as connection:
        connection.sendall(head + body)
        return _status(connection)


def announces(url: str, chance: random.Random) -> int:
    """Announces a large body that never arrives."""
    with _connect(url) as connection:
        connection.sendall(_head(256 << 20, "Content-Type: application/json") + b"{")
        time.sleep(chance.random())
    return 0


def pipelines(url: str, chance: random.Random) -> int:
    """Sends many requests on one connection and reads none of the answers."""
    small = _request(prepare.sum(np.zeros((3, 3), np.float32), 1))
    with _connect(url) as connection:
        connection.settimeout(1)
        connection.sendall(small * chance.randrange(100, 2000))
    return 0


def comes_and_goes(url: str, chance: random.Random) -> int:
    """Opens many connections and resets them."""
    opened = [_connect(url) for _ in range(chance.randrange(10, 100))]
    for connection in opened:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    return 0


ABUSES: tuple[Callable[[str, random.Random], int], ...] = (
    leaves_within_the_body,
    leaves_before_the_answer,
    is_slow,
    does_not_read,
    is_in_a_hurry,
    is_oversize,
    is_malformed,
    is_wide_or_long,
    asks_for_much,
    announces,
    pipelines,
    comes_and_goes,
)
