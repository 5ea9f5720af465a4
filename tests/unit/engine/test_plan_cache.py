"""The plan cache is bounded in number and in size."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opwire.errors import ContractViolation
from opwire.graph import check_graph
from opwire.level import FeatureLevel
from opwire.wire import ExecuteRequest
from opwire_service.engine.plan_cache import PlanCache, Prepared

DESC = {"DataType": "FLOAT32", "Sizes": [1]}
PLAN = check_graph(
    {
        "nodes": {
            "a": {"type": "ACTIVATION_RELU", "desc": {"InputTensor": DESC}, "inputs": {"InputTensor": "input:x"}}
        },
        "outputs": {"y": "a"},
    }
)


def keep(cache: PlanCache, graph: dict[str, Any]) -> None:
    key, found = cache.find(ExecuteRequest(graph, "6_4", {}, is_graph=True))
    assert found is None
    cache.keep(key, Prepared(PLAN, {}, 0, 0))


def test_the_number_of_plans_is_bounded():
    cache = PlanCache(3, lambda plan: None)
    for i in range(10):
        keep(cache, {"number": i})
    assert len(cache) == 3


def test_the_total_size_of_plans_is_bounded():
    """64 of them would take 16 MB of JSON, and far more for the plans."""
    cache = PlanCache(4096, lambda plan: None)
    for i in range(64):
        keep(cache, {"number": i, "long": "x" * 250_000})
    assert 30 <= len(cache) <= 34
    keep(cache, {"long": "x" * 300_000})
    assert len(cache) <= 34
    for i in range(4096):
        keep(cache, {"number": i})
    assert len(cache) == 4096


def test_operators_of_models_share_the_plans_of_requests():
    cache = PlanCache(8, lambda plan: None)
    operator = {"type": "ACTIVATION_RELU", "desc": {"InputTensor": DESC}}
    level = FeatureLevel.parse("6_4")
    made = cache.plan(ExecuteRequest(operator, str(level), {})).plan
    assert cache.check(operator, level, strict=False, pointer="/dispatchables/one") is made
    assert cache.check(operator, FeatureLevel.parse("5_0"), strict=False, pointer="") is not made
    with pytest.raises(ContractViolation) as raised:
        cache.check({"type": "ACTIVATION_RELU", "desc": {}}, level, strict=False, pointer="/two")
    assert raised.value.violations[0].pointer.startswith("/two/desc")


def test_threads_share_a_cache():
    """More descs than it holds, each looked up by all threads: its size and count stay those of its plans."""
    cache = PlanCache(16, lambda plan: None)

    def look_up(first: int) -> None:
        for i in range(2000):
            key, found = cache.find(ExecuteRequest({"number": (first + i) % 64}, "6_4", {}, is_graph=True))
            if found is None:
                cache.keep(key, Prepared(PLAN, {}, 0, 0))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(look_up, range(0, 64, 16)))
    assert len(cache) == 16
    assert cache.hits + cache.misses == 8000
