"""What a queue takes where more arrives than can be done: bursts whole, of a lasting excess only what is done soon."""

from __future__ import annotations

import random

import numpy as np
import pytest
from opwire_service.engine.patience import BURST, WAIT, QueueFull

from opwire_service.engine.schedule import LONG, Action, Job, Schedule

NEVER = 10**9
MANY = 1000
RATE = 10**7
"""Element visits in a second, as long as nothing is measured."""

SHORT = round(0.01 * RATE)
"""The work of ten milliseconds."""


def job(arrived: float, priority: int = 5, work: int = SHORT) -> Job:
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
def test_a_burst_is_taken_whole_and_then_no_more_than_is_done_soon(places):
    schedule = Schedule.of({"a": places}, MANY)
    assert admitted(schedule, 0, 100) == 100
    assert admitted(schedule, BURST * 0.99, 100) == 100
    assert admitted(schedule, BURST, 100) == 0
    # The wait for those ahead is at most the duration of the job: as many as there are places, and the job itself.
    other = Schedule.of({"a": places}, MANY)
    assert admitted(other, 0, 2 * places) == 2 * places
    assert admitted(other, BURST, 100) == 1


def test_sixty_four_that_come_at_once_are_all_taken():
    for work in (0, SHORT, RATE):
        assert admitted(Schedule.of({"a": 2}, 256), 0, 64, work=work) == 64


def test_a_queue_that_was_empty_for_a_while_takes_a_burst_again():
    schedule = Schedule.of({"a": 1}, MANY)
    running = job(0)
    schedule.submit(running)
    admitted(schedule, 0, 10)
    assert admitted(schedule, 10, 1) == 0
    for step in range(10):
        ((running),) = [action.job for action in schedule.finish(running, 10 + step / 100)]
    assert schedule.queued == 0
    # A moment without a queue allows for as much of a burst, and a quarter of a second for all of it.
    assert admitted(schedule, 10.1 + BURST, 50) == 50
    assert admitted(schedule, 10.1 + BURST + BURST, 1) == 0


def test_the_urgent_are_taken_where_little_is_ahead_of_them():
    schedule = Schedule.of({"a": 1}, MANY)
    assert admitted(schedule, 0, 50) == 50
    assert admitted(schedule, 1, 1) == 0
    assert admitted(schedule, 1, 50, priority=0) == 2
    assert admitted(schedule, 1, 1, priority=9) == 0


def test_many_short_jobs_may_wait_for_some_milliseconds():
    schedule = Schedule.of({"a": 1}, MANY)
    tiny = round(WAIT * RATE / 9.5)
    assert admitted(schedule, 0, 2, work=tiny) == 2
    assert admitted(schedule, BURST, 100, work=tiny) == 9


def test_short_jobs_do_not_pay_for_the_queue_of_the_long_ones():
    schedule = Schedule.of({"a": 2}, MANY)
    assert admitted(schedule, 0, 20, work=RATE) == 20
    assert admitted(schedule, 1, 1, work=RATE) == 0
    assert admitted(schedule, 1, 3, work=SHORT) == 3


def test_parts_of_what_was_taken_are_refused_by_the_limit_alone():
    schedule = Schedule.of({"a": 1}, 20)
    assert admitted(schedule, 0, 10, work=RATE) == 10
    assert admitted(schedule, 1, 1, work=RATE) == 0
    for _ in range(11):
        assert schedule.submit(Job("a", 5, 1, NEVER, RATE, part=True)) == []
    with pytest.raises(QueueFull):
        schedule.submit(Job("a", 5, 1, NEVER, RATE, part=True))


@pytest.mark.parametrize(("burst", "wait", "taken"), [(1.0, WAIT, 100), (BURST, 0.995, 98), (BURST, WAIT, 0)])
def test_the_bounds_are_those_that_are_set(burst, wait, taken):
    schedule = Schedule.of({"a": 1}, MANY, burst=burst, wait=wait)
    admitted(schedule, 0, 3)
    assert admitted(schedule, 0.5, 100) == taken


class Clients:
    """Jobs of one size that arrive at random and take as long as the size says, with some noise."""

    def __init__(self, places: int, seconds: float, load: float) -> None:
        self.chance = random.Random(1)
        self.places, self.seconds, self.load = places, seconds, load
        self.schedule = Schedule.of({"a": places}, 256)
        self.ends: list[tuple[float, Job]] = []
        self.latencies: list[float] = []
        self.refused = 0

    def start(self, actions: list[Action], now: float) -> None:
        for action in actions:
            noise = self.chance.uniform(0.8, 1.2)
            self.ends.append((now + noise * self.seconds, action.job))
        self.ends.sort(key=lambda end: end[0])

    def run(self, count: int) -> None:
        now = 0.0
        for _ in range(count):
            now += self.chance.expovariate(self.load * self.places / self.seconds)
            while self.ends and self.ends[0][0] <= now:
                end, done = self.ends.pop(0)
                self.latencies.append(end - done.arrived)
                self.start(self.schedule.finish(done, end), end)
            try:
                self.start(self.schedule.submit(Job("a", 5, now, NEVER, SHORT)), now)
            except QueueFull:
                self.refused += 1

    @property
    def p99(self) -> float:
        """Of what comes after the first burst, and after the first guesses at the rate."""
        return float(np.percentile(self.latencies[2000:], 99))


@pytest.mark.parametrize("places", [2, 4])
@pytest.mark.parametrize("seconds", [WAIT, 0.02, LONG * 4])
def test_under_twice_the_load_what_is_taken_is_done_within_three_times(places, seconds):
    # Of the places one is kept from long jobs.
    carried = 1.0 if seconds < LONG else (places - 1) / places
    half, twice = Clients(places, seconds, carried / 2), Clients(places, seconds, carried * 2)
    half.run(20_000)
    twice.run(20_000)
    assert half.refused < 400
    assert twice.p99 <= 3 * half.p99
    assert twice.refused == pytest.approx(10_000, rel=0.15)
    assert len(twice.latencies) == pytest.approx(10_000, rel=0.15)


def test_at_nine_tenths_of_what_it_carries_hardly_any_is_refused():
    clients = Clients(2, 0.01, 0.9)
    clients.run(20_000)
    assert clients.refused < 1000
