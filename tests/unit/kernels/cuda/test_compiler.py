"""Which CUDA programs are cached and which are recompiled, with a fake compiler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from opwire_service.execution import Stopped
from opwire_service.kernels.cuda.compiler import Compiler, architecture_of
from opwire_service.kernels.cuda.job import KernelLaunch, Program
from tests.support.execution import never_stop


class Card:
    compute_capability = "90"
    attributes: ClassVar[dict[str, int]] = {"MaxSharedMemoryPerBlockOptin": 1 << 16}

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing."""


class Function(NamedTuple):
    ptr: bytes
    entry: str


class Module:
    def load(self, binary: bytes) -> None:
        self.binary = binary

    def get_function(self, entry: str) -> Function:
        return Function(self.binary, entry)


class Driver:
    def __init__(self) -> None:
        self.attributes: list[tuple[bytes, int, int]] = []

    def funcSetAttribute(self, *given: Any) -> None:
        self.attributes.append(given)


class Nvrtc:
    """A fake compiler whose machine code is the program's text."""

    NVRTCError = RuntimeError

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def getVersion(self) -> int:
        return 1

    def createProgram(self, code: str, *_: object) -> str:
        return code

    def compileProgram(self, program: str, options: object) -> None:
        self.compiled.append(program)

    def getCUBIN(self, program: str) -> bytes:
        return program.encode()

    def destroyProgram(self, program: str) -> None:
        """Does nothing."""


Make = Callable[..., tuple[Compiler, Nvrtc]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setenv("OPWIRE_KERNEL_CACHE", str(tmp_path))
    made: list[Compiler] = []

    def compiler(**limits: Any) -> tuple[Compiler, Nvrtc]:
        nvrtc = Nvrtc()
        cuda = SimpleNamespace(nvrtc=nvrtc, function=SimpleNamespace(Module=Module), Device=Card, driver=Driver())
        made.append(Compiler(SimpleNamespace(cuda=cuda), 0, **limits))
        return made[-1], nvrtc

    yield compiler
    for each in made:
        each.close()


def program(number: int) -> Program:
    return Program((), (("NUMBER", number),))


def launch(each: Program) -> KernelLaunch:
    return KernelLaunch(each, "run", (1, 1), (1, 1), np.zeros(1))


def test_hopper_is_compiled_for_with_the_instructions_that_it_alone_has():
    assert [architecture_of(each) for each in ("75", "89", "90", "100")] == ["sm_75", "sm_89", "sm_90a", "sm_100"]


def test_blocks_may_have_the_shared_memory_of_every_launch(make):
    compiler, _ = make()
    for kibibytes in (40, 50, 60, 55):
        compiler.kernel(replace(launch(program(1)), shared_bytes=kibibytes << 10), never_stop)
    assert [allowed for _, _, allowed in compiler._cuda.driver.attributes] == [50 << 10, 60 << 10]


def test_recently_used_programs_stay_loaded(make):
    compiler, nvrtc = make(loaded=5, on_disk=0)
    for number in range(7):
        compiler.kernel(launch(program(number)), never_stop)
        compiler.get(program(0), never_stop)
    assert len(compiler) == 5
    assert len(nvrtc.compiled) == 7
    for number in (0, 3, 6):
        compiler.get(program(number), never_stop)
    assert len(nvrtc.compiled) == 7
    compiler.kernel(launch(program(1)), never_stop)
    assert nvrtc.compiled[7:] == [program(1).code]


def test_the_disk_cache_is_bounded(make, tmp_path: Path):
    compiler, _ = make(on_disk=3)
    compiler.ask(map(program, range(9)))
    for number in range(9):
        compiler.get(program(number), never_stop)
    assert 3 <= len(list(tmp_path.iterdir())) <= 6  # several are compiled concurrently
    again, nvrtc = make(on_disk=3)
    for number in range(9):
        again.get(program(number), never_stop)
    assert len(nvrtc.compiled) == 9 - len(list(tmp_path.iterdir()))


def test_waiting_for_a_program_can_be_stopped(make):
    compiler, nvrtc = make()
    released = threading.Event()

    def slowly(code: str, options: object) -> None:
        released.wait(60)

    nvrtc.compileProgram = slowly
    try:
        with pytest.raises(Stopped):
            compiler.get(program(1), lambda: True)
    finally:
        released.set()
