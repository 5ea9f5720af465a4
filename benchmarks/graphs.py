"""Measures whole networks at batch 1 against ONNX Runtime and PyTorch, and graphs of small operators over HTTP.

Run it from the root of the repository: ``python -m benchmarks.graphs``. All participants of a network take turns in one
process with ``--threads`` threads; the median call of each counts. The shares are of results that equal those of the
network in float64, rounded once; an opwire operator rounds its own result correctly, but its inputs are rounded as
well. Memory is what a run needs besides inputs and outputs: as planned, and as the increase of the process's peak.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from opwire.check import Plan
from opwire.graph import CONSTANT, check_graph
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.process.memory_trim import trim

from .networks import NETWORKS, Network
from .small_graphs import small_operators

Call = Callable[[], Array]


def _own(device: CpuDevice, network: Network, x: Array) -> tuple[Call, Plan, Callable[[], int]]:
    """Returns the call, its plan, and a function that measures its memory."""
    plan = check_graph(network.graph.to_json())
    constants = {CONSTANT + name: array for name, array in network.graph.constants.items()}
    given = {"x": x, **constants}
    inputs = {name: plan.inputs[name].view(_bytes(given[name])) for name in plan.inputs}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}

    def call() -> Array:
        device.run(plan, inputs, outputs, lambda: False)
        return outputs["y"]

    def memory() -> int:
        call()
        trim()
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        call()
        return _status("VmHWM") - before

    return call, plan, memory


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _status(name: str) -> int:
    """Reads a value of the process status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _peers(network: Network, x: Array, threads: int) -> dict[str, Call]:
    peers: dict[str, Call] = {}
    if find_spec("torch"):
        import torch

        torch.set_num_threads(threads)
        run = network.torch("float32")
        peers["torch"] = lambda: run(x).numpy()
    if find_spec("onnxruntime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(network.onnx(x.shape), options, ["CPUExecutionProvider"])
        peers["onnxruntime"] = lambda: session.run(None, {"x": x})[0]
    return peers


def _measure(calls: dict[str, Call], threads: int, rounds: int) -> dict[str, float]:
    """Returns the median seconds of each participant; BLAS uses all threads, but one per thread of opwire."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            with threadpool_limits(1 if name == "opwire" else threads, "blas"):
                begin = time.perf_counter()
                call()
                if turn:
                    times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _shares(calls: dict[str, Call], network: Network, x: Array) -> dict[str, float]:
    """Returns the share of each participant's results that are the exact ones, rounded once."""
    if not find_spec("torch"):
        return {}
    exact = network.torch("float64")(x).numpy().astype(np.float32)
    return {name: float((call().reshape(exact.shape) == exact).mean()) for name, call in calls.items()}


def _network(device: CpuDevice, name: str, threads: int, rounds: int) -> dict[str, Any]:
    network, sizes = NETWORKS[name]()
    x = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)
    own, plan, memory = _own(device, network, x)
    calls = {"opwire": own, **_peers(network, x, threads)}
    planned, taken = device.scratch_bytes(plan), None
    with suppress(OSError), threadpool_limits(1, "blas"):  # where the system does not report it
        taken = memory()
    found = _measure(calls, threads, rounds)
    return {
        "seconds": found,
        "correctly_rounded": _shares(calls, network, x),
        "planned_bytes": planned,
        "taken_bytes": taken,
    }


def _row(figures: dict[str, Any]) -> list[str]:
    seconds, shares = figures["seconds"], figures["correctly_rounded"]
    peers = {name: value for name, value in seconds.items() if name != "opwire"}
    taken = figures["taken_bytes"]
    return [
        f"{seconds['opwire'] * 1e3:.1f}",
        ", ".join(f"{name} {value * 1e3:.1f}" for name, value in peers.items()),
        f"{seconds['opwire'] / min(peers.values()):.2f}" if peers else "",
        ", ".join(f"{name} {share:.1%}" for name, share in shares.items()),
        f"{figures['planned_bytes'] / 2**20:.1f}",
        "" if taken is None else f"{taken / 2**20:.1f}",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only networks whose names contain this")
    parser.add_argument("--json", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)
    device = CpuDevice(threads=options.threads)
    columns = (
        "network",
        "opwire ms",
        "peers ms",
        "vs. best peer",
        "correctly rounded",
        "planned MiB",
        "used MiB",
    )
    table, figures = Table(*columns), {}
    for name in NETWORKS:
        if options.only in name:
            figures[name] = _network(device, name, options.threads, options.rounds)
            table.add_row(name, *_row(figures[name]))
    device.close()
    console = Console(width=170)
    console.print(table)
    small = small_operators(options.rounds) if options.only in "small operators over HTTP" else {}
    for name, value in small.items():
        console.print(f"{name}: {value:.2f}" if name.startswith("times") else f"{name}: {value * 1e3:.3f} ms")
    if options.json:
        found = {"threads": options.threads, "networks": figures, "small_operators": small}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
