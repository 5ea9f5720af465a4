"""Costs of running plans on the devices, measured by ``opwire warmup`` and kept in the cache folder for placement."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire.enums import ReduceFunction
from opwire.tensor import Array

from ..devices import kind_of
from ..devices.base import Device
from ..devices.ray.device import RemoteDevice
from ..kernels.folder import cache_folder
from .placement import Cost, Demand

UNMEASURED: dict[str, Cost] = {
    "cpu": Cost(5e-5, 0.0, 3e-10),
    "cuda": Cost(3e-4, 1.2e-10, 2e-12),
    "reference": Cost(1e-3, 0.0, 1e-6),
}
"""Initial guesses by kind of device, which placement soon corrects."""

TRANSFER_ELEMENTS = 1 << 24
"""Number of elements of the tensor used to measure the transfer cost of a device."""

MIN_VISITS, MAX_VISITS = 1 << 20, 1 << 28
"""Range of element visits used to measure the speed of a device; they grow until a run takes long enough to time."""

Clock = Callable[[], float]
"""Returns the time in seconds."""

MIN_SECONDS = 4e-3
RUNS = 5

_ROW = 4096
_SIDE = 512
"""Number of rows and columns of a matrix product."""


def costs_file() -> Path:
    """Returns the path of the stored measurements."""
    return cache_folder() / "costs.json"


def read_costs(devices: Mapping[str, Device]) -> dict[str, Cost]:
    """Returns the costs of devices by name, as measured, or guessed from the kind of device if not measured."""
    kept = _kept() if len(devices) > 1 else {}
    costs = {}
    for name, device in devices.items():
        costs[name] = UNMEASURED.get(kind_of(name), UNMEASURED["cpu"])
        with suppress(AttributeError, KeyError, TypeError, ValueError):  # missing, or written by another version
            costs[name] = _read(kept[identity(device)])
    return costs


def read_far_cost(device: RemoteDevice) -> Cost:
    """Returns the cost of a device on another machine: that of its kind, measured here or guessed, plus transport."""
    cost = UNMEASURED.get(str(device.describe().get("kind")), UNMEASURED["cpu"])
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        cost = _read(_kept()[identity(device)])
    return replace(cost, fixed=cost.fixed + device.fixed, per_byte=cost.per_byte + device.per_byte)


def _kept() -> dict[str, Any]:
    """Returns the content of the file, or an empty dict if it cannot be read."""
    with suppress(OSError, ValueError):
        found = json.loads(costs_file().read_text("utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _read(kept: Mapping[str, Any]) -> Cost:
    kinds = {str(kind): float(seconds) for kind, seconds in kept["kinds"].items()}
    return Cost(float(kept["fixed"]), float(kept["per_byte"]), float(kept["per_visit"]), kinds)


def write_costs(costs: Mapping[str, Cost]) -> None:
    """Adds measurements, keyed by ``identity``, to the stored ones.

    Raises:
        OSError: the file could not be written.
    """
    path = costs_file()
    kept = _kept() | {name: asdict(cost) for name, cost in costs.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(kept, indent=1), "utf-8")
    written.replace(path)


def identity(device: Device) -> str:
    """Returns the key of a device's measurements: its kind and card, or its processor and number of threads."""
    known = device.describe()
    return " ".join(str(known[key]) for key in ("kind", "card", "processor", "threads") if key in known)


def measure(device: Device, clock: Clock = time.perf_counter) -> Cost:
    """Measures the cost of a device, which must be idle and have its kernels compiled."""
    best = partial(_best, device, clock)
    fixed = best(_reduction("MAX", 1, repeated=True), RUNS * 4)
    able = [kind for kind in _kinds() if device.executes(kind(1).operator.name)]
    kinds = {Demand.of(kind(1)).kind: _per_visit(best, kind, fixed) for kind in able}
    whole = best(_reduction("MAX", TRANSFER_ELEMENTS // _ROW, repeated=False), RUNS)
    repeated = best(_reduction("MAX", TRANSFER_ELEMENTS // _ROW, repeated=True), RUNS)
    per_byte = max(0.0, whole - repeated) / (TRANSFER_ELEMENTS * 4)
    return Cost(fixed, per_byte, float(np.median(list(kinds.values()))), kinds)


def _kinds() -> Iterator[Callable[[int], Plan]]:
    """Yields one plan factory per kind of computation, taking the number of rows or the depth of a product."""
    yield from (partial(_reduction, function.name, repeated=True) for function in ReduceFunction)
    yield _pooling
    yield _product


def _per_visit(best: Callable[[Plan, int], float], kind: Callable[[int], Plan], fixed: float) -> float:
    rows = MIN_VISITS // _ROW
    while True:
        plan = kind(rows)
        seconds = best(plan, RUNS)
        if seconds - fixed > MIN_SECONDS or plan.work >= MAX_VISITS:
            return max(seconds - fixed, 1e-9) / plan.work
        rows *= 4


def _reduction(function: str, rows: int, *, repeated: bool) -> Plan:
    tensor: dict[str, object] = {"DataType": "FLOAT32", "Sizes": [rows, _ROW]}
    if repeated:
        tensor["Strides"] = [0, 1]
    return check({"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": [1]}})


def _pooling(rows: int) -> Plan:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, rows, 64, 64], "Strides": [0, 0, 64, 1]},
        "WindowSize": [3, 3],
        "Strides": [2, 2],
        "StartPadding": [1, 1],
        "EndPadding": [1, 1],
    }
    return check({"type": "MAX_POOLING", "desc": desc})


def _product(depth: int) -> Plan:
    """Returns a matrix product whose operands repeat a single row or column through zero strides."""
    desc = {
        "ATensor": {"DataType": "FLOAT32", "Sizes": [_SIDE, depth], "Strides": [0, 1]},
        "BTensor": {"DataType": "FLOAT32", "Sizes": [depth, _SIDE], "Strides": [1, 0]},
        "TransA": "NONE",
        "TransB": "NONE",
        "Alpha": 1,
        "Beta": 1,
    }
    return check({"type": "GEMM", "desc": desc})


def _best(device: Device, clock: Clock, plan: Plan, runs: int) -> float:
    """Returns the seconds of the fastest run, after one warm-up run."""
    inputs: dict[str, Array] = {}
    for name, desc in plan.inputs.items():
        data = np.random.default_rng(0).uniform(0.9, 1.1, desc.extent).astype(desc.data_type.dtype)
        inputs[name] = desc.view(data)
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    seconds = []
    for _ in range(runs + 1):
        started = clock()
        device.run(plan, inputs, outputs, lambda: False)
        seconds.append(clock() - started)
    return min(seconds[1:])
