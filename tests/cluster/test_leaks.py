"""Thousands of calls leave nothing behind in the object stores of nodes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.cluster.loads import maximum
from tests.cluster.nodes import ENVIRONMENT, nodes, remote_device
from tests.support.execution import never_stop

ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.thorough, pytest.mark.serial, pytest.mark.timeout(600)]


def held() -> float:
    """Returns the bytes in the object stores."""
    name = "object_store_memory"
    return float(ray.cluster_resources()[name]) - float(ray.available_resources().get(name, 0.0))


def test_ten_thousand_calls_leave_nothing_in_an_object_store(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    plan, array = maximum(75_000), np.ones(75_000, "f4")
    with nodes("a") as cluster, remote_device(cluster) as device, ThreadPoolExecutor(8) as threads:

        def call(_: int) -> None:
            output = np.empty(1, "f4")
            device.run(plan, {"InputTensor": array}, {"OutputTensor": output}, never_stop)
            assert output[0] == 1

        list(threads.map(call, range(100)))
        time.sleep(2)  # Ray frees objects with a delay
        before = held()
        list(threads.map(call, range(10_000)))
        time.sleep(3)  # likewise
        assert held() <= before
