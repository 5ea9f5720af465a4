"""Clients that each send the next request when the last one is answered: more of them must not get less done.

The cells of a group differ in the number of connections alone. They take turns, round after round, so that what else
the machine does hits all of them; shares are taken within a round, and the median over the rounds counts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from opwire import Client, prepare
from opwire.errors import OpwireError
from opwire.wire import Encoding, write_call

from ..serving import wrk
from ..serving.cases import AXIS, CASES, Case
from ..serving.contender import Request
from ..serving.load import work_rate
from .served import Served

CONNECTIONS = (4, 64, 256)
MOST_CONNECTIONS = {"large": 32}
"""Of cases whose bodies are many."""

_TIMEOUT = 120
_WARMS = 0.5
"""Seconds in which the server meets a request for the first times."""

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Group:
    """What its cells have in common: the tensor, its encoding, and who sends it."""

    case: Case
    encoding: Encoding
    generator: str

    def __str__(self) -> str:
        return f"{list(self.case.sizes)} {self.encoding} {self.generator}"


@dataclass(frozen=True, slots=True)
class Turn:
    """What a number of connections got done in one round.

    Attributes:
        rate: right answers a second.
        failures: what calls came to in place of right answers.
        p50, p99: seconds.
        peak: bytes of memory that the server had in use.
        refused: what the server did not answer with success, by code, whether or not the client sent it again.
    """

    rate: float
    failures: Counter[str]
    p50: float
    p99: float
    peak: int = 0
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Row:
    """The turns of a cell.

    Attributes:
        share: of the work that the group's first cell gets done.
    """

    group: Group
    connections: int
    turns: list[Turn]
    share: float

    @property
    def failures(self) -> Counter[str]:
        return sum((turn.failures for turn in self.turns), Counter())


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure.

    Attributes:
        connections: of the cells of each group, the one that the others are compared with first.
        seconds: of a turn, or more, so that there is time for some answers on each connection.
        least_answers: so many.
        rounds: for each group.
    """

    connections: tuple[int, ...]
    seconds: float
    least_answers: float
    rounds: int


def groups(case: str, generators: list[str]) -> Iterator[Group]:
    """All groups with that tensor."""
    for encoding in (Encoding.BASE64, Encoding.BINARY):
        for generator in generators:
            yield Group(CASES[case], encoding, generator)


def measure(server: Served, group: Group, plan: Plan) -> list[Row]:
    """Measures the cells of a group."""
    _by_client(server.url, group, 1, _WARMS)
    one = _by_client(server.url, group, 1, 0.0)
    most = MOST_CONNECTIONS.get(group.case.name, max(plan.connections))
    numbers = list(dict.fromkeys(min(number, most) for number in plan.connections))
    turns: dict[int, list[Turn]] = {number: [] for number in numbers}
    for _ in range(plan.rounds):
        for number in numbers:
            seconds = max(plan.seconds, plan.least_answers * one.p50 * number)
            turns[number].append(_turn(server, group, number, seconds))
    first = turns[numbers[0]]
    return [Row(group, number, found, _share(found, first)) for number, found in turns.items()]


def _share(turns: list[Turn], first: list[Turn]) -> float:
    return median(turn.rate / max(base.rate, 1e-9) for turn, base in zip(turns, first, strict=True))


def _turn(server: Served, group: Group, connections: int, seconds: float) -> Turn:
    server.settled()
    server.reset_peak()
    before = server.ended()
    turn = GENERATORS[group.generator](server.url, group, connections, seconds)
    refused = server.ended() - before
    for usual in ("ok", "client_gone"):
        del refused[usual]
    return replace(turn, peak=server.peak(), refused=refused)


def _by_client(url: str, group: Group, connections: int, seconds: float) -> Turn:
    """Threads of one client. Each ends the call that it has begun, so all that the server does is counted."""
    lock = threading.Lock()
    waits: list[float] = []
    failures: Counter[str] = Counter()
    tensor, winners = group.case.tensor, group.case.winners

    def caller() -> None:
        while True:
            sent, failure = time.perf_counter(), ""
            try:
                found = client.argmax(tensor, AXIS).output
                if not np.array_equal(found.reshape(winners.shape), winners):
                    failure = "wrong answer"
            except OpwireError as error:
                failure = f"{type(error).__name__} {error.status or ''}".rstrip()
            now = time.perf_counter()
            with lock:
                if failure:
                    failures[failure] += 1
                else:
                    waits.append(now - sent)
            if now - began >= seconds:
                return

    with Client(url, encoding=group.encoding, timeout=_TIMEOUT / 2) as client:
        began = time.perf_counter()
        threads = [threading.Thread(target=caller) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - began
    p50, p99 = (float(np.percentile(waits or [float("nan")], percent)) for percent in (50, 99))
    return Turn(len(waits) / taken, failures, p50, p99)


def _by_wrk(url: str, group: Group, connections: int, seconds: float) -> Turn:
    """One thread of wrk, whatever the number of connections, so that it costs the same in all cells."""
    call = prepare.argmax(group.case.tensor, AXIS)
    headers, chunks = write_call(call, group.encoding)
    fields = {name: value for name, value in headers.items() if name != "Content-Length"}  # wrk writes its own
    request = Request("/v1/execute", fields, (b"".join(chunks),))
    found = wrk.measure(url, request, connections, seconds, _TIMEOUT)
    return Turn(work_rate(found, connections), Counter(found.kinds), found.p50, found.p99)


GENERATORS: dict[str, Callable[[str, Group, int, float], Turn]] = {"wrk": _by_wrk, "client": _by_client}

_COLUMNS = (("connections", 13), ("answers/s", 11), ("share", 7), ("p50 ms", 9), ("p99 ms", 9), ("MiB", 7))


def heading() -> str:
    """The line above the rows."""
    columns = "".join(f"{name:>{width}}" for name, width in _COLUMNS)
    return f"{'tensor, encoding, generator':38}{columns}  failures; what the server refused"


def line(row: Row) -> str:
    """A row of the table: medians over its turns, and sums."""
    rate = median(turn.rate for turn in row.turns)
    p50, p99 = (1000 * median(times) for times in zip(*((turn.p50, turn.p99) for turn in row.turns), strict=True))
    peak = max(turn.peak for turn in row.turns) / _MIB
    refused = sum((turn.refused for turn in row.turns), Counter())
    told = f"{dict(row.failures) or '-'}; {dict(refused) or '-'}"
    texts = (f"{row.connections}", f"{rate:.1f}", f"{row.share:.2f}", f"{p50:.1f}", f"{p99:.1f}", f"{peak:.0f}")
    cells = "".join(f"{text:>{width}}" for text, (_, width) in zip(texts, _COLUMNS, strict=True))
    return f"{row.group!s:38}{cells}  {told}"


def broken(row: Row, least: dict[str, float]) -> Iterator[str]:
    """The promises that a row does not keep.

    Args:
        row: measured.
        least: the share that up to 64 connections must get done, by generator.
    """
    where = f"{row.group}, {row.connections} connections"
    for failure, count in row.failures.items():
        yield f"{where}: {count} times {failure}"
    bound = least[row.group.generator]
    if row.connections <= 64 and not row.share >= bound:
        yield f"{where}: {row.share:.2f} of the work done that fewer get done, less than {bound:g}"
