"""Measures a cluster: the cost of calls, and how throughput scales.

But for ``gpus``, all nodes run on this machine. For ``scaling``, their device only waits and uses no CPU. The results
show the overhead of dispatching to nodes, not of a network.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import opwire
from opwire.client import prepare
from opwire.tensor import Array
from opwire.wire import Encoding, write_call
from opwire_service.bench.load_generator import Address, measure, write_request
from opwire_service.devices.base import DeviceUnavailable
from opwire_service.devices.cpu import THREADS_VARIABLE
from opwire_service.devices.ray.device import RemoteDevice
from opwire_service.settings import Limits, Settings
from tests.cluster.loads import maximum, waiting
from tests.cluster.nodes import ENVIRONMENT, device_names, nodes, remote_device, server_info
from tests.cluster.waiting import TARGET
from tests.support.http.processes import until
from tests.support.http.serving import serving

from .report import Row, write

_SIZES = {"4 B": (1, 60), "3.2 MB": (800_000, 30), "64 MB": (16_000_000, 10)}
"""Numbers of elements, and of calls."""

_FIXED, _FACTOR = 2.5e-3, 1.3
"""Bound on a call: this many seconds, plus this multiple of the bare actor's time for the same bytes."""

_WORK, _CLIENTS_PER_NODE, _LINEAR = 0.05, 4, 0.9
"""Seconds of a request, clients, and the least share of linear growth."""

_CLIENTS, _ROUNDS, _TIMES = 16, 4, 1.8
"""For two GPUs: clients, turns, and the least speedup."""

_SECONDS = 8.0
"""Seconds of a load."""

Request = tuple[Any, Mapping[str, Any]]
"""An operator or a graph, and its inputs."""


