"""Two GPUs of one host as two devices of a cluster, next to one of them.

Requests take a card tens of milliseconds and carry 256 KB each way, so that the cards are the bound and not the
process that sends them work. They are written once, and answers are not read: clients would take the most processor
time otherwise.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

import opwire
from opwire.client import prepare
from opwire.tensor import Array
from opwire.wire import HEAD_LENGTH, Buffer, Call, Encoding, write_call
from opwire_service.devices.base import DeviceUnavailable
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.settings import Settings

from .scaling import Ask, repeated, served
from .simulated import until

TIMES = 1.8
CLIENTS = 16
ROUNDS = 4
SECONDS = 4.0

SIZE = 256
"""Of the square matrix that each request carries."""

PRODUCTS, WINDOW = 512, 257

Written = tuple[dict[str, str], list[Buffer]]
"""Headers of a request, and its body in pieces."""


def measure_gpus(results: Path | None = None) -> bool:
    """Prints how much more two GPUs do than one. Returns whether it is enough; True where there are not two.

    Args:
        results: the file that the figures are written to.
    """
    try:
        count = CudaDevice.count()
    except DeviceUnavailable as error:
        count = 0
        print(error)
    if count < 2:
        print(f"GPUs: not measured, this machine has {count}")
        return True
    with served(Settings(ray="local")) as url:
        until(lambda: len(_cards(url)) >= count)
        names = sorted(_cards(url))[:2]
        rows = [_compare(url, names, load, make) for load, make in LOADS.items()]
        card = _cards(url)[names[0]]
    if results is not None:
        results.write_text(json.dumps({"card": card, "clients": CLIENTS, "rows": rows}, indent=1) + "\n")
    return all(row["is_same"] and row["times_one"] >= TIMES for row in rows)


def _cards(url: str) -> dict[str, str]:
    """The GPUs of the cluster by the names of their devices."""
    devices = httpx.get(f"{url}/v1/server").json()["devices"]
    return {each["name"]: each["card"] for each in devices if "/cuda:" in each["name"]}


def _products(device: str) -> Call:
    """A chain of products, launch after launch."""
    graph = opwire.Graph()
    values = matrix = graph.input("a", "FLOAT32", [1, 1, SIZE, SIZE])
    for _ in range(PRODUCTS):
        values = graph.gemm(values, matrix, alpha=2 / SIZE)  # so that numbers keep their size
    graph.output("b", values)
    return prepare.execute(graph, {"a": _matrix()}, device=device)


def _windows(device: str) -> Call:
    """Large windows around each element, in a few long launches."""
    margin = [WINDOW // 2] * 2
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, SIZE, SIZE]},
        "WindowSize": [WINDOW] * 2,
        "Strides": [1, 1],
        "StartPadding": margin,
        "EndPadding": margin,
        "P": 3,
    }
    return prepare.execute({"type": "LP_POOLING", "desc": desc}, {"InputTensor": _matrix()}, device=device)


LOADS = {"chain of products": _products, "large windows": _windows}


def _matrix() -> Array:
    return np.random.default_rng(0).random((1, 1, SIZE, SIZE), "f4")


def _compare(url: str, cards: list[str], load: str, make: Callable[[str], Call]) -> dict[str, Any]:
    """One card and two in turns; the one is each of them in turns."""
    requests = {card: write_call(make(card), Encoding.BINARY) for card in cards}
    alone = _latency(url, requests)
    answers = set[bytes]()
    one, two = [], []
    for turn in range(ROUNDS):
        one.append(_rate(url, {cards[turn % 2]: requests[cards[turn % 2]]}, answers))
        two.append(_rate(url, requests, answers))
    ratios = [both / single for single, both in zip(one, two, strict=True)]
    row = {
        "load": load,
        "alone_ms": round(alone * 1e3, 2),
        "one": round(median(one), 1),
        "two": round(median(two), 1),
        "times_one": round(median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "is_same": len(answers) == 1,
    }
    print(row, flush=True)
    return row


def _ask(client: httpx.Client, request: Written) -> bytes:
    """The tensor of the answer."""
    headers, pieces = request
    answer = client.post("/v1/execute", headers=headers, content=b"".join(pieces)).raise_for_status()
    return answer.content[int(answer.headers[HEAD_LENGTH]) :]


def _latency(url: str, requests: Mapping[str, Written]) -> float:
    """Seconds of a request that has a card to itself; before that, each card gets what must be compiled."""
    taken = []
    with httpx.Client(base_url=url, timeout=120.0) as client:
        for request in requests.values():
            _ask(client, request)
        for _ in range(5):
            started = time.perf_counter()
            _ask(client, request)
            taken.append(time.perf_counter() - started)
    return median(taken)


def _rate(url: str, requests: Mapping[str, Written], answers: set[bytes]) -> float:
    """Answers a second of clients who each have one of the cards; the different answers are added to others."""
    sent = list(requests.values())

    @contextmanager
    def opened(number: int) -> Iterator[Ask]:
        with httpx.Client(base_url=url, timeout=120.0) as client:
            yield lambda: _ask(client, sent[number % len(sent)])

    with repeated(CLIENTS, opened) as found:
        rate = found.measure(SECONDS)
    answers |= found.answers
    return rate
