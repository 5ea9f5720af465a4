"""How much more a cluster does with more nodes, through a server and its clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import numpy as np

from opwire.client import Client
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings

from .simulated import STORE, Simulated, until
from .waiting import SECONDS_PER_VISIT, TARGET

WORK = 0.05
"""Seconds of a request."""

CLIENTS_PER_NODE = 4
SECONDS = 8.0

LINEAR = 0.9

Request = tuple[dict[str, Any], dict[str, Any]]


def waiting_request() -> Request:
    """For which a WaitingDevice takes ``WORK``."""
    tensor = {"DataType": "FLOAT32", "Sizes": [round(WORK / SECONDS_PER_VISIT)], "Strides": [0]}
    desc = {"Function": "SUM", "InputTensor": tensor, "Axes": [0]}
    return {"type": "REDUCE", "desc": desc}, {"InputTensor": np.zeros(1, "f4").tobytes()}


def kernel_request() -> Request:
    """Some tens of milliseconds of a processor for 256 KB of numbers."""
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 256, 256]},
        "WindowSize": [9, 9],
        "Strides": [1, 1],
        "StartPadding": [4, 4],
        "EndPadding": [4, 4],
        "P": 3,
    }
    array = np.random.default_rng(0).random((1, 1, 256, 256), "f4")
    return {"type": "LP_POOLING", "desc": desc}, {"InputTensor": array}


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of a server in a thread of this process."""
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
    """Waits until a server has so many devices of its cluster."""
    until(lambda: sum("/" in each["name"] for each in httpx.get(f"{url}/v1/server").json()["devices"]) >= count)


class Rate:
    """Requests that clients have answered.

    Attributes:
        answered: how many, and the different answers.
    """

    def __init__(self) -> None:
        self.answered = 0
        self.answers: set[bytes] = set()
        self._lock = threading.Lock()

    def add(self, answer: bytes) -> None:
        with self._lock:
            self.answered += 1
            self.answers.add(answer)


def rate(url: str, request: Request, device: str, clients: int) -> tuple[float, set[bytes]]:
    """Requests a second that clients have answered, and the different answers; the first second does not count."""
    ended, found = threading.Event(), Rate()

    def ask() -> None:
        with Client(url) as client:
            while not ended.is_set():
                result = client.execute(*request, device=device)
                found.add(b"".join(array.tobytes() for array in result.outputs.values()))

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    before, started = found.answered, time.perf_counter()
    time.sleep(SECONDS)
    done, took = found.answered - before, time.perf_counter() - started
    ended.set()
    for thread in threads:
        thread.join()
    return done / took, found.answers


def measure_scaling(cluster: Simulated) -> bool:
    """Prints the throughput with 1, 2, 4 and 8 nodes. Returns whether it is near enough to linear."""
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
                f"{nodes} nodes: {found:6.1f} a second of {WORK * 1e3:.0f} ms each, {linear:.2f} of linear: {verdict}"
            )
    return kept


def measure_kernels(cluster: Simulated) -> bool:
    """Prints the throughput of a kernel alone, and with two nodes of one processor.

    Returns whether it has the same bits everywhere, and two nodes are not slower than one.
    """
    request = kernel_request()
    with served(Settings(ray=cluster.address)) as url:
        await_devices(url, 2)
        for device in ("cpu", "cluster"):  # what must be compiled is
            rate(url, request, device, 2)
        rates, answers = {}, set[bytes]()
        for device in ("cpu", "node0/cpu", "cluster", "auto"):
            rates[device], found = rate(url, request, device, 4)
            answers |= found
    print(", ".join(f"{device}: {found:.1f} a second" for device, found in rates.items()))
    print(
        f"two nodes: {rates['cluster'] / rates['cpu']:.2f} times the server alone with all processors, "
        f"{rates['cluster'] / rates['node0/cpu']:.2f} times one node; {len(answers)} different answer(s)"
    )
    return len(answers) == 1 and rates["cluster"] >= rates["node0/cpu"]
