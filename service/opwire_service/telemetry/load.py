"""The load of a server, summed over all worker processes and compact enough to poll every second."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np
from typing_extensions import TypedDict

from . import declarations as counted
from .declarations import BOUNDS, OPERATORS, OUTCOMES, STAGES, TOTAL
from .metrics import Metrics, Totals

_RUN, _TOTAL = STAGES.index("run"), STAGES.index(TOTAL)


class Workers(TypedDict):
    """Numbers of worker processes: serving now, configured, and replaced since the start."""

    serving: int
    expected: int
    replaced: int


class Histogram(TypedDict):
    """A histogram of durations: their sum in microseconds, and the count per bucket, the last without upper bound."""

    sum_us: int
    buckets: list[int]


class OperatorLoad(TypedDict, total=False):
    """Executions of an operator and their durations in microseconds, with the histogram ``total`` only on request."""

    count: int
    run_us: int
    total_us: int
    total: Histogram


class DeviceLoad(TypedDict):
    """The load of a device: queued, running and maximum concurrent operators, kernels, and device memory in bytes."""

    queued: int
    running: int
    places: int
    pending_work: int
    kernels: int
    memory: int
    memory_limit: int


class MemoryLoad(TypedDict):
    """Bytes held by requests, the limit of these, and the number of requests waiting for memory."""

    held: int
    limit: int
    waiting: int


class QueueLoad(TypedDict):
    """Operators queued for a device, and the limit of these."""

    waiting: int
    limit: int


class Load(TypedDict):
    """The load of a server, over all its worker processes. Counters only grow while ``instance`` stays the same.

    ``time`` and ``started`` are Unix times in seconds. ``bounds_us`` are the upper bounds of all buckets but the last,
    in microseconds. ``outcomes`` counts requests by outcome: ``ok``, ``client_gone``, or a problem code. Stages and
    operators that never ran are omitted.
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
    """Returns the current load.

    Args:
        metrics: metrics of the server.
        workers: configured number of worker processes.
        devices: the server's own devices; those of its cluster are added.
        uncounted: routes whose requests are not counted.
        named: operators to include histograms for.
    """
    totals = metrics.totals()
    devices = (*devices, *totals.joined)
    stages = totals.stages()
    return {
        "instance": totals.instance,
        "time": time.time(),
        "started": totals.started,
        "workers": {
            "serving": totals.value(counted.WORKERS),
            "expected": workers,
            "replaced": totals.value(counted.WORKER_RESTARTS),
        },
        "outcomes": _outcomes(totals, uncounted),
        "bounds_us": list(BOUNDS),
        "stages": {
            stage: _histogram(row) for stage, row in zip(STAGES, stages.sum(axis=0).tolist(), strict=True) if any(row)
        },
        "operators": _operators(stages.tolist(), named),
        "devices": {name: _device(totals, name) for name in devices},
        "memory": {
            "held": totals.value(counted.MEMORY),
            "limit": totals.value(counted.MEMORY_LIMIT),
            "waiting": totals.value(counted.MEMORY_WAITING),
        },
        "queue": {
            "waiting": sum(totals.value(counted.QUEUED, name) for name in devices),
            "limit": totals.value(counted.QUEUED_LIMIT),
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
        "queued": totals.value(counted.QUEUED, name),
        "running": totals.value(counted.RUNNING, name),
        "places": totals.value(counted.RUNNING_LIMIT, name),
        "pending_work": totals.value(counted.WORK, name),
        "kernels": totals.value(counted.DEVICE_KERNELS, name),
        "memory": totals.value(counted.DEVICE_MEMORY, name),
        "memory_limit": totals.value(counted.DEVICE_MEMORY_LIMIT, name),
    }
