"""Half of the load that a server can carry, then twice that load: accepted requests must not wait too long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import typer
import uvloop

from .flood import Flood, Flow, Workload, request
from .served import Served, apart, served

_MEASURES = 3
_MEASURE_SECONDS = 2.5
_CONNECTIONS = 8
"""Enough connections to keep the server busy without refusals."""

_GRACE = 5.0
"""Seconds after its deadline at which an unanswered request counts as failed."""

_MAX_WAIT_MS = 5000
"""Default if the server reports none."""


@dataclass(frozen=True, slots=True)
class Promises:
    """The required bounds.

    Attributes:
        goodput: answers per second at twice the load, as a fraction of the capacity.
        wait: wait of accepted requests, as a multiple of the server's maximum wait.
        budget: memory above that at rest, as a multiple of the server's budget.
        rest: memory at rest afterwards, as a multiple of that before.
    """

    goodput: float = 0.9
    wait: float = 1.2
    budget: float = 1.1
    rest: float = 1.1


class Times(NamedTuple):
    """Seconds for each of the two loads, for a warm-up at twice the load before memory is measured, and at rest.

    Memory stays flat once the server has been through its worst case.
    """

    seconds: float
    warm_up: float
    rest: float


@dataclass(frozen=True, slots=True)
class Found:
    """The results for a server.

    Attributes:
        before, after: its capacity in requests per second, before and after the loads.
        half, twice: the outcomes of the loads.
        resident: memory at rest before and after the loads, in bytes.
        peak: peak memory during the loads, in bytes.
        limits: the limits that the server reports.
        defects: suspicious log lines, and gauges that do not return to 0.
    """

    before: float
    after: float
    half: Flow
    twice: Flow
    resident: tuple[int, int]
    peak: int
    limits: dict[str, int]
    defects: list[str]

    @property
    def capacity(self) -> float:
        """The mean of both measurements, as the machine's speed may drift within a minute."""
        return (self.before + self.after) / 2


class _Loads:
    """The loads on one server."""

    def __init__(self, server: Served, data: bytes, runner: asyncio.Runner) -> None:
        self._url = server.url
        self._data = data
        self._patience = server.limits()["timeout_ms"] / 1000 + _GRACE
        self._run = runner.run

    def _flood(self) -> Flood:
        return Flood(self._url, self._data, self._patience)

    def _flow(self, flow: Coroutine[Any, Any, Flow]) -> Flow:
        return self._run(flow)

    def capacity(self) -> float:
        """Returns the server's capacity in requests per second."""
        flows = (self._flow(self._flood().at_most(_CONNECTIONS, _MEASURE_SECONDS)) for _ in range(_MEASURES))
        return median(flow.rate for flow in flows)

    def at_rate(self, rate: float, seconds: float) -> Flow:
        return self._flow(self._flood().at_rate(rate, seconds))


def run(workload: Workload, rows: int, times: Times) -> Found:
    """Starts a server and loads it.

    Args:
        workload, rows: see ``request``.
        times: durations of the phases.
    """
    with (
        apart() as use_own_core,
        served() as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        use_own_core()
        server.wait_idle()
        loads = _Loads(server, request(server.url, workload, rows), runner)
        loads.capacity()  # the first request may wait for its kernel to be compiled
        if times.warm_up:
            loads.at_rate(2 * loads.capacity(), times.warm_up)
        at_rest = server.resident_at_rest(times.rest)
        before = loads.capacity()
        server.reset_peak()
        half = loads.at_rate(before / 2, times.seconds)
        twice = loads.at_rate(before * 2, times.seconds)
        peak = server.peak()
        gauges = server.settled()
        after = loads.capacity()
        defects = [*(f"{name} is {value:g}" for name, value in gauges.items() if value), *server.defects[:100]]
        memory = at_rest, server.resident_at_rest(times.rest)
        return Found(before, after, half, twice, memory, peak, server.limits(), defects)


def say(workload: Workload, found: Found) -> None:
    """Prints the results."""
    rates = f"{found.before:.0f} requests/s before, {found.after:.0f} after"
    typer.echo(f"open loop, {workload}: capacity {rates}")
    _say("half the load", found.half)
    _say("twice the load", found.twice)
    share = found.twice.rate / found.capacity
    longest = 1000 * found.twice.percentile(200, 100)
    before, after = (size / 2**20 for size in found.resident)
    typer.echo(f"  goodput {share:.2f} of the capacity; longest wait of an accepted request {longest:.0f} ms")
    typer.echo(f"  MiB at rest {before:.0f}, peak {found.peak / 2**20:.0f}, at rest afterwards {after:.0f}")


def _say(name: str, flow: Flow) -> None:
    count = sum(map(len, flow.waits.values()))
    for status, waits in sorted(flow.waits.items()):
        p50, p99 = (1000 * flow.percentile(status, percent) for percent in (50, 99))
        share = len(waits) / count
        typer.echo(f"  {name}: {len(waits)} ({share:.1%}) of status {status}, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    late = 1000 * float(np.percentile(flow.late or [0.0], 99))
    own = f"the generator used {flow.cpu:.0%} of a core, was {late:.1f} ms late (p99)"
    typer.echo(f"  {name}: {own}, and had {flow.connections} connections; failures: {dict(flow.other)}")


def broken(found: Found, promises: Promises) -> Iterator[str]:
    """Yields the broken promises."""
    half, twice = found.half, found.twice
    for status in half.waits.keys() - {200}:
        yield f"{len(half.waits[status])} of status {status} at half the load"
    for status in twice.waits.keys() - {200, 429}:
        yield f"{len(twice.waits[status])} of status {status} at twice the load"
    for name, count in (half.other + twice.other).items():
        yield f"{count} times {name} instead of an answer"
    if half.no_hint + twice.no_hint:
        yield f"{half.no_hint + twice.no_hint} of status 429 without Retry-After"
    longest_wait = found.limits.get("max_wait_ms", _MAX_WAIT_MS) / 1000
    if 429 not in twice.waits and twice.seconds > 2 * longest_wait:  # until then, all requests may wait
        yield "nothing was refused: the capacity is higher than measured"
    share = twice.rate / found.capacity
    if not share >= promises.goodput:
        yield f"goodput at twice the load is {share:.2f} of the capacity, less than {promises.goodput:g}"
    bound = promises.wait * longest_wait
    longest = twice.percentile(200, 100)
    if not longest <= bound:
        yield f"accepted requests waited up to {longest:.1f} s, more than {bound:.1f} s"
    yield from _broken_memory(found, promises)
    yield from found.defects


def _broken_memory(found: Found, promises: Promises) -> Iterator[str]:
    before, after = found.resident
    budget = promises.budget * found.limits["memory_bytes"]
    if found.peak - before > budget:
        taken = (found.peak - before) / 2**20
        yield f"{taken:.0f} MiB in use above those at rest, more than {budget / 2**20:.0f}"
    if after > promises.rest * before:
        yield f"memory at rest grew by {after / before - 1:.0%}"
