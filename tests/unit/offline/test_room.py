"""The memory that calls in one process share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from opwire import DeadlineExceededError, LimitExceededError
from opwire_service.offline.room import Room, machine_bytes


def test_a_call_waits_until_there_is_room():
    room, order = Room(100), []

    def call() -> None:
        with room.hold(60, None):
            order.append("second")

    with ThreadPoolExecutor(1) as threads:
        with room.hold(41, None):
            waiting = threads.submit(call)
            time.sleep(0.02)
            order.append("first")
        waiting.result()
    assert order == ["first", "second"]


def test_the_wait_ends_at_the_deadline():
    room = Room(100)
    with room.hold(60, None), pytest.raises(DeadlineExceededError) as caught, room.hold(41, time.monotonic() + 0.01):
        pass
    assert caught.value.stage == "queue"
    with room.hold(100, time.monotonic()):  # it has been freed, and nobody waits
        pass


def test_what_never_fits_is_refused():
    room = Room(100)
    with pytest.raises(LimitExceededError, match="101 bytes for the outputs") as caught, room.hold(101, None):
        pass
    assert (caught.value.limit, caught.value.size) == (100, 101)
    with Room(None).hold(2**60, None):
        pass


def test_the_memory_of_the_machine_is_known():
    found = machine_bytes()
    assert found is None or found > 2**26
