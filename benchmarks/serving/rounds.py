"""Rounds: floor and contender take turns under the same load, so that noise affects both."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from ..processes import Server
from ..report import Row
from .cases import Case
from .contender import Contender, Form, Request
from .installing import check, post
from .wrk import Measured, measure

LEAST_ANSWERS = 4
"""A measurement lasts long enough for this many answers per connection, however slow they are."""

_MEMORY_REQUESTS = 3
_LEAST_TIMEOUT = 30


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a measurement.

    Attributes:
        seconds: seconds of load per server and round.
        rounds: rounds per row.
        say: reports what is measured next.
        load: puts load on a server.
    """

    seconds: float
    rounds: int
    say: Callable[[str], None]
    load: Callable[[str, Request, int, float, int], Measured] = measure


@dataclass(frozen=True, slots=True)
class _Turn:
    """A server under load for a while: answers per second, and the CPU time per answer."""

    measured: Measured
    rate: float
    cpu: float


def rows(
    contender: Contender, form: Form, server: Server, floor: Server, cases: Sequence[Case], plan: Plan
) -> Iterator[Row]:
    """Measures one form of a contender, on a fresh server, as memory is not returned quickly.

    A row has the medians over the rounds: ``rate`` and ``floor_rate`` in requests per second, their ratio ``of_floor``
    within a round, ``cpu`` and ``floor_cpu`` in seconds per request, ``p50`` and ``p99`` in seconds; and ``memory``,
    the server's peak above its idle state while it answers one request at a time, as a multiple of the tensor.

    Raises:
        ServerFailed: a server gave no answer.
        ValueError: a server gave a wrong answer.
    """
    for case in cases:  # some servers load what they need on the first request
        check(server, form, case.shrunk())
    server.rest()
    idle = server.memory("VmRSS")
    memory = {case.name: (_peak(server, form, case) - idle) / case.tensor_bytes for case in cases}
    named = {"contender": contender.name, "title": contender.title, "form": form.name, "encoding": form.encoding}
    for case in cases:
        request = form.request(case)
        for connections in case.connections:
            plan.say(f"{contender.title}, {form.name}: {list(case.sizes)}, {connections} connections")
            turns = [[_turn(each, request, connections, plan) for each in (floor, server)] for _ in range(plan.rounds)]
            found = _medians([floor for floor, _ in turns], [own for _, own in turns])
            yield {**named, "case": case.name, "connections": connections, **found, "memory": memory[case.name]}


def _peak(server: Server, form: Form, case: Case) -> int:
    """Returns the server's peak memory while it answers requests one at a time, checking the answers."""
    server.reset_peak()
    for _ in range(_MEMORY_REQUESTS):
        check(server, form, case)
    return server.memory("VmHWM")


def _turn(server: Server, request: Request, connections: int, plan: Plan) -> _Turn:
    began = time.monotonic()
    post(server, request)
    one = (time.monotonic() - began) * connections
    seconds = max(plan.seconds, LEAST_ANSWERS * one)
    before = server.cpu_seconds()
    measured = plan.load(server.url, request, connections, seconds, max(_LEAST_TIMEOUT, math.ceil(seconds)))
    rate, cpu = measured.rate(connections), server.cpu_seconds() - before
    return _Turn(measured, rate, cpu / measured.seconds / rate if rate else math.nan)


def _medians(floors: Sequence[_Turn], own: Sequence[_Turn]) -> Row:
    return {
        "rate": median(turn.rate for turn in own),
        "floor_rate": median(turn.rate for turn in floors),
        "of_floor": median(turn.rate / floor.rate for floor, turn in zip(floors, own, strict=True)),
        "cpu": median(turn.cpu for turn in own),
        "floor_cpu": median(turn.cpu for turn in floors),
        "p50": median(turn.measured.p50 for turn in own),
        "p99": median(turn.measured.p99 for turn in own),
        "errors": sum(turn.measured.errors for turn in own),
    }
