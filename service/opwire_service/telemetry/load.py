"""The load of a server, small enough to be asked for every second: sums over operators, from the cells of all
processes."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np
from typing_extensions import TypedDict

from . import metrics as cells
from .metrics import BOUNDS, OPERATORS, OUTCOMES, STAGES, Metrics, Totals

_RUN, _TOTAL = STAGES.index("run"), STAGES.index("total")


class Workers(TypedDict):
    """Processes that serve now, are meant to serve, and were replaced."""

    serving: int
    expected: int
    replaced: int


class Histogram(TypedDict):
    """Times: their sum in microseconds, and how many there are up to each of the bounds and beyond the last one."""

    sum_us: int
    buckets: list[int]


class OperatorLoad(TypedDict, total=False):
    """Of an operator: how often it was executed, and its microseconds. ``total`` only where it was asked for."""

    count: int
    run_us: int
    total_us: int
    total: Histogram


class DeviceLoad(TypedDict):
    """What waits and runs on a device, and what it may run at a time; its kernels and its own memory in bytes."""

    queued: int
    running: int
    places: int
    pending_work: int
    kernels: int
    memory: int
    memory_limit: int


class MemoryLoad(TypedDict):
    """Bytes that requests hold and may hold, and requests that wait for some."""

    held: int
    limit: int
    waiting: int


class QueueLoad(TypedDict):
    """Operators that wait for a device, and may wait."""

    waiting: int
    limit: int


class Load(TypedDict):
    """The load of a server, all its processes together. What is counted grows while ``instance`` is the same.

    ``time`` and ``started`` are seconds since the epoch, ``bounds_us`` the upper bounds of all buckets but the last in
    microseconds. ``outcomes`` counts requests by how they ended: ``ok``, ``client_gone``, or the code of a problem; of
    stages and operators those are left out that were never run.
    """

    instance: str
    time: float
    started: float
    workers: Workers
    outcomes: dict[str, int]
    bounds_us: list[int]
    stages: dict[str, Histogram]
    operators: dict[str, OperatorLoad]
    devices: dict[str, DeviceLoad]
    memory: MemoryLoad
    queue: QueueLoad


def load(
    metrics: Metrics, workers: int, devices: Sequence[str], *, uncounted: Collection[str], named: Collection[str]
) -> Load:
    """The load by what was counted until now.

    Args:
        workers: processes that are meant to serve.
        devices: that the server has always; those of its cluster are added.
        uncounted: routes whose requests are left out.
        named: the operators whose buckets are wanted.
    """
    totals = metrics.totals()
    devices = (*devices, *totals.comers)
    stages = totals.stages()
    return {
        "instance": totals.instance,
        "time": time.time(),
        "started": totals.started,
        "workers": {
            "serving": totals.value(cells.WORKERS),
            "expected": workers,
            "replaced": totals.value(cells.WORKER_RESTARTS),
        },
        "outcomes": _outcomes(totals, uncounted),
        "bounds_us": list(BOUNDS),
        "stages": {
            stage: _histogram(row) for stage, row in zip(STAGES, stages.sum(axis=0).tolist(), strict=True) if any(row)
        },
        "operators": _operators(stages.tolist(), named),
        "devices": {name: _device(totals, name) for name in devices},
        "memory": {
            "held": totals.value(cells.MEMORY),
            "limit": totals.value(cells.MEMORY_LIMIT),
            "waiting": totals.value(cells.MEMORY_WAITING),
        },
        "queue": {
            "waiting": sum(totals.value(cells.QUEUED, name) for name in devices),
            "limit": totals.value(cells.QUEUED_LIMIT),
        },
    }


def _histogram(row: Sequence[int]) -> Histogram:
    return {"sum_us": row[0], "buckets": list(row[1:])}


def _outcomes(totals: Totals, uncounted: Collection[str]) -> dict[str, int]:
    counted = [counts for route, counts in totals.requests().items() if route not in uncounted]
    found: list[int] = np.sum(counted, axis=0).tolist()
    return {outcome: count for outcome, count in zip(OUTCOMES, found, strict=True) if count}


def _operators(stages: list[list[list[int]]], named: Collection[str]) -> dict[str, OperatorLoad]:
    found: dict[str, OperatorLoad] = {}
    for name, rows in zip(OPERATORS, stages, strict=True):
        total = rows[_TOTAL]
        if count := sum(total[1:]):
            found[name] = {"count": count, "run_us": rows[_RUN][0], "total_us": total[0]}
            if name in named:
                found[name]["total"] = _histogram(total)
    return found


def _device(totals: Totals, name: str) -> DeviceLoad:
    return {
        "queued": totals.value(cells.QUEUED, name),
        "running": totals.value(cells.RUNNING, name),
        "places": totals.value(cells.RUNNING_LIMIT, name),
        "pending_work": totals.value(cells.WORK, name),
        "kernels": totals.value(cells.DEVICE_KERNELS, name),
        "memory": totals.value(cells.DEVICE_MEMORY, name),
        "memory_limit": totals.value(cells.DEVICE_MEMORY_LIMIT, name),
    }
