"""Half of the load that a server can carry, then twice that load: accepted requests must not wait too long.

Requests are sent at a fixed rate, when due regardless of earlier ones. The generator runs on the server's machine;
neither may slow down the other. It therefore never waits for an answer before sending the next request, and has a core
of its own if there are several. It reports how late it was.
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
class Flood:
    """A request that is sent again and again.

    Attributes:
        address, data: the server, and the request as sent over the wire.
        patience: seconds after which an unanswered request has failed.
        waits: seconds from sending to the complete answer, by status.
        on_time: answers of status 200 from ``_SETTLES`` on until the last request is sent.
        no_hint: answers of status 429 without ``Retry-After``.
        failures: requests without an answer, by error.
        late: how late each request was sent, in seconds; this is all due to the generator.
    """

    address: Address
    data: bytes
    patience: float
    waits: dict[int, list[float]] = field(default_factory=dict)
    on_time: int = 0
    no_hint: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def at(self, rate: float, seconds: float) -> None:
        """Sends ``rate`` requests per second on average, at random times like independent clients."""
        began, chance, at = time.perf_counter(), random.Random(0), 0.0
        async with asyncio.TaskGroup() as tasks:
            while at < seconds:
                await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
                self.late.append(time.perf_counter() - began - at)
                tasks.create_task(self._one(began + _SETTLES, began + seconds))
                at += chance.expovariate(rate)
        for _, writer in self._idle:
            writer.close()

    async def _one(self, start: float, end: float) -> None:
        sent = time.perf_counter()
        try:
            async with asyncio.timeout(self.patience):
                head = await self._exchange()
        except (OSError, EOFError) as error:  # includes the timeout
            self.failures[type(error).__name__] += 1
            return
        now, status = time.perf_counter(), int(head[9:12])
        self.waits.setdefault(status, []).append(now - sent)
        self.on_time += status == 200 and start <= now <= end
        self.no_hint += status == 429 and not _RETRY_AFTER.search(head)

    async def _exchange(self) -> bytes:
        """Sends a request on an idle or a new connection. Returns the head of the answer."""
        reader, writer = self._idle.pop() if self._idle else await self._connect()
        keep = False
        try:
            writer.write(self.data)
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
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD)
        return reader, writer

    def longest(self) -> float:
        """Returns the longest wait for an answer of status 200; infinity if there is none."""
        return max(self.waits.get(200, [np.inf]))

    def told(self) -> Iterator[str]:
        """Yields lines about the answers, and about the generator."""
        count = sum(map(len, self.waits.values()))
        for status, waits in sorted(self.waits.items()):
            p50, p99 = 1000 * np.percentile(waits, (50, 99))
            yield f"{len(waits)} ({len(waits) / count:.1%}) of status {status}, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        late = 1000 * float(np.percentile(self.late, 99))
        yield f"the generator was {late:.1f} ms late (p99); failures: {dict(self.failures)}"

    def broken(self, allowed: set[int]) -> Iterator[str]:
        """Yields the broken promises about single answers."""
        yield from (f"{len(self.waits[status])} of status {status}" for status in self.waits.keys() - allowed)
        yield from (f"{count} times {why} instead of an answer" for why, count in self.failures.items())
        if self.no_hint:
            yield f"{self.no_hint} of status 429 without Retry-After"


@contextmanager
def _apart() -> Iterator[Callable[[], None]]:
    """Reserves one of several cores for whoever calls the yielded function; earlier processes get the rest."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:] or cores)
    try:
        yield lambda: os.sched_setaffinity(0, cores[:1])
    finally:
        os.sched_setaffinity(0, cores)


def _capacity(address: Address, data: bytes) -> float:
    """Returns a server's capacity in requests per second."""
    loads = (measure(address, lambda: data, _CONNECTIONS, _MEASURE_SECONDS) for _ in range(_MEASURES))
    return median(load.rate for load in loads)


def run(given: argparse.Namespace) -> int:
    """Sends half and twice the load that the server can carry."""
    warm_up, goodput = (2, _QUICK_GOODPUT) if given.quick else (10, _GOODPUT)
    with _apart() as use_own_core, served() as server:
        use_own_core()
        server.server.rest()
        address, data, limits = Address.of(server.url), request(server.url, given.load), server.limits()
        _flood(server, data, 2 * _capacity(address, data), warm_up)
        with Memory(server, given.quick) as memory:
            capacity = _capacity(address, data)
            half, twice = (_flood(server, data, factor * capacity, given.seconds) for factor in (0.5, 2))
        capacity = (capacity + _capacity(address, data)) / 2  # the machine's speed may drift within a minute
        broken = [*half.broken({200}), *twice.broken({200, 429}), *memory.broken(_BUDGET * limits["memory_bytes"])]
    for name, flood in (("half", half), ("twice", twice)):
        print(*(f"{name} the load: {line}" for line in flood.told()), sep="\n")
    rate = twice.on_time / (given.seconds - _SETTLES)
    print(f"capacity {capacity:.0f}/s, goodput {rate:.0f}/s; {memory}")
    wait = limits["max_wait_ms"] / 1000
    if 429 not in twice.waits and given.seconds > 2 * wait:  # until then, all requests may wait
        broken.append("nothing was refused: the capacity is higher than measured")
    if rate < goodput * capacity:
        broken.append(f"goodput at twice the load is {rate / capacity:.2f} of the capacity, less than {goodput:g}")
    if twice.longest() > _WAIT * wait:
        broken.append(f"accepted requests waited up to {twice.longest():.1f} s, more than {_WAIT * wait:.1f} s")
    return ended(broken)


def _flood(server: Served, data: bytes, rate: float, seconds: float) -> Flood:
    """Sends requests at a rate, and waits for the answers."""
    flood = Flood(Address.of(server.url), data, server.limits()["timeout_ms"] / 1000 + _GRACE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flood.at(rate, seconds))
    return flood
