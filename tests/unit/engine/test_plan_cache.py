"""The plan cache is bounded in number and in size."""

from __future__ import annotations

from typing import Any

from opwire.graph import check_graph
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
