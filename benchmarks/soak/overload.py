"""Half of the load that a server can carry, then twice that load: accepted requests must not wait too long.

Requests are sent at a fixed rate, when due regardless of earlier ones, each on its own connection. The generator runs
on the server's machine; neither may slow down the other. It therefore never waits for an answer before sending the next
request, and has a core of its own if there are several. It reports how late it was.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import uvloop

from opwire import prepare
from opwire.wire import Encoding, write_call
from opwire_service.bench.load_generator import Address, measure, write_request

from .promises import Memory, ended
from .served import Served, served

LOADS = ("work", "bytes")

_SETTLES = 1.0
"""Seconds at the start of a load that are excluded from the rate."""

_MEASURES, _MEASURE_SECONDS, _CONNECTIONS = 3, 2.5, 8
"""How the capacity is measured; the connections keep the server busy without refusals."""

_ROWS = 8192
"""Size of a request of much work, in rows of 1024."""

_GOODPUT, _QUICK_GOODPUT = 0.9, 0.5
"""Answers at twice the load, at least, as a share of the capacity."""

_GRACE = 5.0
"""Seconds after its deadline at which an unanswered request counts as failed."""

_UNREAD = 128 * 1024
"""Size of the send buffer in bytes. It is not much larger over a network; here, a larger one would make the generator
take CPU time from the server to copy megabytes that only wait.
"""

_WAIT, _BUDGET = 1.2, 1.1
"""Allowed wait and memory, as multiples of the server's maximum wait and budget."""

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: close", re.IGNORECASE)
_RETRY_AFTER = re.compile(rb"\r\nretry-after: \d+", re.IGNORECASE)


def request(url: str, load: str) -> bytes:
    """Returns a request as sent over the wire: with much work for few bytes, or with bytes that dominate the cost."""
    if load == "work":
        tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, _ROWS, 1024], "Strides": [0, 0, 0, 0]}
        desc = {"Function": "SUM", "InputTensor": tensor, "Axes": [3]}
        call = prepare.execute({"type": "REDUCE", "desc": desc}, bytes(4))
    else:
        call = prepare.argmax(np.zeros((1, 64, 112, 112), np.float32), 1)
    headers, chunks = write_call(call, Encoding.BINARY)
    return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


@dataclass(slots=True)
class Flow:
    """The outcome of a load.

    Attributes:
        seconds: duration of sending.
        waits: seconds from sending to the complete answer, by status.
        on_time: answers of status 200 completed within the counted time, which begins after ``_SETTLES``.
        no_hint: answers of status 429 without ``Retry-After``.
        other: failures without an answer.
        late: how late each request was sent, in seconds; this is all due to the generator.
    """

    seconds: float = 0.0
    waits: dict[int, list[float]] = field(default_factory=dict)
    on_time: int = 0
    no_hint: int = 0
    other: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers of status 200 per second."""
        return self.on_time / max(self.seconds - _SETTLES, 1e-9)

    def percentile(self, status: int, percent: float) -> float:
        """Returns a percentile of the waits for answers of a status; NaN if there are none."""
        return float(np.percentile(self.waits.get(status, [float("nan")]), percent))


class Flood:
    """Sends a request repeatedly; it has failed if it is not answered within ``patience`` seconds."""

    def __init__(self, url: str, data: bytes, patience: float) -> None:
        self.flow = Flow()
        self._address = Address.of(url)
        self._data = data
        self._patience = patience
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._began = 0.0

    async def at_rate(self, rate: float, seconds: float) -> Flow:
        """Sends ``rate`` requests per second on average, at random times like independent clients."""
        self.flow.seconds, self._began = seconds, time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for at in _times(rate, seconds):
                due = self._began + at
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                self.flow.late.append(time.perf_counter() - due)
                tasks.create_task(self._one())
        for _, writer in self._idle:
            writer.close()
        return self.flow

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
        flow.on_time += status == 200 and _SETTLES <= now - self._began <= flow.seconds
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
        return head

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._address.host, self._address.port)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD)
        return reader, writer


def _times(rate: float, seconds: float) -> Iterator[float]:
    chance, due = random.Random(0), 0.0
    while due < seconds:
        yield due
        due += chance.expovariate(rate)


@contextmanager
def _apart() -> Iterator[Callable[[], None]]:
    """Reserves one of several cores for whoever calls the yielded function; earlier processes get the rest."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:] or cores)
    try:
        yield lambda: os.sched_setaffinity(0, cores[:1])
    finally:
        os.sched_setaffinity(0, cores)


