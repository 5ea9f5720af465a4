"""Compiling kernels on demand, the needed ones first, in processes that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opwire.check import check
from opwire_service.execution import Stopped
from opwire_service.kernels.cpu.families import KERNELS, PREPARE
from opwire_service.kernels.cpu.jit.compiler import Kernel, kernel, uncached_kernel
from opwire_service.kernels.cpu.jit.compiling import CompilingFailed
from opwire_service.kernels.cpu.jit.element import FLOAT32, HALF, INT8, INT16, INT32, INT64, store
from opwire_service.kernels.cpu.jit.library import AHEAD, Library
from tests.support.execution import never_stop
from tests.support.http.processes import until

DEVICE = """
from functools import partial
import numpy as np
from opwire.check import check
from opwire_service.devices.cpu import CpuDevice

def prepared(rows):
    tensor = {"DataType": "INT32", "Sizes": [rows, 30]}
    plan = check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [1]}})
    values = np.arange(rows * 30, dtype=np.int32).reshape(rows, 30)
    return plan, values, np.zeros((rows, 1), np.int32)

def answers(run, values, result):
    run(lambda: False)
    return bool((result == values.sum(1, dtype=np.int32, keepdims=True)).all())

"""

SMALL_THEN_LARGE = (
    DEVICE
    + """
device = CpuDevice()
small, large = prepared(3), prepared(300)
bound = [
    partial(device.run, plan, {"InputTensor": values}, {"OutputTensor": result})
    for plan, values, result in (small, large)
]
print(answers(bound[0], *small[1:]), device.runs_inline(small[0]), device.runs_inline(large[0]))
print(answers(bound[1], *large[1:]), device.runs_inline(small[0]), device.runs_inline(large[0]))
print(answers(bound[0], *small[1:]), answers(bound[1], *large[1:]))
device.close()
"""
)


def run_without_cache(script: str, folder: Path) -> str:
    """Returns what a script prints when the cache is empty."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout


def test_small_plans_run_at_once_and_large_ones_once_compiled(tmp_path):
    assert run_without_cache(SMALL_THEN_LARGE, tmp_path) == "True False False\nTrue True True\nTrue True\n"


WITHOUT_COMPILER = (
    DEVICE
    + """
device = CpuDevice(compiling="tests.support.compilers.dying")
for rows in (3, 300):
    plan, values, result = prepared(rows)
    bound = partial(device.run, plan, {"InputTensor": values}, {"OutputTensor": result})
    print([answers(bound, values, result) for _ in range(2)], device.runs_inline(plan))
device.close()
"""
)


def test_results_are_correct_if_the_compiler_crashes(tmp_path):
    assert run_without_cache(WITHOUT_COMPILER, tmp_path) == "[True, True] False\n" * 2


