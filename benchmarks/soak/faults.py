"""Verified calls of the client library, while others abuse the server and workers are killed: none may be lost."""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from opwire import Client
from opwire.errors import OpwireError

from .abuse import ABUSES, commit
from .promises import Memory, ended
from .served import Served, served

_SHAPES = ((3, 3), (64, 1000), (1, 16, 112, 112), (256, 4096))
_EXPECTED = frozenset({0, 200, 400, 408, 411, 413, 415, 422, 429, 431, 503, 504})
_CALLERS, _ABUSERS = 3, 3
_RETRIES, _WAIT = 10, 10.0
"""Retries of a call, and its most seconds."""

_BUDGET = 1.2
"""Allowed memory, as a multiple of the budget of all workers."""

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
    while not over.wait(0.02):
        status = 0
        with suppress(OSError):  # the server closed the connection, or the worker was killed
            status = commit(ABUSES[chance.choice(list(ABUSES))](chance), url)
        with record.lock:
            record.abuses[status] += 1


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


def run(given: argparse.Namespace) -> int:
    """Soaks a server, some of whose workers are killed if there are several."""
    warm_up, kill_every = (1, 1.5) if given.quick else (15, 3)
    with served(given.workers) as server:
        soak(server, warm_up, None)
        with Memory(server, given.quick) as memory:
            logged = server.logged()
            record = soak(server, given.seconds, kill_every if given.workers > 1 else None)
            logged = server.logged() - logged
        budget = _BUDGET * server.limits()["memory_bytes"] * given.workers
        broken = [*_broken(record, logged), *memory.broken(budget)]
    print(f"answers {record.answers}, lost {len(record.lost)}; answers to abuses by status: {dict(record.abuses)}")
    print(f"longest call {record.longest:.1f} s; {memory}")
    return ended(broken)


def _broken(record: Record, logged: int) -> Iterator[str]:
    yield from (f"lost: {why}" for why in record.lost[:10])
    yield from (f"unexpected status {status}" for status in record.abuses.keys() - _EXPECTED)
    if not record.answers:
        yield "there were no answers"
    if record.longest > _WAIT:
        yield f"a call took {record.longest:.1f} s, more than {_WAIT:g} s"
    if logged > _LOG_BYTES + _LOG_BYTES_EACH * (record.abuses.total() + record.answers):
        yield f"{logged} bytes of log for {record.abuses.total()} abuses"
