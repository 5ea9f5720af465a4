"""What a queue takes where more arrives than can be done: bursts whole, of a lasting excess only what is done soon."""

from __future__ import annotations

import pytest

from opwire_service.schedule import BURST, STANDING, Job, QueueFull, Schedule

NEVER = 10**9
MANY = 1000


def job(arrived: float, priority: int = 5, work: int = 0) -> Job:
    return Job("a", priority, arrived, NEVER, work)


def admitted(schedule: Schedule, now: float, count: int, **kind: int) -> int:
    """How many of so many jobs are taken."""
    taken = 0
    for _ in range(count):
        try:
            schedule.submit(job(now, **kind))
        except QueueFull:
            return taken
        taken += 1
    return taken


@pytest.mark.parametrize("places", [1, 2, 5])
def test_a_burst_is_taken_whole_and_a_standing_queue_is_short(places):
    schedule = Schedule.of({"a": places}, MANY)
    assert admitted(schedule, 0, 100) == 100
    assert admitted(schedule, BURST * 0.99, 100) == 100
    assert admitted(schedule, BURST, 100) == 0
    other = Schedule.of({"a": places}, MANY)
    assert admitted(other, 0, places + 1) == places + 1
    assert admitted(other, BURST, 100) == STANDING * places - 1


def test_a_queue_that_was_empty_takes_a_burst_again():
    schedule = Schedule.of({"a": 1}, MANY)
    running = job(0)
    schedule.submit(running)
    admitted(schedule, 0, STANDING)
    assert admitted(schedule, 10, 1) == 0
    for now in range(11, 11 + STANDING):
        ((running),) = [action.job for action in schedule.finish(running, now)]
    assert schedule.queued == 0
    assert admitted(schedule, 20, 50) == 50


def test_the_urgent_are_taken_where_few_are_ahead_of_them():
    schedule = Schedule.of({"a": 1}, MANY)
    assert admitted(schedule, 0, 50) == 50
    assert admitted(schedule, 1, 1) == 0
    assert admitted(schedule, 1, 50, priority=0) == STANDING
    assert admitted(schedule, 1, 1, priority=9) == 0


def test_under_twice_the_load_that_it_can_carry_what_is_taken_waits_shortly():
    places, seconds = 2, 0.01
    schedule = Schedule.of({"a": places}, MANY)
    ends: list[tuple[float, Job]] = []
    durations: list[float] = []
    refused = 0
    step = seconds / places / 2
    for turn in range(8000):
        now = turn * step
        while ends and ends[0][0] <= now:
            end, done = ends.pop(0)
            durations.append(end - done.arrived)
            ends += [(end + seconds, action.job) for action in schedule.finish(done, end)]
        try:
            ends += [(now + seconds, action.job) for action in schedule.submit(job(now))]
        except QueueFull:
            refused += 1
    lasting = durations[int(3 * BURST / seconds * places) :]
    assert max(lasting) <= (STANDING + 1) * seconds + 1e-9
    assert refused == pytest.approx(4000, rel=0.05)
    assert len(durations) == pytest.approx(4000, rel=0.05)