KILLED = (
    DEVICE
    + """
device = CpuDevice()
print("ready", flush=True)
plan, values, result = prepared(300)
device.run(plan, {"InputTensor": values}, {"OutputTensor": result}, lambda: False)
"""
)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_compilers_end_when_their_parent_is_killed(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        tasks = Path(f"/proc/{parent.pid}/task")
        compilers: set[int] = set()

        def are_started() -> bool:
            for task in tasks.iterdir():
                compilers.update(int(child) for child in (task / "children").read_text().split())
            return len(compilers) == 2

        until(are_started)
        time.sleep(1.5)  # lets them start on a kernel
        parent.send_signal(signal.SIGKILL)
    until(lambda: not any(map(is_running, compilers)))


@kernel
def never_compiled(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    store(target, begin, end)


@kernel
def neither(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    store(target, end, begin)


UNCOMPILED = tuple(
    Kernel(function, element)
    for function in (never_compiled, neither)
    for element in (INT8, INT16, INT32, INT64, FLOAT32, HALF)
)


@contextmanager
def library(kernels: tuple[Kernel, ...], first: tuple[Kernel, ...] = ()) -> Iterator[Library]:
    made = Library(kernels, "tests.support.compilers.refusing", first)
    try:
        yield made
    finally:
        made.close()


class Compilers:
    """Controls refusing compilers through a folder that they share with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def started(self) -> list[str]:
        """Returns the kernels that compilers have started, in order."""
        notes = self._folder / "notes"
        return list(dict.fromkeys(notes.read_text("utf-8").split())) if notes.exists() else []

    def hold(self, *kernels: Kernel) -> None:
        """Makes compilers block on these kernels."""
        for each in kernels:
            (self._folder / each.name).touch()

    def release(self, *kernels: Kernel) -> None:
        for each in kernels:
            (self._folder / each.name).unlink()


@pytest.fixture
def compilers(tmp_path, monkeypatch) -> Compilers:
    monkeypatch.setenv("OPWIRE_TEST_FOLDER", str(tmp_path))
    return Compilers(tmp_path)


def test_needed_kernels_are_compiled_before_others(compilers):
    first, second, third, last = *UNCOMPILED[:3], UNCOMPILED[-1]
    compilers.hold(first, second, third)
    with library(UNCOMPILED) as made:
        made.ask(UNCOMPILED, AHEAD)
        until(lambda: len(compilers.started()) == 2)
        made.ask([last])
        compilers.release(first, second)
        assert not made.obtain([last], never_stop)
        begun = compilers.started()
    # One of the two compilers took the needed kernel next; the other may have started the third before it.
    assert set(begun[:2]) == {first.name, second.name}
    assert last.name in begun[2:4]


def test_a_needed_kernel_does_not_wait_for_the_initial_ones(compilers):
    every, last = UNCOMPILED[:4], UNCOMPILED[-1]
    compilers.hold(every[0])
    with library(UNCOMPILED, every) as made:
        until(lambda: compilers.started() == [every[0].name])
        assert not made.obtain([last], never_stop)
        compilers.release(every[0])
        assert not made.obtain([every[3]], never_stop)
        begun = compilers.started()
    # One process compiled the first kernels in order, while another one took the needed kernel.
    assert begun == [kernel.name for kernel in (every[0], last, *every[1:])]


def test_kernels_that_only_need_to_be_loaded_are_waited_for_when_requested_again():
    cached = [each for each in KERNELS if each.is_cached()][:2]
    with library(KERNELS) as made:
        assert not made.load(cached, never_stop)
        assert made.load(cached, never_stop)


def test_requesting_kernels_again_does_not_wait_for_compilers(compilers):
    first, second, last = UNCOMPILED[0], UNCOMPILED[1], UNCOMPILED[-1]
    compilers.hold(first, second)
    with library(UNCOMPILED) as made:
        for each in (first, second, last):
            assert not made.load([each], never_stop)
            assert not made.load([each], never_stop)
        until(lambda: {*compilers.started()} == {first.name, second.name})
        compilers.release(first, second)


def test_waiting_for_a_kernel_can_be_stopped(compilers):
    with library(UNCOMPILED) as made, pytest.raises(Stopped):
        made.obtain(UNCOMPILED, lambda: True)


def test_finding_a_missing_kernel_requests_it(compilers):
    with library(UNCOMPILED) as made, pytest.raises(CompilingFailed, match=r"neither\[uint16\]"):
        made.find(UNCOMPILED[-1])
    assert UNCOMPILED[-1].name in compilers.started()


@pytest.mark.parametrize(
    ("sizes", "axis", "needed"),
    [
        ([1, 64, 112, 112], 1, ["columns"]),
        ([1, 4096, 4, 16], 1, ["columns", "finish"]),
        ([1, 64, 112, 112], 3, ["rows"]),
        ([1, 1, 1, 1 << 20], 3, ["rows", "finish"]),
    ],
)
def test_a_plan_waits_only_for_the_kernels_it_calls(sizes, axis, needed):
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    job = PREPARE["REDUCE"](
        check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [axis]}})
    )
    sums = {f"reduce.sums.{name}[float32]" for name in needed}
    assert {kernel.name for kernel in job.kernels} == sums | {"reduce.exact_sums.settle[float32]"}


def test_a_closed_library_ends_all_waiting(compilers):
    with library(UNCOMPILED) as made:
        made.close()
        assert not made.obtain(UNCOMPILED, never_stop)


@uncached_kernel
def uncached(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    store(target, begin, end)


def test_uncacheable_kernels_are_compiled_in_this_process():
    kernels = (Kernel(uncached, INT64),)
    with library(kernels) as made:
        assert made.obtain(kernels, never_stop)
        assert made.find(kernels[0]).address


def test_only_requested_kernels_are_loaded():
    first, second, *others = sorted((each for each in KERNELS if each.is_cached()), key=lambda each: each.name)
    with library((first, second, *others), (first,)) as made:
        assert made.obtain([second], never_stop)
        until(lambda: made.ready([first]))
        assert len(made) == 2


def test_kernel_names_are_unique():
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)
