"""Request memory: who gets it, who waits in which order, and that nobody waits forever."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.errors import DeadlineExceededError, OverloadedError, ProblemCode
from opwire_service.engine.memory import BODIES_SHARE, SLOW_SECONDS, SMALL, Hold, Memory
from tests.support.profiles import examples

pytestmark = pytest.mark.anyio

LIMIT = 8 * BODIES_SHARE * SMALL
SHARED, BODIES, GROWTH = LIMIT // BODIES_SHARE, LIMIT // 8 * 5, LIMIT // 8 * 6
"""What large bodies may hold together, what the first of them may hold, and what growth leaves to small requests."""

SOON = 30.0


def in_time(seconds: float = SOON) -> float:
    return time.monotonic() + seconds


async def settle() -> None:
    """Lets all runnable tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)


def take_later(memory: Memory, size: int, seconds: float = SOON) -> tuple[Hold, asyncio.Task[None]]:
    hold = memory.open()
    return hold, asyncio.create_task(hold.take_body(size, size, in_time(seconds)))


async def test_memory_that_fits_is_held_at_once_and_released():
    memory = Memory(LIMIT, 8)
    for _ in range(3):
        with memory.open() as hold:
            await hold.take_body(40, 40, in_time())
            assert hold.grow_now(20)
            assert memory.held == hold.bytes == 60
            hold.give_back(10)
            assert memory.held == 50
    assert (memory.held, memory.taken, memory.waiting) == (0, 180, 0)


async def test_bodies_wait_in_order_of_arrival():
    memory = Memory(LIMIT, 8)
    with memory.open() as first:
        await first.take_body(BODIES, BODIES, in_time())
        waiting = [take_later(memory, size) for size in (BODIES, SMALL + 1, SMALL + 2)]
        await settle()
        assert memory.waiting == 3
        assert not any(task.done() for _, task in waiting), "the small one would fit, but waits for its turn"
    await settle()
    assert [task.done() for _, task in waiting] == [True, False, False]
    with waiting[0][0]:
        pass
    await settle()
    assert all(task.done() for _, task in waiting)
    for hold, _ in waiting[1:]:
        with hold:
            pass
    assert memory.held == 0


