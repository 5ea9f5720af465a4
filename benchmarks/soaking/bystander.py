"""A normal client among others: the duration of each of its calls, and whether the answer is right.

It runs in its own process, so that the durations reflect the server and not the attacker.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opwire import Client
from opwire.errors import OpwireError
from opwire.wire import Encoding

_STEPS = (((3, 3), 0.01), ((1, 64, 112, 112), 0.1))
"""Shapes, and the seconds between two calls; one thread each."""

_TIMEOUT = 30.0
_STARTS_WITHIN = 60.0


class CallRecord(NamedTuple):
    """A completed call; times are from the system's monotonic clock.

    Attributes:
        step: index of the shape it sent.
        began, ended: when it began and ended.
        failure: why there is no right answer, or an empty string.
    """

    step: int
    began: float
    ended: float
    failure: str


@dataclass(slots=True)
class Bystander:
    """The calls of the client so far."""

    calls: Sequence[CallRecord]

    def wait_past(self, moment: float) -> None:
        """Waits until each thread has completed a call that it began after ``moment``."""
        ends = time.monotonic() + _TIMEOUT + 5
        while time.monotonic() < ends:
            last = self.calls[-1000:]
            if all(any(call.step == step and call.began > moment for call in last) for step in range(len(_STEPS))):
                return
            time.sleep(0.02)

    def between(self, began: float, ended: float) -> list[CallRecord]:
        """Returns the calls that overlap a time span."""
        return [call for call in self.calls if call.ended >= began and call.began <= ended]


@contextmanager
def bystander(url: str) -> Iterator[Bystander]:
    """Runs a client that calls repeatedly while the context lasts.

    Raises:
        RuntimeError: its first calls get no answer.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(url, sender), daemon=True)
    process.start()
    sender.close()
    calls: list[CallRecord] = []
    threading.Thread(target=_collect, args=(receiver, calls), daemon=True).start()
    try:
        ends = time.monotonic() + _STARTS_WITHIN
        while {call.step for call in calls} != set(range(len(_STEPS))):
            if time.monotonic() > ends or process.exitcode is not None:
                raise RuntimeError("the normal client got no answer")
            time.sleep(0.05)
        yield Bystander(calls)
    finally:
        process.terminate()
        process.join()


def _collect(receiver: Connection[Any, CallRecord], calls: list[CallRecord]) -> None:
    try:
        while True:
            calls.append(receiver.recv())
    except EOFError:
        pass


def _run(url: str, sender: Connection[CallRecord, Any]) -> None:
    lock = threading.Lock()

    def report(call: CallRecord) -> None:
        with lock:
            sender.send(call)

    for step in range(len(_STEPS)):
        threading.Thread(target=_call, args=(url, step, report), daemon=True).start()
    threading.Event().wait()


def _call(url: str, step: int, report: Callable[[CallRecord], None]) -> None:
    """Requests argmax and sums of integers, in both encodings; the sums are exact."""
    sizes, pause = _STEPS[step]
    chance = np.random.default_rng(step)
    with Client(url, timeout=_TIMEOUT) as client:
        while True:
            x = chance.integers(-1000, 1000, sizes).astype(np.float32)
            encoding = Encoding.BINARY if chance.random() < 0.5 else Encoding.BASE64
            sums = chance.random() < 0.5
            began, failure = time.monotonic(), ""
            try:
                found = _ask(client, x, encoding, sums=sums)
            except OpwireError as error:
                found, failure = None, f"{type(error).__name__}: {error}"[:200]
            ended = time.monotonic()
            if found is not None and not np.array_equal(found, _right(x, sums=sums)):
                failure = "a wrong answer"
            report(CallRecord(step, began, ended, failure))
            time.sleep(pause)


def _ask(client: Client, x: NDArray[np.float32], encoding: Encoding, *, sums: bool) -> NDArray[Any]:
    ask = client.sum if sums else client.argmax
    return ask(x, 1, encoding=encoding).output


def _right(x: NDArray[np.float32], *, sums: bool) -> NDArray[Any]:
    if sums:
        return np.asarray(x.sum(1, keepdims=True, dtype=np.float64))
    return np.asarray(np.argmax(x, 1, keepdims=True))
