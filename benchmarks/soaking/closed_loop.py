"""Clients that send the next request once the last one is answered: more of them must not get less done.

The cells of a group differ only in the number of connections. They take turns, round after round, so that other load on
the machine affects all of them; shares are computed within a round, and their median counts.
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
"""Connection limits for cases with large bodies."""

_TIMEOUT = 120
_WARMS = 0.5
"""Seconds for warming up the server."""

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Group:
    """The common properties of some cells: the tensor, its encoding, and the load generator."""

    case: Case
    encoding: Encoding
    generator: str

    def __str__(self) -> str:
        return f"{list(self.case.sizes)} {self.encoding} {self.generator}"


@dataclass(frozen=True, slots=True)
class Turn:
    """The results of a number of connections in one round.

    Attributes:
        rate: right answers per second.
        failures: failed calls by kind.
        p50, p99: latencies in seconds.
        peak: peak memory of the server in bytes.
        refused: unsuccessful answers by code, whether or not the client retried.
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
        group: the group of the cell.
        connections: number of connections.
        turns: the turns.
        share: throughput relative to the group's first cell.
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
    """The settings of a measurement.

    Attributes:
        connections: connections of each group's cells; the first cell is the baseline.
        seconds: minimum duration of a turn.
        least_answers: minimum time of a turn in answers per connection.
        rounds: rounds per group.
    """

    connections: tuple[int, ...]
    seconds: float
    least_answers: float
    rounds: int


def groups(case: str, generators: list[str]) -> Iterator[Group]:
    """Yields all groups with a tensor."""
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
    """Loads with threads of one client. Each finishes its last call, so all of the server's work is counted."""
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
    """Loads with one thread of wrk for any number of connections, so that its cost is the same in all cells."""
    call = prepare.argmax(group.case.tensor, AXIS)
    headers, chunks = write_call(call, group.encoding)
    fields = {name: value for name, value in headers.items() if name != "Content-Length"}  # wrk adds its own
    request = Request("/v1/execute", fields, (b"".join(chunks),))
    found = wrk.measure(url, request, connections, seconds, _TIMEOUT)
    return Turn(work_rate(found, connections), Counter(found.kinds), found.p50, found.p99)


GENERATORS: dict[str, Callable[[str, Group, int, float], Turn]] = {"wrk": _by_wrk, "client": _by_client}

_COLUMNS = (("connections", 13), ("answers/s", 11), ("share", 7), ("p50 ms", 9), ("p99 ms", 9), ("MiB", 7))


def heading() -> str:
    """Returns the header line."""
    columns = "".join(f"{name:>{width}}" for name, width in _COLUMNS)
    return f"{'tensor, encoding, generator':38}{columns}  failures; what the server refused"


def line(row: Row) -> str:
    """Formats a row of the table: medians over its turns, and totals."""
    rate = median(turn.rate for turn in row.turns)
    p50, p99 = (1000 * median(times) for times in zip(*((turn.p50, turn.p99) for turn in row.turns), strict=True))
    peak = max(turn.peak for turn in row.turns) / _MIB
    refused = sum((turn.refused for turn in row.turns), Counter())
    told = f"{dict(row.failures) or '-'}; {dict(refused) or '-'}"
    texts = (f"{row.connections}", f"{rate:.1f}", f"{row.share:.2f}", f"{p50:.1f}", f"{p99:.1f}", f"{peak:.0f}")
    cells = "".join(f"{text:>{width}}" for text, (_, width) in zip(texts, _COLUMNS, strict=True))
    return f"{row.group!s:38}{cells}  {told}"


def broken(row: Row, least: dict[str, float]) -> Iterator[str]:
    """Yields the promises that a row breaks.

    Args:
        row: the measured row.
        least: minimum share for up to 64 connections, by generator.
    """
    where = f"{row.group}, {row.connections} connections"
    for failure, count in row.failures.items():
        yield f"{where}: {count} times {failure}"
    bound = least[row.group.generator]
    if row.connections <= 64 and not row.share >= bound:
        yield f"{where}: {row.share:.2f} of the throughput of fewer connections, less than {bound:g}"
