"""Interleaved measurements: the participants of a cell take turns, so that noise of the machine hits all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median

import numpy as np

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.kernels.cpu import sharing
from opwire_service.kernels.cpu.compiler import Kernel, inner
from opwire_service.kernels.cpu.element import INT64, load, store
from opwire_service.kernels.cpu.pool import Pool, Task

from .matrix import EXTREMES, Cell
from .peers import PEERS, Call, arrays

TURN_SECONDS = 4e-3
"""A turn repeats a call until it took so long; each counts, but for the first, which warms the caches."""

REST_SECONDS = 5e-3
"""Between turns: by then the threads of the last participant no longer spin in wait for work."""

Times = dict[str, list[float]]


def _never() -> bool:
    return False


def opwire_call(device: CpuDevice, cell: Cell) -> Call:
    """The device's ``run`` on outputs that it reuses, as it is in a server."""
    plan = check(cell.operator)
    outputs = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    inputs = {"InputTensor": cell.source}

    def call() -> tuple[Array, ...]:
        device.run(plan, inputs, outputs, _never)
        return tuple(outputs.values())

    return call


def interleaved(calls: Mapping[str, Call], seconds: float, most_rounds: int) -> Times:
    """Seconds of each call, round by round, for about so many seconds in all but for at least two rounds."""
    times: Times = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds
    for done in range(most_rounds):
        if done >= 2 and time.perf_counter() > deadline:
            break
        for name, call in calls.items():
            time.sleep(REST_SECONDS)
            times[name] += _turn(call)
    return times


def _turn(call: Call) -> list[float]:
    call()
    times: list[float] = []
    while sum(times) < TURN_SECONDS:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def participants(device: CpuDevice, cell: Cell, threads: int) -> dict[str, Call]:
    """opwire and those peers that can run a cell."""
    calls = {"opwire": opwire_call(device, cell)}
    for name, make in PEERS.items():
        call = make(cell, threads)
        if call is not None:
            try:
                call()
            except (RuntimeError, NotImplementedError):
                continue  # PyTorch has no such kernel
            calls[name] = call
    return calls


def disagreeing(cell: Cell, calls: Mapping[str, Call]) -> list[str]:
    """The peers whose answer is not ours.

    Indices and extremes must be equal; sums of floats may differ as much as plain summation errs.
    """
    ours = [part.ravel() for part in arrays(calls["opwire"]())]
    found = []
    for name, call in calls.items():
        theirs = [part.ravel() for part in arrays(call())]
        if len(ours) == 2 and name == "PyTorch":
            theirs[1] = theirs[1] + _plane_starts(cell, theirs[1].size)
        if not all(_agree(cell, mine, other) for mine, other in zip(ours, theirs, strict=True)):
            found.append(name)
    return found


def _plane_starts(cell: Cell, count: int) -> Array:
    """PyTorch counts positions from the start of a channel, DirectML and ONNX from that of the tensor."""
    planes = cell.source.shape[0] * cell.source.shape[1]
    size = cell.source.size // planes
    return np.repeat(np.arange(planes, dtype=np.int64) * size, count // planes)


def _agree(cell: Cell, mine: Array, other: Array) -> bool:
    if not cell.is_float or cell.function in EXTREMES or cell.function == "MAX_POOLING2":
        return bool(np.array_equal(mine, other.astype(mine.dtype)))
    # Plain sums of millions of terms in FLOAT32, or of thousands in FLOAT16, are that far off; some overflow.
    scale = 0.03 if cell.source.dtype == np.float32 else 0.3
    wide, others = mine.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(others)
    spread = np.sqrt(cell.source.size / mine.size)
    return bool((np.abs(wide - others) <= scale * np.maximum(np.abs(wide), spread))[finite].all())


@inner
def _read(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    total = 0
    for i in range(begin, end):
        total ^= load(source, i, zero)
    store(target, begin // _READ, total)


_READ = 1 << 15
"""Numbers that are read at a time."""


def read_bandwidth(size: int, threads: int, rounds: int = 15) -> float:
    """Bytes a second that so many threads read from the same ``size`` bytes, over and over; the median."""
    data = np.ones(size // 8, np.int64)
    totals = np.empty(-(-data.size // _READ), np.int64)
    pool = Pool(threads)
    task = Task(Kernel(_read, INT64), 0, data.size, _READ, asked=1 << 10)
    entries = {kernel: kernel.compile() for kernel in (*sharing.KERNELS, task.kernel)}
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        pool.share(task, data.ctypes.data, totals.ctypes.data, 0, entries.__getitem__, _never)
        times.append(time.perf_counter() - started)
    pool.close()
    return size / median(times[1:])
