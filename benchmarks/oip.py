"""Compares the Open Inference Protocol with the native binary route, and optionally shared memory with the binary
tail: the same ARGMAX each way, in turns, on one server.

Requires wrk, and tritonclient for shared memory. Run it with the Python that opwire is installed in:
``python benchmarks/oip.py --device cpu --shared``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opwire import Client
from opwire.wire import HEAD_LENGTH, Call, Encoding, write_call

SHAPES = ((3, 3), (1, 64, 112, 112))
TARGET = 0.8

SHARED_SHAPE = (16, 64, 128, 128)
SHARED_TARGET = 1.5
_ATTRIBUTES = {"Axes": "[1]", "AxisDirection": "INCREASING"}
_PREFIX = "opwire-benchmark-"

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
    """Returns the same request natively and over the protocol, with raw tensor bytes both ways."""
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": list(shape)}, "Axes": [1], "AxisDirection": "INCREASING"}
    headers, chunks = write_call(Call({"type": "ARGMAX", "desc": desc}, {"InputTensor": array}), Encoding.BINARY)
    tensor = {"name": "InputTensor", "shape": list(shape), "datatype": "FP32"}
    request = {
        "inputs": [{**tensor, "parameters": {"binary_data_size": array.nbytes}}],
        "parameters": {"binary_data_output": True, "Axes": "[1]", "AxisDirection": "INCREASING"},
    }
    head = json.dumps(request, separators=(",", ":")).encode()
    # Like tritonclient: no content type, and the tensor follows the head without alignment.
    return [
        Route("native", "/v1/execute", headers, b"".join(chunks)),
        Route("oip", "/v2/models/ARGMAX/infer", {HEAD_LENGTH: str(len(head))}, head + array.tobytes()),
    ]


def load(server: Server, route: Route, folder: Path, connections: int, seconds: int) -> tuple[float, float]:
    """Returns requests per second and the server's CPU microseconds per request; any status but 200 is an error."""
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
        server.url + route.path,
    ]
    environment = {**os.environ, "BODY": str(body), "HEADERS": headers}
    before = server.seconds()
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    found = json.loads(output.strip().splitlines()[-1])
    if found["errors"]:
        raise SystemExit(f"{found['errors']} of {found['requests']} requests to {route.path} failed")
    cost = (server.seconds() - before) / found["requests"] * 1e6
    return found["requests"] / found["microseconds"] * 1e6, cost


