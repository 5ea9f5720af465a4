"""Requests at a fixed rate, sent when due regardless of earlier ones, each on its own connection.

The generator runs on the server's machine; neither may slow down the other. It therefore prepares its requests
beforehand, never waits for an answer before sending the next request, and has a core of its own if there are several.
It also reports how much of that core it used, and how late it was.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from opwire import prepare
from opwire.wire import Encoding, write_call
from opwire_service.bench.load_generator import Address, write_request

SETTLES = 1.0
"""Seconds at the start of a flow that are excluded from the rate."""

_UNREAD = 128 * 1024
"""Size of the send buffer in bytes. It is not much larger over a network; here, a larger one would make the generator
take CPU time from the server to copy megabytes that only wait.
"""

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: close", re.IGNORECASE)
_RETRY_AFTER = re.compile(rb"\r\nretry-after: \d+", re.IGNORECASE)


class Workload(StrEnum):
    """The kind of request."""

    WORK = "work"
    BASE64 = "base64"
    BINARY = "binary"


def request(url: str, workload: Workload, rows: int) -> bytes:
    """Returns a request as sent over the wire.

    Args:
        url: URL of the server.
        workload: the kind of request.
        rows: rows of 1024 elements each, for WORK.
    """
    return _much_work(url, rows) if workload is Workload.WORK else _many_bytes(url, Encoding(workload.value))


def _much_work(url: str, rows: int) -> bytes:
    """Returns a REDUCE of a tensor that repeats one element: much work, few bytes."""
    desc = {
        "Function": "DML_REDUCE_FUNCTION_SUM",
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, rows, 1024], "Strides": [0, 0, 0, 0]},
        "Axes": [3],
    }
    call = prepare.execute({"type": "DML_OPERATOR_REDUCE", "desc": desc}, bytes(4))
    headers, chunks = write_call(call, Encoding.BINARY)
    return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


def _many_bytes(url: str, encoding: Encoding) -> bytes:
    """Returns an ARGMAX of 3 MiB, where the body dominates the cost."""
    call = prepare.argmax(np.zeros((1, 64, 112, 112), np.float32), 1)
    headers, chunks = write_call(call, encoding)
    return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


@dataclass(slots=True)
class Flow:
    """The outcome of a flow of requests.

    Attributes:
        seconds: duration of sending.
        waits: seconds from sending to the complete answer, by status.
        on_time: answers of status 200 completed within the counted time, which begins after ``SETTLES``.
        no_hint: answers of status 429 without ``Retry-After``.
        other: failures without an answer.
        late: how late each request was sent, in seconds; this is all due to the generator.
        cpu: share of a core used by the generator while sending.
        connections: maximum number of open connections.
    """

    seconds: float = 0.0
    waits: dict[int, list[float]] = field(default_factory=dict)
    on_time: int = 0
    no_hint: int = 0
    other: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)
    cpu: float = 0.0
    connections: int = 0

    @property
    def rate(self) -> float:
        """Answers of status 200 per second."""
        return self.on_time / max(self.seconds - SETTLES, 1e-9)

    def percentile(self, status: int, percent: float) -> float:
        """Returns a percentile of the waits for answers of a status; NaN if there are none."""
        return float(np.percentile(self.waits.get(status, [float("nan")]), percent))


class Flood:
    """Sends a request repeatedly.

    Args:
        url: URL of the server.
        data: the request.
        patience: seconds after which an unanswered request has failed.
    """

    def __init__(self, url: str, data: bytes, patience: float) -> None:
        self.flow = Flow()
        self._address = Address.of(url)
        self._data = data
        self._patience = patience
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._open = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._counted = (0.0, 0.0)

    async def at_rate(self, rate: float, seconds: float) -> Flow:
        """Sends ``rate`` requests per second on average, at random times like independent clients."""
        began, used = self._begin(seconds)
        for at in _times(rate, seconds):
            due = began + at
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.flow.late.append(time.perf_counter() - due)
            task = asyncio.ensure_future(self._one())
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        self.flow.cpu = (time.process_time() - used) / (time.perf_counter() - began)
        return await self._end()

    async def at_most(self, connections: int, seconds: float) -> Flow:
        """Sends the next request once one is answered, on a fixed number of connections."""

        async def caller() -> None:
            while time.perf_counter() - began < seconds:
                await self._one()

        began, used = self._begin(seconds)
        await asyncio.gather(*(caller() for _ in range(connections)))
        self.flow.cpu = (time.process_time() - used) / (time.perf_counter() - began)
        return await self._end()

    def _begin(self, seconds: float) -> tuple[float, float]:
        began = time.perf_counter()
        self.flow.seconds = seconds
        self._counted = began + SETTLES, began + seconds
        return began, time.process_time()

    async def _one(self) -> None:
        flow, sent = self.flow, time.perf_counter()
        try:
            async with asyncio.timeout(self._patience):
                head = await self._exchange()
        except (OSError, EOFError) as error:  # includes the timeout
            flow.other[type(error).__name__] += 1
            return
        now, status = time.perf_counter(), int(head[9:12])
        flow.waits.setdefault(status, []).append(now - sent)
        flow.on_time += status == 200 and self._counted[0] <= now <= self._counted[1]
        flow.no_hint += status == 429 and not _RETRY_AFTER.search(head)

    async def _exchange(self) -> bytes:
        """Sends a request on an idle or a new connection. Returns the head of the answer."""
        reader, writer = self._idle.pop() if self._idle else await self._connect()
        keep = False
        try:
            writer.write(self._data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            await reader.readexactly(int(length[1]) if length else 0)
            # If the answer came before everything was sent, the unsent rest makes the connection unusable.
            keep = not _CLOSES.search(head) and not writer.transport.get_write_buffer_size()
        finally:
            if keep:
                self._idle.append((reader, writer))
            else:
                writer.transport.abort()
                self._open -= 1
        return head

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._address.host, self._address.port)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD)
        self._open += 1
        self.flow.connections = max(self.flow.connections, self._open)
        return reader, writer

    async def _end(self) -> Flow:
        await asyncio.gather(*self._under_way)
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()
        return self.flow


def _times(rate: float, seconds: float) -> Iterator[float]:
    chance = random.Random(0)
    due = 0.0
    while due < seconds:
        yield due
        due += chance.expovariate(rate)
