"""Shared by the attacks: the target server, plain requests, and the tally of outcomes."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

EXECUTE = "/v1/execute"
BATCH = "/v1/batch"
JSON = "application/json"
BINARY = "application/octet-stream"
HEAD_LENGTH = "Inference-Header-Content-Length"

_PATIENCE = 10.0
"""Default time limit for an answer, in seconds."""

_ALL = 1 << 40
_KEPT = 1 << 20
_PIECE = 1 << 20
_MOST_TOLD = 5


class Answer(NamedTuple):
    """An answer; header names are in lower case, and of a large body only the start is kept."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """The body, or None if it is not JSON."""
        with contextlib.suppress(ValueError):
            return json.loads(self.body)
        return None


@dataclass(slots=True)
class Tally:
    """The outcomes of an attack.

    Attributes:
        requests: number of requests sent.
        outcomes: number of requests by outcome, a status or words.
        broken: the first broken promises.
        more: number of further broken promises.
    """

    requests: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    more: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, outcome: str) -> None:
        """Counts a request and its outcome."""
        with self._lock:
            self.requests += 1
            self.outcomes[outcome] += 1

    def expect(self, kept: bool, promise: str) -> None:
        """Records a promise that was not kept."""
        with self._lock:
            if not kept and len(self.broken) < _MOST_TOLD:
                self.broken.append(promise)
            elif not kept:
                self.more += 1


class Target:
    """A server under attack.

    Args:
        url: URL of the server.
        quick: whether this is a quick run.
        seed: random seed.
        seconds: maximum duration of the attack.
    """

    def __init__(self, url: str, *, quick: bool, seed: int, seconds: float) -> None:
        parts = urlsplit(url)
        self.address = (parts.hostname or "", parts.port or 80)
        self.host = parts.netloc
        self.quick = quick
        self.chance = random.Random(seed)
        self.tally = Tally()
        self.ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the attack must end."""
        return self.ends - time.monotonic()

    def size(self, full: int, quick: int) -> int:
        """Returns one of two numbers, depending on the kind of run."""
        return quick if self.quick else full

    def connect(self, timeout: float = _PATIENCE, received: int | None = None) -> socket.socket:
        """Opens a connection.

        Args:
            timeout: timeout of each operation, in seconds.
            received: size of the receive buffer, in bytes.
        """
        connection = socket.socket()
        connection.settimeout(timeout)
        if received is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
        connection.connect(self.address)
        return connection

    def head(self, method: str, path: str, fields: Mapping[str, str]) -> bytes:
        """Returns the head of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def post(self, path: str, body: bytes, fields: Mapping[str, str] | None = None) -> bytes:
        """Returns a request that closes the connection."""
        usual = {"Content-Type": JSON, "Accept": BINARY, "Connection": "close", "Content-Length": str(len(body))}
        return self.head("POST", path, {**usual, **(fields or {})}) + body

    def ask(
        self, data: bytes, what: str, *, within: float = _PATIENCE, may_close: bool = False, most: int = _ALL
    ) -> Answer | None:
        """Sends a request on its own connection and returns the answer.

        Args:
            data: head and body.
            what: name of the request in broken promises.
            within: seconds within which it must be answered.
            may_close: whether the server may close the connection instead.
            most: bytes of the answer to read.
        """
        began = time.monotonic()
        answer, outcome = self._exchange(data, within, most)
        self.tally.sent(outcome)
        if answer is not None:
            self.tally.expect(is_usual(answer.status), f"{what}: status {answer.status}")
        elif not (may_close and outcome in ("closed", "reset")):
            self.tally.expect(False, f"{what}: {outcome} after {time.monotonic() - began:.1f} s")
        return answer

    def _exchange(self, data: bytes, within: float, most: int) -> tuple[Answer | None, str]:
        try:
            with self.connect(within) as connection, sending(connection, data), connection.makefile("rb") as file:
                answer = read_answer(file, most)
        except TimeoutError:
            return None, "no answer"
        except OSError:
            return None, "reset"
        except ValueError:
            return None, "not HTTP"
        return (None, "closed") if answer is None else (answer, str(answer.status))

    def each(self, actions: Iterable[Callable[[], object]], at_a_time: int) -> None:
        """Performs as many actions as time allows, ``at_a_time`` concurrently."""
        with ThreadPoolExecutor(at_a_time) as pool:
            for done in [pool.submit(self._if_time, action) for action in actions]:
                done.result()

    def _if_time(self, action: Callable[[], object]) -> None:
        if self.left > 0:
            action()


def is_usual(status: int) -> bool:
    """Returns whether a status is an acceptable answer to anything."""
    return 200 <= status < 500 or status in (503, 504)


@contextlib.contextmanager
def sending(connection: socket.socket, data: bytes) -> Iterator[None]:
    """Sends in the background: a server may answer before it has read everything, and then reads no more."""

    def send() -> None:
        with contextlib.suppress(OSError):
            connection.sendall(data)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        sender.join()


def read_answer(file: BinaryIO, most: int = _ALL) -> Answer | None:
    """Returns the next answer on a connection, or its start; None if the server has closed it."""
    line = file.readline(_PIECE).split(maxsplit=2)
    if len(line) < 2 or not line[1].isdigit():
        return None
    headers: dict[str, str] = {}
    while (field_ := file.readline(_PIECE)) not in (b"\r\n", b""):
        name, _, value = field_.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    status = int(line[1])
    if status == 100:
        return read_answer(file, most)
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, _read_chunks(file, most))
    return Answer(status, headers, _read(file, min(most, int(headers.get("content-length", 0)))))


def _read(file: BinaryIO, size: int) -> bytes:
    """Reads ``size`` bytes and returns the first of them."""
    kept = bytearray()
    while size > 0:
        piece = file.read(min(size, _PIECE))
        if not piece:
            raise ConnectionResetError("truncated answer")
        size -= len(piece)
        if len(kept) < _KEPT:
            kept += piece
    return bytes(kept)


def _read_chunks(file: BinaryIO, most: int) -> bytes:
    kept = bytearray()
    while most > 0 and (size := int(file.readline(_PIECE).split(b";")[0] or b"0", 16)):
        piece = _read(file, size)
        file.readline(_PIECE)
        most -= size
        if len(kept) < _KEPT:
            kept += piece
    file.readline(_PIECE)
    return bytes(kept)


def reduction(
    sizes: list[int], axes: list[int], function: str = "SUM", data_type: str = "FLOAT32"
) -> dict[str, object]:
    """Returns a reduction of a single repeated element."""
    source = {"DataType": data_type, "Sizes": sizes, "Strides": [0] * len(sizes)}
    return {"type": "REDUCE", "desc": {"Function": function, "InputTensor": source, "Axes": axes}}


def execute(operator: Mapping[str, object], tensor: bytes = bytes(4), **members: object) -> dict[str, object]:
    """Returns a request to run an operator with one input."""
    return {"operator": operator, "inputs": {"InputTensor": base64.b64encode(tensor).decode()}, **members}


def json_bytes(document: object) -> bytes:
    """Serializes a document as compact JSON."""
    return json.dumps(document, separators=(",", ":")).encode()
