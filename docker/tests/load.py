"""Clients that send requests continuously and retry those without an answer."""

from __future__ import annotations

import threading
import time
from itertools import count

from registry import EXAMPLES, check

from opwire import Client
from opwire.errors import OverloadedError, TransportError, UnavailableError

AGAIN = (TransportError, UnavailableError, OverloadedError)
"""Errors to retry on: operators are pure, so repeating a request is harmless."""

PATIENCE = 30.0


class Load:
    """Threads that run the examples against a server while the context lasts.

    Attributes:
        answers: number of right answers so far.
        retries: number of attempts without an answer.
        failures: requests without a right answer in time.
    """

    def __init__(self, url: str, threads: int = 4) -> None:
        self.answers = 0
        self.retries = 0
        self.failures: list[str] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(url, first)) for first in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def wait_answers(self, more: int, seconds: float = 60.0) -> None:
        """Waits for ``more`` further answers."""
        goal, end = self.answers + more, time.monotonic() + seconds
        while self.answers < goal:
            assert time.monotonic() < end, f"{self.answers} of {goal} answers; {self.failures[:3]}"
            time.sleep(0.02)

    def _ask(self, url: str, first: int) -> None:
        with Client(url, timeout=10.0) as client:
            for number in count(first):
                if self._stopped.is_set():
                    return
                failure = self._one(client, number)
                with self._lock:
                    self.answers += failure is None
                    self.failures += [] if failure is None else [failure]

    def _one(self, client: Client, number: int) -> str | None:
        name, example = EXAMPLES[number % len(EXAMPLES)]
        end, tries = time.monotonic() + PATIENCE, 0
        while True:
            try:
                check(client, name, example)
                return None
            except AGAIN as error:
                tries += 1
                with self._lock:
                    self.retries += 1
                if time.monotonic() > end:
                    return f"{name} {example.name}: {error!r} after {tries} tries"
                time.sleep(min(0.05 * 2**tries, 1.0))
            except Exception as error:
                return f"{name} {example.name}: {error!r}"
