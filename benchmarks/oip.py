"""Compares the Open Inference Protocol with the native binary route: one ARGMAX over both, by turns, on one server.

Needs wrk. Run with the Python that opwire is installed in: ``python benchmarks/oip.py --device cpu``.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opwire import Client
from opwire.wire import HEAD_LENGTH, Call, Encoding, write_call

SHAPES = ((3, 3), (1, 64, 112, 112))
TARGET = 0.8

_SCRIPT = """
local file = io.open(os.getenv("BODY"), "rb")
wrk.method = "POST"
wrk.body = file:read("*a")
for line in os.getenv("HEADERS"):gmatch("[^\\n]+") do
  local name, value = line:match("([^:]+): (.*)")
  wrk.headers[name] = value
end
function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests": %d, "microseconds": %d, "errors": %d, "p50": %d}', summary.requests,
    summary.duration, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50)))
end
"""


@dataclass(frozen=True)
class Route:
    """A way to send the request."""

    name: str
    path: str
    headers: dict[str, str]
    body: bytes


def routes(shape: tuple[int, ...]) -> list[Route]:
    """The same request natively and over the protocol, tensors as raw bytes both ways."""
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": list(shape)}, "Axes": [1], "AxisDirection": "INCREASING"}
    headers, chunks = write_call(Call({"type": "ARGMAX", "desc": desc}, {"InputTensor": array}), Encoding.BINARY)
    tensor = {"name": "InputTensor", "shape": list(shape), "datatype": "FP32"}
    request = {
        "inputs": [{**tensor, "parameters": {"binary_data_size": array.nbytes}}],
        "parameters": {"binary_data_output": True, "Axes": "[1]", "AxisDirection": "INCREASING"},
    }
    head = json.dumps(request, separators=(",", ":")).encode()
    # As tritonclient sends it: without a content type, and the tensor wherever the head ends.
    return [
        Route("native", "/v1/execute", headers, b"".join(chunks)),
        Route("oip", "/v2/models/ARGMAX/infer", {HEAD_LENGTH: str(len(head))}, head + array.tobytes()),
    ]


def load(url: str, route: Route, folder: Path, connections: int, seconds: int) -> float:
    """Requests per second of a route; an answer other than 200 is an error."""
    script, body = folder / "post.lua", folder / "body"
    script.write_text(_SCRIPT)
    body.write_bytes(route.body)
    headers = "\n".join(f"{name}: {value}" for name, value in route.headers.items() if name != "Content-Length")
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "30s",
        "-s",
        str(script),
        url + route.path,
    ]
    environment = {**os.environ, "BODY": str(body), "HEADERS": headers}
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    found = json.loads(output.strip().splitlines()[-1])
    if found["errors"]:
        raise SystemExit(f"{found['errors']} of {found['requests']} requests to {route.path} failed")
    return float(found["requests"] / found["microseconds"] * 1e6)


@contextmanager
def serving(device: str) -> Iterator[str]:
    """A server of its own on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", str(port), "--device", device]
    with subprocess.Popen([*command, "--log-level", "warning"]) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            with Client(url) as client:
                client.wait_ready(timeout=60)
            yield url
        finally:
            process.terminate()


def compare(url: str, shape: tuple[int, ...], rounds: int, connections: int, seconds: int) -> float:
    """The median of the rounds' ratios, with the rates printed."""
    rates: dict[str, list[float]] = {"native": [], "oip": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(-1, rounds):  # the first is to warm up
            for route in routes(shape):
                rate = load(url, route, Path(folder), connections, seconds)
                if turn >= 0:
                    rates[route.name].append(rate)
    ratios = [oip / native for native, oip in zip(rates["native"], rates["oip"], strict=True)]
    middle = statistics.median(ratios)
    medians = ", ".join(f"{name} {statistics.median(found):.0f}/s" for name, found in rates.items())
    sys.stdout.write(f"{list(shape)}: {medians}; ratio {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})\n")
    return middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a running server; without it one is started")
    parser.add_argument("--device", default="cpu", help="of the server that is started (default: cpu)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=2)
    given = parser.parse_args()

    def measured(url: str) -> int:
        found = [compare(url, shape, given.rounds, given.connections, given.seconds) for shape in SHAPES]
        return 0 if min(found) >= TARGET else 1

    if given.url:
        return measured(given.url.rstrip("/"))
    with serving(given.device) as url:
        return measured(url)


if __name__ == "__main__":
    sys.exit(main())
