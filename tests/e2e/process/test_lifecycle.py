"""Running work on a real server: disconnects, deadlines, full queues, and shutdown."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http import bodies
from tests.support.http.problems import check_problem, read_problem
from tests.support.http.processes import until
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

WITHIN = 60.0


def reduction(size: int, **options: Any) -> dict[str, Any]:
    """Returns a request for the sum of one repeated element: any amount of work from four bytes."""
    source = {"DataType": "FLOAT32", "Sizes": [size], "Strides": [0]}
    operator = {"type": "REDUCE", "desc": {"Function": "SUM_SQUARE", "InputTensor": source, "Axes": [0]}}
    one = base64.b64encode(bodies.buffer({"DataType": "FLOAT32", "Sizes": [1]}, [1])).decode()
    return {"operator": operator, "inputs": {"InputTensor": one}, **options}


ENDLESS = reduction(2**28)
"""More work than any test waits for."""


def post(document: object, path: str = "/v1/execute") -> bytes:
    body = json.dumps(document).encode()
    return b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


def schedule(server: HttpServer) -> str:
    return repr(server.service.engine.dispatcher.schedule).strip("<>")


def until_schedule_is(server: HttpServer, state: str) -> None:
    until(lambda: schedule(server) == f"Schedule {state}")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A server that runs one operator and queues few."""
    with serving(Settings(port=0, devices=("reference",), threads=1, limits=Limits(queued=2))) as started:
        yield started


@pytest.fixture
def http(server: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url or "", timeout=WITHIN) as client:
        yield client


def send(server: HttpServer, data: bytes) -> socket.socket:
    assert server.url is not None
    connection = connect(server.url)
    connection.sendall(data)
    return connection


@pytest.mark.parametrize("end", ["close", "reset", "half"])
def test_a_disconnect_cancels_running_work(server, http, end):
    connection = send(server, post(ENDLESS))
    until_schedule_is(server, "0 queued, reference 1/1 busy")
    if end == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if end == "half":
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")
    assert http.post("/v1/execute", json=reduction(3)).status_code == 200


def test_a_disconnect_removes_queued_work(server, http):
    running = send(server, post(ENDLESS))
    until_schedule_is(server, "0 queued, reference 1/1 busy")
    waiting = send(server, post(ENDLESS))
    until_schedule_is(server, "1 queued, reference 1/1 busy")
    waiting.close()
    until_schedule_is(server, "0 queued, reference 1/1 busy")
    running.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")


def test_a_disconnect_cancels_a_whole_batch(server, http):
    connection = send(server, post({"requests": [ENDLESS] * 3}, "/v1/batch"))
    until_schedule_is(server, "0 queued, reference 1/1 busy")
    connection.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")
    assert http.post("/v1/execute", json=reduction(3)).status_code == 200


def test_a_disconnect_while_sending_is_harmless(server, http):
    for _ in range(20):
        connection = send(server, post(ENDLESS)[:-10])
        connection.close()
    assert http.post("/v1/execute", json=reduction(3)).status_code == 200
    assert schedule(server) == "Schedule 0 queued, reference 0/1 busy"


def test_many_disconnects_leave_nothing_running(server, http):
    for i in range(30):
        connection = send(server, post(ENDLESS))
        if i % 3 == 0:
            until(lambda: "1/1 busy" in schedule(server))
        connection.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")
    assert http.post("/v1/execute", json=reduction(100_000)).status_code == 200


def test_the_deadline_can_pass_while_running(http):
    began = time.perf_counter()
    response = http.post("/v1/execute", json={**ENDLESS, "timeout_ms": 1000})
    assert time.perf_counter() - began >= 1
    problem = read_problem(504, response.headers, response.content)
    assert (problem["code"], problem["stage"]) == ("deadline_exceeded", "run")


def test_the_deadline_can_pass_in_the_queue(server, http):
    running = send(server, post(ENDLESS))
    until_schedule_is(server, "0 queued, reference 1/1 busy")
    began = time.perf_counter()
    response = http.post("/v1/execute", json=reduction(2**24, timeout_ms=1000))
    assert time.perf_counter() - began >= 1
    problem = read_problem(504, response.headers, response.content)
    assert (problem["code"], problem["stage"]) == ("deadline_exceeded", "queue")
    running.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")


def test_the_server_caps_the_deadline():
    limits = Limits(timeout_ms=1000)
    with (
        serving(Settings(port=0, devices=("reference",), limits=limits)) as server,
        httpx.Client(base_url=server.url or "", timeout=WITHIN) as http,
    ):
        for options in ({}, {"timeout_ms": 2**31 - 1}):
            response = http.post("/v1/execute", json={**ENDLESS, **options})
            assert read_problem(504, response.headers, response.content)["stage"] == "run"


def test_each_request_of_a_batch_has_its_own_deadline(http):
    sent = {"requests": [reduction(3), {**ENDLESS, "timeout_ms": 1000}, reduction(4, output_format="numbers")]}
    results = http.post("/v1/batch", json=sent).json()["results"]
    assert check_problem(results[1])["stage"] == "run"
    assert results[2]["outputs"]["OutputTensor"]["data"] == [4]
    assert "outputs" in results[0]


