"""Who gets memory, who waits for it and in which order, and that nothing waits for ever."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.errors import DeadlineExceededError, OverloadedError, ProblemCode
from opwire_service.engine.memory import BODIES_SHARE, SLOW_SECONDS, SMALL, Hold, Memory
from tests.profiles import examples

pytestmark = pytest.mark.anyio

LIMIT = 8 * BODIES_SHARE * SMALL
SHARED, BODIES, GROWTH = LIMIT // BODIES_SHARE, LIMIT // 8 * 5, LIMIT // 8 * 6
"""What large bodies have of it together, what the first of them may have, and what growth leaves to small requests."""

SOON = 30.0


def in_time(seconds: float = SOON) -> float:
    return time.monotonic() + seconds


async def settled() -> None:
    """Lets all run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def asks(memory: Memory, size: int, seconds: float = SOON) -> tuple[Hold, asyncio.Task[None]]:
    hold = memory.open()
    return hold, asyncio.create_task(hold.take_body(size, size, in_time(seconds)))


async def test_what_fits_is_held_at_once_and_given_back():
    memory = Memory(LIMIT, 8)
    for _ in range(3):
        with memory.open() as hold:
            await hold.take_body(40, 40, in_time())
            assert hold.grow_now(20)
            assert memory.held == hold.bytes == 60
            hold.give_back(10)
            assert memory.held == 50
    assert (memory.held, memory.taken, memory.waiting) == (0, 180, 0)


