"""The metrics of a serving process, as Prometheus reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.declarations import STAGES, TOTAL
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

SOURCE = {"DataType": "FLOAT32", "Sizes": [3]}
OPERATOR = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": SOURCE, "Axes": [0]}}
REQUEST = {"operator": OPERATOR, "inputs": {"InputTensor": {"data": [1, 2, 3]}}}


def endless(**options: Any) -> dict[str, Any]:
    """Returns a request for more work than any test waits for, from four bytes."""
    source = {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]}
    operator = {"type": "REDUCE", "desc": {"Function": "SUM_SQUARE", "InputTensor": source, "Axes": [0]}}
    return {"operator": operator, "inputs": {"InputTensor": "AAAAAA=="}, **options}


def samples(http: httpx.Client) -> dict[str, float]:
    """Returns every sample by its name and label values: ``name{a,b}``."""
    found = {}
    for family in text_string_to_metric_families(http.get("/metrics").text):
        for sample in family.samples:
            values = ",".join(sample.labels[name] for name in sorted(sample.labels))
            found[f"{sample.name}{{{values}}}"] = sample.value
    return found


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """A fresh server that runs one operator and queues one."""
    settings = Settings(port=0, devices=("reference",), threads=1, limits=Limits(queued=1))
    with serving(settings) as server, httpx.Client(base_url=server.url or "", timeout=20) as client:
        yield client


def test_each_stage_of_each_operator_is_timed(http):
    began = time.perf_counter()
    timings = [http.post("/v1/execute", json=REQUEST).json()["timing"] for _ in range(5)]
    elapsed = time.perf_counter() - began
    found = samples(http)
    for stage in STAGES:
        assert found[f"opwire_stage_seconds_count{{{stage}}}"] == 5
        right = sum(timing[stage] for timing in timings) / 1e6
        assert found[f"opwire_stage_seconds_sum{{{stage}}}"] == pytest.approx(right)
        if stage != TOTAL:
            assert found[f"opwire_operator_stage_seconds_total{{REDUCE,{stage}}}"] == pytest.approx(right)
    assert found["opwire_operator_seconds_sum{REDUCE}"] == found["opwire_stage_seconds_sum{total}"]
    assert 0 < found["opwire_request_seconds_sum{/v1/execute}"] < elapsed
    assert found["opwire_operator_seconds_sum{REDUCE}"] <= found["opwire_request_seconds_sum{/v1/execute}"]


def test_inference_requests_are_timed(http):
    sent: dict[str, Any] = {"inputs": [{"name": "InputTensor", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]}]}
    sent["parameters"] = {"Axes": "[0]", "AxisDirection": "INCREASING"}
    answer = http.post("/v2/models/ARGMAX/infer", json=sent)
    assert answer.status_code == 200, answer.text
    found = samples(http)
    assert found["opwire_operator_seconds_count{ARGMAX}"] == 1
    assert found["opwire_requests_total{ok,/v2/models/{name}/infer}"] == 1


def test_outcomes_are_counted_by_route_and_code(http):
    for _ in range(3):
        http.post("/v1/execute", json=REQUEST)
    http.post("/v1/execute", content=b"{")
    http.get("/v1/execute")
    http.post("/v1/validate", json={"operator": OPERATOR})
    http.post("/v1/batch", json={"requests": [REQUEST, {**REQUEST, "inputs": {}}, REQUEST]})
    http.get("/v1/operators/SUM")
    http.get("/v1/operators/REDUCE")
    http.get("/nowhere")
    until(
        lambda: "opwire_requests_total{ok,/v1/batch}" in samples(http)
    )  # counted when the last piece is about to be sent
    found = samples(http)
    right = {
        "ok,/v1/execute": 3,
        "invalid_json,/v1/execute": 1,
        "method_not_allowed,/v1/execute": 1,
        "ok,/v1/validate": 1,
        "ok,/v1/batch": 1,
        "unknown_operator,/v1/operators/{name}": 1,
        "ok,/v1/operators/{name}": 1,
        "not_found,other": 1,
    }
    counted = {name: value for name, value in found.items() if name.startswith("opwire_requests_total")}
    del counted["opwire_requests_total{ok,/metrics}"]
    assert counted == {f"opwire_requests_total{{{labels}}}": count for labels, count in right.items()}
    assert found["opwire_batch_results_total{ok}"] == 2
    assert sum(value for name, value in found.items() if name.startswith("opwire_batch_results_total")) == 3


def test_plan_cache_hits_and_misses_are_counted(http):
    for _ in range(4):
        http.post("/v1/execute", json=REQUEST)
    http.post("/v1/execute", json={**REQUEST, "feature_level": "5_0"})
    found = samples(http)
    assert found["opwire_plan_cache_misses_total{}"] == 2
    assert found["opwire_plan_cache_hits_total{}"] == 3
    assert found["opwire_plan_cache_size{}"] == 2


def post(document: object) -> bytes:
    body = json.dumps(document).encode()
    return b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def test_queued_running_and_cancelled_work_is_reported(http):
    url = str(http.base_url)
    with connect(url) as running, connect(url) as waiting:
        running.sendall(post(endless()))
        until(lambda: samples(http)["opwire_running_operators{reference}"] == 1)
        waiting.sendall(post(endless()))
        until(lambda: samples(http)["opwire_queued_operators{reference}"] == 1)
        found = samples(http)
        assert found["opwire_pending_work{reference}"] >= 2 * 2**28
        assert found["opwire_request_memory_bytes{}"] > 0
        assert http.post("/v1/execute", json=endless()).status_code == 429
    held = ("running_operators{reference}", "queued_operators{reference}", "pending_work{reference}")
    names = [f"opwire_{name}" for name in (*held, "request_memory_bytes{}")]
    # A request releases its memory a moment after its work ends.
    until(lambda: not any(map(samples(http).__getitem__, names)))
    found = samples(http)
    assert found["opwire_requests_total{queue_full,/v1/execute}"] == 1
    assert found["opwire_requests_total{client_gone,/v1/execute}"] == 2
    assert found["opwire_cancellations_total{queue}"] == 1
    assert found["opwire_cancellations_total{run}"] == 1


def test_limits_are_reported(http):
    found = samples(http)
    limits = http.get("/v1/server").json()["limits"]
    assert found["opwire_queued_operators_limit{}"] == limits["queued"] == 1
    assert found["opwire_running_operators_limit{reference}"] == 1
    assert found["opwire_requests_waiting_for_memory{}"] == 0
    assert found["opwire_request_memory_limit_bytes{}"] == limits["memory_bytes"]
    assert found["opwire_workers{}"] == 1
    assert found["process_resident_memory_bytes{}"] > 2**20


def test_both_text_formats_are_served(http):
    http.post("/v1/execute", json=REQUEST)
    plain = http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    other = http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics_families(other.text)}  # type: ignore[no-untyped-call]
    assert {"opwire_stage_seconds", "opwire_operator_seconds", "opwire_requests", "opwire_worker_restarts"} <= names
