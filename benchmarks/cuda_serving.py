"""Requests with large tensors over HTTP, on the GPU and the CPU of one host, and where the server places them.

Run ``python -m benchmarks.cuda_serving RESULTS.json [SECONDS]``; it needs a GPU, CuPy, and the kernels prepared by
``opwire warmup``. Tensors travel in the binary tail unless marked base64. Each connection sends the same bytes
repeatedly from its own thread; the server's limits are high enough that nothing is refused. The answers of both devices
are compared first. The load generator shares the cores with the server.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from opwire_service.kernels.cpu.families import KERNELS
from opwire_service.process.serve import serve
from opwire_service.settings import Limits, Settings

SIZES = (2**18, 2**22, 2**24)
"""FLOAT32 elements: 1 to 64 MiB."""

LARGE = 2**24
"""Number of elements from which on a measurement takes four times as long, to collect enough answers."""

CONNECTIONS = {1: (1, 16), 4: (16,)}
"""Numbers of connections to measure, by number of worker processes."""

DEVICES = ("cpu", "cuda", "auto")
BASE64 = "base64"
"""Suffix of the operators whose tensors are sent as base64."""

PORT = 8931
STARTS_WITHIN = 120.0

LIMITS = replace(Limits(), memory_bytes=16 * 2**30, max_wait_ms=60_000)
"""Enough for 16 concurrent requests of 64 MiB with their tensors in one process."""


@dataclass(frozen=True)
class Row:
    """One measurement; ``placed`` counts the requests by device."""

    operator: str
    bytes: int
    connections: int
    workers: int
    device: str
    requests_per_second: float
    gigabytes_per_second: float
    run_us: int
    placed: dict[str, int]


def operators(elements: int) -> dict[str, dict[str, Any]]:
    """Returns operators by name: sums of rows, in both encodings, and the class map of an image."""
    rows = {"DataType": "FLOAT32", "Sizes": [elements // 256, 256]}
    side = 2 ** ((elements.bit_length() - 1) // 2 - 2)
    classes = {"DataType": "FLOAT32", "Sizes": [1, elements // side**2, side, side]}
    total = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": rows, "Axes": [1]}}
    return {
        "SUM of rows": total,
        f"SUM of rows, {BASE64}": total,
        "ARGMAX of classes": {
            "type": "ARGMAX",
            "desc": {"InputTensor": classes, "Axes": [1], "AxisDirection": "INCREASING"},
        },
    }


def request(name: str, operator: dict[str, Any], elements: int, device: str) -> bytes:
    data = np.random.default_rng(1).standard_normal(elements, np.float32).tobytes()
    envelope: dict[str, Any] = {"operator": operator, "device": device}
    lines = ["POST /v1/execute HTTP/1.1", "Host: localhost", "Accept: application/octet-stream"]
    if name.endswith(BASE64):
        body = json.dumps({**envelope, "inputs": {"InputTensor": base64.b64encode(data).decode()}}).encode()
        lines.append("Content-Type: application/json")
    else:
        head = json.dumps({**envelope, "inputs": {"InputTensor": {"binary_data_size": len(data)}}}).encode()
        lines += ["Content-Type: application/octet-stream", f"Inference-Header-Content-Length: {len(head)}"]
        body = head + data
    return "\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body


class Connection(threading.Thread):
    """Sends a request repeatedly until stopped."""

    def __init__(self, message: bytes, stop: threading.Event) -> None:
        super().__init__()
        self._sent, self._over = message, stop
        self.heads: list[dict[str, Any]] = []
        self.tail = b""

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", PORT)) as connection, connection.makefile("rb") as answers:
            while not self._over.is_set():
                connection.sendall(self._sent)
                status = answers.readline()
                headers = dict(self._headers(answers))
                length = int(headers["inference-header-content-length"]) if b" 200 " in status else 0
                head = answers.read(length or int(headers["content-length"]))
                if not length:
                    raise RuntimeError(f"{status!r} {head!r}")
                self.tail = answers.read(int(headers["content-length"]) - length)
                self.heads.append(json.loads(head))

    @staticmethod
    def _headers(answers: Any) -> Iterator[tuple[str, str]]:
        while (line := answers.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            yield name.lower(), value.strip()


def load(message: bytes, connections: int, seconds: float) -> tuple[list[dict[str, Any]], float, bytes]:
    """Returns the heads of the answers after a warm-up, the elapsed seconds, and the tensors of one answer."""
    stop = threading.Event()
    threads = [Connection(message, stop) for _ in range(connections)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 3)
    before = [len(thread.heads) for thread in threads]
    started = time.perf_counter()
    time.sleep(seconds)
    after = [len(thread.heads) for thread in threads]
    elapsed = time.perf_counter() - started
    stop.set()
    for thread in threads:
        thread.join()
    counted = zip(threads, before, after, strict=True)
    return [head for thread, first, last in counted for head in thread.heads[first:last]], elapsed, threads[0].tail


def rows(workers: int, seconds: float) -> Iterator[Row]:
    for elements in SIZES:
        for name, operator in operators(elements).items():
            right: bytes | None = None
            for device in DEVICES:
                message = request(name, operator, elements, device)
                for connections in CONNECTIONS[workers]:
                    heads, elapsed, tail = load(message, connections, seconds * (4 if elements >= LARGE else 1))
                    right = right or tail
                    assert tail == right, f"{name} of {elements} on {device}"
                    rate = len(heads) / elapsed
                    runs = sorted(head["timing"]["run"] for head in heads) or [0]
                    yield Row(
                        name,
                        4 * elements,
                        connections,
                        workers,
                        device,
                        round(rate, 1),
                        round(rate * 4 * elements / 1e9, 3),
                        runs[len(runs) // 2],
                        dict(Counter(head["device"] for head in heads)),
                    )


def started(settings: Settings) -> Any:
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(settings,))
    server.start()
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end and server.is_alive():
        try:
            devices = httpx.get(f"http://127.0.0.1:{PORT}/v1/server", timeout=5).json()["devices"]
            if all(device["kernels"] == len(KERNELS) for device in devices if device["kind"] == "cpu"):
                return server
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise RuntimeError("the server did not start")


def main(results: Path, seconds: float) -> None:
    measured = []
    for workers in CONNECTIONS:
        limits = replace(LIMITS, memory_bytes=LIMITS.memory_bytes * workers)
        server = started(Settings(port=PORT, devices=("auto",), workers=workers, limits=limits))
        try:
            for row in rows(workers, seconds):
                measured.append(row)
                placed = " ".join(f"{device} {count}" for device, count in row.placed.items())
                print(
                    f"{row.workers} workers {row.operator:20} {row.bytes / 2**20:8.3f} MiB x{row.connections:<3} "
                    f"{row.device:5} {row.requests_per_second:9.1f}/s {row.gigabytes_per_second:7.3f} GB/s "
                    f"run {row.run_us:8} us  {placed}",
                    flush=True,
                )
        finally:
            server.terminate()
            server.join()
        results.write_text(json.dumps([asdict(row) for row in measured], indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 2.0)
