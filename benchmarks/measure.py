"""Interleaved measurements: the participants of a cell take turns, so that noise of the machine hits all of them.

Each is measured as it would run alone. After a call the threads of a library spin for a while, in wait for the next
one: those of opwire for 0.05 ms, of PyTorch for some 8 ms, of ONNX Runtime for some 30 ms. Whoever came next would
share its cores with them. So a turn begins only when no thread of the process has run for a while, and with calls that
are not timed, after which its own threads are awake and its caches as they are between calls. This holds for all.
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
"""At the start of a turn a call is repeated for so long, once at least, and not timed."""

TURN_SECONDS = 20e-3
"""Then it is repeated until it took so long, and each call counts."""

QUIET_SECONDS = 10e-3
"""Several ticks of the clock by which the system counts the time of threads that run."""

QUIET = 0.1
"""The part of ``QUIET_SECONDS`` that all threads together may run for; a single one that spins runs for all of it."""

MOST_REST_SECONDS = 1.0

Times = dict[str, list[float]]


def _never() -> bool:
    return False


def opwire_call(device: CpuDevice, cell: Cell) -> Call:
    """A plan that is bound to its arrays once, as a server binds them: a peer's session or tensor is made once too."""
    plan = check(cell.operator)
    outputs = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    bound = device.bind(plan, {"InputTensor": cell.source}, outputs)
    answer = tuple(outputs.values())

    def call() -> tuple[Array, ...]:
        bound(_never)
        return answer

    return call


def interleaved(calls: Mapping[str, Call], seconds: float, most_rounds: int) -> Times:
    """Seconds of each call, round by round, for about so many seconds in all but for at least two rounds."""
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
    """Waits until no thread of this process runs."""
    deadline = time.perf_counter() + MOST_REST_SECONDS
    used = QUIET_SECONDS
    while used > QUIET * QUIET_SECONDS:
        if time.perf_counter() > deadline:
            raise RuntimeError("some thread of this process never sleeps")
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


@uncached_kernel
def _read(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    total = 0
    for i in range(begin, end):
        total ^= load(source, i, zero)
    store(target, begin // _READ, total)


_READ = 1 << 15
"""Numbers that are read at a time."""


class Reader:
    """Reads memory on as many threads as the participants have, and does nothing with it: a bound for all kernels."""

    def __init__(self, threads: int) -> None:
        self._pool = Pool(threads)
        self._kernel = Kernel(_read, INT64)
        self._entries = {kernel: kernel.compile() for kernel in (*sharing.KERNELS, self._kernel)}
        self._made: dict[int, Call] = {}

    def call(self, size: int) -> Call:
        """What reads so many bytes, the same ones each time, once."""
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
