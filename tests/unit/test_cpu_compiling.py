"""Kernels that are compiled when they are needed: the needed one first, in a process that ends with its parent."""

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
from tests.execution import never_stop

DEVICE = """
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
    device.bind(plan, {"InputTensor": values}, {"OutputTensor": result}) for plan, values, result in (small, large)
]
print(answers(bound[0], *small[1:]), device.runs_inline(small[0]), device.runs_inline(large[0]))
print(answers(bound[1], *large[1:]), device.runs_inline(small[0]), device.runs_inline(large[0]))
print(answers(bound[0], *small[1:]), answers(bound[1], *large[1:]))
device.close()
"""
)


def run_afresh(script: str, folder: Path) -> str:
    """What a script prints where the cache is empty."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout


def test_a_small_plan_runs_at_once_and_a_large_one_when_its_kernels_are_compiled(tmp_path):
    assert run_afresh(SMALL_THEN_LARGE, tmp_path) == "True False False\nTrue True True\nTrue True\n"


WITHOUT_COMPILER = (
    DEVICE
    + """
device = CpuDevice(compiling="tests.unit.dying_compiler")
for rows in (3, 300):
    plan, values, result = prepared(rows)
    bound = device.bind(plan, {"InputTensor": values}, {"OutputTensor": result})
    print([answers(bound, values, result) for _ in range(2)], device.runs_inline(plan))
device.close()
"""
)


def test_answers_are_right_where_the_compiler_dies(tmp_path):
    assert run_afresh(WITHOUT_COMPILER, tmp_path) == "[True, True] False\n" * 2


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


def until(condition, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_compilers_end_with_a_process_that_is_killed(tmp_path):
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
        time.sleep(1.5)  # they are about a kernel
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
    made = Library(kernels, "tests.unit.refusing_compiler", first)
    try:
        yield made
    finally:
        made.close()


class Compilers:
    """What refusing compilers are about, in a folder that they share with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begun(self) -> list[str]:
        """The kernels that were begun, in that order, each once."""
        notes = self._folder / "notes"
        return list(dict.fromkeys(notes.read_text("utf-8").split())) if notes.exists() else []

    def hold(self, *kernels: Kernel) -> None:
        """Whoever begins one of them stays about it."""
        for each in kernels:
            (self._folder / each.name).touch()

    def let_go(self, *kernels: Kernel) -> None:
        for each in kernels:
            (self._folder / each.name).unlink()


@pytest.fixture
def compilers(tmp_path, monkeypatch) -> Compilers:
    monkeypatch.setenv("OPWIRE_TEST_FOLDER", str(tmp_path))
    return Compilers(tmp_path)


def test_what_is_waited_for_is_compiled_before_what_is_not(compilers):
    first, second, third, last = *UNCOMPILED[:3], UNCOMPILED[-1]
    compilers.hold(first, second, third)
    with library(UNCOMPILED) as made:
        made.ask(UNCOMPILED, AHEAD)
        until(lambda: len(compilers.begun()) == 2)
        made.ask([last])
        compilers.let_go(first, second)
        assert not made.obtain([last], never_stop)
        begun = compilers.begun()
    # Of the two that compile, one went on to what was waited for, and the other may have begun the third before that.
    assert set(begun[:2]) == {first.name, second.name}
    assert last.name in begun[2:4]


def test_a_first_request_does_not_wait_for_all_that_every_request_needs(compilers):
    every, last = UNCOMPILED[:4], UNCOMPILED[-1]
    compilers.hold(every[0])
    with library(UNCOMPILED, every) as made:
        until(lambda: compilers.begun() == [every[0].name])
        assert not made.obtain([last], never_stop)
        compilers.let_go(every[0])
        assert not made.obtain([every[3]], never_stop)
        begun = compilers.begun()
    # One process was about the first ones, one after the other, while another one saw to what was waited for.
    assert begun == [kernel.name for kernel in (every[0], last, *every[1:])]


def test_who_waits_for_a_kernel_can_be_stopped(compilers):
    with library(UNCOMPILED) as made, pytest.raises(Stopped):
        made.obtain(UNCOMPILED, lambda: True)


def test_a_kernel_that_is_found_to_be_missing_is_asked_for(compilers):
    with library(UNCOMPILED) as made, pytest.raises(CompilingFailed, match=r"neither\[uint16\]"):
        made.find(UNCOMPILED[-1])
    assert UNCOMPILED[-1].name in compilers.begun()


@pytest.mark.parametrize(
    ("sizes", "axis", "needed"),
    [
        ([1, 64, 112, 112], 1, {"reduce.sums.columns[float32]", "reduce.open_sums.columns[float32]"}),
        ([1, 4096, 4, 16], 1, {"reduce.sums.columns[float32]", "reduce.sums.finish[float32]"}),
        ([1, 64, 112, 112], 3, {"reduce.sums.rows[float32]", "reduce.open_sums.rows[float32]"}),
        ([1, 1, 1, 1 << 20], 3, {"reduce.sums.rows[float32]", "reduce.sums.finish[float32]"}),
    ],
)
def test_a_first_request_waits_for_the_kernels_that_it_calls_for_sure(sizes, axis, needed):
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    job = PREPARE["REDUCE"](
        check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [axis]}})
    )
    assert {kernel.name for kernel in job.kernels if kernel not in job.later} == needed
    assert {kernel.name for kernel in job.later} <= {
        "reduce.open_sums.rows[float32]",
        "reduce.open_sums.columns[float32]",
    }


def test_a_library_that_is_closed_lets_nobody_wait(compilers):
    with library(UNCOMPILED) as made:
        made.close()
        assert not made.obtain(UNCOMPILED, never_stop)


@uncached_kernel
def of_this_process(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    store(target, begin, end)


def test_what_cannot_be_kept_on_disk_is_compiled_in_this_process():
    kernels = (Kernel(of_this_process, INT64),)
    with library(kernels) as made:
        assert made.obtain(kernels, never_stop)
        assert made.find(kernels[0]).address


def test_only_what_is_asked_for_is_loaded():
    first, second, *others = sorted((each for each in KERNELS if each.is_cached()), key=lambda each: each.name)
    with library((first, second, *others), (first,)) as made:
        assert made.obtain([second], never_stop)
        until(lambda: made.ready([first]))
        assert len(made) == 2


def test_no_two_kernels_have_one_name():
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)
