"""Plans on a device that the test controls: slots, deadlines, cancellation, failure and closing."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.errors import DeadlineExceededError, OverloadedError, ProblemCode, UnavailableError
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.costs import INLINE_SECONDS
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.timed import MOST_SECONDS, Ran
from opwire_service.execution import Arrays, Stop, Stopped
from tests.support.controlled_device import FakeDevice
from tests.support.dispatching import IN_TIME, until, until_schedule_is

pytestmark = pytest.mark.anyio

OPERATOR: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0]},
}


@pytest.fixture
def fake() -> FakeDevice:
    return FakeDevice()


def dispatcher(fake: FakeDevice, threads: int = 1, queued: int = 8) -> Dispatcher:
    return Dispatcher({"fake": fake}, threads, queued)


def run(
    made: Dispatcher, *, plan: Plan | None = None, priority: int = 5, seconds: float = IN_TIME
) -> asyncio.Task[Ran]:
    """Starts running a plan."""
    deadline = time.monotonic() + seconds
    return asyncio.create_task(
        made.run(plan or check(OPERATOR), {}, {}, device="fake", priority=priority, deadline=deadline)
    )


async def test_a_plan_runs_and_releases_its_slot(fake):
    made = dispatcher(fake)
    plan = check(OPERATOR)
    work = run(made, plan=plan)
    (under_way,) = await fake.started(1)
    assert under_way.plan is plan
    assert repr(made.schedule) == "<Schedule 0 queued, fake 1/1 busy>"
    await asyncio.sleep(0.02)
    assert not work.done()
    under_way.finish()
    ran = await work
    assert ran.run >= 20_000  # microseconds
    assert ran.queue >= 0
    await until_schedule_is(made, "0 queued, fake 0/1 busy")
    await made.close()


async def test_plans_wait_for_a_slot(fake):
    made = dispatcher(fake, threads=2)
    work = [run(made) for _ in range(4)]
    runs = await fake.started(2)
    await until_schedule_is(made, "2 queued, fake 2/2 busy")
    runs[0].finish()
    await fake.started(3)
    await until_schedule_is(made, "1 queued, fake 2/2 busy")
    assert len(runs) == 3
    for i in range(1, 4):
        (await fake.started(i + 1))[i].finish()
    done = await asyncio.gather(*work)
    assert done[3].queue > 0
    await until_schedule_is(made, "0 queued, fake 0/2 busy")
    await made.close()


async def test_urgent_plans_overtake(fake):
    made = dispatcher(fake)
    plans = [check(OPERATOR) for _ in range(4)]
    work = [run(made, plan=plan, priority=priority) for plan, priority in zip(plans, (5, 9, 5, 0), strict=True)]
    await until_schedule_is(made, "3 queued, fake 1/1 busy")
    for i in range(4):
        (await fake.started(i + 1))[i].finish()
    await asyncio.gather(*work)
    assert [under_way.plan for under_way in fake.runs] == [plans[i] for i in (0, 3, 2, 1)]
    await made.close()


async def test_a_plan_cancelled_while_queued_never_starts(fake):
    made = dispatcher(fake)
    first, second, third = run(made), run(made), run(made)
    await until_schedule_is(made, "2 queued, fake 1/1 busy")
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await until_schedule_is(made, "1 queued, fake 1/1 busy")
    (await fake.started(1))[0].finish()
    (await fake.started(2))[1].finish()
    await asyncio.gather(first, third)
    assert len(fake.runs) == 2
    await made.close()


async def test_a_plan_cancelled_while_running_keeps_its_slot_until_it_stops(fake):
    made = dispatcher(fake)
    first, second = run(made), run(made)
    (under_way,) = await fake.started(1)
    await until_schedule_is(made, "1 queued, fake 1/1 busy")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    _, next_one = await fake.started(2)
    # The next plan starts once the device has stopped the first one, not as soon as it is cancelled.
    assert under_way.stopped
    assert not next_one.stopped
    next_one.finish()
    await second
    await until_schedule_is(made, "0 queued, fake 0/1 busy")
    await made.close()


async def test_a_slot_is_not_lost_if_its_plan_is_cancelled_at_once(fake):
    made = dispatcher(fake)
    first, second, third = run(made), run(made), run(made)
    (under_way,) = await fake.started(1)
    await until_schedule_is(made, "2 queued, fake 1/1 busy")
    # In one iteration of the event loop the second plan gets the slot and is cancelled.
    under_way.finish()
    await until(lambda: made.schedule.queued < 2, every=0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    while not third.done():
        for each in fake.runs:
            each.finish()
        await asyncio.sleep(0.001)
    await asyncio.gather(first, third)
    await until_schedule_is(made, "0 queued, fake 0/1 busy")
    await made.close()


async def test_the_deadline_can_pass_in_the_queue(fake):
    made = dispatcher(fake)
    first = run(made)
    await fake.started(1)
    second = run(made, seconds=0.05)
    with pytest.raises(DeadlineExceededError) as late:
        await second
    assert late.value.stage == "queue"
    assert late.value.status == 504
    assert len(fake.runs) == 1
    fake.runs[0].finish()
    await first
    await made.close()


async def test_a_plan_past_its_deadline_never_starts(fake):
    made = dispatcher(fake)
    with pytest.raises(DeadlineExceededError) as late:
        await run(made, seconds=-1)
    assert late.value.stage == "queue"
    assert not fake.runs
    await made.close()


async def test_the_deadline_can_pass_while_running(fake):
    made = dispatcher(fake)
    with pytest.raises(DeadlineExceededError) as late:
        await run(made, seconds=1)
    assert late.value.stage == "run"
    assert fake.runs[0].stopped
    await until_schedule_is(made, "0 queued, fake 0/1 busy")
    await made.close()


async def test_a_full_queue_refuses_with_retry_after(fake):
    made = dispatcher(fake, queued=2)
    work = [run(made) for _ in range(3)]
    await until_schedule_is(made, "2 queued, fake 1/1 busy")
    with pytest.raises(OverloadedError) as full:
        await run(made)
    assert full.value.code is ProblemCode.QUEUE_FULL
    assert full.value.status == 429
    assert full.value.members["limit"] == 2
    assert 0 < full.value.retry_after <= 60
    for i in range(3):
        (await fake.started(i + 1))[i].finish()
    await asyncio.gather(*work)
    await made.close()


async def test_cancelled_work_does_not_affect_the_measured_rate(fake):
    source = {"DataType": "FLOAT32", "Sizes": [10**9], "Strides": [0]}
    plan = check({"type": "REDUCE", "desc": {**OPERATOR["desc"], "InputTensor": source}})
    made = dispatcher(fake, queued=1)
    for i in range(3):
        work = run(made, plan=plan)
        await fake.started(i + 1)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await until_schedule_is(made, "0 queued, fake 0/1 busy")
    waiting = [run(made, plan=plan) for _ in range(2)]
    await until_schedule_is(made, "1 queued, fake 1/1 busy")
    with pytest.raises(OverloadedError) as full:
        await run(made, plan=plan)
    assert full.value.retry_after == pytest.approx(1, abs=0.1)  # half of two seconds, at a billion visits each
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await made.close()


async def test_work_that_would_wait_too_long_is_refused(fake):
    source = {"DataType": "FLOAT32", "Sizes": [10**9], "Strides": [0]}
    plan = check({"type": "REDUCE", "desc": {**OPERATOR["desc"], "InputTensor": source}})
    made = Dispatcher({"fake": fake}, 1, 8, max_wait=0)
    first = run(made, plan=plan)
    await fake.started(1)
    with pytest.raises(OverloadedError, match="the expected wait is") as full:
        await run(made)
    assert full.value.code is ProblemCode.QUEUE_FULL
    fake.runs[0].finish()
    await first
    await made.close()


async def test_a_device_error_fails_only_its_plan(fake):
    made = dispatcher(fake)
    first, second = run(made), run(made)
    (await fake.started(1))[0].fail(ZeroDivisionError("a defect"))
    with pytest.raises(ZeroDivisionError, match="a defect"):
        await first
    (await fake.started(2))[1].finish()
    await second
    await until_schedule_is(made, "0 queued, fake 0/1 busy")
    await made.close()


async def test_closing_finishes_accepted_plans_and_refuses_new_ones(fake):
    made = dispatcher(fake)
    first, second = run(made), run(made)
    await until_schedule_is(made, "1 queued, fake 1/1 busy")
    closing = asyncio.create_task(made.close())
    await asyncio.sleep(0.01)
    with pytest.raises(UnavailableError) as refused:
        await run(made)
    assert refused.value.code is ProblemCode.DRAINING
    assert refused.value.status == 503
    assert not closing.done()
    (await fake.started(1))[0].finish()
    await first
    (await fake.started(2))[1].finish()
    await second
    await closing
    assert fake.closed == 1
    assert len(fake.runs) == 2


async def test_many_concurrent_plans_all_complete(fake):
    made = dispatcher(fake, threads=4, queued=200)
    work = [run(made, priority=i % 10) for i in range(150)]
    most = finished = 0
    while finished < 150:
        runs = await fake.started(finished + 1)
        most = max(most, made.schedule.running)
        runs[finished].finish()
        finished += 1
    await asyncio.gather(*work)
    assert most == 4
    assert len(fake.runs) == 150
    await until_schedule_is(made, "0 queued, fake 0/4 busy")
    await made.close()


async def test_many_concurrent_plans_with_cancellations(fake):
    made = dispatcher(fake, threads=3, queued=200)
    work = [run(made) for _ in range(60)]
    await fake.started(3)
    for i, each in enumerate(work):
        if i % 3 == 1:
            each.cancel()
    kept = [each for i, each in enumerate(work) if i % 3 != 1]
    while not all(each.done() for each in kept):
        for under_way in list(fake.runs):
            under_way.finish()
        await asyncio.sleep(0.001)
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    assert sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes) == 20
    assert sum(isinstance(outcome, Ran) for outcome in outcomes) == 40
    await until_schedule_is(made, "0 queued, fake 0/3 busy")
    await made.close()


async def test_devices_have_their_own_slots(fake):
    other = FakeDevice()
    made = Dispatcher({"fake": fake, "other": other}, 1, 8)
    deadline = time.monotonic() + IN_TIME
    first = run(made)
    second = asyncio.create_task(made.run(check(OPERATOR), {}, {}, device="other", priority=5, deadline=deadline))
    await fake.started(1)
    await other.started(1)
    assert repr(made.schedule) == "<Schedule 0 queued, fake 1/1 busy, other 1/1 busy>"
    fake.runs[0].finish()
    other.runs[0].finish()
    await asyncio.gather(first, second)
    await made.close()
    assert (fake.closed, other.closed) == (1, 1)


async def test_outputs_are_filled():
    made = Dispatcher({"reference": ReferenceDevice()}, 1, 8)
    plan = check(OPERATOR)
    inputs: dict[str, Any] = {"InputTensor": np.array([1, 2, 4], np.float32)}
    outputs: dict[str, Any] = {"OutputTensor": np.zeros(1, np.float32)}
    await made.run(plan, inputs, outputs, device="reference", priority=0, deadline=time.monotonic() + IN_TIME)
    assert outputs["OutputTensor"].tolist() == [7]
    assert made.fits_inline(plan, "reference") == (plan.work <= ReferenceDevice().inline_work)
    inputs["InputTensor"][0] = 2
    soon = time.monotonic() + IN_TIME
    bound = partial(made.inline_device("reference").run, plan, inputs, outputs)
    ran = made.run_inline(plan, bound, soon)
    assert ran is not None
    assert ran.queue == 0
    assert outputs["OutputTensor"].tolist() == [8]
    with pytest.raises(DeadlineExceededError) as late:
        made.run_inline(plan, bound, time.monotonic() - 1)
    assert late.value.stage == "run"
    await made.close()
    with pytest.raises(UnavailableError):
        made.run_inline(plan, bound, soon)


class SlowAtFirst(ReferenceDevice):
    """Takes long for the first runs, as some values may.

    Attributes:
        left: Number of slow runs left.
    """

    left = 2

    def runs_inline(self, plan: Plan) -> bool:
        return True

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        if self.left:
            self.left -= 1
            began = time.thread_time()
            while time.thread_time() - began < 2 * INLINE_SECONDS:
                pass


async def test_inline_plans_that_take_far_too_long_are_stopped():
    made = Dispatcher({"slow": SlowAtFirst()}, 1, 8)
    plan, soon = check(OPERATOR), time.monotonic() + IN_TIME

    def endless(stop: Stop) -> None:
        while not stop():
            pass
        raise Stopped

    assert made.run_inline(plan, endless, soon) is None
    assert not made.fits_inline(plan, "slow")
    with pytest.raises(DeadlineExceededError):
        made.run_inline(plan, endless, time.monotonic() + MOST_SECONDS / 4)
    await made.close()


async def test_slow_inline_plans_move_to_threads_until_they_are_fast():
    made = Dispatcher({"slow": SlowAtFirst()}, 1, 8)
    plan, other = check(OPERATOR), check(OPERATOR)
    soon = time.monotonic() + IN_TIME
    assert made.fits_inline(plan, "slow")
    made.run_inline(plan, partial(made.inline_device("slow").run, plan, {}, {}), soon)
    assert not made.fits_inline(plan, "slow")
    assert made.fits_inline(other, "slow")
    await made.run(plan, {}, {}, device="slow", priority=0, deadline=soon)
    assert not made.fits_inline(plan, "slow")
    await made.run(plan, {}, {}, device="slow", priority=0, deadline=soon)
    assert made.fits_inline(plan, "slow")
    await made.close()


async def test_a_device_that_breaks_is_reported():
    lost: list[Any] = []
    fake = FakeDevice()
    made = Dispatcher({"fake": fake}, 1, 8, on_broken=lost.append)
    work = run(made)
    (under_way,) = await fake.started(1)
    fake.broken = "an illegal address"
    under_way.fail(UnavailableError(ProblemCode.NOT_READY, "the device failed", retry_after=1))
    with pytest.raises(UnavailableError):
        await work
    assert lost == [fake]
    await made.close()
