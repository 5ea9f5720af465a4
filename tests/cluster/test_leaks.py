"""What thousands of calls leave behind in the object stores of nodes: nothing."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")

from benchmarks.clustering.costs import measure_leaks
from benchmarks.clustering.simulated import simulated

pytestmark = [pytest.mark.thorough, pytest.mark.serial, pytest.mark.timeout(600)]


def test_ten_thousand_calls_leave_nothing_in_an_object_store():
    with simulated(1) as cluster:
        assert measure_leaks(cluster, 10_000)
