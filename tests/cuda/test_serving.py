"""A real server with an NVIDIA GPU and the CPU: matching results, many concurrent requests, and failure."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from opwire_service.devices import resolve
from opwire_service.devices.base import DeviceUnavailable
from opwire_service.kernels.cuda import JOBS
from tests.support.examples import ROWS, VARIED
from tests.support.gpu.counting_gpu import BREAKS
from tests.support.http import bodies
from tests.support.http.processes import process, until

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]

CONNECTIONS = 16
REQUESTS = 10_000


def resolve_or_skip() -> None:
    try:
        resolve(["cuda"])
    except DeviceUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    resolve_or_skip()
    limits = httpx.Limits(max_connections=CONNECTIONS)
    with (
        process("--device", "auto", "--device", "reference", "--max-wait-ms", "60000") as served,
        httpx.Client(base_url=served.url, timeout=120, limits=limits) as client,
    ):
        yield client


IN_FORMS = [
    pytest.param(
        form, *row, id=f"{form}-{row}", marks=[] if form == "binary" or str(row) in VARIED else [pytest.mark.thorough]
    )
    for form in bodies.FORMS
    for row in ROWS
    if row[0].name in JOBS
]
"""All examples that the card runs, as raw bytes; in the other forms those that cover all kinds of tensors."""


@pytest.mark.parametrize(("form", "operator", "example"), IN_FORMS)
def test_examples_over_http(http, operator, example, form):
    tail: list[bytes] = []
    described = {"type": operator.name, "desc": dict(example.desc)}
    request = bodies.execute_request(described, example.inputs, form, tail)
    request |= {"feature_level": str(example.level), "device": "cuda"}
    answer, rest = bodies.send(http, request, form, "binary", tail)
    found, _ = bodies.outputs(answer, rest)
    assert answer["device"] == "cuda"
    for name, right in example.outputs.items():
        assert bodies.same(found[name], bodies.rounded_output(answer, name, right))


def card_status(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/v1/server").json()["devices"][0]
    assert found["name"] == "cuda"
    return found


def mixed_requests(generator: random.Random) -> list[tuple[dict[str, str], bytes]]:
    """Encodes requests of many kinds and sizes, alternating between binary and base64."""
    made = []
    functions = ("SUM", "MAX", "ARGMAX", "L2", "MULTIPLY", "AVERAGE", "LOG_SUM_EXP", "MIN")
    for i in range(48):
        sizes = [generator.randrange(1, 40), generator.randrange(1, 60), generator.randrange(1, 80)]
        data = np.random.default_rng(i).uniform(0.5, 2, sizes).astype(np.float32)
        source = {"DataType": "FLOAT32", "Sizes": sizes}
        if i % 4 == 3:
            source["Sizes"] = [1, *sizes]
            desc = {"InputTensor": source, "WindowSize": [1, 1], "Strides": [1, 1]}
            desc |= {"StartPadding": [0, 0], "EndPadding": [0, 0]}
            operator: dict[str, Any] = {"type": "MAX_POOLING", "desc": desc}
        else:
            desc = {"Function": functions[i % 8], "InputTensor": source, "Axes": [i % 3]}
            operator = {"type": "REDUCE", "desc": desc}
        form = ("binary", "base64")[i % 2]
        if form == "binary":
            tensor: object = {"binary_data_size": data.nbytes}
            tail = [data.tobytes()]
        else:
            tensor, tail = base64.b64encode(data.tobytes()).decode(), []
        request = {"operator": operator, "inputs": {"InputTensor": tensor}, "device": "cuda"}
        made.append(bodies.encoded_request(request, tail))
    return made


def test_concurrent_requests_leak_no_card_memory(http):
    requests = mixed_requests(random.Random(1))

    def send(i: int) -> str:
        headers, body = requests[i % len(requests)]
        response = http.post("/v1/execute", content=body, headers=headers)
        assert response.status_code == 200, response.text
        return json.dumps(response.json()["outputs"])

    right = [send(i) for i in range(len(requests))]
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(send, range(2000)))
        warm = card_status(http)
        wrong = sum(answer != right[i % len(requests)] for i, answer in enumerate(threads.map(send, range(REQUESTS))))
    assert wrong == 0
    after = card_status(http)
    assert after["card_memory"]["reserved"] <= warm["card_memory"]["reserved"] * 1.25
    assert (after["card_memory"]["in_use"], after["memory"]["used"], after["queued"], after["running"]) == (0, 0, 0, 0)
    assert after["kernels"] == warm["kernels"]


def test_large_requests_agree_whichever_device_runs_them(http):
    data = np.random.default_rng(3).standard_normal((64, 2**16)).astype(np.float32)
    desc = {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": list(data.shape)}, "Axes": [1]}
    request = {
        "operator": {"type": "REDUCE", "desc": desc},
        "inputs": {"InputTensor": {"binary_data_size": data.nbytes}},
    }
    headers, body = bodies.encoded_request(request, [data.tobytes()])
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: http.post("/v1/execute", content=body, headers=headers).json(), range(64)))
    assert len({json.dumps(answer["outputs"]) for answer in answers}) == 1
    assert {answer["device"].partition(":")[0] for answer in answers} <= {"cuda", "cpu"}


@pytest.mark.parametrize("elements", [2**21, 2**22 + 1])
def test_long_base64_is_decoded_on_the_card(http, elements):
    data = np.random.default_rng(4).integers(-99, 99, elements).astype(np.float32)
    desc = {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [elements]}, "Axes": [0]}
    text = base64.b64encode(data.tobytes()).decode()
    request = {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": text}, "device": "cuda"}
    answer = http.post("/v1/execute", json={**request, "output_format": "numbers"}).json()
    assert answer["outputs"]["OutputTensor"]["data"] == [data.sum(dtype=np.float64)]
    request["inputs"] = {"InputTensor": f"{text[:-900]}*{text[-899:]}"}
    assert http.post("/v1/execute", json=request).json()["code"] == "invalid_base64"
    # A request that fails halfway releases its memory.
    assert card_status(http)["card_memory"]["in_use"] == 0


def test_a_process_with_a_failed_card_is_replaced():
    sizes = {"DataType": "FLOAT32", "Sizes": [8]}
    desc = {"Function": "MAX", "InputTensor": sizes, "Axes": [0]}
    request = {"operator": {"type": "REDUCE", "desc": desc}, "device": "cuda"}

    def send(url: str, number: float) -> httpx.Response:
        data = bodies.buffer(sizes, [number] * 8)
        headers, body = bodies.encoded_request(
            {**request, "inputs": {"InputTensor": {"binary_data_size": len(data)}}}, [data]
        )
        with httpx.Client(base_url=url, timeout=60) as client:
            return client.post("/v1/execute", content=body, headers=headers)

    def answers(url: str) -> bool:
        try:
            return send(url, 1.0).status_code == 200
        except httpx.TransportError:
            return False

    resolve_or_skip()
    with process("--device", "cuda", module="tests.cuda.breaking_server") as served:
        assert answers(served.url)
        refused = send(served.url, BREAKS)
        assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        until(lambda: any("replacing it" in line for line in served.lines))
        until(lambda: answers(served.url))
        served.process.terminate()
        assert served.finish() == 0
