"""Requests for a cluster, and clients that send them concurrently."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire.client import Client
from tests.support.http.processes import until

ROWS, COLUMNS = 256, 300

OPERATOR: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [ROWS, COLUMNS]}, "Axes": [1]},
}
"""Sums of rows of 300 KB in all, more than Ray sends without its object store."""


def numbers(seed: int = 0) -> Any:
    """Returns integers as floats; their sums are exact in any order."""
    return np.random.default_rng(seed).integers(-1000, 1000, (ROWS, COLUMNS)).astype("f4")


def right(array: Any) -> bytes:
    """Computes the expected output in integers."""
    return bytes(array.astype("i8").sum(axis=1).astype("f4").tobytes())


def waiting(seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns an operator and inputs that keep a WaitingDevice busy for ``seconds``."""
    count = round(seconds * 1e6)
    tensor = {"DataType": "FLOAT32", "Sizes": [count], "Strides": [0]}
    desc = {"Function": "SUM", "InputTensor": tensor, "Axes": [0]}
    return {"type": "REDUCE", "desc": desc}, {"InputTensor": np.zeros(1, "f4").tobytes()}


def maximum(count: int) -> Plan:
    """Returns a maximum over ``count`` numbers."""
    tensor = {"DataType": "FLOAT32", "Sizes": [count]}
    return check({"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": tensor, "Axes": [0]}})


class Load:
    """Clients that send the same request over and over.

    Attributes:
        answered: Number of correct answers, by device.
        wrong: Number of wrong answers.
        errors: Raised exceptions, as text.
    """

    def __init__(self, url: str, device: str, clients: int) -> None:
        self.answered: Counter[str] = Counter()
        self.wrong = 0
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(url, device, seed)) for seed in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, url: str, device: str, seed: int) -> None:
        array = numbers(seed)
        wanted = right(array)
        with Client(url, max_retries=0, timeout=60) as client:
            while not self._ended.is_set():
                try:
                    result = client.execute(OPERATOR, {"InputTensor": array}, device=device)
                except Exception as error:
                    self.errors.append(repr(error))
                    continue
                if result.outputs["OutputTensor"].tobytes() == wanted:
                    self.answered[str(result.device)] += 1
                else:
                    self.wrong += 1

    def await_answers(self, count: int, device: str | None = None) -> None:
        """Waits for ``count`` more correct answers, from one device or from all."""
        before = self._count(device)
        until(lambda: self._count(device) >= before + count)

    def _count(self, device: str | None) -> int:
        return self.answered.total() if device is None else self.answered[device]

    def end(self) -> None:
        """Stops the clients."""
        self._ended.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def load(url: str, device: str = "cluster", clients: int = 4) -> Iterator[Load]:
    """Runs clients for the duration of the context."""
    made = Load(url, device, clients)
    try:
        yield made
    finally:
        made.end()
