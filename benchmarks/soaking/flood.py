"""Requests at a rate, sent when they are due, whatever became of those before, each on a connection of its own.

The generator runs on the machine of the server and must not slow it, nor be slowed by it: its requests are made
beforehand, it never waits for an answer before it sends the next request, and where there are several cores, one is
its own. What it needed of that core, and how late it was, are part of what it finds.
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
"""Seconds at the start of a flow that do not count for the answers a second."""

_UNREAD = 128 * 1024
"""Bytes that the system takes of a request ahead of the server. Over a network it is not much more either; here the
generator would take the server's time to copy megabytes that wait.
"""

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: close", re.IGNORECASE)
_RETRY_AFTER = re.compile(rb"\r\nretry-after: \d+", re.IGNORECASE)


class Workload(StrEnum):
    """What a request asks for."""

    WORK = "work"
    BASE64 = "base64"
    BINARY = "binary"


def request(url: str, workload: Workload, rows: int) -> bytes:
    """A request as it goes over the wire.

    Args:
        url: of the server.
        workload: what it asks for.
        rows: of 1024 elements each, where it asks for work.
    """
    return _much_work(url, rows) if workload is Workload.WORK else _many_bytes(url, Encoding(workload.value))


def _much_work(url: str, rows: int) -> bytes:
    """REDUCE of a tensor that repeats one element: much work and few bytes."""
    desc = {
        "Function": "DML_REDUCE_FUNCTION_SUM",
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, rows, 1024], "Strides": [0, 0, 0, 0]},
        "Axes": [3],
    }
    call = prepare.execute({"type": "DML_OPERATOR_REDUCE", "desc": desc}, bytes(4))
    headers, chunks = write_call(call, Encoding.BINARY)
    return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


def _many_bytes(url: str, encoding: Encoding) -> bytes:
    """ARGMAX of 3 MiB: what it takes is spent on the body."""
    call = prepare.argmax(np.zeros((1, 64, 112, 112), np.float32), 1)
    headers, chunks = write_call(call, encoding)
    return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


@dataclass(slots=True)
class Flow:
    """What came of requests that were sent.

    Attributes:
        seconds: for which they were sent.
        waits: seconds from sending to the whole answer, by status.
        on_time: answers of status 200 that were complete within the time counted, which begins after ``SETTLES``.
        no_hint: answers of status 429 without ``Retry-After``.
        other: what came in place of answers.
        late: seconds by which they were sent later than they were due. All of it is the generator's own.
        cpu: share of a core that sending them took.
        connections: the most that were open.
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
        """Answers of status 200 a second."""
        return self.on_time / max(self.seconds - SETTLES, 1e-9)

    def percentile(self, status: int, percent: float) -> float:
        """The wait that so many percent of the answers of a status do not exceed; NaN without any."""
        return float(np.percentile(self.waits.get(status, [float("nan")]), percent))


class Flood:
    """Sends one request, again and again.

    Args:
        url: of the server.
        data: of the request.
        patience: seconds after which a request without an answer has failed.
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
        """Sends so many a second on average, for so long, as many clients do that know nothing of each other."""
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
        """Sends the next request when one is answered, on so many connections."""

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
        except (OSError, EOFError) as error:  # that the patience is over, too
            flow.other[type(error).__name__] += 1
            return
        now, status = time.perf_counter(), int(head[9:12])
        flow.waits.setdefault(status, []).append(now - sent)
        flow.on_time += status == 200 and self._counted[0] <= now <= self._counted[1]
        flow.no_hint += status == 429 and not _RETRY_AFTER.search(head)

    async def _exchange(self) -> bytes:
        """Sends a request on an idle connection or a new one. Returns the head of the answer."""
        reader, writer = self._idle.pop() if self._idle else await self._connect()
        keep = False
        try:
            writer.write(self._data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            await reader.readexactly(int(length[1]) if length else 0)
            # What was answered before it was all sent leaves a rest that nobody would wait for.
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