class _Loads:
    """The loads on one server."""

    def __init__(self, server: Served, data: bytes, runner: asyncio.Runner) -> None:
        self._url, self._data, self._runner = server.url, data, runner
        self._patience = server.limits()["timeout_ms"] / 1000 + _GRACE

    def at_rate(self, rate: float, seconds: float) -> Flow:
        flood = Flood(self._url, self._data, self._patience)
        return self._runner.run(flood.at_rate(rate, seconds))

    def capacity(self) -> float:
        """Returns the server's capacity in requests per second."""
        source, address = (lambda: self._data), Address.of(self._url)
        return median(measure(address, source, _CONNECTIONS, _MEASURE_SECONDS).rate for _ in range(_MEASURES))


def _say(name: str, flow: Flow) -> None:
    count = sum(map(len, flow.waits.values()))
    for status, waits in sorted(flow.waits.items()):
        p50, p99 = (1000 * flow.percentile(status, percent) for percent in (50, 99))
        share = len(waits) / count
        print(f"{name}: {len(waits)} ({share:.1%}) of status {status}, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    late = 1000 * float(np.percentile(flow.late or [0.0], 99))
    print(f"{name}: the generator was {late:.1f} ms late (p99); failures: {dict(flow.other)}")


def _broken(half: Flow, twice: Flow, capacity: float, goodput: float, longest_wait: float) -> Iterator[str]:
    """Yields the broken promises about answers."""
    for name, flow, allowed in (("half", half, {200}), ("twice", twice, {200, 429})):
        for status in flow.waits.keys() - allowed:
            yield f"{len(flow.waits[status])} of status {status} at {name} the load"
        yield from (f"{count} times {why} instead of an answer" for why, count in flow.other.items())
        if flow.no_hint:
            yield f"{flow.no_hint} of status 429 without Retry-After"
    if 429 not in twice.waits and twice.seconds > 2 * longest_wait:  # until then, all requests may wait
        yield "nothing was refused: the capacity is higher than measured"
    if not twice.rate >= goodput * capacity:
        yield f"goodput at twice the load is {twice.rate / capacity:.2f} of the capacity, less than {goodput:g}"
    longest = twice.percentile(200, 100)
    if not longest <= _WAIT * longest_wait:
        yield f"accepted requests waited up to {longest:.1f} s, more than {_WAIT * longest_wait:.1f} s"


def run(given: argparse.Namespace) -> int:
    """Sends half and twice the load that the server can carry."""
    warm_up, goodput = (2, _QUICK_GOODPUT) if given.quick else (10, _GOODPUT)
    with (
        _apart() as use_own_core,
        served() as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        use_own_core()
        server.server.rest()
        loads = _Loads(server, request(server.url, given.load), runner)
        loads.at_rate(2 * loads.capacity(), warm_up)
        with Memory(server, given.quick) as memory:
            capacity = loads.capacity()
            half, twice = (loads.at_rate(capacity * factor, given.seconds) for factor in (0.5, 2))
        capacity = (capacity + loads.capacity()) / 2  # the machine's speed may drift within a minute
        limits = server.limits()
        broken = [
            *_broken(half, twice, capacity, goodput, limits["max_wait_ms"] / 1000),
            *memory.broken(_BUDGET * limits["memory_bytes"]),
        ]
    _say("half the load", half)
    _say("twice the load", twice)
    print(f"capacity {capacity:.0f}/s, goodput {twice.rate:.0f}/s; {memory}")
    return ended(broken)
