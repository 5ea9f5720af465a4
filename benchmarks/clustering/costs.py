"""The cost of a call to a node, compared with a bare Ray actor using the same device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire_service.devices.ray.device import RemoteDevice
from opwire_service.execution import Stopped

from .simulated import Simulated, pool
from .waiting import TARGET

CPU = "opwire_service.devices.cpu:CpuDevice"

SIZES = {"4 B": 1, "3.2 MB": 800_000, "64 MB": 16_000_000}
RUNS = {"4 B": 60, "3.2 MB": 30, "64 MB": 10}

FIXED = 2.5e-3
FACTOR = 1.3
"""Bound on a call: this many seconds, plus this multiple of the bare actor's time for the same bytes."""


def reduction(count: int, strides: list[int] | None = None) -> Plan:
    """Returns a maximum over ``count`` numbers."""
    tensor: dict[str, object] = {"DataType": "FLOAT32", "Sizes": [count]}
    if strides is not None:
        tensor["Strides"] = strides
    return check({"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": tensor, "Axes": [0]}})


def bare_actor(node: str) -> Any:
    """Starts an actor on a node that only computes a maximum on a device."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Bare:
        def __init__(self) -> None:
            from opwire_service.devices.cpu import CpuDevice

            self._device = CpuDevice(1)

        def run(self, count: int, array: Any) -> Any:
            plan = reduction(count)
            output = np.empty(1, "f4")
            self._device.run(plan, {"InputTensor": array}, {"OutputTensor": output}, lambda: False)
            return output

    made: Any = ray.remote(num_cpus=0)(Bare)
    return made.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()


def measure_calls(cluster: Simulated) -> bool:
    """Prints the times of calls to a node and to a bare actor, taken in turns. Returns whether the bound is met."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    try:
        with pool(cluster.address, 1, CPU) as (device, *_):
            bare = bare_actor(cluster.ids[0])
            kept = [_compare(label, count, device, bare) for label, count in SIZES.items()]
            return all(kept)
    finally:
        ray.shutdown()


def _compare(label: str, count: int, device: RemoteDevice, bare: Any) -> bool:
    import ray

    array = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, count).astype("f4")
    plan, output = reduction(count), np.empty(1, "f4")

    def call() -> None:
        device.run(plan, {"InputTensor": array}, {"OutputTensor": output}, lambda: False)

    def call_bare() -> None:
        assert ray.get(bare.run.remote(count, array))[0] == output[0] == array.max()

    times: dict[Callable[[], None], list[float]] = {call: [], call_bare: []}
    for turn in range(RUNS[label] + 3):
        for each, taken in times.items():
            started = time.perf_counter()
            each()
            if turn >= 3:
                taken.append(time.perf_counter() - started)
    ours, theirs = (statistics.median(taken) for taken in times.values())
    most = FIXED + FACTOR * theirs
    least = " and ".join(f"{min(taken) * 1e3:.2f}" for taken in times.values())
    print(
        f"{label:>7}: call {ours * 1e3:7.2f} ms, bare actor {theirs * 1e3:7.2f} ms, ratio {ours / theirs:.2f}; at most "
        f"{most * 1e3:7.2f} ms: {'kept' if ours <= most else 'MISSED'} (medians; minima {least})"
    )
    return ours <= most


def measure_stopping(cluster: Simulated) -> None:
    """Prints how long a node keeps working on a request that was abandoned."""
    long, short = reduction(60_000_000, [0]), reduction(1)
    one, output = {"InputTensor": np.zeros(1, "f4")}, {"OutputTensor": np.empty(1, "f4")}
    with pool(cluster.address, 1, TARGET) as (device, *_):
        usual, stopped = [], []
        for _ in range(10):
            started = time.perf_counter()
            device.run(short, one, output, lambda: False)
            usual.append(time.perf_counter() - started)
            end = time.perf_counter() + 0.3
            try:
                device.run(long, one, output, partial(_is_after, end))
            except Stopped:
                device.run(short, one, output, lambda: False)  # runs only after the abandoned one has stopped
            stopped.append(time.perf_counter() - end)
    over = statistics.median(stopped) - statistics.median(usual)
    print(
        f"stopping: {over * 1e3:.1f} ms until the node runs something else, not counting the call of "
        f"{statistics.median(usual) * 1e3:.1f} ms itself (medians of 10; worst {max(stopped) * 1e3:.0f} ms with it)"
    )


def _is_after(moment: float) -> bool:
    return time.perf_counter() > moment


def measure_leaks(cluster: Simulated, calls: int) -> bool:
    """Prints the usage of the object stores before and after many calls. Returns whether it did not grow."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    array = np.ones(75_000, "f4")
    plan = reduction(75_000)
    try:
        with pool(cluster.address, 1, CPU) as (device, *_), ThreadPoolExecutor(8) as threads:

            def call(_: int) -> None:
                output = np.empty(1, "f4")
                device.run(plan, {"InputTensor": array}, {"OutputTensor": output}, lambda: False)
                assert output[0] == 1

            list(threads.map(call, range(100)))
            time.sleep(2)  # Ray frees objects with a delay
            before, started = _held(), time.perf_counter()
            list(threads.map(call, range(calls)))
            rate = calls / (time.perf_counter() - started)
            time.sleep(3)  # likewise
            after = _held()
    finally:
        ray.shutdown()
    print(
        f"leaks: {calls} calls of 300 KB at {rate:.0f}/s; object stores held {before:.0f} B before, {after:.0f} B after"
    )
    return after <= before


def _held() -> float:
    import ray

    name = "object_store_memory"
    return float(ray.cluster_resources()[name]) - float(ray.available_resources().get(name, 0.0))
