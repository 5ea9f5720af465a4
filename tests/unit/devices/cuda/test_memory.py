"""A card's bounded memory pool, with a runtime that only counts."""

from __future__ import annotations

import threading

import pytest

from opwire.errors import LimitExceededError, OverloadedError, ProblemCode
from opwire_service.devices.cuda.memory import MemoryPool, block_size
from opwire_service.execution import Stopped
from tests.support.gpu.counting_gpu import FakeRuntime

MIB = 2**20


def never_stop() -> bool:
    return False


def test_block_sizes_waste_at_most_an_eighth():
    for size in (1, 65_536, 65_537, 10**6, 2**30 + 1, 3 * 10**9):
        assert size <= block_size(size)
        assert size < 65_536 or block_size(size) <= size * 1.125
    assert len({block_size(size) for size in range(MIB, 2 * MIB, 64)}) <= 9


def test_blocks_are_reused():
    runtime = FakeRuntime(64 * MIB)
    memory = MemoryPool(runtime, 32 * MIB)
    for size in (MIB, MIB - 5, MIB):
        with memory.block(size, never_stop):
            assert memory.in_use == MIB
    assert runtime.allocations == 1
    assert (memory.in_use, memory.reserved) == (0, MIB)
    memory.close()
    assert runtime.blocks == {}


def test_free_blocks_are_evicted_for_others():
    runtime = FakeRuntime(64 * MIB)
    memory = MemoryPool(runtime, 8 * MIB)
    with memory.block(3 * MIB, never_stop), memory.block(4 * MIB, never_stop):
        pass
    with memory.block(8 * MIB, never_stop):
        assert memory.reserved == 8 * MIB
    assert sum(runtime.blocks.values()) <= 8 * MIB


def test_oversized_blocks_are_refused():
    runtime = FakeRuntime(64 * MIB)
    memory = MemoryPool(runtime, 8 * MIB)
    with pytest.raises(LimitExceededError) as refusal, memory.block(9 * MIB, never_stop):
        pass
    assert (refusal.value.limit, refusal.value.size) == (8 * MIB, 9 * MIB)
    assert runtime.blocks == {}


def test_a_card_filled_by_other_processes_is_overloaded():
    runtime = FakeRuntime(4 * MIB)
    memory = MemoryPool(runtime, 8 * MIB)
    with memory.block(3 * MIB, never_stop):
        pass
    # The first allocation evicts the free block; the second does not fit next to it.
    with memory.block(4 * MIB, never_stop), pytest.raises(OverloadedError), memory.block(2 * MIB, never_stop):
        pass
    assert memory.in_use == 0


def test_waiting_for_memory_ends_when_it_is_released():
    memory = MemoryPool(FakeRuntime(64 * MIB), 8 * MIB)
    asked, done = threading.Event(), threading.Event()

    def stop() -> bool:
        asked.set()
        return False

    def second() -> None:
        with memory.block(6 * MIB, stop):
            done.set()

    waiting = threading.Thread(target=second)
    with memory.block(4 * MIB, never_stop):
        waiting.start()
        assert asked.wait(10)
        assert not done.is_set()
    waiting.join(10)
    assert done.is_set()


def test_waiting_for_memory_can_be_stopped():
    memory = MemoryPool(FakeRuntime(64 * MIB), 8 * MIB)
    with memory.block(8 * MIB, never_stop), pytest.raises(Stopped), memory.block(MIB, lambda: True):
        pass
    assert memory.in_use == 0


def test_promised_memory_is_bounded_and_released():
    memory = MemoryPool(FakeRuntime(64 * MIB), 8 * MIB)
    with pytest.raises(LimitExceededError), memory.promise(9 * MIB):
        pass
    with memory.promise(5 * MIB):
        with pytest.raises(OverloadedError) as refusal, memory.promise(4 * MIB):
            pass
        assert (refusal.value.code, refusal.value.retry_after) == (ProblemCode.MEMORY_FULL, 1)
        assert (refusal.value.members["limit"], refusal.value.members["size"]) == (8 * MIB, 4 * MIB)
        with memory.promise(3 * MIB), memory.block(5 * MIB, never_stop), memory.block(3 * MIB, never_stop):
            assert memory.promised == 8 * MIB
    assert memory.promised == 0
