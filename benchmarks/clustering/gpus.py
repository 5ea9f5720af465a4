"""Two GPUs of one host as two cluster devices, compared with one of them.

Requests take tens of milliseconds on a GPU and carry 256 KB each way, so that the GPUs are the bottleneck rather than
the process that feeds them. Requests are encoded once and answers are not decoded; otherwise the clients would use most
of the CPU.
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
"""Side of the square matrix in each request."""

PRODUCTS, WINDOW = 512, 257

Written = tuple[dict[str, str], list[Buffer]]
"""Headers of a request, and its body in chunks."""


def measure_gpus(results: Path | None = None) -> bool:
    """Prints the speedup of two GPUs over one. Returns whether it suffices; True on machines with fewer than two GPUs.

    Args:
        results: file for the results.
    """
    try:
        count = CudaDevice.count()
    except DeviceUnavailable as error:
        count = 0
        print(error)
    if count < 2:
        print(f"GPUs: not measured; this machine has {count}")
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
    """Returns the GPUs of the cluster by device name."""
    devices = httpx.get(f"{url}/v1/server").json()["devices"]
    return {each["name"]: each["card"] for each in devices if "/cuda:" in each["name"]}


def _products(device: str) -> Call:
    """A chain of matrix products, launched one after another."""
    graph = opwire.Graph()
    values = matrix = graph.input("a", "FLOAT32", [1, 1, SIZE, SIZE])
    for _ in range(PRODUCTS):
        values = graph.gemm(values, matrix, alpha=2 / SIZE)  # keeps the magnitude of the values
    graph.output("b", values)
    return prepare.execute(graph, {"a": _matrix()}, device=device)


def _windows(device: str) -> Call:
    """A large window around each element, in a few long launches."""
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
    """Measures one GPU and both in turns; the single one alternates."""
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
    """Returns the tensor of the answer."""
    headers, pieces = request
    answer = client.post("/v1/execute", headers=headers, content=b"".join(pieces)).raise_for_status()
    return answer.content[int(answer.headers[HEAD_LENGTH]) :]


def _latency(url: str, requests: Mapping[str, Written]) -> float:
    """Returns the seconds of a request that has a GPU to itself, after one request to each GPU compiles the kernels."""
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
    """Returns the answers per second of clients that each use one of the GPUs, and collects the distinct answers."""
    sent = list(requests.values())

    @contextmanager
    def opened(number: int) -> Iterator[Ask]:
        with httpx.Client(base_url=url, timeout=120.0) as client:
            yield lambda: _ask(client, sent[number % len(sent)])

    with repeated(CLIENTS, opened) as found:
        rate = found.measure(SECONDS)
    answers |= found.answers
    return rate
