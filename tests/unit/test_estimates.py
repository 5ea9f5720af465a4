"""How long work is expected to take, from what it has taken."""

from __future__ import annotations

import pytest

from opwire_service.engine.durations import Durations


def test_without_a_measurement_ten_million_visits_are_a_second():
    assert Durations().expected("SUM", 10**7) == 1
    assert Durations().expected("SUM", 0) == 0


def test_a_fixed_cost_of_small_work_says_nothing_of_large_work():
    durations = Durations()
    for _ in range(50):
        durations.learn("SUM", 1000, 0.001)
        durations.learn("SUM", 10**8, 0.1)
    assert durations.expected("SUM", 1000) == pytest.approx(0.001)
    assert durations.expected("SUM", 10**8) == pytest.approx(0.1)


def test_what_was_never_measured_is_in_proportion_to_the_nearest():
    durations = Durations()
    durations.learn("SUM", 2**20, 0.01)
    durations.learn("SUM", 2**30, 4.0)
    assert durations.expected("SUM", 2**21) == pytest.approx(0.02)
    assert durations.expected("SUM", 2**32) == pytest.approx(16.0)
    assert durations.expected("SUM", 2**18) == pytest.approx(0.0025)
    assert durations.expected("SUM", 0) == 0


def test_operators_differ_and_an_unknown_one_is_like_all():
    durations = Durations()
    for _ in range(50):
        durations.learn("SUM", 2**20, 0.01)
    for _ in range(50):
        durations.learn("LOG_SUM_EXP", 2**20, 0.2)
    assert durations.expected("SUM", 2**20) == pytest.approx(0.01)
    assert durations.expected("LOG_SUM_EXP", 2**20) == pytest.approx(0.2)
    assert durations.expected("MAX_POOLING", 2**20) == pytest.approx(0.2, rel=0.01)


def test_it_follows_what_has_changed():
    durations = Durations()
    durations.learn("SUM", 2**20, 5.0)
    for _ in range(40):
        durations.learn("SUM", 2**20, 0.01)
    assert durations.expected("SUM", 2**20) == pytest.approx(0.01, rel=0.1)
