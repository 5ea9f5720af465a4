"""Two GPUs of one host as two devices of a cluster, next to one of them."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import numpy as np

import opwire
from opwire.client import Client
from opwire_service.settings import Settings

from .scaling import served
from .simulated import until

TIMES = 1.8
CLIENTS = 8
SIZE = 512
PRODUCTS = 120
SECONDS = 10.0


def measure_gpus() -> bool:
    """Prints the throughput of one GPU and of two. Returns whether two do enough more; True where there are not two."""
    with served(Settings(ray="local")) as url:
        until(lambda: any(each.endswith("/cpu") for each in _names(url)))
        time.sleep(15)  # loading CUDA takes longer
        cards = sorted(each for each in _names(url) if "/cuda:" in each)
        if len(cards) < 2:
            print(f"GPUs: not measured, this machine has {len(cards)}")
            return True
        _rate(url, cards[:2])  # what must be compiled is
        one, two = _rate(url, cards[:1]), _rate(url, cards[:2])
    print(f"GPUs: one {one:.1f} a second, two {two:.1f}: {two / one:.2f} times")
    return two >= TIMES * one


def _names(url: str) -> list[str]:
    return [each["name"] for each in httpx.get(f"{url}/v1/server").json()["devices"]]


def _request() -> tuple[opwire.Graph, dict[str, Any]]:
    """A chain of products that keeps a card busy for tens of milliseconds, of tensors of 1 MB."""
    graph = opwire.Graph()
    values = matrix = graph.input("a", "FLOAT32", [1, 1, SIZE, SIZE])
    for _ in range(PRODUCTS):
        values = graph.gemm(values, matrix, alpha=2 / SIZE)  # so that numbers keep their size
    graph.output("b", values)
    return graph, {"a": np.random.default_rng(0).random((1, 1, SIZE, SIZE), "f4")}


def _rate(url: str, cards: list[str]) -> float:
    ended, counts = threading.Event(), dict.fromkeys(range(CLIENTS), 0)
    graph, inputs = _request()

    def ask(number: int) -> None:
        with Client(url) as client:
            while not ended.is_set():
                client.execute(graph, inputs, device=cards[number % len(cards)])
                counts[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in counts]
    for thread in threads:
        thread.start()
    time.sleep(2.0)
    before, started = sum(counts.values()), time.perf_counter()
    time.sleep(SECONDS)
    found = (sum(counts.values()) - before) / (time.perf_counter() - started)
    ended.set()
    for thread in threads:
        thread.join()
    return found
