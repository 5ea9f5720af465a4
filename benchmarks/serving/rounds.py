"""Rounds: the floor and a contender by turns under the same load, so that both meet the machine in the same mood."""

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
"""A measurement goes on until there is time for so many answers, however long one takes."""

_MEMORY_REQUESTS = 3
_LEAST_TIMEOUT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a contender did with a form of request; the floor had requests of the same bytes.

    Attributes:
        rate, floor_rate: requests a second.
        of_floor: the median over the rounds of their ratio.
        cpu, floor_cpu: seconds of processor time a request.
        p50, p99: seconds.
        memory: the most that the server held above its idle state, in multiples of the tensor, while it answered
            one request at a time.
        errors: over all rounds.
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
    """How to measure.

    Attributes:
        measure: what loads a server.
        seconds: of load on each server in a round.
        rounds: for each row.
        say: told what is measured next.
    """

    measure: Measure
    seconds: float
    rounds: int
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A server under load for a while, and the processor time that it had."""

    connections: int
    measured: Measured
    cpu: float

    @property
    def rate(self) -> float:
        """Answers a second."""
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
    """Measures one form of a contender, on a server that has had no other: memory is not given back soon.

    Raises:
        ServerFailed: a server gave no answer.
        ValueError: a wrong one.
    """
    for case in cases:  # some servers load at the first request what they need for all others
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
    """The most bytes that a server holds while it answers one request after another, rightly."""
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
