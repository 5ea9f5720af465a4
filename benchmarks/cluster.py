"""Measures a cluster: the cost of calls, how soon nodes join, how throughput scales, and that nothing leaks.

But for ``gpus``, all nodes run on this machine. For ``scaling``, their device only waits and uses no CPU. The results
show the overhead of dispatching to nodes, not of a network.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import opwire
from opwire.check import Plan, check
from opwire.client import prepare
from opwire.tensor import Array
from opwire.wire import HEAD_LENGTH, Encoding, write_call
from opwire_service.devices.base import DeviceUnavailable
from opwire_service.devices.cpu import THREADS_VARIABLE
from opwire_service.devices.ray.cluster import Cluster
from opwire_service.devices.ray.device import RemoteDevice
from opwire_service.settings import Limits, Settings
from tests.cluster.loads import waiting
from tests.cluster.nodes import ENVIRONMENT, STORE, Nodes, device_names, nodes, server_info
from tests.cluster.waiting import TARGET
from tests.support.http.processes import until
from tests.support.http.serving import serving

from .report import Row, write

_CPU = "opwire_service.devices.cpu:CpuDevice"

_SIZES = {"4 B": (1, 60), "3.2 MB": (800_000, 30), "64 MB": (16_000_000, 10)}
"""Numbers of elements, and of calls."""

_FIXED, _FACTOR = 2.5e-3, 1.3
"""Bound on a call: this many seconds, plus this multiple of the bare actor's time for the same bytes."""

_CALLS = 10_000
_JOINS, _JOINS_WITHIN = 3, 4.0
_WORK, _CLIENTS_PER_NODE, _LINEAR = 0.05, 4, 0.9
"""Seconds of a request, clients, and the least share of linear growth."""

_CLIENTS, _ROUNDS, _TIMES = 16, 4, 1.8
"""For two GPUs: clients, turns, and the least speedup."""

_SETTLING, _SECONDS = 1.0, 8.0
"""Seconds before answers are counted, and while they are."""

Ask = Callable[[], bytes]
Request = tuple[Any, Mapping[str, Any]]
"""An operator or a graph, and its inputs."""


def _reduction(count: int) -> Plan:
    """Returns a maximum over ``count`` numbers."""
    tensor = {"DataType": "FLOAT32", "Sizes": [count]}
    return check({"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": tensor, "Axes": [0]}})


