"""What Triton's client sees of a server that is full, slow or stopping."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http.inference import infer_request
from tests.support.http.serving import serving


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with serving(Settings(port=0, devices=("reference",), threads=1, limits=Limits(queued=1))) as found:
        yield found


@pytest.fixture
def client(server: HttpServer) -> Iterator[Any]:
    assert server.url is not None
    with triton.InferenceServerClient(server.url.removeprefix("http://"), concurrency=8) as found:
        yield found


def slow_infer_arguments(**options: Any) -> dict[str, Any]:
    """Returns the arguments of ``infer`` for an operator that takes a while on the reference device."""
    tensor = triton.InferInput("InputTensor", [200_000], "FP32")
    tensor.set_data_from_numpy(np.ones(200_000, np.float32))
    parameters = {"Function": "LOG_SUM_EXP", "Axes": "0"}
    return {"model_name": "REDUCE", "inputs": [tensor], "parameters": parameters, **options}


def outcome(request: Any) -> tuple[str, Any]:
    """Returns the status and result of a request, or its error message."""
    try:
        return "200", request.get_result().as_numpy("OutputTensor").item()
    except InferenceServerException as error:
        return error.status(), error.message()


def test_a_timeout_is_in_microseconds(client):
    with pytest.raises(InferenceServerException) as late:
        client.infer(**slow_infer_arguments(timeout=1000))
    assert late.value.status() == "504"
    assert "the deadline passed" in late.value.message()


def test_a_full_queue_refuses_only_what_does_not_fit(client):
    asked = [client.async_infer(**slow_infer_arguments()) for _ in range(8)]
    outcomes = [outcome(request) for request in asked]
    statuses = [status for status, _ in outcomes]
    assert set(statuses) == {"200", "429"}
    assert statuses.count("200") >= 2
    for status, said in outcomes:
        assert said == pytest.approx(np.log(200_000) + 1, rel=1e-6) if status == "200" else "The queue is full" in said


def test_a_stopping_server_is_not_ready(server, client):
    assert client.is_server_ready()
    assert client.is_model_ready("REDUCE")
    server.service.drain()
    assert client.is_server_live()
    assert not client.is_server_ready()
    assert not client.is_model_ready("REDUCE")
    with pytest.raises(InferenceServerException) as stopping:
        client.infer(**slow_infer_arguments())
    assert stopping.value.status() == "503"
    assert "The server is stopping" in stopping.value.message()


def test_outputs_as_numbers_are_bounded_whether_named_or_not():
    request = infer_request(parameters={"Axes": "[]", "AxisDirection": "INCREASING"})
    with serving(Settings(port=0, limits=Limits(output_numbers=2))) as server:
        for outputs, status in (
            (None, 413),
            ([{"name": "OutputTensor"}], 413),
            ([{"name": "OutputTensor", "parameters": {"binary_data": True}}], 200),
        ):
            given = {**request, "outputs": outputs} if outputs else request
            assert httpx.post(f"{server.url}/v2/models/ARGMAX/infer", content=json.dumps(given)).status_code == status
        raw = {**request, "parameters": {**request["parameters"], "binary_data_output": True}}
        assert httpx.post(f"{server.url}/v2/models/ARGMAX/infer", content=json.dumps(raw)).status_code == 200
