"""The kernels of the CPU device touch no byte but those of their tensors, whatever the indices in these are."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from opwire.tensor import BufferTensorDesc, DataType
from opwire_service.kernels.executable import EXECUTABLE
from tests.support.guarded import Guarded, bits_of_elements, command
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pages are protected with mprotect")

PARTS = 2
"""Processes among which the operators are divided."""


def assert_guarded(names: Sequence[str], count: int, folder: Path) -> None:
    notes = folder / "last.json"
    done = subprocess.run(command(notes, count, names), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode} after {notes.read_text('utf-8')}: {done.stderr[-4000:]}"


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_touch_only_their_tensors(tmp_path, part):
    assert_guarded(list(EXECUTABLE)[part::PARTS], 1, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXECUTABLE)
def test_kernels_touch_only_their_tensors_in_many_plans(tmp_path, name):
    assert_guarded([name], 100, tmp_path)


OUTSIDE = {
    "reading past the end": "ctypes.string_at(memory.address + 5, 1)",
    "writing past the end": "ctypes.memset(memory.address + 5, 0, 1)",
    "writing to a sealed one": "memory.seal(); ctypes.memset(memory.address, 0, 1)",
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_touching_other_bytes_ends_the_process(what):
    start = "import ctypes; from tests.support.guarded import Guarded; memory = Guarded(5, at_end=True, canary=1); "
    inside = "ctypes.memset(memory.address, 0, 5); print('inside', flush=True); "
    done = subprocess.run(
        [sys.executable, "-c", start + inside + OUTSIDE[what]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "inside\n"
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize(("place", "is_intact"), [(-1, False), (0, True), (1, True), (2, False), (4, True), (6, False)])
def test_bytes_beside_the_elements_must_survive(place, is_intact):
    desc = BufferTensorDesc(DataType.FLOAT16, (2,), (2,))
    memory = Guarded(6, at_end=False, canary=0xA5) if place > 0 else Guarded(6, at_end=True, canary=0xA5)
    ctypes.memset(memory.address + place, 0, 1)
    assert memory.is_intact(bits_of_elements(desc)) is is_intact


def test_elements_of_four_bits_are_told_from_the_rest_of_their_bytes():
    desc = BufferTensorDesc(DataType.UINT4, (3,))
    assert np.array_equal(bits_of_elements(desc), [0xFF, 0x0F])
