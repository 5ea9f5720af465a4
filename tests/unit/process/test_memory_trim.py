"""Memory freed by requests is returned to the system when the server is idle."""

from __future__ import annotations

import os
import platform
import weakref
from pathlib import Path

import pytest

from opwire_service.process.memory_trim import IDLE_BYTES, MIN_TAKEN_BYTES, TrimPolicy, trim


def test_trimming_is_due_once_after_the_server_was_busy():
    freed = TrimPolicy()
    assert not freed.is_due(held=0, taken=0)
    assert not freed.is_due(held=5, taken=MIN_TAKEN_BYTES)
    assert not freed.is_due(held=0, taken=2 * MIN_TAKEN_BYTES), "requests are still arriving"
    assert not freed.is_due(held=5, taken=2 * MIN_TAKEN_BYTES), "a request is still running"
    assert freed.is_due(held=0, taken=2 * MIN_TAKEN_BYTES)
    assert not freed.is_due(held=0, taken=2 * MIN_TAKEN_BYTES)
    assert not freed.is_due(held=0, taken=3 * MIN_TAKEN_BYTES)
    assert freed.is_due(held=0, taken=3 * MIN_TAKEN_BYTES)


def test_trimming_is_due_occasionally_under_a_light_load():
    freed = TrimPolicy()
    found = [
        freed.is_due(held=0, taken=number * IDLE_BYTES) for number in range(1, 1 + 3 * MIN_TAKEN_BYTES // IDLE_BYTES)
    ]
    assert sum(found) == 3


class Request:
    """Refers to itself, as an error does through its traceback."""

    def __init__(self) -> None:
        self.itself = self


def test_reference_cycles_of_requests_are_collected():
    request = weakref.ref(Request())
    trim()
    assert request() is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library gives memory back when asked")
def test_freed_memory_is_returned_to_the_system():
    size, count = 64 * 1024, 2000
    pieces = [bytes([1]) * size for _ in range(count)]
    full = resident()
    # The remaining pieces prevent the C library from releasing the memory by itself.
    del pieces[::2]
    trim()
    assert full - resident() > size * count // 4


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
