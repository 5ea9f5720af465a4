"""Graphs that end halfway, by a deadline, a disconnect or a fault, leave nothing behind."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from opwire.graph import Steps, check_graph
from opwire_service.execution import Stop
from opwire_service.kernels.cpu.families import PREPARE
from opwire_service.kernels.cpu.run.graph import GraphJob, GraphPart
from opwire_service.kernels.cpu.run.pool import Find, Pool
from opwire_service.kernels.graph import GraphMemory, GraphTensors
from opwire_service.process.server import HttpServer
from opwire_service.settings import Settings
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

SMALL = {"DataType": "FLOAT32", "Sizes": [1]}
ENDLESS = {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]}


def reduced(source: str, desc: dict[str, Any], function: str = "SUM_SQUARE") -> dict[str, Any]:
    operator = {"Function": function, "InputTensor": desc, "Axes": [0]}
    return {"type": "REDUCE", "desc": operator, "inputs": {"InputTensor": source}}


NODES = {"first": reduced("input:x", SMALL), "long": reduced("first", ENDLESS), "last": reduced("long", SMALL)}
GRAPH = {"nodes": NODES, "outputs": {"y": "last"}}
REQUEST = {"graph": GRAPH, "inputs": {"x": {"data": [2]}}, "output_format": "numbers"}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with serving(Settings(port=0, devices=("reference",))) as running:
        yield running


def is_idle(server: HttpServer) -> bool:
    loads = server.service.engine.dispatcher.schedule.loads()["reference"]
    return server.service.engine.memory.held == 0 and loads.running == 0


def test_a_missed_deadline_stops_a_graph(server):
    refused = httpx.post(f"{server.url}/v1/execute", json={**REQUEST, "timeout_ms": 300}, timeout=60)
    assert (refused.status_code, refused.json()["stage"]) == (504, "run")
    until(lambda: is_idle(server))


def test_a_disconnect_stops_a_graph(server):
    body = json.dumps(REQUEST).encode()
    head = (
        f"POST /v1/execute HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with connect(server.url) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: not is_idle(server))
    until(lambda: is_idle(server))


class FailingPart(GraphPart):
    """A step that fails on the device."""

    def run(self, tensors: GraphTensors, find: Find, pool: Pool, stop: Stop) -> None:
        raise MemoryError("no room")


def test_a_failed_step_stops_a_graph():
    copy = {"Function": "MAX", "InputTensor": SMALL, "Axes": []}
    nodes = {
        name: {"type": "REDUCE", "desc": copy, "inputs": {"InputTensor": source}}
        for source, name in itertools.pairwise(["input:x", "a", "b", "c"])
    }
    plan = check_graph({"nodes": nodes, "outputs": {"y": "c"}})
    steps: Steps = plan.attributes
    first, second, third = (GraphPart(step, PREPARE["REDUCE"](step.plan)) for step in steps.steps)
    job = GraphJob(GraphMemory(plan), (first, FailingPart(second.step, second.job), third))
    y, pool = np.full(1, 7, np.float32), Pool(1)
    with pytest.raises(MemoryError):
        job.run({"x": np.ones(1, np.float32)}, {"y": y}, lambda kernel: pytest.fail("no kernel"), pool, lambda: False)
    pool.close()
    assert y.tolist() == [7]
