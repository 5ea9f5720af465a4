"""The CPU device's thread pool: every unit runs once, on all threads, until stopped."""

from __future__ import annotations

import os
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.execution import Stopped
from opwire_service.kernels.cpu.jit.atomics import exchange, fetch_add, pause, peek
from opwire_service.kernels.cpu.jit.compiler import Entry, Kernel, uncached_kernel
from opwire_service.kernels.cpu.jit.element import FLOAT32, INT64
from opwire_service.kernels.cpu.run import sharing
from opwire_service.kernels.cpu.run.pool import Find, Pool, Task
from tests.support.execution import never_stop

PATIENCE = 1 << 28
"""Timeout in seconds for waiting on another thread's counter."""


@uncached_kernel
def count_units(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    for unit in range(begin, end):
        fetch_add(target, unit, 1)


@uncached_kernel
def meet(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Each of two units waits until the other one has started."""
    exchange(target, begin, 1)
    for _ in range(PATIENCE):
        if peek(target, 1 - begin):
            exchange(states, begin, 1)
            break
        pause()


@uncached_kernel
def fail(zero: float, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    fetch_add(target, begin, 1)
    if begin == 100:
        np.empty(1 << 60)


@pytest.fixture(scope="module")
def find() -> Find:
    entries: dict[Kernel, Entry] = {}

    def compiled(kernel: Kernel) -> Entry:
        if kernel not in entries:
            entries[kernel] = kernel.compile()
        return entries[kernel]

    for kernel in sharing.KERNELS:
        compiled(kernel)
    return compiled


@pytest.fixture(params=[1, 2, 3, 8])
def pool(request) -> Iterator[Pool]:
    made = Pool(request.param)
    yield made
    made.close()


def share(
    pool: Pool,
    find: Find,
    function: Callable[..., None],
    target: Array,
    states: Array | None = None,
    *,
    grain: int = 1,
    asked: int = 1 << 20,
    floats: int = 0,
    stop: Callable[[], bool] = never_stop,
) -> None:
    kernel = Kernel(function, FLOAT32 if floats else INT64)
    task = Task(find(kernel).address, kernel.is_float, array("q"), len(target), grain, asked)
    pool.bind(task, 0, target.ctypes.data, 0 if states is None else states.ctypes.data, find)(stop)


@pytest.mark.parametrize("floats", [0, 1])
@pytest.mark.parametrize(("units", "grain"), [(1, 1), (7, 7), (8, 7), (1000, 1), (1000, 3), (100_000, 64)])
def test_each_unit_runs_once(pool, find, units, grain, floats):
    for asked in (1, 5, 1 << 20):
        done = np.zeros(units, np.int64)
        share(pool, find, count_units, done, grain=grain, asked=asked, floats=floats)
        assert (done == 1).all()


def test_many_callers_share_the_threads(pool, find):
    def call(done: list[Array]) -> None:
        for target in done:
            share(pool, find, count_units, target, grain=2)

    work = [[np.zeros(200, np.int64) for _ in range(50)] for _ in range(6)]
    callers = [threading.Thread(target=call, args=(done,)) for done in work]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((array == 1).all() for done in work for array in done)


@pytest.mark.parametrize("rest", [0, 0.01], ids=["listening", "asleep"])
def test_a_helper_takes_part(find, rest):
    pool = Pool(2)
    for _ in range(20):
        begun, met = np.zeros(2, np.int64), np.zeros(2, np.int64)
        share(pool, find, meet, begun, met)
        assert met.tolist() == [1, 1]
        time.sleep(rest)
    pool.close()


@pytest.mark.parametrize("rest", [0, 0.01], ids=["listening", "asleep"])
def test_helpers_alternate_between_python_functions_and_kernels(find, rest):
    pool, both = Pool(2), threading.Barrier(2)

    def piece(begin: int, end: int) -> None:
        both.wait(10)

    for _ in range(10):
        pool.run(piece, 2, 1, never_stop, find)
        begun, met = np.zeros(2, np.int64), np.zeros(2, np.int64)
        share(pool, find, meet, begun, met)
        assert met.tolist() == [1, 1]
        time.sleep(rest)
    pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="cores cannot be chosen")
def test_helpers_do_not_run_on_the_leaders_core():
    pool, both, cores = Pool(2), threading.Barrier(2), os.sched_getaffinity(0)
    allowed = {}

    def piece(begin: int, end: int) -> None:
        both.wait(10)
        allowed[threading.current_thread().name] = os.sched_getaffinity(0)

    pool.run(piece, 2, 1, never_stop)
    pool.close()
    assert allowed.pop(threading.current_thread().name) == cores
    (others,) = allowed.values()
    assert others < cores if len(cores) > 1 else others == cores
    assert len(others) == max(1, len(cores) - 1)


@pytest.mark.parametrize("answers", [0, 1, 5])
def test_work_stops_between_pieces(pool, find, answers):
    asked = iter([False] * answers)
    done = np.zeros(1 << 22, np.int64)
    stopped = False
    try:
        share(pool, find, count_units, done, grain=1 << 10, asked=2, stop=lambda: next(asked, True))
    except Stopped:
        stopped = True
    # While the caller waited to ask again, its helpers may have finished.
    assert stopped or (answers and pool.threads > 1 and done.all())
    then = done.copy()
    time.sleep(0.01)
    assert (done == then).all()
    assert done.max() <= 1
    # Without helpers, the caller did only what it was allowed to.
    assert pool.threads > 1 or done.sum() == answers * 2 << 10


def test_an_error_in_the_stop_callback_propagates(pool, find):
    def ask() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share(pool, find, count_units, np.zeros(100, np.int64), stop=ask)


def test_a_kernel_that_runs_out_of_memory_raises(pool, find):
    done = np.zeros(1000, np.int64)
    with pytest.raises(MemoryError):
        share(pool, find, fail, done, grain=10)
    assert done[100] == 1
    share(pool, find, count_units, done)


def test_python_chunks_run_once(pool):
    done = np.zeros(1000, np.int64)

    def piece(begin: int, end: int) -> None:
        done[begin:end] += 1

    pool.run(piece, 1000, 7, never_stop)
    assert (done == 1).all()
    with pytest.raises(Stopped):
        pool.run(piece, 1000, 7, lambda: True)
