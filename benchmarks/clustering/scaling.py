"""How the throughput of a cluster grows with its nodes, measured through a server and its clients."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import httpx
import numpy as np

from opwire.client import Client
from opwire_service.devices.cpu import THREADS_VARIABLE
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings

from .simulated import STORE, Simulated, until
from .waiting import SECONDS_PER_VISIT, TARGET

WORK = 0.05
"""Seconds per request."""

CLIENTS_PER_NODE = 4
SETTLING, SECONDS = 1.0, 8.0

LINEAR = 0.9

Request = tuple[dict[str, Any], dict[str, Any]]
Ask = Callable[[], bytes]


def waiting_request() -> Request:
    """Returns a request that takes a WaitingDevice ``WORK`` seconds."""
    tensor = {"DataType": "FLOAT32", "Sizes": [round(WORK / SECONDS_PER_VISIT)], "Strides": [0]}
    desc = {"Function": "SUM", "InputTensor": tensor, "Axes": [0]}
    return {"type": "REDUCE", "desc": desc}, {"InputTensor": np.zeros(1, "f4").tobytes()}


def kernel_request() -> Request:
    """Returns a request of some tenths of a CPU second for 256 KB, the kind of work that a cluster is worth it for."""
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 256, 256]},
        "WindowSize": [25, 25],
        "Strides": [1, 1],
        "StartPadding": [12, 12],
        "EndPadding": [12, 12],
        "P": 3,
    }
    array = np.random.default_rng(0).random((1, 1, 256, 256), "f4")
    return {"type": "LP_POOLING", "desc": desc}, {"InputTensor": array}


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Runs a server in a thread of this process and yields its URL."""
    server = HttpServer(replace(settings, port=0, log_level="error", limits=Limits(memory_bytes=STORE)))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.url is not None)
        assert server.url is not None
        yield server.url
    finally:
        server.should_exit = True
        thread.join()


def await_devices(url: str, count: int) -> None:
    """Waits until a server has at least ``count`` devices of its cluster."""
    until(lambda: sum("/" in each["name"] for each in httpx.get(f"{url}/v1/server").json()["devices"]) >= count)


class Rate:
    """Counts the answers that clients receive.

    Attributes:
        answered: number of answers.
        answers: the distinct answers.
    """

    def __init__(self) -> None:
        self.answered = 0
        self.answers: set[bytes] = set()
        self._lock = threading.Lock()

    def add(self, answer: bytes) -> None:
        with self._lock:
            self.answered += 1
            self.answers.add(answer)

    def measure(self, seconds: float) -> float:
        """Returns the answers per second over ``seconds``, after a settling time."""
        time.sleep(SETTLING)
        before, started = self.answered, time.perf_counter()
        time.sleep(seconds)
        return (self.answered - before) / (time.perf_counter() - started)


@contextmanager
def repeated(clients: int, opened: Callable[[int], AbstractContextManager[Ask]]) -> Iterator[Rate]:
    """Runs clients that send requests continuously while the context lasts.

    Args:
        clients: number of clients.
        opened: returns the connection of the client with a given number; its value sends one request.
    """
    ended, found = threading.Event(), Rate()

    def repeat(number: int) -> None:
        with opened(number) as ask:
            while not ended.is_set():
                found.add(ask())

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def asked(url: str, request: Request, device: str, clients: int) -> AbstractContextManager[Rate]:
    """Runs clients that all send the same request."""

    @contextmanager
    def opened(_: int) -> Iterator[Ask]:
        with Client(url) as client:
            yield lambda: b"".join(
                array.tobytes() for array in client.execute(*request, device=device).outputs.values()
            )

    return repeated(clients, opened)


def rate(url: str, request: Request, device: str, clients: int) -> tuple[float, set[bytes]]:
    """Returns the answers per second, and the distinct answers."""
    with asked(url, request, device, clients) as found:
        return found.measure(SECONDS), found.answers


def measure_scaling(cluster: Simulated) -> bool:
    """Prints the throughput with 1, 2, 4 and 8 nodes. Returns whether it is close enough to linear."""
    alone, kept = 0.0, True
    with served(Settings(ray=cluster.address, node_device=TARGET)) as url:
        for nodes in (1, 2, 4, 8):
            cluster.add(nodes - len(cluster.ids))
            await_devices(url, nodes)
            found, _ = rate(url, waiting_request(), "cluster", CLIENTS_PER_NODE * nodes)
            alone = alone or found
            linear = found / (nodes * alone)
            kept = kept and linear >= LINEAR
            verdict = "kept" if linear >= LINEAR else "MISSED"
            print(
                f"{nodes} nodes: {found:6.1f} requests/s of {WORK * 1e3:.0f} ms each, {linear:.2f} of linear: {verdict}"
            )
    return kept


def measure_kernels(cluster: Simulated) -> bool:
    """Prints the throughput of a kernel on a server alone, and with two nodes of one core each.

    The server alone has one core, like each node; its throughput with all cores is printed for comparison.

    Returns whether all results have the same bits, and two nodes are not slower than the server alone.
    """
    request, rates, answers = kernel_request(), dict[str, float](), set[bytes]()
    with _one_processor(), served(Settings(ray=cluster.address, threads=1)) as url:
        await_devices(url, 2)
        for device in ("cpu", "node0/cpu", "node1/cpu"):  # compiles the kernels
            _once(url, request, device)
        for device in ("cpu", "node0/cpu", "cluster"):
            rates[device], found = rate(url, request, device, 4)
            answers |= found
    with served(Settings()) as url:
        _once(url, request, "cpu")
        everything, found = rate(url, request, "cpu", 4)
        answers |= found
    print(", ".join(f"{device}: {found:.2f}/s" for device, found in rates.items()), end=", ")
    print(f"cpu with all cores: {everything:.2f}/s")
    two = rates["cluster"]
    print(
        f"two nodes: {two / rates['cpu']:.2f} times the server alone, {two / rates['node0/cpu']:.2f} times one node, "
        f"{two / everything:.2f} times the server with all cores; {len(answers)} distinct answer(s)"
    )
    return len(answers) == 1 and two >= rates["cpu"]


@contextmanager
def _one_processor() -> Iterator[None]:
    """Limits the device of a server started within the context to one thread."""
    os.environ[THREADS_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS_VARIABLE]


def _once(url: str, request: Request, device: str) -> None:
    with Client(url) as client:
        client.execute(*request, device=device)
