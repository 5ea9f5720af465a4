"""Half of the load that a server can carry, then twice that load: what it takes must not wait for much longer."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import typer

from opwire import prepare
from opwire.wire import Encoding, write_call
from opwire_service.load import Address, write_request

from .served import Served, served

_MEASURE_SECONDS = 1.0
_SETTLES = 1.0
"""Seconds at the start of an overload in which the burst is still taken; not counted."""

_CONNECTIONS = 6
"""With so many, all places are busy and nothing is refused."""


@dataclass(slots=True)
class Flow:
    """What came of requests that were sent at a rate.

    Attributes:
        latencies: seconds, by status.
        other: what came in place of answers.
    """

    latencies: dict[int, list[float]] = field(default_factory=dict)
    other: Counter[str] = field(default_factory=Counter)

    def percentile(self, status: int, percent: float) -> float:
        return float(np.percentile(self.latencies.get(status, [float("nan")]), percent))


def request(url: str, rows: int) -> bytes:
    """A call that is much work and few bytes: REDUCE of a tensor that repeats one element."""
    desc = {
        "Function": "DML_REDUCE_FUNCTION_SUM",
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, rows, 1024], "Strides": [0, 0, 0, 0]},
        "Axes": [3],
    }
    call = prepare.execute({"type": "DML_OPERATOR_REDUCE", "desc": desc}, bytes(4))
    headers, chunks = write_call(call, Encoding.BINARY)
    return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


class _Flood:
    """Sends requests at a rate, whatever becomes of them, each on a connection that nobody else uses."""

    def __init__(self, address: Address, data: bytes) -> None:
        self._address = address
        self._data = data
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self.flow = Flow()

    async def at_rate(self, rate: float, seconds: float) -> Flow:
        """Sends so many a second, for so long."""
        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._begin(due, counted=number / rate >= _SETTLES)
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
            if not self._idle:
                self._idle.append(await asyncio.open_connection(self._address.host, self._address.port))
            reader, writer = self._idle.pop()
            writer.write(self._data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, EOFError) as error:
            self.flow.other[type(error).__name__] += 1
            return
        self._idle.append((reader, writer))
        if counted:
            self.flow.latencies.setdefault(int(head[9:12]), []).append(time.perf_counter() - due)

    async def _end(self) -> None:
        await asyncio.gather(*self._under_way)
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


def flood(server: Served, seconds: float, rows: int) -> tuple[float, Flow, Flow]:
    """The requests that a server answers each second, and what becomes of half and of twice as many."""
    address, data = Address.of(server.url), request(server.url, rows)
    # The best of a few: what else the machine does meanwhile must not pass for the server's limit.
    capacity = max(asyncio.run(_Flood(address, data).at_most(_CONNECTIONS, _MEASURE_SECONDS)) for _ in range(3))
    half = asyncio.run(_Flood(address, data).at_rate(capacity / 2, seconds))
    return capacity, half, asyncio.run(_Flood(address, data).at_rate(capacity * 2, seconds))


def _say(name: str, flow: Flow) -> None:
    for status, found in sorted(flow.latencies.items()):
        p50, p99 = (1000 * flow.percentile(status, percent) for percent in (50, 99))
        typer.echo(f"{name}: {len(found)} of status {status}, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    if flow.other:
        typer.echo(f"{name}: {dict(flow.other)}")


def main(
    seconds: Annotated[float, typer.Option(min=2, help="How long each of the two loads goes on.")] = 60,
    rows: Annotated[int, typer.Option(min=1, help="The work of a request, in rows of 1024 elements.")] = 8192,
    slower: Annotated[float, typer.Option(min=1, help="How much longer the p99 may be under twice the load.")] = 3.0,
) -> None:
    """Half of the load that the server can carry, then twice that load."""
    with served("--log-level", "info") as server:
        before = server.resident()
        capacity, half, twice = flood(server, seconds, rows)
        gauges, after, defects = server.settled(), server.resident(), server.defects
    typer.echo(f"it answers {capacity:.0f} requests a second")
    _say("half the load", half)
    _say("twice the load", twice)
    typer.echo(f"afterwards {gauges}; resident MiB before {before / 2**20:.0f}, after {after / 2**20:.0f}")
    allowed = slower * half.percentile(200, 99)
    broken = [
        *(f"status {status} at half the load" for status in half.latencies.keys() - {200}),
        *(f"status {status} at twice the load" for status in twice.latencies.keys() - {200, 429}),
        *(f"{name} is {value:g}" for name, value in gauges.items() if value),
        *(f"{count} times {name}" for name, count in (half.other + twice.other).items()),
        *(f"defect: {line}" for line in defects[:100]),
    ]
    if not twice.percentile(200, 99) <= allowed:
        broken.append(f"p99 of what was taken is {twice.percentile(200, 99) / half.percentile(200, 99):.1f} times that")
    if 429 not in twice.latencies:
        broken.append("nothing was refused: the server can carry more than was measured at first")
    elif twice.percentile(429, 99) > allowed:
        broken.append("what was refused was not refused at once")
    for line in broken:
        typer.echo(line)
    raise typer.Exit(1 if broken else 0)
