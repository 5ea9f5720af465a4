"""Verified calls of the client library, while others abuse the server and workers are killed: none may be lost."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np
import typer

from opwire import Client
from opwire.errors import OpwireError

from .abuse import ABUSES
from .served import Served, served

_SHAPES = ((3, 3), (64, 1000), (1, 16, 112, 112), (256, 4096))
_EXPECTED = frozenset({0, 200, 400, 408, 411, 413, 415, 422, 429, 431, 503, 504})
_CALLERS, _ABUSERS = 3, 3
_RETRIES = 10
_BUDGET = 1.2
_LOG_BYTES, _LOG_BYTES_EACH = 64 * 1024, 1000
"""Log bytes allowed, and per abuse."""


@dataclass(slots=True)
class Record:
    """The outcome of a soak.

    Attributes:
        answers: number of right answers.
        longest: the longest call that got one, in seconds.
        lost: errors of calls that failed for good, and wrong answers.
        abuses: answers to abuses by status; 0 stands for none.
    """

    answers: int = 0
    longest: float = 0.0
    lost: list[str] = field(default_factory=list)
    abuses: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _call(url: str, record: Record, over: threading.Event, seed: int) -> None:
    random_ = np.random.default_rng(seed)
    with Client(url, max_retries=_RETRIES, timeout=60) as client:
        while not over.is_set():
            x = random_.integers(-1000, 1000, _SHAPES[random_.integers(len(_SHAPES))]).astype(np.float32)
            began = time.monotonic()
            try:
                right = np.array_equal(client.argmax(x, 1).output, np.argmax(x, 1, keepdims=True))
                why = "" if right else f"wrong answer for {x.shape}"
            except OpwireError as error:
                why = f"{type(error).__name__} after {error.retries} retries: {error}"
            with record.lock:
                if why:
                    record.lost.append(why)
                else:
                    record.answers += 1
                    record.longest = max(record.longest, time.monotonic() - began)


def _abuse(url: str, record: Record, over: threading.Event, seed: int) -> None:
    chance = random.Random(seed)
    while not over.is_set():
        status = 0
        with suppress(OSError):  # the server closed the connection, or the worker was killed
            status = chance.choice(ABUSES)(url, chance)
        with record.lock:
            record.abuses[status] += 1
        over.wait(0.02)


def _kill(server: Served, over: threading.Event, every: float) -> None:
    number = 0
    while not over.wait(every):
        server.kill_worker(number)
        number += 1


def soak(server: Served, seconds: float, kill_every: float | None) -> Record:
    """Soaks a server for a while, and waits until all clients have finished."""
    record, over = Record(), threading.Event()
    tasks: list[Callable[[], None]] = [partial(_call, server.url, record, over, i) for i in range(_CALLERS)]
    tasks += [partial(_abuse, server.url, record, over, i) for i in range(_ABUSERS)]
    if kill_every is not None:
        tasks.append(partial(_kill, server, over, kill_every))
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return record


def main(
    seconds: Annotated[float, typer.Option(min=1, help="Duration of the faults in seconds.")] = 60,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes; if there are several, some are killed.")] = 1,
    kill_every: Annotated[float, typer.Option(min=0.1, help="Seconds between kills.")] = 3,
    warm_up: Annotated[float, typer.Option(min=0, help="Seconds under faults before memory is measured.")] = 15,
    rest: Annotated[float, typer.Option(min=0, help="Seconds at rest before memory is measured.")] = 5,
    growth: Annotated[float, typer.Option(min=1, help="Maximum growth of memory at rest, as a factor.")] = 1.1,
    wait: Annotated[float, typer.Option(min=0, help="Maximum seconds of a call.")] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, in which memory may grow.")] = False,
) -> None:
    """Verified calls with retries, while other clients abuse the server and workers are killed."""
    if quick:
        seconds, warm_up, rest, growth, kill_every = 4, 1, 0.5, 3, 1.5
    with served("--workers", str(workers), "--log-level", "info") as server:
        soak(server, warm_up, None)
        before = server.resident_at_rest(rest, workers)
        server.reset_peak()
        logged = server.log_bytes
        record = soak(server, seconds, kill_every if workers > 1 else None)
        peak, logged = server.peak(), server.log_bytes - logged
        after = server.resident_at_rest(rest, workers)
        budget = server.limits()["memory_bytes"] * workers
        gauges, defects = server.settled(), server.defects
    typer.echo(f"answers {record.answers}, lost {len(record.lost)}; answers to abuses by status: {dict(record.abuses)}")
    resident = ", ".join(f"{each / 2**20:.0f}" for each in (before, peak, after))
    typer.echo(f"longest call {record.longest:.1f} s; {gauges}; MiB before, at most and after: {resident}")
    broken = [
        *_broken(record, wait, logged),
        *(f"{name} is {value:g}" for name, value in gauges.items() if value),
        *(f"defect: {line}" for line in defects[:100]),
    ]
    if after > growth * before:
        broken.append(f"memory at rest grew by {after / before - 1:.0%}")
    if peak > before + _BUDGET * budget:
        broken.append(f"{peak / 2**20:.0f} MiB in use, of a budget of {budget / 2**20:.0f}")
    for line in broken:
        typer.echo(f"broken: {line}")
    raise typer.Exit(1 if broken else 0)


def _broken(record: Record, wait: float, logged: int) -> Iterator[str]:
    yield from (f"lost: {why}" for why in record.lost[:10])
    yield from (f"unexpected status {status}" for status in record.abuses.keys() - _EXPECTED)
    if not record.answers:
        yield "there were no answers"
    if record.longest > wait:
        yield f"a call took {record.longest:.1f} s, more than {wait:g} s"
    if logged > _LOG_BYTES + _LOG_BYTES_EACH * (record.abuses.total() + record.answers):
        yield f"{logged} bytes of log for {record.abuses.total()} abuses"
