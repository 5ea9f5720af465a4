"""Interleaved measurements: the participants of a cell take turns, so that machine noise affects all of them.

Each is measured as if it ran alone. After a call, the threads of a library spin while they wait for the next one: those
of opwire for 0.05 ms, of PyTorch for about 8 ms, of ONNX Runtime for about 30 ms. The next participant would share its
cores with them. A turn therefore starts only once no thread of the process has run for a while, and with untimed calls
that wake the participant's own threads and warm its caches.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping

import numpy as np

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.kernels.cpu.jit.compiler import Kernel, uncached_kernel
from opwire_service.kernels.cpu.jit.element import INT64, load, store
from opwire_service.kernels.cpu.run import sharing
from opwire_service.kernels.cpu.run.pool import Pool, Task

from .matrix import EXTREMES, Cell
from .peers import PEERS, Call, arrays

WARM_SECONDS = 3e-3
"""Duration of the untimed calls at the start of a turn, at least one."""

TURN_SECONDS = 20e-3
"""Duration of the timed calls that follow."""

QUIET_SECONDS = 10e-3
"""Several ticks of the clock with which the system accounts CPU time."""

QUIET = 0.1
"""Fraction of ``QUIET_SECONDS`` that all threads may run in total; a single spinning thread uses all of it."""

MOST_REST_SECONDS = 1.0

Times = dict[str, list[float]]


def _never() -> bool:
    return False


def opwire_call(device: CpuDevice, cell: Cell) -> Call:
    """Returns a plan bound to its arrays once, as in a server; sessions and tensors of peers are created once, too."""
    plan = check(cell.operator)
    outputs = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    bound = device.bind(plan, {"InputTensor": cell.source}, outputs)
    answer = tuple(outputs.values())

    def call() -> tuple[Array, ...]:
        bound(_never)
        return answer

    return call


def interleaved(calls: Mapping[str, Call], seconds: float, most_rounds: int) -> Times:
    """Returns the seconds of each call, for about ``seconds`` in total but at least two rounds."""
    times: Times = {name: [] for name in calls}
    deadline = time.perf_counter() + seconds
    for done in range(most_rounds):
        if done >= 2 and time.perf_counter() > deadline:
            break
        for name, call in calls.items():
            _rest()
            times[name] += _turn(call)
    return times


def _rest() -> None:
    """Waits until no thread of this process is running."""
    deadline = time.perf_counter() + MOST_REST_SECONDS
    used = QUIET_SECONDS
    while used > QUIET * QUIET_SECONDS:
        if time.perf_counter() > deadline:
            raise RuntimeError("a thread of this process never sleeps")
        before = time.process_time()
        time.sleep(QUIET_SECONDS)
        used = time.process_time() - before


def _turn(call: Call) -> list[float]:
    warm = time.perf_counter() + WARM_SECONDS
    call()
    while time.perf_counter() < warm:
        call()
    times: list[float] = []
    while sum(times) < TURN_SECONDS:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def participants(device: CpuDevice, cell: Cell, threads: int) -> dict[str, Call]:
    """Returns the calls of opwire and of the peers that support a cell."""
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
    """Returns the peers whose answers differ from opwire's.

    Indices and extremes must be equal; float sums may differ by the error of naive summation.
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
    """Returns position offsets: PyTorch counts from the start of a channel, DirectML and ONNX of the tensor."""
    planes = cell.source.shape[0] * cell.source.shape[1]
    size = cell.source.size // planes
    return np.repeat(np.arange(planes, dtype=np.int64) * size, count // planes)


def _agree(cell: Cell, mine: Array, other: Array) -> bool:
    if not cell.is_float or cell.function in EXTREMES or cell.function == "MAX_POOLING2":
        return bool(np.array_equal(mine, other.astype(mine.dtype)))
    # Naive sums of millions of FLOAT32 terms, or thousands of FLOAT16 terms, are that inaccurate; some overflow.
    scale = 0.03 if cell.source.dtype == np.float32 else 0.3
    wide, others = mine.astype(np.float64), other.astype(np.float64)
    comparable = ~np.isfinite(others) | np.isfinite(wide)
    spread = np.sqrt(cell.source.size / mine.size)
    with np.errstate(invalid="ignore"):
        close = np.abs(wide - others) <= scale * np.maximum(np.abs(wide), spread)
    return bool(comparable.all() and close[np.isfinite(others)].all())


@uncached_kernel
def _read(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    total = 0
    for i in range(begin, end):
        total ^= load(source, i, zero)
    store(target, begin // _READ, total)


_READ = 1 << 15
"""Numbers read per piece."""


class Reader:
    """Reads memory with as many threads as the participants have, and does nothing else: a bound for all kernels."""

    def __init__(self, threads: int) -> None:
        self._pool = Pool(threads)
        self._kernel = Kernel(_read, INT64)
        self._entries = {kernel: kernel.compile() for kernel in (*sharing.KERNELS, self._kernel)}
        self._made: dict[int, Call] = {}

    def call(self, size: int) -> Call:
        """Returns a call that reads ``size`` bytes once, the same ones each time."""
        if size not in self._made:
            data = np.ones(size // 8, np.int64)
            totals = np.empty(-(-data.size // _READ), np.int64)
            task = Task(self._kernel, array("q"), data.size, _READ, asked=1 << 10)
            read = self._pool.bind(task, data.ctypes.data, totals.ctypes.data, 0, self._entries.__getitem__)

            def call() -> tuple[Array, ...]:
                read(_never)
                return data, totals

            self._made[size] = call
        return self._made[size]

    def close(self) -> None:
        self._pool.close()