@dataclass(frozen=True)
class Server:
    """A server; its CPU time is known only if its process is."""

    url: str
    process: int | None = None

    def seconds(self) -> float:
        """Returns the CPU time used by its process so far."""
        if self.process is None:
            return float("nan")
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(device: str) -> Iterator[Server]:
    """Runs a server on a free port while the context lasts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", str(port), "--device", device]
    command += ["--shared-memory-prefix", _PREFIX]
    with subprocess.Popen([*command, "--log-level", "warning"]) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            with Client(url) as client:
                client.wait_ready(timeout=60)
            yield Server(url, process.pid)
        finally:
            process.terminate()


def compare(server: Server, shape: tuple[int, ...], rounds: int, connections: int, seconds: int) -> float:
    """Prints rates and costs, and returns the median of the rounds' ratios."""
    rates: dict[str, list[float]] = {"native": [], "oip": []}
    costs: dict[str, list[float]] = {"native": [], "oip": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(-1, rounds):  # the first round is a warm-up
            for route in routes(shape):
                rate, cost = load(server, route, Path(folder), connections, seconds)
                if turn >= 0:
                    rates[route.name].append(rate)
                    costs[route.name].append(cost)
    middle = print_ratio(
        shape, "rate", "/s", rates, [o / n for n, o in zip(rates["native"], rates["oip"], strict=True)]
    )
    cost_ratios = [n / o for n, o in zip(costs["native"], costs["oip"], strict=True)]
    # Other load on the machine affects the rate, but hardly the CPU time per request.
    return middle if server.process is None else print_ratio(shape, "processor", " us", costs, cost_ratios)


def print_ratio(
    shape: tuple[int, ...], what: str, unit: str, found: dict[str, list[float]], ratios: list[float]
) -> float:
    """Prints the medians, and returns that of the ratios."""
    medians = ", ".join(f"{name} {statistics.median(each):.0f}{unit}" for name, each in found.items())
    middle = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    sys.stdout.write(f"{list(shape)}, {what}: {medians}; ratio {middle:.2f} ({spread})\n")
    return middle


class Ways:
    """One request in four ways: via the tail or shared memory, with Triton's client or a minimal one.

    The array is new to the server each time: with shared memory, the client copies it into the region, and the answer
    out of it. The minimal client copies nothing else; Triton's client first assembles a body.
    """

    def __init__(self, url: str, stack: ExitStack) -> None:
        import tritonclient.http as triton
        from tritonclient.utils import shared_memory

        self._triton, self._shared = triton, shared_memory
        self._array = np.random.default_rng(1).standard_normal(SHARED_SHAPE).astype(np.float32)
        self._shape = (SHARED_SHAPE[0], 1, *SHARED_SHAPE[2:])
        self._sizes = {"input": self._array.nbytes, "output": int(np.prod(self._shape)) * 4}
        self._client = stack.enter_context(
            triton.InferenceServerClient(url.removeprefix("http://"), network_timeout=60)
        )
        self._plain = http.client.HTTPConnection(url.removeprefix("http://"))
        stack.callback(self._plain.close)
        self._regions = {}
        for name, size in self._sizes.items():
            key = f"/{_PREFIX}{os.getpid()}-{name}"
            self._regions[name] = shared_memory.create_shared_memory_region(name, key, size, create_only=True)
            stack.callback(shared_memory.destroy_shared_memory_region, self._regions[name])
            self._client.register_system_shared_memory(name, key, size)
            stack.callback(self._client.unregister_system_shared_memory, name)

    def stock_tail(self) -> Any:
        tensor = self._triton.InferInput("InputTensor", SHARED_SHAPE, "FP32").set_data_from_numpy(self._array)
        return self._client.infer("ARGMAX", [tensor], parameters=_ATTRIBUTES).as_numpy("OutputTensor")

    def stock_shared(self) -> Any:
        self._shared.set_shared_memory_region(self._regions["input"], [self._array])
        tensor = self._triton.InferInput("InputTensor", SHARED_SHAPE, "FP32")
        tensor.set_shared_memory("input", self._sizes["input"])
        output = self._triton.InferRequestedOutput("OutputTensor")
        output.set_shared_memory("output", self._sizes["output"])
        self._client.infer("ARGMAX", [tensor], outputs=[output], parameters=_ATTRIBUTES)
        return self._answer()

    def plain_tail(self) -> Any:
        tail = {"binary_data_size": self._sizes["input"]}
        head, body = self._post(tail, {"binary_data": True}, memoryview(self._array).cast("B"))
        return np.frombuffer(body, np.uint32, offset=head).reshape(self._shape)

    def plain_shared(self) -> Any:
        self._shared.set_shared_memory_region(self._regions["input"], [self._array])
        lying = [{"shared_memory_region": name, "shared_memory_byte_size": size} for name, size in self._sizes.items()]
        self._post(*lying, b"")
        return self._answer()

    def _answer(self) -> Any:
        return self._shared.get_contents_as_numpy(self._regions["output"], np.uint32, self._shape).copy()

    def _post(self, source: object, target: object, tail: Any) -> tuple[int, bytes]:
        tensor = {"name": "InputTensor", "shape": SHARED_SHAPE, "datatype": "FP32", "parameters": source}
        outputs = [{"name": "OutputTensor", "parameters": target}]
        head = json.dumps({"inputs": [tensor], "outputs": outputs, "parameters": _ATTRIBUTES}).encode()
        self._plain.putrequest("POST", "/v2/models/ARGMAX/infer")
        self._plain.putheader("Content-Length", str(len(head) + len(tail)))
        if tail:
            self._plain.putheader(HEAD_LENGTH, str(len(head)))
        self._plain.endheaders(head)
        if tail:
            self._plain.send(tail)
        answer = self._plain.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(body.decode())
        return int(answer.headers.get(HEAD_LENGTH, 0)), body


def compare_shared(url: str, rounds: int) -> float:
    """Prints the times, and returns the lower of the two clients' throughput ratios of shared memory to tail."""
    with ExitStack() as stack:
        ways = Ways(url, stack)
        times: dict[str, list[float]] = {}
        answers = {}
        for turn in range(-2, rounds):  # the first two rounds are a warm-up
            for way in (ways.stock_tail, ways.stock_shared, ways.plain_tail, ways.plain_shared):
                began = time.perf_counter()
                answers[way.__name__] = way()
                if turn >= 0:
                    times.setdefault(way.__name__, []).append((time.perf_counter() - began) * 1e3)
        right = answers["stock_tail"]
        if not all(np.array_equal(found, right) for found in answers.values()):
            raise SystemExit("the answers differ")
    found = []
    for client in ("stock", "plain"):
        tail, shared = times[f"{client}_tail"], times[f"{client}_shared"]
        ratios = [slow / fast for slow, fast in zip(tail, shared, strict=True)]
        found.append(statistics.median(ratios))
        medians = f"tail {statistics.median(tail):.0f} ms, shared memory {statistics.median(shared):.0f} ms"
        least = f"minima {min(tail):.0f} and {min(shared):.0f} ms"
        sys.stdout.write(f"{list(SHARED_SHAPE)}, {client} client: {medians}; {least}; ratio {found[-1]:.2f}\n")
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--url", help=f"running server; with --shared it must allow the prefix {_PREFIX} (default: start one)"
    )
    parser.add_argument("--device", default="cpu", help="device of the started server (default: cpu)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--shared", action="store_true", help="also compare shared memory with the tail")
    given = parser.parse_args()

    def measured(server: Server) -> int:
        found = [compare(server, shape, given.rounds, given.connections, given.seconds) for shape in SHAPES]
        shared = compare_shared(server.url, 5 * given.rounds) if given.shared else SHARED_TARGET
        return 0 if min(found) >= TARGET and shared >= SHARED_TARGET else 1

    if given.url:
        return measured(Server(given.url.rstrip("/")))
    with serving(given.device) as server:
        return measured(server)


if __name__ == "__main__":
    sys.exit(main())
