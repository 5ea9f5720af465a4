"""Which large bodies are read at the same time, with plain numbers for time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from opwire_service.engine.intake import TOGETHER, Body, Intake
from opwire_service.engine.patience import BURST, Patience, QueueFull

MB = 10**6
SIZE = 4 * MB
"""Twenty milliseconds, as long as nothing is measured."""


def admitted(intake: Intake, now: float, count: int, size: int = SIZE) -> int:
    for taken in range(count):
        try:
            intake.enter(size, now)
        except QueueFull:
            return taken
    return count


def test_a_burst_is_taken_whole_and_then_a_few_at_a_time():
    intake = Intake(Patience())
    assert admitted(intake, 0, 64) == 64
    assert admitted(intake, BURST, 10) == 0
    assert admitted(Intake(Patience(burst=0)), 0, 10) == TOGETHER + 1


def test_a_small_body_is_not_delayed_by_the_size_of_another():
    intake = Intake(Patience(burst=0))
    assert admitted(intake, 0, TOGETHER, 100 * MB) == TOGETHER
    # Each takes a millisecond, as do those ahead of it until then, and five milliseconds are no long wait.
    assert admitted(intake, 0, 10, 200_000) == 6 - TOGETHER
    assert admitted(intake, 0, 10, 100 * MB) == 0


def test_who_is_refused_is_told_when_half_is_done():
    intake = Intake(Patience())
    assert admitted(intake, 0, 50, 40 * MB) == 50
    with pytest.raises(QueueFull) as full:
        intake.enter(SIZE, BURST)
    assert full.value.retry_after == pytest.approx(50 * 0.2 / 2)


def test_only_a_few_are_taken_while_the_server_is_late_with_all():
    intake = Intake(Patience())
    intake.lag = 1.0
    assert admitted(intake, 0, 10) == 10  # a burst
    assert admitted(intake, BURST, 1) == 0
    intake.lag = 0.0
    assert admitted(intake, 2 * BURST, 1) == 1


def test_those_that_will_enter_count():
    intake = Intake(Patience(burst=0))
    assert intake.admits(SIZE, 0, coming=TOGETHER)
    assert not intake.admits(SIZE, 0, coming=TOGETHER + 1)
    assert admitted(intake, 0, 2) == 2
    assert intake.admits(SIZE, 0, coming=TOGETHER - 2)
    assert not intake.admits(SIZE, 0, coming=TOGETHER - 1)


def test_who_may_wait_for_long_is_not_refused():
    intake = Intake(Patience(burst=0, wait=60))
    intake.lag = 1.0
    assert admitted(intake, 0, 1000) == 1000


def test_who_sends_one_after_the_other_is_never_refused_on_a_busy_machine():
    intake = Intake(Patience())
    intake.lag = 1.0
    for now in np.arange(0, 10, 0.3):
        pair = [intake.enter(SIZE, now) for _ in range(2)]
        for body in pair:
            intake.leave(body, now + 0.2, whole=True)


def test_bodies_that_do_not_arrive_shut_nobody_out():
    intake = Intake(Patience())
    slow = [intake.enter(SIZE, 0) for _ in range(20)]
    assert admitted(intake, 0.5, 1) == 0
    # They have had their time by now, and those that come do not wait for them.
    intake.leave(slow[0], 2, whole=True)
    assert admitted(intake, 2 + BURST, 20) == 20
    for body in slow:
        intake.leave(body, 3, whole=True)


def test_where_the_event_loop_is_late_bodies_count_for_longer():
    for lag, taken in ((0.0, TOGETHER + 1), (0.05, 0)):
        intake = Intake(Patience(burst=0))
        assert admitted(intake, 0, 10) == TOGETHER + 1
        intake.lag = lag
        # Each comes in sixteen pieces.
        assert admitted(intake, 1, 10) == taken


def test_clients_that_send_slowly_are_all_taken():
    """Ten clients a second, each with a megabyte a second: a fifth of what the server can do, as it assumes."""
    intake = Intake(Patience())
    bodies = []
    for step in range(200):
        now = step / 10
        bodies.append((now + SIZE / MB, intake.enter(SIZE, now)))
        while bodies[0][0] <= now:
            intake.leave(bodies.pop(0)[1], now, whole=True)


def test_a_body_that_is_given_up_makes_room():
    intake = Intake(Patience(burst=0))
    bodies = [intake.enter(SIZE, 0) for _ in range(TOGETHER + 1)]
    assert admitted(intake, 0.01, 1) == 0
    intake.leave(bodies[0], 0.01, whole=False)
    assert admitted(intake, 0.01, 2) == 1


class Sharing:
    """A processor that all bodies share: each second it does so much, divided among those that are there."""

    def __init__(self, rate: float, load: float) -> None:
        self.chance = random.Random(2)
        self.intake = Intake(Patience())
        self.rate, self.arrivals = rate, load * rate / SIZE
        self.left: dict[Body, float] = {}
        self.latencies: list[float] = []
        self.refused = 0

    def serve(self, now: float, until: float) -> None:
        """Bodies end one by one, until the next one arrives."""
        while self.left:
            first = min(self.left, key=lambda body: self.left[body])
            end = now + self.left[first] * len(self.left) / self.rate
            done = (min(end, until) - now) * self.rate / len(self.left)
            self.left = {body: left - done for body, left in self.left.items()}
            if end > until:
                return
            now = end
            del self.left[first]
            self.intake.leave(first, now, whole=True)
            self.latencies.append(now - first.began)

    def run(self, count: int) -> None:
        now = 0.0
        for _ in range(count):
            after = now + self.chance.expovariate(self.arrivals)
            self.serve(now, after)
            now = after
            try:
                self.left[self.intake.enter(SIZE, now)] = SIZE
            except QueueFull:
                self.refused += 1

    @property
    def p99(self) -> float:
        """Of what comes after the first burst, and after the first guesses at the rate."""
        return float(np.percentile(self.latencies[1000:], 99))


@pytest.mark.parametrize("rate", [200e6, 400e6, 2000e6])
def test_under_twice_the_load_what_is_taken_is_done_within_three_times(rate):
    half, twice = Sharing(rate, 0.5), Sharing(rate, 2)
    half.run(10_000)
    twice.run(10_000)
    assert half.refused < 100
    assert twice.p99 <= 3 * half.p99
    assert twice.refused == pytest.approx(5000, rel=0.1)