def test_a_full_queue_is_refused_with_429(server, http):
    connections = []
    for i in range(3):
        connections.append(send(server, post(ENDLESS)))
        until_schedule_is(server, f"{i} queued, reference 1/1 busy")
    response = http.post("/v1/execute", json=ENDLESS)
    problem = read_problem(429, response.headers, response.content)
    assert (problem["code"], problem["limit"]) == ("queue_full", 2)
    assert 0 < problem["retry_after"] <= 60
    assert int(response.headers["retry-after"]) == max(1, round(problem["retry_after"]))
    # Requests that need no slot still succeed.
    assert http.get("/readyz").status_code == 200
    assert http.post("/v1/validate", json={"operator": ENDLESS["operator"]}).json()["valid"]
    for connection in connections:
        connection.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")


def test_running_work_does_not_block_other_connections(server, http):
    running = send(server, post(ENDLESS))
    until_schedule_is(server, "0 queued, reference 1/1 busy")
    for _ in range(20):
        assert http.get("/livez").status_code == 200
    assert schedule(server) == "Schedule 0 queued, reference 1/1 busy"
    running.close()
    until_schedule_is(server, "0 queued, reference 0/1 busy")


def test_concurrent_connections_get_their_own_results(server_url):
    def ask(i: int) -> list[Any]:
        with httpx.Client(base_url=server_url, timeout=WITHIN) as client:
            return [
                client.post("/v1/execute", json=reduction(i + j + 1, output_format="numbers")).json()["outputs"]
                for j in range(5)
            ]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(48)))
    for i, outputs in enumerate(answers):
        assert [output["OutputTensor"]["data"] for output in outputs] == [[i + j + 1] for j in range(5)]


def test_a_batch_alone_never_overflows_the_queue(server, http):
    """It never has more requests in progress than a short queue holds, and their waiting time is reported."""
    requests = [reduction(40_000 + i) for i in range(100)]
    answer = http.post("/v1/batch", json={"requests": requests}).json()
    for i, result in enumerate(answer["results"]):
        assert bodies.outputs(result, b"")[0] == {"OutputTensor": [40_000 + i]}
    timing = [result["timing"] for result in answer["results"]]
    assert max(each["queue"] for each in timing) > sum(each["run"] for each in timing) / 2
    assert all(result["timing"]["total"] >= result["timing"]["queue"] for result in answer["results"])


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs a server in a process of its own and yields it with the address it printed."""
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OPWIRE_PORT": ""}) as started:
        try:
            assert started.stderr is not None
            url = next(found[0] for line in started.stderr if (found := re.search(r"http://\S+", line)))
            yield started, url
        finally:
            started.kill()


def until_running(url: str) -> None:
    until(lambda: 'opwire_running_operators{device="reference"} 1.0' in httpx.get(f"{url}/metrics").text)


@pytest.mark.parametrize("signal_", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_shutdown_waits_for_accepted_work(signal_):
    with process("--device", "reference") as (started, url), httpx.Client(base_url=url, timeout=WITHIN) as http:
        size = 1000
        while True:  # find an amount of work that takes a while on this machine
            answer = http.post("/v1/execute", json=reduction(size))
            if answer.json()["timing"]["run"] > 500_000:
                break
            size *= 2
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(http.post("/v1/execute", json=reduction(size))))
        asking.start()
        until_running(url)
        started.send_signal(signal_)
        asking.join(WITHIN)
        assert answers[0].status_code == 200
        assert bodies.outputs(answers[0].json(), b"")[0] == {"OutputTensor": [size]}
        assert started.wait(WITHIN) == 0
        assert started.stderr is not None
        assert "Traceback" not in started.stderr.read()
        with pytest.raises(httpx.ConnectError):
            http.get("/livez")


def test_shutdown_stops_waiting_after_the_drain_time():
    with process("--device", "reference", "--drain-seconds", "0") as (started, url):
        with connect(url) as running:
            running.sendall(post(ENDLESS))
            until_running(url)
            started.send_signal(signal.SIGTERM)
            started.wait(WITHIN)
        assert started.stderr is not None
        assert "Traceback" not in started.stderr.read()


def test_a_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "opwire_service", "serve", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert "'--port' (env var: 'OPWIRE_PORT')" in done.stderr
    assert "in use" in done.stderr
    assert "devices" not in done.stderr  # it is noticed before they are loaded
    assert "Traceback" not in done.stdout + done.stderr
    assert "is ready" not in done.stderr


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``opwire serve --check``, which ends by itself."""
    command = [sys.executable, "-m", "opwire_service", "serve", "--check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)


def test_the_settings_can_be_checked_without_serving(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    done = checked("--port", port, "--device", "reference")
    assert done.returncode == 0
    assert done.stdout == f"opwire would serve at http://127.0.0.1:{port}, devices reference\n"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/livez")
    with process("--device", "reference", "--port", port) as (_, url):
        assert url.endswith(port)
        assert "in use" in checked("--port", port).stderr
    (tmp_path / "keys").write_text("# none\n")
    for arguments, option, said in (
        (["--api-keys-file", str(tmp_path / "keys")], "--api-keys-file", "contains no API keys"),
        (["--host", "192.0.2.1"], "--host", "192.0.2.1"),
        (["--host", "no host"], "--host", "no host"),
        (["--root-path", "/v1"], "--root-path", "collides"),
    ):
        done = checked("--port", "0", *arguments)
        assert done.returncode == 2
        assert f"opwire: '{option}' (env var: '" in done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