async def test_bodies_wait_in_the_order_of_their_coming():
    memory = Memory(LIMIT, 8)
    with memory.open() as first:
        await first.take_body(BODIES, BODIES, in_time())
        waiting = [asks(memory, size) for size in (BODIES, SMALL + 1, SMALL + 2)]
        await settled()
        assert memory.waiting == 3
        assert not any(task.done() for _, task in waiting), "the small one behind would fit, and waits for its turn"
    await settled()
    assert [task.done() for _, task in waiting] == [True, False, False]
    with waiting[0][0]:
        pass
    await settled()
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
        waiting, task = asks(memory, SMALL + 1)
        await settled()
        assert not task.done()
        await small.take_body(SMALL // 2, SMALL // 2, in_time())
        assert small.grow_now(SMALL // 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (memory.waiting, waiting.bytes) == (0, 0)


async def test_a_request_alone_may_have_more_than_there_is():
    memory = Memory(LIMIT, 8)
    with memory.open() as hold:
        await hold.take_body(2 * LIMIT, 2 * LIMIT, in_time())
        assert hold.grow_now(LIMIT)


async def test_large_bodies_wait_for_each_other_while_others_find_room():
    memory = Memory(LIMIT, 8)
    with memory.open() as first, memory.open() as growing, memory.open() as small:
        await first.take_body(SHARED, SHARED, in_time())
        waiting, task = asks(memory, SMALL + 1)
        await growing.take_body(1, 1, in_time())
        assert growing.grow_now(SHARED)
        await small.take_body(SMALL, SMALL, in_time())
        await settled()
        assert not task.done(), "all of what large bodies may hold is held"
        first.give_back(first.bytes)
        await settled()
        assert task.done()
        with waiting:
            pass


async def test_the_first_of_the_large_bodies_goes_on_whatever_others_hold():
    memory = Memory(LIMIT, 8)
    with memory.open() as first, memory.open() as second:
        await first.take_body(SHARED // 2, BODIES, in_time())
        await second.take_body(SHARED // 2, BODIES, in_time())
        waiting = asyncio.create_task(second.take_body(1, BODIES, in_time()))
        await asyncio.wait_for(first.take_body(BODIES - SHARED, BODIES, in_time()), SOON)
        await settled()
        assert not waiting.done()
        first.give_back(first.bytes)
        await asyncio.wait_for(waiting, SOON)


async def test_those_that_have_read_their_bodies_never_wait_for_each_other():
    memory = Memory(LIMIT, 8)
    holds = [memory.open() for _ in range(3)]
    for hold in holds:
        await hold.take_body(SHARED // 3, SHARED // 3, in_time())
        hold.arrived()
    done: list[int] = []

    async def work(number: int) -> None:
        with holds[number] as hold:
            await hold.grow(GROWTH - SHARED, in_time())
            assert memory.held <= GROWTH, "only one of them has more than there is"
            await asyncio.sleep(0.001)
            done.append(number)

    await asyncio.gather(*(work(number) for number in range(3)))
    assert done == [0, 1, 2]
    assert (memory.held, memory.waiting) == (0, 0)


async def test_what_is_announced_and_not_sent_takes_no_room():
    memory = Memory(LIMIT, 8)
    hogs = [memory.open() for _ in range(8)]
    for hog in hogs:
        await hog.take_body(2**20, LIMIT, in_time())
    with memory.open() as body:
        await asyncio.wait_for(body.take_body(SHARED // 2, SHARED // 2, in_time()), SOON)


async def test_bodies_that_arrive_together_end_one_after_the_other():
    """Each has a part of what there is, and all wait for the rest: who came first gets it."""
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


async def test_a_deadline_and_a_full_line():
    memory = Memory(LIMIT, 1)
    with memory.open() as holding:
        await holding.take_body(BODIES, BODIES, in_time())
        late, task = asks(memory, BODIES, 0.3)
        await settled()
        with pytest.raises(OverloadedError) as full:
            await memory.open().take_body(BODIES, BODIES, in_time())
        assert (full.value.code, full.value.members["limit"]) == (ProblemCode.MEMORY_FULL, LIMIT)
        with pytest.raises(DeadlineExceededError) as error:
            await task
        assert error.value.stage == "memory"
        assert (memory.waiting, late.bytes) == (0, 0)


async def test_who_leaves_the_line_lets_the_next_one_in():
    memory = Memory(LIMIT, 8)
    with memory.open() as holding:
        await holding.take_body(SHARED // 2, SHARED // 2, in_time())
        (_, large), (hold, fits) = asks(memory, SHARED), asks(memory, SHARED // 2)
        await settled()
        assert not fits.done()
        large.cancel()
        await settled()
        assert fits.done()
        with hold:
            pass


sizes = st.sampled_from([1, SMALL // 2, SMALL, SMALL + 1, BODIES // 3, BODIES, LIMIT])


@examples(100)
@given(requests=st.lists(st.tuples(sizes, st.lists(sizes, max_size=2), st.booleans()), max_size=12))
async def test_every_crowd_is_served(requests):
    """Whatever they need, each gets it; the excess is that of one request; and nothing is held at the end."""
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


async def test_small_bodies_begin_in_a_part_of_the_memory_and_then_go_on():
    memory = Memory(LIMIT, 8)
    holds = [memory.open() for _ in range(SHARED // SMALL)]
    for hold in holds:
        await hold.take_body(SMALL // 2, SMALL, in_time())
    for hold in holds:
        await hold.take_body(SMALL // 2, SMALL, in_time())
    waiting, task = asks(memory, SMALL)
    await settled()
    assert not task.done()
    holds[0].give_back(SMALL)
    await asyncio.wait_for(task, 1)
    for hold in (*holds[1:], waiting):
        hold.give_back(hold.bytes)
    assert memory.held == 0


async def test_bodies_that_take_long_to_come_keep_no_others_from_beginning():
    memory = Memory(LIMIT, 99)
    slow = [memory.open() for _ in range(SHARED // SMALL)]
    for hold in slow:
        await hold.take_body(SMALL, SMALL, in_time())
    other, asked = asks(memory, SMALL)
    await settled()
    memory.pass_slow(time.monotonic())
    assert not asked.done(), "they have just begun"
    memory.pass_slow(in_time(SLOW_SECONDS + 1))
    await asked
    for hold in [*slow, other]:
        hold.give_back(SMALL)
    await memory.open().take_body(SHARED, SMALL, in_time())  # what counts no more is not taken off again


async def test_a_body_that_waits_for_the_server_is_not_slow_to_come():
    memory = Memory(LIMIT, 99)
    here = memory.open()
    here.has_unread = lambda: True
    await here.take_body(SHARED, SMALL, in_time())
    _, asked = asks(memory, SMALL)
    memory.pass_slow(in_time(SLOW_SECONDS * 99))
    await settled()
    assert not asked.done()
    here.has_unread = lambda: False
    memory.pass_slow(in_time(SLOW_SECONDS * 99))
    await asked


async def test_a_large_body_has_time_for_its_bytes():
    memory = Memory(LIMIT, 99)
    await memory.open().take_body(4 * SMALL, 4 * SMALL, in_time())
    _, asked = asks(memory, 6 * SMALL)
    memory.pass_slow(in_time(3 * SLOW_SECONDS))
    await settled()
    assert not asked.done()
    memory.pass_slow(in_time(5 * SLOW_SECONDS))
    await asked


async def test_who_has_waited_long_enough_for_a_body_to_be_read_is_refused():
    memory = Memory(LIMIT, 8, max_wait=0.05)
    with memory.open() as first, memory.open() as second:
        await first.take_body(LIMIT // 8 * 7, SMALL, in_time())
        with pytest.raises(OverloadedError) as full:
            await second.take_body(SMALL, SMALL, in_time())
        assert full.value.code is ProblemCode.MEMORY_FULL
        with pytest.raises(DeadlineExceededError):
            await second.take_body(SMALL, SMALL, in_time(0.01))
    assert (memory.held, memory.waiting) == (0, 0)


async def seconds_in_line(requests: int) -> float:
    """Processor time of a request that waits while so many do."""
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
async def test_a_long_line_costs_each_no_more_than_a_short_one():
    """A search through the line would take the long one twenty times as long; what else runs here, not so much."""
    short, long = [min([await seconds_in_line(requests) for _ in range(3)]) for requests in (300, 6000)]
    assert long < 8 * short


async def test_a_small_body_that_is_here_is_held_at_once_while_there_is_room():
    memory = Memory(LIMIT, 4)
    with memory.open() as first, memory.open() as second:
        assert not first.take_arrived(SMALL + 1)
        for _ in range(LIMIT // 8 * 7 // SMALL):
            assert first.take_arrived(SMALL)
        assert not second.take_arrived(1)
        assert memory.held == LIMIT // 8 * 7
    assert memory.held == 0