@contextmanager
def _device(cluster: Nodes) -> Iterator[RemoteDevice]:
    """Yields the device of the only node, as a server sees it."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    found: list[RemoteDevice] = []
    devices = Cluster(cluster.address, STORE, found.append, lambda _: None, _CPU)
    devices.start()
    try:
        until(lambda: bool(found))
        yield found[0]
    finally:
        devices.close()
        ray.shutdown()


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
            self._device.run(_reduction(count), {"InputTensor": array}, {"OutputTensor": output}, lambda: False)
            return output

    node = next(each["NodeID"] for each in ray.nodes() if each["Resources"].get("CPU"))
    made: Any = ray.remote(num_cpus=0)(Bare)
    return made.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()


def calls() -> bool:
    """Compares calls to a node with those to a bare actor, in turns."""
    with nodes("a") as cluster, _device(cluster) as device:
        bare = _bare_actor()
        kept = [_compare(label, *of, device, bare) for label, of in _SIZES.items()]
        return all(kept)


def _compare(label: str, count: int, runs: int, device: RemoteDevice, bare: Any) -> bool:
    import ray

    array = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, count).astype("f4")
    plan, output = _reduction(count), np.empty(1, "f4")

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


def leaks() -> bool:
    """Looks at the object stores before and after many calls."""
    plan, array = _reduction(75_000), np.ones(75_000, "f4")
    with nodes("a") as cluster, _device(cluster) as device, ThreadPoolExecutor(8) as threads:

        def call(_: int) -> None:
            output = np.empty(1, "f4")
            device.run(plan, {"InputTensor": array}, {"OutputTensor": output}, lambda: False)
            assert output[0] == 1

        list(threads.map(call, range(100)))
        time.sleep(2)  # Ray frees objects with a delay
        before, started = _held(), time.perf_counter()
        list(threads.map(call, range(_CALLS)))
        rate = _CALLS / (time.perf_counter() - started)
        time.sleep(3)  # likewise
        after = _held()
    stores = f"object stores held {before:.0f} B before, {after:.0f} B after"
    return _kept(f"{_CALLS} calls of 300 KB at {rate:.0f}/s; {stores}", after <= before)


def _held() -> float:
    import ray

    name = "object_store_memory"
    return float(ray.cluster_resources()[name]) - float(ray.available_resources().get(name, 0.0))


@contextmanager
def _served(**settings: Any) -> Iterator[str]:
    with serving(Settings(port=0, log_level="error", limits=Limits(memory_bytes=200 << 20), **settings)) as server:
        yield str(server.url)


def _await_nodes(url: str, count: int) -> None:
    until(lambda: sum("/" in name for name in device_names(url)) >= count)


def joins() -> bool:
    """Measures how soon nodes take work: on a core of their own, as a new machine would be, beside clients of another.

    The time is that from when the head knows a node until the node has answered a request.
    """
    cores = os.sched_getaffinity(0)
    own = {max(cores)}
    os.sched_setaffinity(0, cores - own or own)
    request = _pooling(5)
    try:
        with nodes("first") as cluster, _served(ray=cluster.address) as url, ThreadPoolExecutor(1) as threads:
            _await_nodes(url, 1)
            kept = []
            for clients in (0, 4):
                taken = []
                with _repeated(clients, lambda _: _asking(url, request, "first/cpu")):
                    for number in range(_JOINS):
                        name = f"node{clients}{number}"
                        waited = threads.submit(_await_work, cluster, url, name, request)
                        others = os.sched_getaffinity(0)
                        os.sched_setaffinity(0, own)  # inherited by the processes this thread starts
                        node = cluster.add(name)
                        os.sched_setaffinity(0, others)
                        taken.append(waited.result())
                        node.kill()
                listed = ", ".join(f"{each:.2f}" for each in taken)
                kept.append(_kept(f"{clients} clients: {listed} s until a node works", max(taken) <= _JOINS_WITHIN))
            return all(kept)
    finally:
        os.sched_setaffinity(0, cores)


def _await_work(cluster: Nodes, url: str, name: str, request: Request) -> float:
    until(lambda: cluster.has(name))
    began = time.monotonic()
    until(lambda: f"{name}/cpu" in device_names(url))
    with _asking(url, request, f"{name}/cpu") as ask:
        ask()
    return time.monotonic() - began


class _Answers:
    """The number of answers that clients got, and the distinct ones."""

    def __init__(self) -> None:
        self.count = 0
        self.distinct: set[bytes] = set()
        self._lock = threading.Lock()

    def add(self, answer: bytes) -> None:
        with self._lock:
            self.count += 1
            self.distinct.add(answer)

    def rate(self) -> float:
        """Returns the answers per second for a while, after a settling time."""
        time.sleep(_SETTLING)
        before, started = self.count, time.perf_counter()
        time.sleep(_SECONDS)
        return (self.count - before) / (time.perf_counter() - started)


@contextmanager
def _repeated(clients: int, opened: Callable[[int], Any]) -> Iterator[_Answers]:
    """Runs clients that send requests while the context lasts, each on what ``opened`` yields for its number."""
    ended, found = threading.Event(), _Answers()

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


@contextmanager
def _asking(url: str, request: Request, device: str) -> Iterator[Ask]:
    """Yields what sends a request, which is encoded once, and returns the tensors of the answer."""
    headers, pieces = write_call(prepare.execute(*request, device=device), Encoding.BINARY)
    body = b"".join(pieces)
    with httpx.Client(base_url=url, timeout=120) as client:

        def ask() -> bytes:
            answer = client.post("/v1/execute", headers=headers, content=body).raise_for_status()
            return answer.content[int(answer.headers[HEAD_LENGTH]) :]

        yield ask


def _rate(url: str, request: Request, devices: Sequence[str], clients: int) -> tuple[float, set[bytes]]:
    """Returns the answers per second of clients that take turns at devices, and the distinct answers."""
    with _repeated(clients, lambda number: _asking(url, request, devices[number % len(devices)])) as found:
        rate = found.rate()
    return rate, found.distinct


def scaling() -> bool:
    """Measures the throughput with 1, 2, 4 and 8 nodes."""
    alone, kept = 0.0, []
    request = waiting(_WORK)
    with nodes() as cluster, _served(ray=cluster.address, node_device=TARGET) as url:
        for count in (1, 2, 4, 8):
            for number in range(count // 2, count):
                cluster.add(f"node{number}")
            _await_nodes(url, count)
            found, _ = _rate(url, request, ["cluster"], _CLIENTS_PER_NODE * count)
            alone = alone or found
            linear = found / (count * alone)
            kept.append(_kept(f"{count} nodes: {found:.1f} requests/s, {linear:.2f} of linear", linear >= _LINEAR))
    return all(kept)


def kernels() -> bool:
    """Compares two nodes of one core each with a server alone: with one core, and with all."""
    request, rates, answers = _pooling(25), dict[str, float](), set[bytes]()
    os.environ[THREADS_VARIABLE] = "1"
    with nodes("a", "b") as cluster, _served(ray=cluster.address, threads=1) as url:
        _await_nodes(url, 2)
        for device in ("cpu", "a/cpu", "b/cpu"):  # compiles the kernels
            with _asking(url, request, device) as ask:
                ask()
        for device in ("cpu", "a/cpu", "cluster"):
            rates[device], found = _rate(url, request, [device], 4)
            answers |= found
    del os.environ[THREADS_VARIABLE]
    with _served() as url:
        rates["all cores"], found = _rate(url, request, ["cpu"], 4)
        answers |= found
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
    taken = []
    for card in cards:  # the first call to each compiles the kernels
        with _asking(url, request, card) as ask:
            for turn in range(6):
                started = time.perf_counter()
                ask()
                taken += [time.perf_counter() - started] if turn else []
    answers: set[bytes] = set()
    one: list[float] = []
    two: list[float] = []
    for turn in range(_ROUNDS):
        for used, rates in (([cards[turn % 2]], one), (cards, two)):
            rate, found = _rate(url, request, used, _CLIENTS)
            rates.append(rate)
            answers |= found
    assert len(answers) == 1, "the answers differ"
    ratio = statistics.median(both / single for single, both in zip(one, two, strict=True))
    medians = {"one": statistics.median(one), "two": statistics.median(two)}
    row: Row = {"name": load, "seconds": statistics.median(taken), **medians, "ratio": ratio}
    print(row, flush=True)
    return row


PARTS: Mapping[str, Callable[[], bool]] = {
    "calls": calls,
    "leaks": leaks,
    "joins": joins,
    "scaling": scaling,
    "kernels": kernels,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the selected measurements. Returns 1 if a bound was missed."""
    parser = argparse.ArgumentParser("python -m benchmarks cluster", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}, gpus; default: all")
    parser.add_argument("--json", type=Path, help="JSON file for the results of the GPUs")
    parser.add_argument("--quick", action="store_true", help="only the cost of calls")
    given = parser.parse_args(arguments)
    asked = ["calls"] if given.quick else given.parts or [*PARTS, "gpus"]
    if unknown := set(asked) - {*PARTS, "gpus"}:
        parser.error(f"unknown: {', '.join(unknown)}")
    os.environ.update(ENVIRONMENT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE")
    kept = []
    for part in asked:
        print(f"-- {part}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        kept.append(gpus(given.json) if part == "gpus" else PARTS[part]())
    return 0 if all(kept) else 1
