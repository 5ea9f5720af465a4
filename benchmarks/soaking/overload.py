"""Half of the load that a server can carry, then twice that load: what it takes must not wait for much longer.

The load is open: requests are sent when they are due, whatever became of those before, and latencies count from then.
The generator runs on the machine of the server and must not slow it, nor be slowed by it: its requests are made
beforehand, and where there are several cores, one is its own. Its share of that is printed.
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
from typing import Annotated

import numpy as np
import typer
import uvloop

from opwire import prepare
from opwire.wire import Encoding, write_call
from opwire_service.bench.load_generator import Address, write_request

from .served import Served, apart, served

_MEASURE_SECONDS = 1.0
_SETTLES = 1.0
"""Seconds at the start of an overload in which the burst is still taken; not counted."""

_UNREAD = 128 * 1024
"""Bytes that the system takes of a request ahead of the server. Over a network it is not much more either; here the
generator would take the server's time to copy megabytes that are refused.
"""

_CONNECTIONS = 4
"""With so many, the server is busy and nothing is refused."""


class Workload(StrEnum):
    """What a request asks for."""

    WORK = "work"
    BASE64 = "base64"
    BINARY = "binary"


class Pacing(StrEnum):
    """The times between two requests: all alike, or as those of many who know nothing of each other."""

    POISSON = "poisson"
    EVEN = "even"


@dataclass(slots=True)
class Flow:
    """What came of requests that were sent at a rate.

    Attributes:
        latencies: seconds, by status.
        other: what came in place of answers.
        late: seconds by which they were sent later than they were due. All of it is the generator's own: it waits for
            no answer.
        cpu: share of a core that sending them took.
    """

    latencies: dict[int, list[float]] = field(default_factory=dict)
    other: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def percentile(self, status: int, percent: float) -> float:
        return float(np.percentile(self.latencies.get(status, [float("nan")]), percent))


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


def request(url: str, workload: Workload, rows: int) -> bytes:
    """A request as it goes over the wire."""
    return _much_work(url, rows) if workload is Workload.WORK else _many_bytes(url, Encoding(workload.value))


def _times(rate: float, seconds: float, pacing: Pacing) -> Iterator[float]:
    chance = random.Random(0)
    due = 0.0
    while due < seconds:
        yield due
        due += chance.expovariate(rate) if pacing is Pacing.POISSON else 1 / rate


class _Flood:
    """Sends requests at a rate, whatever becomes of them, each on a connection that nobody else uses."""

    def __init__(self, address: Address, data: bytes) -> None:
        self._address = address
        self._data = data
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self.flow = Flow()

    async def at_rate(self, rate: float, seconds: float, pacing: Pacing) -> Flow:
        """Sends so many a second, for so long."""
        began, used = time.perf_counter(), time.process_time()
        for at in _times(rate, seconds, pacing):
            due = began + at
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._begin(due, counted=at >= _SETTLES)
        self.flow.cpu = (time.process_time() - used) / (time.perf_counter() - began)
        await self._end()
        return self.flow

    async def at_most(self, connections: int, seconds: float) -> float:
        """Sends the next request when one is answered. Returns how many are answered each second."""

        async def caller() -> None:
            while time.perf_counter() - began < seconds:
                await self._one(time.perf_counter(), counted=True)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(connections)))
        taken = time.perf_counter() - began
        await self._end()
        return len(self.flow.latencies.get(200, ())) / taken

    def _begin(self, due: float, *, counted: bool) -> None:
        task = asyncio.ensure_future(self._one(due, counted=counted))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _one(self, due: float, *, counted: bool) -> None:
        try:
            reader, writer = self._idle.pop() if self._idle else await self._connect()
            self.flow.late.append(time.perf_counter() - due)
            writer.write(self._data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            taken = time.perf_counter() - due
        except (OSError, EOFError) as error:
            self.flow.other[type(error).__name__] += 1
            return
        if b"\r\nconnection: close" in head:
            writer.transport.abort()  # it may still be sending
        else:
            self._idle.append((reader, writer))
        if counted:
            self.flow.latencies.setdefault(int(head[9:12]), []).append(taken)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._address.host, self._address.port)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD)
        return reader, writer

    async def _end(self) -> None:
        await asyncio.gather(*self._under_way)
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a server: the requests it answers in a second, half as many, and twice as many.

    Attributes:
        resident: bytes of memory in use under twice the load, as time goes by.
    """

    capacity: float
    half: Flow
    twice: Flow
    resident: list[int]

    def grown(self) -> tuple[int, int]:
        """The most memory that was in use in the first and in the last third of twice the load."""
        third = max(1, len(self.resident) // 3)
        return max(self.resident[:third], default=0), max(self.resident[-third:], default=0)


def flood(server: Served, seconds: float, data: bytes, pacing: Pacing) -> Outcome:
    """Measures what a server carries, then sends it half and twice as much."""
    address = Address.of(server.url)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # The best of a few: what else the machine does meanwhile must not pass for the server's limit.
        found = [runner.run(_Flood(address, data).at_most(_CONNECTIONS, _MEASURE_SECONDS)) for _ in range(3)]
        capacity = max(found)
        half = runner.run(_Flood(address, data).at_rate(capacity / 2, seconds, pacing))
        with server.watched() as resident:
            twice = runner.run(_Flood(address, data).at_rate(capacity * 2, seconds, pacing))
        return Outcome(capacity, half, twice, resident)


def _warm_up(server: Served, data: bytes) -> None:
    """The first request of a kind may wait for its kernel to be compiled."""
    asyncio.run(_Flood(Address.of(server.url), data).at_most(1, 0.1))


def _say(name: str, flow: Flow) -> None:
    count = sum(map(len, flow.latencies.values()))
    for status, found in sorted(flow.latencies.items()):
        p50, p99 = (1000 * flow.percentile(status, percent) for percent in (50, 99))
        share = len(found) / count
        typer.echo(f"{name}: {len(found)} ({share:.0%}) of status {status}, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    late = 1000 * float(np.percentile(flow.late or [0.0], 99))
    typer.echo(f"{name}: the generator used {flow.cpu:.0%} of a core, and was late by {late:.1f} ms (p99)")
    if flow.other:
        typer.echo(f"{name}: {dict(flow.other)}")


def _broken(found: Outcome, slower: float, refused: float, growth: float) -> Iterator[str]:
    """The promises that were not kept."""
    half, twice = found.half, found.twice
    for status in half.latencies.keys() - {200, 429}:
        yield f"status {status} at half the load"
    if len(half.latencies.get(429, ())) > refused * len(half.latencies.get(200, ())):
        yield f"more than {refused:.0%} are refused at half the load"
    for status in twice.latencies.keys() - {200, 429}:
        yield f"status {status} at twice the load"
    for name, count in (half.other + twice.other).items():
        yield f"{count} times {name}"
    before, then = half.percentile(200, 99), twice.percentile(200, 99)
    typer.echo(f"p99 of what was taken: {then / before:.1f} times that of half the load")
    if not then <= slower * before:
        yield f"p99 of what was taken is {then / before:.1f} times that"
    if 429 not in twice.latencies:
        yield "nothing was refused: the server can carry more than was measured at first"
    elif twice.percentile(429, 99) > slower * before:
        yield "what was refused was not refused at once"
    first, last = found.grown()
    typer.echo(
        f"resident MiB under twice the load: {first / 2**20:.0f} in its first third, {last / 2**20:.0f} in its last"
    )
    if last > growth * first:
        yield f"memory grew by {last / first - 1:.0%} under twice the load"


def main(
    seconds: Annotated[float, typer.Option(min=2, help="How long each of the two loads goes on.")] = 60,
    workload: Annotated[Workload, typer.Option(help="Much work in few bytes, or a body of 3 MiB.")] = Workload.WORK,
    pacing: Annotated[Pacing, typer.Option(help="The times between two requests.")] = Pacing.POISSON,
    rows: Annotated[int, typer.Option(min=1, help="The work of a request, in rows of 1024 elements.")] = 8192,
    slower: Annotated[float, typer.Option(min=1, help="How much longer the p99 may be under twice the load.")] = 3.0,
    warm_up: Annotated[float, typer.Option(min=0, help="Seconds of both loads before memory is measured.")] = 10,
    refused: Annotated[float, typer.Option(min=0, help="The share that may be refused at half the load.")] = 0.01,
    rest: Annotated[float, typer.Option(min=0, help="Seconds at rest before memory is measured.")] = 5,
    growth: Annotated[float, typer.Option(min=1, help="How much more memory may be in use afterwards.")] = 1.1,
) -> None:
    """Half of the load that the server can carry, then twice that load."""
    with apart() as use_own_core, served("--log-level", "info") as server:
        use_own_core()
        data = request(server.url, workload, rows)
        _warm_up(server, data)
        if warm_up:
            flood(server, warm_up, data, pacing)  # memory is flat once it has seen its worst
        before = server.resident_at_rest(rest)
        found = flood(server, seconds, data, pacing)
        gauges, after, defects = server.settled(), server.resident_at_rest(rest), server.defects
    typer.echo(f"{workload}, {pacing}: it answers {found.capacity:.0f} requests a second")
    _say("half the load", found.half)
    _say("twice the load", found.twice)
    typer.echo(f"afterwards {gauges}; resident MiB before {before / 2**20:.0f}, after {after / 2**20:.0f}")
    broken = [
        *_broken(found, slower, refused, growth),
        *(f"{name} is {value:g}" for name, value in gauges.items() if value),
        *(f"defect: {line}" for line in defects[:100]),
    ]
    if after > growth * before:
        broken.append(f"memory grew by {after / before - 1:.0%}")
    for line in broken:
        typer.echo(f"broken: {line}")
    raise typer.Exit(1 if broken else 0)
