"""Stopping matrix products and convolutions that would run for a very long time."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http.problems import read_problem
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

WITHIN = 60.0

SOON = 3.0
"""Maximum delay of a response after its deadline in seconds, even on a busy machine."""


def repeated(*sizes: int) -> dict[str, Any]:
    """Returns a tensor that repeats one element."""
    return {"DataType": "FLOAT32", "Sizes": list(sizes), "Strides": [0] * len(sizes)}


def request(kind: str, desc: dict[str, Any], inputs: tuple[str, ...], **options: Any) -> dict[str, Any]:
    one = base64.b64encode(np.ones(1, np.float32).tobytes()).decode()
    return {"operator": {"type": kind, "desc": desc}, "inputs": dict.fromkeys(inputs, one), **options}


def gemm(depth: int, **options: Any) -> dict[str, Any]:
    desc = {"ATensor": repeated(2048, depth), "BTensor": repeated(depth, 2048), "Alpha": 1, "Beta": 0}
    desc |= {"TransA": "NONE", "TransB": "NONE"}
    return request("GEMM", desc, ("ATensor", "BTensor"), **options)


def convolution(channels: int, **options: Any) -> dict[str, Any]:
    each = {"Strides": 1, "Dilations": 1, "StartPadding": 1, "EndPadding": 1, "OutputPadding": 0}
    desc: dict[str, Any] = {name: [value] * 2 for name, value in each.items()} | {"GroupCount": 1}
    desc |= {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD"}
    desc |= {"InputTensor": repeated(1, channels, 32, 32), "FilterTensor": repeated(400, channels, 3, 3)}
    return request("CONVOLUTION", desc, ("InputTensor", "FilterTensor"), **options)


ENDLESS = {"gemm": gemm(2**17), "convolution": convolution(2**16)}
"""Many seconds of work on two tensors of four bytes."""

EACH = pytest.mark.parametrize("endless", ENDLESS.values(), ids=ENDLESS)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with serving(Settings(port=0, devices=("cpu",), threads=1, limits=Limits(work=2**40))) as started:
        for small in (gemm(3), convolution(3)):  # their kernels may have to be compiled
            response = httpx.post(f"{started.url}/v1/execute", json=small, timeout=WITHIN)
            assert response.status_code == 200, response.text
        yield started


def is_idle(server: HttpServer) -> bool:
    schedule = repr(server.service.engine.dispatcher.schedule)
    return "0 queued, cpu 0/" in schedule and server.service.engine.memory.held == 0


@EACH
def test_the_deadline_stops_it_and_releases_its_memory(server, endless):
    began = time.monotonic()
    response = httpx.post(f"{server.url}/v1/execute", json={**endless, "timeout_ms": 700}, timeout=WITHIN)
    assert 0.7 <= time.monotonic() - began < 0.7 + SOON
    problem = read_problem(504, response.headers, response.content)
    assert (problem["code"], problem["stage"]) == ("deadline_exceeded", "run")
    until(lambda: is_idle(server))


@EACH
def test_a_disconnect_stops_it_and_releases_its_memory(server, endless):
    body = json.dumps(endless).encode()
    connection = connect(server.url or "")
    connection.sendall(b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    until(lambda: "cpu 1/" in repr(server.service.engine.dispatcher.schedule))
    assert server.service.engine.memory.held > 0
    connection.close()
    began = time.monotonic()
    until(lambda: is_idle(server))
    assert time.monotonic() - began < SOON
