"""Requests that exceed a bound are refused at once, with the bound, and without allocating memory for them."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from opwire_service.settings import Limits, Settings
from tests.support.http import bodies
from tests.support.http.problems import check_problem, read_problem
from tests.support.http.serving import serving
from tests.support.http.sockets import connect, read_answer

FOUR_BYTES = base64.b64encode(bytes(4)).decode()
SMALL = Limits(
    body_bytes=2000,
    tensor_elements=1000,
    output_bytes=400,
    work=5000,
    batch_requests=3,
    receive_ms=1500,
    timeout_ms=20_000,
)


@pytest.fixture(scope="module")
def small_url() -> Iterator[str]:
    with serving(Settings(port=0, devices=("reference",), limits=SMALL)) as server:
        assert server.url is not None
        yield server.url


@pytest.fixture(scope="module")
def small(small_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small_url, timeout=30) as client:
        yield client


def repeated(function: str, sizes: list[int], axes: list[int], data_type: str = "FLOAT32") -> dict[str, Any]:
    """Returns a reduction over one element, repeated by zero strides."""
    source = {"DataType": data_type, "Sizes": sizes, "Strides": [0] * len(sizes)}
    desc = {"Function": function, "InputTensor": source, "Axes": axes}
    return {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": FOUR_BYTES}}


def pooled(sizes: list[int], window: int, stride: int = 1) -> dict[str, Any]:
    source = {"DataType": "FLOAT32", "Sizes": sizes, "Strides": [0] * 4}
    arrays = {"Strides": [stride] * 2, "WindowSize": [window] * 2, "StartPadding": [0, 0], "EndPadding": [0, 0]}
    operator = {"type": "MAX_POOLING", "desc": {"InputTensor": source, **arrays}}
    return {"operator": operator, "inputs": {"InputTensor": FOUR_BYTES}}


def exceeded(http: httpx.Client, sent: object, path: str = "/v1/execute") -> tuple[str, int, int]:
    """Returns code, size and limit of a refusal."""
    response = http.post(path, json=sent)
    problem = read_problem(413, response.headers, response.content, sent)
    assert str(problem["limit"]) in problem["detail"]
    return problem["code"], problem["size"], problem["limit"]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (repeated("SUM", [2**28 + 1], [0]), ("tensor_too_large", 2**28 + 1, 2**28)),
        (repeated("SUM", [2**16, 2**16 - 1], [0, 1]), ("tensor_too_large", 2**32 - 2**16, 2**28)),
        (repeated("MAX", [2**26 + 1], []), ("tensor_too_large", 2**28 + 4, 2**28)),
        (pooled([1, 1, 2**14, 2**14], 2**9, 2), ("work_too_large", 7937**2 * 2**18, 2**34)),
    ],
)
def test_small_requests_for_huge_work_are_refused(http, request_, found):
    began = time.process_time()
    tracemalloc.start()
    try:
        assert exceeded(http, request_) == found
        assert tracemalloc.get_traced_memory()[1] < 2**25, "includes the server, which runs in this process"
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5
    batch = http.post("/v1/batch", json={"requests": [request_, repeated("SUM", [3], [0])]}).json()["results"]
    assert check_problem(batch[0])["code"] == found[0]
    assert "outputs" in batch[1]


def test_repeated_requests_are_refused_again(http):
    for _ in range(3):
        assert exceeded(http, repeated("SUM", [2**28 + 2], [0]))[0] == "tensor_too_large"


@pytest.mark.parametrize(
    ("fits", "too_large", "found"),
    [
        (repeated("SUM", [1000], [0]), repeated("SUM", [1001], [0]), ("tensor_too_large", 1001, 1000)),
        (repeated("MAX", [100], []), repeated("MAX", [101], []), ("tensor_too_large", 404, 400)),
    ],
)
def test_requests_are_allowed_up_to_each_bound(small, fits, too_large, found):
    assert small.post("/v1/execute", json=fits).status_code == 200
    assert exceeded(small, too_large) == found


def test_work_is_bounded(small):
    # 64 windows of 8 x 8 elements, and of 9 x 9.
    assert small.post("/v1/execute", json=pooled([1, 1, 15, 15], 8)).status_code == 200
    assert exceeded(small, pooled([1, 1, 16, 16], 9)) == ("work_too_large", 64 * 81, 5000)


def test_the_number_of_requests_in_a_batch_is_bounded(small):
    one = repeated("SUM", [3], [0])
    assert small.post("/v1/batch", json={"requests": [one] * 3}).status_code == 200
    assert exceeded(small, {"requests": [one] * 4}, "/v1/batch") == ("batch_too_large", 4, 3)


@pytest.mark.parametrize("path", ["/v1/execute", "/v1/batch", "/v1/validate"])
def test_the_size_of_a_body_is_bounded(small, path):
    fits = small.post(path, content=b" " * 2000)
    assert read_problem(400, fits.headers, fits.content)["code"] == "invalid_json"
    response = small.post(path, content=b" " * 2001)
    problem = read_problem(413, response.headers, response.content)
    assert (problem["code"], problem["size"], problem["limit"]) == ("body_too_large", 2001, 2000)
    assert small.get("/livez").status_code == 200


def test_an_oversized_body_is_refused_before_it_is_sent(small_url):
    """A client that sends ``Expect: 100-continue`` is refused instead of being told to continue."""
    with connect(small_url) as connection:
        connection.sendall(
            b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n"
            b"Content-Length: 1000000000000\r\n\r\n"
        )
        status, headers, body = read_answer(connection)
    assert read_problem(status, headers, body)["size"] == 10**12
    with connect(small_url) as connection:
        request = json.dumps(repeated("SUM", [3], [0])).encode()
        connection.sendall(
            b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(request)
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(request)
        assert read_answer(connection)[0] == 200


@pytest.mark.parametrize("sent", [b"", b'{"operator"'])
def test_a_stalled_body_times_out(small_url, sent):
    began = time.perf_counter()
    with connect(small_url) as connection:
        connection.sendall(b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + sent)
        status, headers, body = read_answer(connection)
    assert read_problem(status, headers, body)["code"] == "slow_body"
    assert headers["connection"] == "close"
    assert time.perf_counter() - began >= 1.5


def test_a_body_can_arrive_in_pieces(small_url):
    request = json.dumps(repeated("SUM", [3], [0])).encode()
    with connect(small_url) as connection:
        connection.sendall(
            b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(request)
        )
        for i in range(0, len(request), 20):
            connection.sendall(request[i : i + 20])
            time.sleep(0.005)
        status, _, body = read_answer(connection)
    assert status == 200
    assert bodies.outputs(json.loads(body), b"")[0] == {"OutputTensor": [0]}


def test_the_server_reports_its_bounds(small):
    assert small.get("/v1/server").json()["limits"] == SMALL.to_json()


REDUCTION = repeated("SUM", [3], [0])["operator"]["desc"]


def with_desc(**members: object) -> dict[str, Any]:
    return {"operator": {"type": "REDUCE", "desc": {**REDUCTION, **members}}, "inputs": {}}


@pytest.mark.parametrize(
    "sent",
    [
        with_desc(**{f"field{i}": i for i in range(50_000)}),
        with_desc(Axes=[None] * 200_000),
        with_desc(Axes=[0] * 200_000),
        with_desc(Axes=[*range(100_000)]),
        with_desc(Function=[{}] * 60_000),
        with_desc(InputTensor={"DataType": "FLOAT32", "Sizes": [3], "Flags": ["X"] * 100_000}),
        with_desc(InputTensor={"DataType": "FLOAT32", "Sizes": [3], "Strides": [-1] * 100_000}),
        with_desc(OutputTensor={"DataType": "FLOAT32", "Sizes": [3], **dict.fromkeys(map(str, range(50_000)))}),
        {f"field{i}": i for i in range(50_000)},
        {"operator": 1, "inputs": {f"tensor{i}": 5 for i in range(50_000)}},
        {**repeated("SUM", [3], [0]), "inputs": {f"tensor{i}": "" for i in range(50_000)}},
    ],
    ids=range(11),
)
def test_thousands_of_mistakes_get_a_small_and_quick_answer(http, sent):
    body = json.dumps(sent)
    began = time.process_time()
    response = http.post("/v1/execute", content=body)
    assert time.process_time() - began < 20
    problem = read_problem(response.status_code, response.headers, response.content, sent)
    assert problem["violations"]
    assert len(response.content) < 50_000


def test_outputs_as_numbers_have_their_own_bound(http):
    request = repeated("MAX", [2**20 + 1], [])
    answer = http.post("/v1/execute", json={**request, "output_format": "numbers"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (413, "tensor_too_large")
    assert (problem["size"], problem["limit"]) == (2**20 + 1, 2**20)


def test_json_values_are_counted_before_parsing(http):
    most = 2**20
    for body, limit, what in (
        (b"[" + b"1," * most + b"1]", most, "values"),
        (b'{"a":1' + b',"a":1' * (most // 2) + b"}", most, "values"),
        (b'{"operator":' + b"[" * (most // 16), most // 16, "lists and objects"),
        (b'{"inputs":[' + b"[1,2]," * (most // 16) + b"1]}", most // 16, "lists and objects"),
    ):
        began = time.process_time()
        response = http.post("/v1/execute", content=body)
        problem = read_problem(413, response.headers, response.content)
        assert (problem["code"], problem["limit"]) == ("body_too_large", limit)
        assert f"{what} in the JSON" in problem["detail"]
        assert time.process_time() - began < 5


def test_json_apart_from_tensors_is_bounded(http):
    long = "x" * 2**21
    for body, size in (
        (f'{{"operator":"{long}\\n{long * 10}"}}', 2**24),
        (json.dumps({"operator": {"type": "REDUCE", "desc": {"Function": ["y" * 4000] * 300}}, "inputs": {}}), 2**20),
    ):
        response = http.post("/v1/execute", content=body)
        problem = read_problem(413, response.headers, response.content)
        assert (problem["code"], problem["limit"]) == ("body_too_large", size)
