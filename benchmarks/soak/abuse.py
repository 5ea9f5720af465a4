"""Misbehaving clients: what each of them sends, and whether it waits for the answer."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

from opwire import prepare
from opwire.wire import Call, Encoding, write_call

_PATIENCE = 20.0
_LARGE = np.zeros((512, 2048), np.float32)
_RESET = struct.pack("ii", 1, 0)
"""The option ``SO_LINGER`` that makes a closed connection a reset one."""


class Abuse(NamedTuple):
    """What a client does.

    Attributes:
        sent: what it sends, in pieces 50 ms apart.
        pause: seconds before it disconnects.
        reads: whether it reads the status first.
        connections: how many connections it resets at once.
    """

    sent: tuple[bytes, ...] = ()
    pause: float = 0.0
    reads: bool = False
    connections: int = 1


def commit(abuse: Abuse, url: str) -> int:
    """Misbehaves once. Returns the status of the answer, or 0 if it was not read."""
    parts = urlsplit(url)
    opened = [socket.create_connection((parts.hostname, parts.port), _PATIENCE) for _ in range(abuse.connections)]
    try:
        for number, piece in enumerate(abuse.sent):
            time.sleep(0.05 if number else 0)
            opened[0].sendall(piece)
        time.sleep(abuse.pause)
        found = re.match(rb"HTTP/1.1 (\d{3})", opened[0].recv(65536)) if abuse.reads else None
        return int(found[1]) if found else 0
    finally:
        for connection in opened:
            if abuse.connections > 1:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.close()


def _head(length: int, *fields: str, path: str = "execute") -> bytes:
    lines = [f"POST /v1/{path} HTTP/1.1", "Host: h", f"Content-Length: {length}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def _json(body: bytes, length: int | None = None, path: str = "execute") -> tuple[bytes]:
    """Returns a request with JSON, whose length may be another one."""
    return (_head(len(body) if length is None else length, "Content-Type: application/json", path=path) + body,)


def _request(call: Call) -> bytes:
    headers, chunks = write_call(call, Encoding.BINARY)
    length = int(headers.pop("Content-Length"))
    return _head(length, *(f"{name}: {value}" for name, value in headers.items())) + b"".join(chunks)


_WHOLE = _request(prepare.sum(_LARGE, 1))
_LARGE_ANSWER = _request(prepare.sum(_LARGE, []))
"""Reduced over no axis, the sum is as large as the tensor."""

_SMALL = _request(prepare.sum(np.zeros((3, 3), np.float32), 1))

_NONSENSE = (
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,),
    (b"GET / HTTP/9.9\r\n\r\n",),
    _json(b'{"a":'),
    _json(b"[]"),
    (_head(9, "Content-Type: application/octet-stream", "Inference-Header-Content-Length: 99") + b"{}1234567",),
    _json(b"[" * 200_000),
)

_LONG = (
    _json(b'{"operator":' + b"[" + b"0," * 1_000_000 + b"0]}"),
    _json(b'{"operator":"' + rb"\u4e2d" * 300_000 + b'"}'),
)
"""JSON that is much larger in memory than on the wire."""


def _in_a_hurry(chance: random.Random) -> Abuse:
    """Sets a timeout shorter than the work takes."""
    hurried = replace(prepare.sum(_LARGE, 1), options={"timeout_ms": chance.randrange(1, 20)})
    return Abuse((_request(hurried),), reads=True)


def _slow(chance: random.Random) -> Abuse:
    """Sends a request in small pieces with pauses, then gives up."""
    return Abuse(tuple(_WHOLE[start : start + 100] for start in range(0, chance.randrange(200, 2000), 100)))


def _much(chance: random.Random) -> Abuse:
    """Asks for huge work on one repeated element, alone or in a batch of huge outputs, in little time."""
    tensor = {"DataType": "FLOAT32", "Sizes": [1 << chance.randrange(20, 29)], "Strides": [0]}
    desc = {"Function": "MAX", "InputTensor": tensor, "Axes": chance.choice(([0], []))}
    asked = {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": "AAAAAA=="}, "timeout_ms": 100}
    path, body = chance.choice((("execute", asked), ("batch", {"requests": [asked] * 20})))
    return Abuse(_json(json.dumps(body).encode(), path=path), reads=True)


ABUSES: dict[str, Callable[[random.Random], Abuse]] = {
    "leaves within the body": lambda chance: Abuse((_WHOLE[: chance.randrange(1, len(_WHOLE))],)),
    "leaves before the answer": lambda chance: Abuse((_WHOLE,), chance.random() * 0.01),
    "is slow": _slow,
    "does not read": lambda chance: Abuse((_LARGE_ANSWER,), chance.random()),
    "is in a hurry": _in_a_hurry,
    "is oversize": lambda _: Abuse(_json(b"{" * 1000, 10**12), reads=True),
    "is malformed": lambda chance: Abuse(chance.choice(_NONSENSE), reads=True),
    "is wide or long": lambda chance: Abuse(chance.choice(_LONG), reads=True),
    "asks for much": _much,
    "announces a body that never comes": lambda chance: Abuse(_json(b"{", 256 << 20), chance.random()),
    "pipelines and reads nothing": lambda chance: Abuse((_SMALL * chance.randrange(100, 2000),)),
    "comes and goes": lambda chance: Abuse(connections=chance.randrange(10, 100)),
}
"""What draws an abuse, by what the client does."""
