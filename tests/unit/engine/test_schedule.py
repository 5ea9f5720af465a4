"""Which job starts when: the schedule, driven with plain numbers for time."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from opwire_service.engine.costs import at_most
from opwire_service.engine.schedule import LONG_SECONDS, Action, Expire, QueueFull, Schedule, ScheduledJob, Start
from tests.support.profiles import examples

NEVER = 10**9


def job(
    device: str = "a", priority: int = 5, arrived: float = 0, deadline: float = NEVER, work: int = 0
) -> ScheduledJob:
    return ScheduledJob(device, priority, arrived, deadline, work)


def started(actions: list[Action]) -> list[ScheduledJob]:
    assert all(isinstance(action, Start) for action in actions)
    return [action.job for action in actions]


def expired(actions: list[Action]) -> list[ScheduledJob]:
    assert all(isinstance(action, Expire) for action in actions)
    return [action.job for action in actions]


def test_each_device_fills_its_slots():
    schedule = Schedule.of({"a": 2, "b": 1}, 10)
    first, second, third = job(), job(), job()
    other, waiting = job("b"), job("b")
    assert started(schedule.submit(first)) == [first]
    assert started(schedule.submit(second)) == [second]
    assert schedule.submit(third) == []
    assert started(schedule.submit(other)) == [other]
    assert schedule.submit(waiting) == []
    assert started(schedule.finish(other, 1, whole=False)) == [waiting]
    assert started(schedule.finish(first, 1, whole=False)) == [third]
    assert schedule.finish(second, 2, whole=False) == []
    assert {each for each in (first, second, third, other, waiting) if schedule.is_running(each)} == {third, waiting}
    assert schedule.running == 2


def test_its_repr_shows_queued_and_running_jobs():
    schedule = Schedule.of({"a": 2, "b": 1}, 10)
    assert repr(schedule) == "<Schedule 0 queued, a 0/2 busy, b 0/1 busy>"
    for _ in range(4):
        schedule.submit(job())
    schedule.submit(job("b"))
    assert repr(schedule) == "<Schedule 2 queued, a 2/2 busy, b 1/1 busy>"


def order(schedule: Schedule, running: ScheduledJob, waiting: list[ScheduledJob]) -> list[ScheduledJob]:
    """Returns the jobs in the order in which one slot takes them."""
    assert started(schedule.submit(running)) == [running]
    for each in waiting:
        assert schedule.submit(each) == []
    found: list[ScheduledJob] = []
    while schedule.running:
        found += started(schedule.finish(found[-1] if found else running, 100, whole=False))
    return found


def test_jobs_of_equal_priority_start_in_order_of_arrival():
    waiting = [job(arrived=at) for at in (1, 1, 2, 3)]
    assert order(Schedule.of({"a": 1}, 10), job(), waiting) == waiting


def test_urgent_jobs_start_first():
    waiting = [job(priority=priority, arrived=1) for priority in (9, 5, 0, 5)]
    last, middle, first, next_to_it = waiting
    assert order(Schedule.of({"a": 1}, 10), job(), waiting) == [first, middle, next_to_it, last]


def test_each_priority_level_counts_half_a_second():
    patient, urgent = job(priority=5, arrived=10), job(priority=3, arrived=11)
    assert order(Schedule.of({"a": 1}, 10), job(), [patient, urgent]) == [patient, urgent]
    patient, urgent = job(priority=5, arrived=10), job(priority=2, arrived=11)
    assert order(Schedule.of({"a": 1}, 10), job(), [patient, urgent]) == [urgent, patient]


def test_no_job_waits_forever():
    """One slot, one-second jobs and a new urgent one each second: the least urgent starts within its 4.5 seconds."""
    schedule = Schedule.of({"a": 1}, 10)
    running = job(priority=0)
    schedule.submit(running)
    patient = job(priority=9)
    schedule.submit(patient)
    for now in range(1, 20):
        schedule.submit(job(priority=0, arrived=now))
        (running,) = started(schedule.finish(running, now, whole=False))
        if running is patient:
            assert now <= 6
            return
    pytest.fail("it waits still")


def test_queued_jobs_expire_at_their_deadline():
    schedule = Schedule.of({"a": 1}, 10)
    running, soon, later = job(deadline=5), job(deadline=20), job(deadline=10)
    for each in (running, soon, later):
        schedule.submit(each)
    assert schedule.next_deadline() == 10
    assert schedule.expire(9) == []
    assert expired(schedule.expire(10)) == [later]
    assert schedule.next_deadline() == 20
    # Running jobs are left to the device.
    assert schedule.expire(15) == []
    assert schedule.is_running(running)
    assert expired(schedule.finish(running, 20, whole=False)) == [soon]
    assert schedule.next_deadline() is None
    assert repr(schedule) == "<Schedule 0 queued, a 0/1 busy>"


def test_a_job_past_its_deadline_never_starts():
    schedule = Schedule.of({"a": 1}, 10)
    late = job(arrived=5, deadline=5)
    assert expired(schedule.submit(late)) == [late]
    assert schedule.running == schedule.queued == 0


def test_an_expired_job_makes_room_for_the_next():
    schedule = Schedule.of({"a": 1}, 10)
    running, late, fine = job(), job(deadline=3), job()
    for each in (running, late, fine):
        schedule.submit(each)
    assert schedule.finish(running, 4, whole=False) == [Expire(late), Start(fine)]


def test_withdrawn_jobs_do_not_affect_the_order_of_others():
    schedule = Schedule.of({"a": 1, "b": 1}, 10)
    running, *waiting = [job(priority=priority) for priority in (5, 7, 1, 9, 3, 8, 2)]
    for each in (running, *waiting):
        schedule.submit(each)
    schedule.withdraw(waiting[1])
    schedule.withdraw(waiting[3])
    schedule.withdraw(job("b"))
    schedule.withdraw(running)
    assert schedule.queued == 4
    assert schedule.is_running(running)
    found: list[ScheduledJob] = []
    while schedule.running:
        found += started(schedule.finish(found[-1] if found else running, 1, whole=False))
    assert [each.priority for each in found] == [2, 7, 8, 9]


def test_a_full_queue_refuses_jobs():
    schedule = Schedule.of({"a": 1, "b": 1}, 2)
    running = job()
    for each in (running, job(), job()):
        schedule.submit(each)
    with pytest.raises(QueueFull):
        schedule.submit(job())
    # A device with room starts its jobs; all devices share the queue.
    other = job("b")
    assert started(schedule.submit(other)) == [other]
    with pytest.raises(QueueFull):
        schedule.submit(job("b"))
    assert schedule.queued == 2
    schedule.finish(running, 1, whole=False)
    assert schedule.submit(job()) == []


def test_without_a_queue_only_free_slots_are_used():
    schedule = Schedule.of({"a": 1}, 0)
    running = job()
    assert started(schedule.submit(running)) == [running]
    with pytest.raises(QueueFull):
        schedule.submit(job())
    schedule.finish(running, 1, whole=False)
    assert schedule.submit(job())


RATE = 10**9
"""Element visits per second, until something is measured."""


def test_duration_does_not_affect_the_order():
    waiting = [job(work=RATE, arrived=1), job(work=RATE // 2, arrived=2), job(work=0, arrived=3)]
    assert order(Schedule.of({"a": 1}, 10), job(), waiting) == waiting


def test_long_jobs_leave_one_slot_to_short_ones():
    schedule = Schedule.of({"a": 3}, 10)
    long = [job(work=RATE) for _ in range(4)]
    assert started(schedule.submit(long[0])) == [long[0]]
    assert started(schedule.submit(long[1])) == [long[1]]
    assert schedule.submit(long[2]) == []
    assert repr(schedule) == "<Schedule 1 queued, a 2/3 busy>"
    short = job(priority=9, work=RATE // 1000)
    assert started(schedule.submit(short)) == [short]
    assert schedule.submit(long[3]) == []
    assert schedule.finish(short, 1, whole=False) == []
    assert started(schedule.finish(long[0], 1, whole=False)) == [long[2]]
    schedule.withdraw(long[3])
    assert schedule.finish(long[1], 1, whole=False) == schedule.finish(long[2], 1, whole=False) == []
    again = [job(work=RATE) for _ in range(2)]
    assert [started(schedule.submit(each)) for each in again] == [[each] for each in again]


def test_unexpectedly_long_jobs_leave_a_slot_to_short_ones():
    """Two jobs expected to be short run for a second: the next of their kind waits, short ones do not."""
    schedule = Schedule.of({"a": 2}, 10)
    giants = [ScheduledJob("a", 5, 0, NEVER, RATE // 25, "GIANT") for _ in range(9)]
    assert started(schedule.submit(giants[0])) == [giants[0]]
    assert started(schedule.submit(giants[1])) == [giants[1]]
    for each in giants[2:]:
        assert schedule.submit(each) == []
    small = ScheduledJob("a", 5, 0.1, NEVER, RATE // 1000, "SMALL")
    assert schedule.submit(small) == []
    # A single measurement of a kind is ignored, so the next job takes the slot.
    assert started(schedule.finish(giants[0], 1, whole=True)) == [giants[2]]
    assert started(schedule.finish(giants[1], 1, whole=True)) == [small]
    assert schedule.finish(small, 1, whole=True) == []
    another = ScheduledJob("a", 5, 1.5, NEVER, RATE // 1000, "SMALL")
    assert started(schedule.submit(another)) == [another]
    # Before a kind is measured, its running jobs count.
    schedule = Schedule.of({"a": 2}, 10)
    assert started(schedule.submit(giants[0])) == [giants[0]]
    late = ScheduledJob("a", 5, 1, NEVER, RATE, "GIANT")
    assert schedule.submit(late) == []
    assert started(schedule.submit(small)) == [small]


def test_possibly_long_jobs_leave_a_slot_to_short_ones():
    schedule = Schedule.of({"a": 2}, 10)
    doubtful = [job(work=round(LONG_SECONDS / at_most(1) * 1.01 * RATE)) for _ in range(2)]
    assert started(schedule.submit(doubtful[0])) == [doubtful[0]]
    assert schedule.submit(doubtful[1]) == []
    short = job(work=round(LONG_SECONDS / at_most(1) * 0.99 * RATE))
    assert started(schedule.submit(short)) == [short]


def test_the_expected_wait_sums_up_expected_durations():
    """Some jobs take longer and some less; an upper bound for each would refuse jobs that need not wait."""
    schedule = Schedule.of({"a": 1}, 1000, max_wait=5)
    assert admitted(schedule, 0, 1000, work=RATE // 100) == 501


def test_a_queue_full_of_long_jobs_still_accepts_short_ones():
    schedule = Schedule.of({"a": 2}, 1)
    schedule.submit(job(work=RATE))
    assert schedule.submit(job(work=RATE)) == []
    with pytest.raises(QueueFull):
        schedule.submit(job(work=RATE))
    short = job()
    assert started(schedule.submit(short)) == [short]
    with pytest.raises(QueueFull):
        schedule.submit(job())


def test_a_single_slot_is_open_to_all_jobs():
    schedule = Schedule.of({"a": 1}, 10)
    long = job(work=RATE)
    assert started(schedule.submit(long)) == [long]


def test_the_wait_of_the_least_urgent_job_is_bounded():
    schedule = Schedule.of({"a": 1}, 10, max_wait=100)
    running = job(work=RATE, priority=0)
    schedule.submit(running)
    patient = job(priority=9, work=RATE)
    schedule.submit(patient)
    for now in range(1, 30):
        schedule.submit(job(priority=0, arrived=now, work=RATE))
        (running,) = started(schedule.finish(running, now, whole=False))
        if running is patient:
            assert now <= 6
            return
    pytest.fail("it waits still")


def admitted(schedule: Schedule, now: float, count: int, work: int = 0, priority: int = 5) -> int:
    """Counts how many jobs are accepted."""
    taken = 0
    for _ in range(count):
        try:
            schedule.submit(job(arrived=now, work=work, priority=priority))
        except QueueFull:
            return taken
        taken += 1
    return taken


@pytest.mark.parametrize(("places", "seconds"), [(1, 1), (1, 2), (2, 1), (5, 1)])
def test_jobs_are_accepted_while_their_expected_wait_is_allowed(places, seconds):
    schedule = Schedule.of({"a": places}, 1000, max_wait=5)
    work = seconds * RATE
    # One of several slots is kept from long jobs. The last accepted job waits for five seconds.
    lanes = max(1, places - 1)
    assert admitted(schedule, 0, 1000, work=work) == lanes * (5 // seconds) + 1
    assert admitted(schedule, seconds, 1, work=work) == 1


def test_a_deadline_also_limits_the_expected_wait():
    schedule = Schedule.of({"a": 1}, 1000, max_wait=5)
    schedule.submit(job(work=2 * RATE))
    with pytest.raises(QueueFull, match=r"the expected wait is 2\.0 s; at most 1\.0 s are allowed"):
        schedule.submit(job(deadline=1))
    assert schedule.submit(job(deadline=3)) == []


def test_a_thousand_simultaneous_jobs_are_accepted():
    for work in (0, RATE // 10**6, RATE // 250):
        assert admitted(Schedule.of({"a": 2}, 1024), 0, 1000, work=work) == 1000


def test_urgent_jobs_are_accepted_if_few_are_ahead():
    schedule = Schedule.of({"a": 1}, 1000, max_wait=5)
    assert admitted(schedule, 0, 50, work=RATE) == 6
    assert admitted(schedule, 0, 50, work=RATE, priority=0) == 5
    assert admitted(schedule, 0, 1, work=RATE, priority=9) == 0


def test_short_jobs_do_not_wait_for_the_long_ones():
    schedule = Schedule.of({"a": 2}, 1000, max_wait=5)
    assert admitted(schedule, 0, 20, work=RATE) == 6
    assert admitted(schedule, 0, 3, work=RATE // 1000) == 3


def test_parts_of_accepted_batches_are_refused_only_by_the_limit():
    schedule = Schedule.of({"a": 1}, 20, max_wait=5)
    assert admitted(schedule, 0, 10, work=RATE) == 6
    for _ in range(15):
        assert schedule.submit(ScheduledJob("a", 5, 1, NEVER, RATE, part=True)) == []
    with pytest.raises(QueueFull):
        schedule.submit(ScheduledJob("a", 5, 1, NEVER, RATE, part=True))


def retry_after(schedule: Schedule, now: float) -> float:
    with pytest.raises(QueueFull) as full:
        schedule.submit(job(arrived=now, work=10**9))
    return full.value.retry_after


@pytest.mark.parametrize(
    ("places", "sizes", "seconds"),
    [
        (1, [0, 0], 0.1),
        (1, [RATE, RATE, RATE, RATE], 2.0),  # four seconds of work: half of it in two
        (3, [RATE, RATE, RATE, RATE], 1.0),
        (1, [RATE * 10**4] * 2, 60.0),
    ],
)
def test_retry_after_is_half_of_the_queued_time(places, sizes, seconds):
    schedule = Schedule.of({"a": places}, len(sizes), max_wait=10**6)
    for size in sizes:
        schedule.submit(job(work=size))
    schedule.limit = 0
    assert retry_after(schedule, 0) == pytest.approx(seconds)


def test_the_expected_wait_uses_the_measured_rate():
    schedule = Schedule.of({"a": 1}, 1000, max_wait=5)
    for now in range(0, 800, 2):
        measured = job(arrived=now, work=1000)
        schedule.submit(measured)
        schedule.finish(measured, now + 2, whole=True)
    assert admitted(schedule, 800, 10, work=1000) == 3


def test_cancelled_work_does_not_affect_the_rate():
    schedule = Schedule.of({"a": 1}, 1000, max_wait=5)
    for now in range(3):
        given_up = job(work=RATE, arrived=now)
        schedule.submit(given_up)
        schedule.finish(given_up, now + 0.001, whole=False)
    assert admitted(schedule, 4, 10, work=RATE) == 6


class Crowd:
    """Jobs of one size that arrive at random and take about as long as the size suggests."""

    def __init__(self, places: int, seconds: float, load: float) -> None:
        self.chance = random.Random(1)
        self.places, self.seconds, self.load = places, seconds, load
        self.schedule = Schedule.of({"a": places}, 100_000)
        self.ends: list[tuple[float, ScheduledJob]] = []
        self.waits: list[float] = []
        self.refused = 0

    def start(self, actions: list[Action], now: float) -> None:
        for action in actions:
            self.waits.append(now - action.job.arrived)
            self.ends.append((now + self.chance.uniform(0.8, 1.2) * self.seconds, action.job))
        self.ends.sort(key=lambda end: end[0])

    def run(self, count: int) -> None:
        now = 0.0
        for _ in range(count):
            now += self.chance.expovariate(self.load * self.places / self.seconds)
            while self.ends and self.ends[0][0] <= now:
                end, done = self.ends.pop(0)
                self.start(self.schedule.finish(done, end, whole=True), end)
            try:
                self.start(self.schedule.submit(ScheduledJob("a", 5, now, NEVER, round(self.seconds * RATE))), now)
            except QueueFull:
                self.refused += 1


@pytest.mark.parametrize("places", [2, 4])
@pytest.mark.parametrize("seconds", [0.02, LONG_SECONDS * 4])
def test_under_overload_accepted_jobs_wait_no_longer_than_allowed(places, seconds):
    # One of the slots is kept from long jobs.
    carried = 1.0 if seconds < LONG_SECONDS else (places - 1) / places
    half, twice = Crowd(places, seconds, carried / 2), Crowd(places, seconds, carried * 2)
    half.run(3000)
    assert half.refused == 0
    twice.run(3000)
    assert max(twice.waits) <= 5 * 1.2
    assert twice.refused == pytest.approx(1500 - 5 * carried * places / seconds, abs=150)


class Jobs(RuleBasedStateMachine):
    """Any sequence of events: each job has one fate; slots are neither exceeded nor idle while a job may start."""

    capacity: ClassVar = {"a": 2, "b": 1, "c": 3}
    max_wait: ClassVar[float] = NEVER

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule.of(self.capacity, 4, max_wait=self.max_wait)
        self.now = 0
        self.waiting: list[ScheduledJob] = []
        self.running: list[ScheduledJob] = []
        self.since: dict[ScheduledJob, int] = {}

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            self.waiting.remove(action.job)
            if isinstance(action, Start):
                assert action.job.deadline > self.now
                self.running.append(action.job)
                self.since[action.job] = self.now
            else:
                assert action.job.deadline <= self.now

    @rule(
        device=st.sampled_from(sorted(capacity)),
        priority=st.integers(0, 9),
        patience=st.integers(0, 6),
        work=st.sampled_from([0, 0, 10, RATE, 10**12]),
    )
    def submit(self, device, priority, patience, work):
        new = ScheduledJob(device, priority, self.now, self.now + patience, work)
        free = sum(each.device == device for each in self.running) < self.capacity[device]
        if len(self.waiting) >= 4 and not free:
            with pytest.raises(QueueFull):
                self.schedule.submit(new)
            return
        self.waiting.append(new)
        try:
            self.perform(self.schedule.submit(new))
        except QueueFull:
            self.waiting.remove(new)
            assert work or not free  # a job without work may take the slot that is kept from long ones
            assert self.may_refuse(new)

    def may_refuse(self, new: ScheduledJob) -> bool:
        """Whether a job may be refused: the queue is full, or its device has queued work."""
        return len(self.waiting) >= 4 or any(each.device == new.device for each in self.running)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data):
        ended = data.draw(st.sampled_from(self.running))
        self.running.remove(ended)
        self.perform(self.schedule.finish(ended, self.now, whole=True))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data):
        gone = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(gone)
        self.schedule.withdraw(gone)

    @rule(seconds=st.integers(0, 3))
    def time_passes(self, seconds):
        self.now += seconds
        self.perform(self.schedule.expire(self.now))

    @invariant()
    def agrees(self):
        assert self.schedule.queued == len(self.waiting)
        assert self.schedule.running == len(self.running)
        assert all(map(self.schedule.is_running, self.running))
        assert self.schedule.next_deadline() == min((each.deadline for each in self.waiting), default=None)
        for device, places in self.capacity.items():
            running = [each for each in self.running if each.device == device]
            waiting = [each for each in self.waiting if each.device == device]
            assert len(running) <= places
            if waiting and len(running) < places:
                # One slot is kept free from long jobs, in addition to the running ones.
                long = [each for each in running if each.work or self.now > self.since[each]]
                assert len(running) == places - 1 or len(long) >= max(1, places - 1)
                assert all(each.work for each in waiting)
                assert long


class ImpatientJobs(Jobs):
    """The same when no job may wait long."""

    max_wait: ClassVar[float] = 0.5


TestJobs = Jobs.TestCase
TestImpatientJobs = ImpatientJobs.TestCase
TestJobs.settings = TestImpatientJobs.settings = settings(examples(50), stateful_step_count=40)