async def test_small_requests_have_a_reserve():
    memory = Memory(LIMIT, 8)
    with memory.open() as body, memory.open() as small:
        await body.take_body(BODIES, BODIES, in_time())
        await body.grow(GROWTH - BODIES, in_time())
        waiting, task = take_later(memory, SMALL + 1)
        await settle()
        assert not task.done()
        await small.take_body(SMALL // 2, SMALL // 2, in_time())
        assert small.grow_now(SMALL // 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (memory.waiting, waiting.bytes) == (0, 0)


async def test_a_single_request_may_exceed_the_limit():
    memory = Memory(LIMIT, 8)
    with memory.open() as hold:
        await hold.take_body(2 * LIMIT, 2 * LIMIT, in_time())
        assert hold.grow_now(LIMIT)


async def test_large_bodies_wait_while_others_find_room():
    memory = Memory(LIMIT, 8)
    with memory.open() as first, memory.open() as growing, memory.open() as small:
        await first.take_body(SHARED, SHARED, in_time())
        waiting, task = take_later(memory, SMALL + 1)
        await growing.take_body(1, 1, in_time())
        assert growing.grow_now(SHARED)
        await small.take_body(SMALL, SMALL, in_time())
        await settle()
        assert not task.done(), "large bodies already hold all they may"
        first.give_back(first.bytes)
        await settle()
        assert task.done()
        with waiting:
            pass


async def test_the_first_large_body_always_proceeds():
    memory = Memory(LIMIT, 8)
    with memory.open() as first, memory.open() as second:
        await first.take_body(SHARED // 2, BODIES, in_time())
        await second.take_body(SHARED // 2, BODIES, in_time())
        waiting = asyncio.create_task(second.take_body(1, BODIES, in_time()))
        await asyncio.wait_for(first.take_body(BODIES - SHARED, BODIES, in_time()), SOON)
        await settle()
        assert not waiting.done()
        first.give_back(first.bytes)
        await asyncio.wait_for(waiting, SOON)


async def test_requests_with_complete_bodies_do_not_deadlock():
    memory = Memory(LIMIT, 8)
    holds = [memory.open() for _ in range(3)]
    for hold in holds:
        await hold.take_body(SHARED // 3, SHARED // 3, in_time())
        hold.arrived()
    done: list[int] = []

    async def work(number: int) -> None:
        with holds[number] as hold:
            await hold.grow(GROWTH - SHARED, in_time())
            assert memory.held <= GROWTH, "only one of them exceeds the limit"
            await asyncio.sleep(0.001)
            done.append(number)

    await asyncio.gather(*(work(number) for number in range(3)))
    assert done == [0, 1, 2]
    assert (memory.held, memory.waiting) == (0, 0)


async def test_announced_bytes_take_no_memory_until_sent():
    memory = Memory(LIMIT, 8)
    hogs = [memory.open() for _ in range(8)]
    for hog in hogs:
        await hog.take_body(2**20, LIMIT, in_time())
    with memory.open() as body:
        await asyncio.wait_for(body.take_body(SHARED // 2, SHARED // 2, in_time()), SOON)


async def test_bodies_that_arrive_together_complete_in_order():
    """Each has a part of the memory and waits for the rest; the first to arrive gets it."""
    memory = Memory(LIMIT, 8)
    parts = 4
    ended: list[int] = []

    async def receive(number: int, hold: Hold) -> None:
        with hold:
            for _ in range(parts):
                await hold.take_body(BODIES // 4, BODIES, in_time())
                await asyncio.sleep(0)
            hold.arrived()
            ended.append(number)

    await asyncio.gather(*(receive(number, memory.open()) for number in range(6)))
    assert ended == list(range(6))
    assert (memory.held, memory.waiting) == (0, 0)


async def test_waiting_ends_at_the_deadline_and_the_queue_is_bounded():
    memory = Memory(LIMIT, 1)
    with memory.open() as holding:
        await holding.take_body(BODIES, BODIES, in_time())
        late, task = take_later(memory, BODIES, 0.3)
        await settle()
        with pytest.raises(OverloadedError) as full:
            await memory.open().take_body(BODIES, BODIES, in_time())
        assert (full.value.code, full.value.members["limit"]) == (ProblemCode.MEMORY_FULL, LIMIT)
        with pytest.raises(DeadlineExceededError) as error:
            await task
        assert error.value.stage == "memory"
        assert (memory.waiting, late.bytes) == (0, 0)


async def test_a_cancelled_wait_lets_the_next_one_proceed():
    memory = Memory(LIMIT, 8)
    with memory.open() as holding:
        await holding.take_body(SHARED // 2, SHARED // 2, in_time())
        (_, large), (hold, fits) = take_later(memory, SHARED), take_later(memory, SHARED // 2)
        await settle()
        assert not fits.done()
        large.cancel()
        await settle()
        assert fits.done()
        with hold:
            pass


sizes = st.sampled_from([1, SMALL // 2, SMALL, SMALL + 1, BODIES // 3, BODIES, LIMIT])


@examples(100)
@given(requests=st.lists(st.tuples(sizes, st.lists(sizes, max_size=2), st.booleans()), max_size=12))
async def test_any_set_of_requests_is_served(requests):
    """Every request is served; only one at a time exceeds the limit; and nothing is held at the end."""
    memory = Memory(LIMIT, 100)
    most = max((body + sum(growths) for body, growths, _ in requests), default=0)

    async def work(body: int, growths: list[int], gives_up: bool) -> None:
        with memory.open() as hold:
            await hold.take_body(body, body, in_time())
            hold.arrived()
            await asyncio.sleep(0)
            for size in growths:
                await hold.grow(size, in_time(0) if gives_up else in_time())
                assert memory.held <= LIMIT + most
                await asyncio.sleep(0)

    results = await asyncio.gather(*(work(*request) for request in requests), return_exceptions=True)
    for (_, _, gives_up), result in zip(requests, results, strict=True):
        assert result is None or (gives_up and isinstance(result, DeadlineExceededError))
    assert (memory.held, memory.waiting) == (0, 0)


async def test_small_bodies_start_within_their_share_and_continue():
    memory = Memory(LIMIT, 8)
    holds = [memory.open() for _ in range(SHARED // SMALL)]
    for hold in holds:
        await hold.take_body(SMALL // 2, SMALL, in_time())
    for hold in holds:
        await hold.take_body(SMALL // 2, SMALL, in_time())
    waiting, task = take_later(memory, SMALL)
    await settle()
    assert not task.done()
    holds[0].give_back(SMALL)
    await asyncio.wait_for(task, 1)
    for hold in (*holds[1:], waiting):
        hold.give_back(hold.bytes)
    assert memory.held == 0


async def test_slow_bodies_do_not_block_others():
    memory = Memory(LIMIT, 99)
    slow = [memory.open() for _ in range(SHARED // SMALL)]
    for hold in slow:
        await hold.take_body(SMALL, SMALL, in_time())
    other, asked = take_later(memory, SMALL)
    await settle()
    memory.pass_slow(time.monotonic())
    assert not asked.done(), "they have only just started"
    memory.pass_slow(in_time(SLOW_SECONDS + 1))
    await asked
    for hold in [*slow, other]:
        hold.give_back(SMALL)
    await memory.open().take_body(SHARED, SMALL, in_time())  # bodies that no longer count are not subtracted again


async def test_a_body_with_unread_bytes_is_not_slow():
    memory = Memory(LIMIT, 99)
    here = memory.open()
    here.has_unread = lambda: True
    await here.take_body(SHARED, SMALL, in_time())
    _, asked = take_later(memory, SMALL)
    memory.pass_slow(in_time(SLOW_SECONDS * 99))
    await settle()
    assert not asked.done()
    here.has_unread = lambda: False
    memory.pass_slow(in_time(SLOW_SECONDS * 99))
    await asked


async def test_the_time_for_a_body_grows_with_its_size():
    memory = Memory(LIMIT, 99)
    await memory.open().take_body(4 * SMALL, 4 * SMALL, in_time())
    _, asked = take_later(memory, 6 * SMALL)
    memory.pass_slow(in_time(3 * SLOW_SECONDS))
    await settle()
    assert not asked.done()
    memory.pass_slow(in_time(5 * SLOW_SECONDS))
    await asked


async def test_a_long_wait_for_memory_is_refused():
    memory = Memory(LIMIT, 8, max_wait=0.05)
    with memory.open() as first, memory.open() as second:
        await first.take_body(LIMIT // 8 * 7, SMALL, in_time())
        with pytest.raises(OverloadedError) as full:
            await second.take_body(SMALL, SMALL, in_time())
        assert full.value.code is ProblemCode.MEMORY_FULL
        with pytest.raises(DeadlineExceededError):
            await second.take_body(SMALL, SMALL, in_time(0.01))
    assert (memory.held, memory.waiting) == (0, 0)


async def seconds_per_waiting_request(requests: int) -> float:
    """Returns the CPU time per request while many wait."""
    memory = Memory(LIMIT, requests)

    async def serve() -> None:
        with memory.open() as hold:
            await hold.take_body(SMALL, SMALL, in_time())
            hold.arrived()
            await asyncio.sleep(0)
            await hold.grow(SMALL, in_time())

    began = time.process_time()
    await asyncio.gather(*(serve() for _ in range(requests)))
    return (time.process_time() - began) / requests


@pytest.mark.usefixtures("gc_disabled")
async def test_the_cost_of_waiting_does_not_grow_with_the_queue():
    """A linear search of the queue would take twenty times as long; noise on the machine does not."""
    short, long = [min([await seconds_per_waiting_request(requests) for _ in range(3)]) for requests in (300, 6000)]
    assert long < 8 * short


async def test_an_arrived_small_body_is_held_at_once_if_it_fits():
    memory = Memory(LIMIT, 4)
    with memory.open() as first, memory.open() as second:
        assert not first.take_arrived(SMALL + 1)
        for _ in range(LIMIT // 8 * 7 // SMALL):
            assert first.take_arrived(SMALL)
        assert not second.take_arrived(1)
        assert memory.held == LIMIT // 8 * 7
    assert memory.held == 0
