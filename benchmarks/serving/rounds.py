"""Rounds: floor and contender take turns under the same load, so that noise affects both."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from .cases import Case
from .contender import Contender, Form, Request
from .load import Measure, Measured, work_rate
from .process import Server

LEAST_ANSWERS = 4
"""A measurement lasts long enough for this many answers per connection, however slow they are."""

_MEMORY_REQUESTS = 3
_LEAST_TIMEOUT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of a contender with one form of request; the floor got requests with the same bytes.

    Attributes:
        rate, floor_rate: requests per second.
        of_floor: their ratio, the median over the rounds.
        cpu, floor_cpu: CPU seconds per request.
        p50, p99: seconds.
        memory: the server's peak above its idle state while it answers one request at a time, as a multiple of the
            tensor.
        errors: errors over all rounds.
    """

    contender: str
    title: str
    form: str
    encoding: str
    case: str
    connections: int
    rate: float
    floor_rate: float
    of_floor: float
    cpu: float
    floor_cpu: float
    p50: float
    p99: float
    memory: float
    errors: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a measurement.

    Attributes:
        measure: loads a server.
        seconds: seconds of load per server and round.
        rounds: rounds per row.
        say: reports what is measured next.
    """

    measure: Measure
    seconds: float
    rounds: int
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A server under load for a while, with the CPU time it used."""

    connections: int
    measured: Measured
    cpu: float

    @property
    def rate(self) -> float:
        """Answers per second."""
        return work_rate(self.measured, self.connections)

    @property
    def cpu_per_answer(self) -> float:
        return self.cpu / self.measured.seconds / self.rate if self.rate else float("nan")


def check(server: Server, form: Form, case: Case) -> None:
    """Raises ServerFailed or ValueError unless the server's answer is right."""
    case.check(form.answer(case, server.post(form.request(case))))


def measure(
    contender: Contender, form: Form, server: Server, floor: Server, cases: Sequence[Case], plan: Plan
) -> Iterator[Row]:
    """Measures one form of a contender, on a fresh server, as memory is not returned quickly.

    Raises:
        ServerFailed: a server gave no answer.
        ValueError: a server gave a wrong answer.
    """
    for case in cases:  # some servers load what they need on the first request
        check(server, form, case.shrunk())
    server.rest()
    idle = server.memory("VmRSS")
    memory = {case.name: (_peak(server, form, case) - idle) / case.tensor_bytes for case in cases}
    for case in cases:
        request = form.request(case)
        for connections in case.connections:
            plan.say(f"{contender.title}, {form.name}: {list(case.sizes)}, {connections} connections")
            turns = [
                (_turn(floor, request, connections, plan), _turn(server, request, connections, plan))
                for _ in range(plan.rounds)
            ]
            yield _row(contender, form, case, connections, memory[case.name], turns)


def _peak(server: Server, form: Form, case: Case) -> int:
    """Returns the server's peak memory while it answers requests one at a time, checking the answers."""
    server.reset_peak()
    for _ in range(_MEMORY_REQUESTS):
        check(server, form, case)
    return server.memory("VmHWM")


def _turn(server: Server, request: Request, connections: int, plan: Plan) -> _Turn:
    began = time.monotonic()
    server.post(request)
    one = (time.monotonic() - began) * connections
    seconds = max(plan.seconds, LEAST_ANSWERS * one)
    before = server.cpu_seconds()
    measured = plan.measure(server.url, request, connections, seconds, max(_LEAST_TIMEOUT, math.ceil(seconds)))
    return _Turn(connections, measured, server.cpu_seconds() - before)


def _row(
    contender: Contender, form: Form, case: Case, connections: int, memory: float, turns: Sequence[tuple[_Turn, _Turn]]
) -> Row:
    floors, own = zip(*turns, strict=True)
    return Row(
        contender=contender.name,
        title=contender.title,
        form=form.name,
        encoding=form.encoding,
        case=case.name,
        connections=connections,
        rate=median(turn.rate for turn in own),
        floor_rate=median(turn.rate for turn in floors),
        of_floor=median(turn.rate / floor.rate for floor, turn in turns),
        cpu=median(turn.cpu_per_answer for turn in own),
        floor_cpu=median(turn.cpu_per_answer for turn in floors),
        p50=median(turn.measured.p50 for turn in own),
        p99=median(turn.measured.p99 for turn in own),
        memory=memory,
        errors=sum(turn.measured.errors for turn in own),
    )
