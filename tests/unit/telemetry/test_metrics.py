"""The arithmetic of the metrics, as Prometheus' own parser reads them."""

from __future__ import annotations

import bisect
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from opwire_service.kernels.executable import EXECUTABLE
from opwire_service.process.application import layout
from opwire_service.settings import Settings
from opwire_service.telemetry import declarations as m
from opwire_service.telemetry.metrics import Layout, Metrics
from opwire_service.telemetry.prometheus import registry

LAYOUT = Layout(("one", "two"), ("/v1/execute", "/v1/batch"))


def scrape(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Returns every sample by its name and labels."""
    text = generate_latest(registry(metrics)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def at(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@given(st.lists(st.integers(0, 10**9), max_size=30))
def test_a_histogram_counts_each_time_in_its_bucket(times):
    metrics = Metrics(LAYOUT)
    for time in times:
        metrics.ended("/v1/batch", m.OK, time)
    found = scrape(metrics)
    if not times:
        assert at("opwire_request_seconds_count", route="/v1/batch") not in found
        return
    assert found[at("opwire_request_seconds_count", route="/v1/batch")] == len(times)
    assert found[at("opwire_request_seconds_sum", route="/v1/batch")] == pytest.approx(math.fsum(times) / 1e6)
    assert found[at("opwire_requests_total", route="/v1/batch", code="ok")] == len(times)
    ordered = sorted(times)
    for (name, labels), value in found.items():
        if name == "opwire_request_seconds_bucket":
            bound = float(dict(labels)["le"])
            below = len(times) if math.isinf(bound) else bisect.bisect_right(ordered, round(bound * 1e6))
            assert value == below


def test_bucket_bounds_start_at_100_microseconds_and_increase():
    assert m.BOUNDS[0] == 100
    assert list(m.BOUNDS) == sorted(set(m.BOUNDS))


def test_stages_are_counted_by_operator():
    metrics = Metrics(LAYOUT)
    first, second = list(EXECUTABLE)[:2]
    timing = {stage: 10 * (number + 1) for number, stage in enumerate(m.STAGES)}
    metrics.executed(first, timing)
    metrics.executed(first, dict.fromkeys(m.STAGES, 2_000_000))
    metrics.executed(second, timing)
    found = scrape(metrics)
    for number, stage in enumerate(m.STAGES):
        seconds = 10 * (number + 1) / 1e6
        assert found[at("opwire_stage_seconds_sum", stage=stage)] == pytest.approx(2 + 2 * seconds)
        assert found[at("opwire_stage_seconds_bucket", stage=stage, le="0.0001")] == 2
        assert found[at("opwire_stage_seconds_bucket", stage=stage, le="2.5")] == 3
        for operator, total in ((first, 2 + seconds), (second, seconds)):
            shown = {"operator": operator} if stage == m.TOTAL else {"operator": operator, "stage": stage}
            name = "opwire_operator_seconds_sum" if stage == m.TOTAL else "opwire_operator_stage_seconds_total"
            assert found[at(name, **shown)] == pytest.approx(total)
    assert found[at("opwire_operator_seconds_bucket", operator=first, le="0.0001")] == 1
    assert found[at("opwire_operator_seconds_count", operator=first)] == 2
    assert found[at("opwire_operator_seconds_count", operator=second)] == 1


def test_operators_that_never_ran_have_no_series():
    assert not [labels for _, labels in scrape(Metrics(LAYOUT)) if "operator" in dict(labels)]


def test_the_number_of_series_is_bounded():
    """Those of a server that has run every operator and failed in every way on every route."""
    metrics = Metrics(layout(Settings(devices=("cpu", "cuda:0", "reference"))))
    for operator in m.OPERATORS:
        metrics.executed(operator, dict.fromkeys(m.STAGES, 10))
    for route, code in metrics.layout.places(m.REQUESTS):
        metrics.ended(route, code, 10)
    for metric in (m.BATCH_RESULTS, m.CANCELLATIONS):
        for labels in metrics.layout.places(metric):
            metrics.add(metric, *labels)
    found = scrape(metrics)
    assert at("opwire_operator_seconds_count", operator="GRAPH") in found
    assert 7_000 < len(found) < 8_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_each_process_has_the_standard_metrics():
    processes = rows(3)
    resident = "process_resident_memory_bytes"
    assert all(at(resident, process=each) in scrape(processes[1]) for each in ("worker-0", "worker-1", "supervisor"))
    processes[2].clear_gauges(0)
    found = scrape(processes[1])
    assert at(resident, process="worker-0") not in found
    assert found[at(resident, process="worker-1")] > 2**20
    assert found[at("process_cpu_seconds_total", process="supervisor")] > 0
    assert scrape(Metrics(LAYOUT))[at(resident)] > 2**20


def test_an_unknown_route_counts_as_other():
    metrics = Metrics(LAYOUT)
    metrics.ended("/somewhere", "not_found", 7)
    assert scrape(metrics)[at("opwire_requests_total", route="other", code="not_found")] == 1


def rows(count: int) -> list[Metrics]:
    """The metrics of several processes in shared memory, which is slightly larger than necessary."""
    memory = memoryview(bytearray(count * LAYOUT.row_bytes() + 512))
    return [Metrics(LAYOUT, memory, row) for row in range(count)]


def test_every_process_reports_the_same_totals():
    processes = rows(3)
    for number, metrics in enumerate(processes):
        metrics.set(m.QUEUED, 10**number, "one")
        for _ in range(number + 1):
            metrics.ended("/v1/execute", m.OK, 500)
        metrics.add(m.BATCH_RESULTS, "queue_full")
    for metrics in processes:
        found = scrape(metrics)
        assert found[at("opwire_queued_operators", device="one")] == 111
        assert found[at("opwire_queued_operators", device="two")] == 0
        assert found[at("opwire_requests_total", route="/v1/execute", code="ok")] == 6
        assert found[at("opwire_request_seconds_sum", route="/v1/execute")] == pytest.approx(6 * 500e-6)
        assert found[at("opwire_batch_results_total", code="queue_full")] == 3


def test_counts_survive_the_replacement_of_a_process():
    memory = memoryview(bytearray(2 * LAYOUT.row_bytes()))
    other, first = Metrics(LAYOUT, memory, 0), Metrics(LAYOUT, memory, 1)
    first.follow(m.PLAN_HITS, 5)
    first.follow(m.PLAN_HITS, 8)
    first.set(m.RUNNING, 2, "two")
    first.ended("/v1/execute", m.OK, 1)
    other.clear_gauges(1)
    second = Metrics(LAYOUT, memory, 1)
    second.follow(m.PLAN_HITS, 1)
    second.ended("/v1/execute", m.OK, 1)
    found = scrape(other)
    assert found[at("opwire_plan_cache_hits_total")] == 9
    assert found[at("opwire_running_operators", device="two")] == 0
    assert found[at("opwire_requests_total", route="/v1/execute", code="ok")] == 2