def _bare_actor() -> Any:
    """Starts an actor on the node that only computes a maximum on a device."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Bare:
        def __init__(self) -> None:
            from opwire_service.devices.cpu import CpuDevice

            self._device = CpuDevice(1)

        def run(self, count: int, array: Any) -> Any:
            output = np.empty(1, "f4")
            self._device.run(maximum(count), {"InputTensor": array}, {"OutputTensor": output}, lambda: False)
            return output

    node = next(each["NodeID"] for each in ray.nodes() if each["Resources"].get("CPU"))
    made: Any = ray.remote(num_cpus=0)(Bare)
    return made.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()


def calls(_: Path | None) -> bool:
    """Compares calls to a node with those to a bare actor, in turns."""
    with nodes("a") as cluster, remote_device(cluster) as device:
        bare = _bare_actor()
        kept = [_compare(label, *of, device, bare) for label, of in _SIZES.items()]
        return all(kept)


def _compare(label: str, count: int, runs: int, device: RemoteDevice, bare: Any) -> bool:
    import ray

    array = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, count).astype("f4")
    plan, output = maximum(count), np.empty(1, "f4")

    def call() -> None:
        device.run(plan, {"InputTensor": array}, {"OutputTensor": output}, lambda: False)

    def call_bare() -> None:
        assert ray.get(bare.run.remote(count, array))[0] == output[0] == array.max()

    times: dict[Callable[[], None], list[float]] = {call: [], call_bare: []}
    for turn in range(runs + 3):
        for each, taken in times.items():
            started = time.perf_counter()
            each()
            if turn >= 3:
                taken.append(time.perf_counter() - started)
    ours, theirs = (statistics.median(taken) for taken in times.values())
    most = _FIXED + _FACTOR * theirs
    medians = f"call {ours * 1e3:.2f} ms, bare actor {theirs * 1e3:.2f} ms, ratio {ours / theirs:.2f}"
    return _kept(f"{label}: {medians}; at most {most * 1e3:.2f} ms", ours <= most)


def _kept(line: str, is_kept: bool) -> bool:
    print(f"{line}: {'kept' if is_kept else 'MISSED'}", flush=True)
    return is_kept


@contextmanager
def _served(**settings: Any) -> Iterator[str]:
    limits = Limits(memory_bytes=200 << 20, max_wait_ms=60_000)  # it refuses nothing
    with serving(Settings(port=0, log_level="error", limits=limits, **settings)) as server:
        yield str(server.url)


def _await_nodes(url: str, count: int) -> None:
    until(lambda: sum("/" in name for name in device_names(url)) >= count)


def _sent(url: str, request: Request, device: str) -> bytes:
    """Returns a request as sent over the wire."""
    headers, pieces = write_call(prepare.execute(*request, device=device), Encoding.BINARY)
    return write_request(f"{url}/v1/execute", headers, b"".join(pieces))


def _answer(url: str, request: Request, device: str) -> bytes:
    """Returns the tensors of an answer."""
    with opwire.Client(url, timeout=120, max_retries=0) as client:
        return b"".join(each.tobytes() for each in client.execute(*request, device=device).outputs.values())


def _rate(url: str, request: Request, devices: Sequence[str], clients: int) -> float:
    """Returns the answers per second of clients whose requests take turns at devices."""
    requests = cycle([_sent(url, request, device) for device in devices])
    found = measure(Address.of(url), lambda: next(requests), clients, _SECONDS)
    assert not found.errors, found.errors
    return found.rate


def scaling(_: Path | None) -> bool:
    """Measures the throughput with 1, 2, 4 and 8 nodes."""
    alone, kept = 0.0, []
    request = waiting(_WORK)
    with nodes() as cluster, _served(ray=cluster.address, node_device=TARGET) as url:
        for count in (1, 2, 4, 8):
            for number in range(count // 2, count):
                cluster.add(f"node{number}")
            _await_nodes(url, count)
            found = _rate(url, request, ["cluster"], _CLIENTS_PER_NODE * count)
            alone = alone or found
            linear = found / (count * alone)
            kept.append(_kept(f"{count} nodes: {found:.1f} requests/s, {linear:.2f} of linear", linear >= _LINEAR))
    return all(kept)


def kernels(_: Path | None) -> bool:
    """Compares two nodes of one core each with a server alone: with one core, and with all."""
    request, rates, answers = _pooling(25), dict[str, float](), set[bytes]()
    os.environ[THREADS_VARIABLE] = "1"
    with nodes("a", "b") as cluster, _served(ray=cluster.address, threads=1) as url:
        _await_nodes(url, 2)
        answers |= {_answer(url, request, device) for device in ("cpu", "a/cpu", "b/cpu")}  # compiles the kernels
        rates |= {device: _rate(url, request, [device], 4) for device in ("cpu", "a/cpu", "cluster")}
    del os.environ[THREADS_VARIABLE]
    with _served() as url:
        answers.add(_answer(url, request, "cpu"))
        rates["all cores"] = _rate(url, request, ["cpu"], 4)
    each = ", ".join(f"{rates['cluster'] / rate:.2f} times {name}" for name, rate in rates.items())
    line = f"two nodes: {rates['cluster']:.2f}/s, {each}; {len(answers)} distinct answer(s)"
    return _kept(line, len(answers) == 1 and rates["cluster"] >= rates["cpu"])


_SIDE = 256


def _matrix() -> Array:
    return np.random.default_rng(0).random((1, 1, _SIDE, _SIDE), "f4")


def _pooling(window: int) -> Request:
    """Returns norms of a large window around each element: much work for 256 KB, in a few launches."""
    margin = [window // 2] * 2
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, _SIDE, _SIDE]}
    desc = {"InputTensor": tensor, "WindowSize": [window] * 2, "Strides": [1, 1], "P": 3}
    desc |= {"StartPadding": margin, "EndPadding": margin}
    return {"type": "LP_POOLING", "desc": desc}, {"InputTensor": _matrix()}


def _products() -> Request:
    """Returns a chain of matrix products, launched one after another."""
    graph = opwire.Graph()
    values = matrix = graph.input("a", "FLOAT32", [1, 1, _SIDE, _SIDE])
    for _ in range(512):
        values = graph.gemm(values, matrix, alpha=2 / _SIDE)  # keeps the magnitude of the values
    graph.output("b", values)
    return graph, {"a": _matrix()}


_LOADS: Mapping[str, Callable[[], Request]] = {"chain of products": _products, "large windows": lambda: _pooling(257)}
"""Requests of tens of milliseconds on a GPU that carry 256 KB each way, so that the GPUs are the bottleneck."""


def gpus(results: Path | None) -> bool:
    """Compares two GPUs of one host, as devices of a cluster, with one of them."""
    from opwire_service.devices.cuda.device import CudaDevice

    try:
        count = CudaDevice.count()
    except DeviceUnavailable:
        count = 0
    if count < 2:
        print(f"not measured: this machine has {count} GPUs")
        return True
    with _served(ray="local") as url:
        cards: dict[str, str] = {}

        def has_all() -> bool:
            cards.update({each["name"]: each["card"] for each in server_info(url)["devices"] if "card" in each})
            return sum("/cuda:" in name for name in cards) >= count

        until(has_all)
        names = sorted(name for name in cards if "/cuda:" in name)[:2]
        rows = [_compare_gpus(url, names, load, make()) for load, make in _LOADS.items()]
    if results is not None:
        write(results, "cluster", {"card": cards[names[0]], "clients": _CLIENTS}, rows)
    return all(row["ratio"] >= _TIMES for row in rows)


def _compare_gpus(url: str, cards: list[str], load: str, request: Request) -> Row:
    """Measures one GPU and both in turns; the single one alternates."""
    answers = {_answer(url, request, card) for card in cards}  # the first call to each compiles the kernels
    assert len(answers) == 1, "the answers differ"
    alone = statistics.median(_seconds(url, request, card) for card in cards * 5)
    one: list[float] = []
    two: list[float] = []
    for turn in range(_ROUNDS):
        one.append(_rate(url, request, [cards[turn % 2]], _CLIENTS))
        two.append(_rate(url, request, cards, _CLIENTS))
    ratio = statistics.median(both / single for single, both in zip(one, two, strict=True))
    medians = {"one": statistics.median(one), "two": statistics.median(two)}
    row: Row = {"name": load, "seconds": alone, **medians, "ratio": ratio}
    print(row, flush=True)
    return row


def _seconds(url: str, request: Request, device: str) -> float:
    """Returns the time of one answer."""
    began = time.perf_counter()
    _answer(url, request, device)
    return time.perf_counter() - began


PARTS: Mapping[str, Callable[[Path | None], bool]] = {
    "calls": calls,
    "scaling": scaling,
    "kernels": kernels,
    "gpus": gpus,
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default: all")


def main(given: argparse.Namespace) -> int:
    """Runs the selected measurements. Returns 1 if a bound was missed."""
    asked = ["calls"] if given.quick else given.parts or list(PARTS)
    if unknown := set(asked) - set(PARTS):
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(PARTS)}")
    os.environ.update(ENVIRONMENT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE")
    kept = []
    for part in asked:
        print(f"-- {part}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        kept.append(PARTS[part](given.json))
    return 0 if all(kept) else 1
