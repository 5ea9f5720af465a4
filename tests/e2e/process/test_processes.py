"""Several processes behind one address: totals, crashes, replacements, and shutdown."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from opwire_service.http.security.api_keys import hashed
from tests.support.http.inference import infer_request
from tests.support.http.problems import read_problem
from tests.support.http.processes import WITHIN, Served, process, until
from tests.support.http.sockets import connect, next_answer, read_answer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

SLOW = ("--device", "reference")
SOURCE = {"DataType": "FLOAT32", "Sizes": [3]}
OPERATOR = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": SOURCE, "Axes": [0]}}
REQUEST = {"operator": OPERATOR, "inputs": {"InputTensor": {"data": [1, 2, 3]}}, "output_format": "numbers"}
REPEATED = {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]}
ENDLESS = {
    "operator": {"type": "REDUCE", "desc": {"Function": "SUM_SQUARE", "InputTensor": REPEATED, "Axes": [0]}},
    "inputs": {"InputTensor": "AAAAAA=="},
}


@pytest.fixture(scope="module")
def pair() -> Iterator[Served]:
    """A server with two processes."""
    with process(*SLOW, "--workers", "2", "--threads", "4", "--drain-seconds", "2") as served:
        yield served


def workers(served: Served) -> set[int]:
    return workers_of(served.process.pid)


def workers_of(command: int) -> set[int]:
    """Returns the serving processes; the command's other child watches over the shared memory."""
    children = Path(f"/proc/{command}/task/{command}/children").read_text().split()
    return {int(pid) for pid in children if b"spawn_main" in _command_line(pid)}


def _command_line(pid: str) -> bytes:
    """Returns the command line of a process, or nothing if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def samples(url: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics", timeout=20).text):
        for sample in family.samples:
            values = ",".join(sample.labels[name] for name in sorted(sample.labels))
            found[f"{sample.name}{{{values}}}"] = sample.value
    return found


def execute(url: str) -> None:
    """Sends a request on its own connection, so that any process may get it."""
    response = httpx.post(f"{url}/v1/execute", json=REQUEST, timeout=20)
    assert response.json()["outputs"]["OutputTensor"]["data"] == [6]


def test_all_processes_accept_once_the_server_is_ready(pair):
    assert sum("is ready at" in line for line in pair.lines) == 1
    assert len(workers(pair)) == 2
    assert samples(pair.url)["opwire_workers{}"] == 2


def test_limits_are_divided_among_processes(pair):
    limits = httpx.get(f"{pair.url}/v1/server").json()["limits"]
    assert limits["queued"] == 1024 // 2
    assert limits["memory_bytes"] == 2**31 // 2
    until(lambda: samples(pair.url)["opwire_queued_operators_limit{}"] == 1024)
    found = samples(pair.url)
    assert found["opwire_request_memory_limit_bytes{}"] == 2**31
    assert found["opwire_running_operators_limit{reference}"] == 4


def test_metrics_sum_up_all_processes(pair):
    before = samples(pair.url)

    def ask() -> None:
        for _ in range(25):
            execute(pair.url)

    asked = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()
    # Which process responds is chance; the totals do not depend on it.

    def counted() -> set[float]:
        found = samples(pair.url)
        names = ("opwire_requests_total{ok,/v1/execute}", "opwire_operator_seconds_count{REDUCE}")
        return {found[name] - before.get(name, 0) for name in names}

    until(lambda: counted() == {100})  # counted when the response is about to be sent
    assert [counted() for _ in range(5)] == [{100}] * 5
    cached = ("opwire_plan_cache_hits_total{}", "opwire_plan_cache_misses_total{}")
    until(lambda: sum(samples(pair.url)[name] - before[name] for name in cached) == 100)


def test_every_process_has_its_own_standard_metrics(pair):
    """Whichever process responds reports the memory and the start of all of them, as the system does."""
    found = [samples(pair.url) for _ in range(6)]
    names = {"supervisor", "worker-0", "worker-1"}
    pids = {pair.process.pid, *workers(pair)}
    held = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") for pid in pids]
    for each in found:
        resident = {name: value for name, value in each.items() if name.startswith("process_resident_memory_bytes{")}
        assert resident.keys() == {f"process_resident_memory_bytes{{{name}}}" for name in names}
        assert sorted(resident.values()) == pytest.approx(sorted(held), rel=0.3)
        assert all(each[f"process_open_fds{{{name}}}"] > 2 for name in names)
        began = {name: each[f"process_start_time_seconds{{{name}}}"] for name in names}
        assert began["supervisor"] < min(began["worker-0"], began["worker-1"])


def test_model_statistics_sum_up_all_processes(pair):
    url = f"{pair.url}/v2/models/ARGMIN"
    infer = {**infer_request(), "model_version": "5100"}

    def stats() -> Any:
        """Queries statistics on a new connection, so that any process may respond."""
        (found,) = httpx.get(f"{url}/versions/5100/stats", timeout=20).json()["model_stats"]
        return found

    def counted_by_metrics() -> dict[str, float]:
        """Returns the totals of all processes according to the metrics."""
        return {
            name: samples(pair.url).get(f"opwire_requests_total{{{code},/v2/models/{{name}}/infer}}", 0)
            for name, code in (("success", "ok"), ("fail", "contract_violation"))
        }

    before, counted = stats(), counted_by_metrics()
    for _ in range(30):
        assert httpx.post(f"{url}/versions/5100/infer", json=infer, timeout=20).is_success
        assert httpx.post(f"{url}/versions/5100/infer", json={"inputs": []}, timeout=20).status_code == 422
    until(lambda: all(count - counted[name] == 30 for name, count in counted_by_metrics().items()))
    for _ in range(8):
        after = stats()
        for name in ("success", "fail"):
            was, now = (found["inference_stats"][name] for found in (before, after))
            assert now["count"] == was["count"] + 30
            assert now["ns"] > was["ns"]
        assert after["last_inference"] > before["last_inference"]
    first = workers(pair)
    os.kill(min(first), signal.SIGKILL)
    until(lambda: len(workers(pair) - {min(first)}) == 2 and samples(pair.url)["opwire_workers{}"] == 2)
    assert [stats() for _ in range(8)] == [after] * 8


def post(document: object) -> bytes:
    body = json.dumps(document).encode()
    return b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def busy(url: str) -> float:
    return samples(url)["opwire_running_operators{reference}"]


def waiting(url: str) -> float:
    return samples(url)["opwire_queued_operators{reference}"]


def is_open(connection: socket.socket) -> bool:
    """Whether the server has neither responded nor closed the connection."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


def occupy(stack: contextlib.ExitStack, url: str) -> list[socket.socket]:
    """Opens connections that wait for endless work, until both processes run as much as they can.

    Each process has two slots and keeps one of them free of long work.
    """
    opened: list[socket.socket] = []
    while busy(url) < 2:
        opened.append(stack.enter_context(connect(url)))
        opened[-1].sendall(post(ENDLESS))
        time.sleep(0.3)
    return opened


def multiplies(factor: int) -> dict[str, Any]:
    """Returns a graph that multiplies its input by a constant."""
    desc = {"DataType": "FLOAT32", "Sizes": [1, 1]}
    inputs = {"ATensor": "input:x", "BTensor": "factor"}
    product = {"type": "ELEMENT_WISE_MULTIPLY", "desc": {"ATensor": desc, "BTensor": desc}, "inputs": inputs}
    return {"nodes": {"factor": {"constant": {"data": [[factor]]}}, "product": product}, "outputs": {"y": "product"}}


BY_NAME = {"graph": "net", "inputs": {"x": {"data": [[2]]}}, "output_format": "numbers"}


def test_a_registered_graph_is_known_to_all_processes_at_once(pair):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(base_url=pair.url, timeout=60)) for _ in range(8)]
        for i in range(1, 41):
            put = clients[i % 8].put("/v1/graphs/net", json={"graph": multiplies(i)})
            assert put.status_code == (201 if i == 1 else 200)
            answer = clients[i * 3 % 8].post("/v1/execute", json=BY_NAME)
            assert answer.json()["outputs"]["y"]["data"] == [[2 * i]]
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [3]}
        for _ in range(10):
            answer = httpx.post(f"{pair.url}/v2/models/net/infer", json={"inputs": [tensor]}, timeout=60)
            assert answer.json()["outputs"][0]["data"] == [120]
        (stats,) = httpx.get(f"{pair.url}/v2/models/net/stats").json()["model_stats"]
        assert stats["inference_count"] == 10
        assert httpx.delete(f"{pair.url}/v1/graphs/net").status_code == 200
        gone = [httpx.post(f"{pair.url}/v1/execute", json=BY_NAME).status_code for _ in range(8)]
        assert gone == [404] * 8


def test_a_killed_worker_is_replaced_and_loses_only_its_own_requests(pair):
    before = samples(pair.url)
    first = workers(pair)
    with contextlib.ExitStack() as stack:
        opened = occupy(stack, pair.url)
        os.kill(min(first), signal.SIGKILL)
        until(lambda: len(workers(pair) - {min(first)}) == 2 and samples(pair.url)["opwire_workers{}"] == 2)
        kept = [connection for connection in opened if is_open(connection)]
        assert 1 <= len(kept) < len(opened)
        assert busy(pair.url) == 1
        for _ in range(20):
            execute(pair.url)
        assert all(is_open(connection) for connection in kept)
    until(lambda: busy(pair.url) == 0)
    found = samples(pair.url)
    assert found["opwire_worker_restarts_total{}"] == before.get("opwire_worker_restarts_total{}", 0) + 1
    # The counts of the dead process are not lost.
    name = "opwire_requests_total{ok,/v1/execute}"
    assert found[name] == before.get(name, 0) + 20
    assert len(first & workers(pair)) == 1
    assert sum("is ready at" in line for line in pair.lines) == 1


def test_a_terminated_worker_is_replaced(pair):
    before = samples(pair.url)["opwire_worker_restarts_total{}"]
    first = workers(pair)
    os.kill(min(first), signal.SIGTERM)
    until(lambda: len(workers(pair) - {min(first)}) == 2)
    until(lambda: samples(pair.url)["opwire_workers{}"] == 2)
    assert samples(pair.url)["opwire_worker_restarts_total{}"] == before + 1
    execute(pair.url)


def slow_request(url: str) -> dict[str, object]:
    """Returns a request that takes at least half a second of its own on this machine."""
    size = 2**12
    while True:
        source = {"DataType": "FLOAT32", "Sizes": [size], "Strides": [0]}
        operator = {"type": "REDUCE", "desc": {"Function": "SUM_SQUARE", "InputTensor": source, "Axes": [0]}}
        request = {"operator": operator, "inputs": {"InputTensor": "AACAPw=="}}
        answers = [httpx.post(f"{url}/v1/execute", json=request, timeout=30).json() for _ in range(2)]
        if min(answer["timing"]["run"] for answer in answers) > 500_000:
            return request
        size *= 2


def response_while_draining(connection: socket.socket, request: str) -> tuple[int, dict[str, str], bytes] | None:
    """Returns the response of a draining process, or None if it had no work and has ended."""
    while True:
        try:
            connection.sendall(f"{request} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
            answer = next_answer(connection)
        except (OSError, EOFError):
            return None
        if answer[0] == 503:
            assert not connection.recv(1)
            return answer
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("count", "number"),
    [
        pytest.param(1, signal.SIGTERM, marks=pytest.mark.thorough),
        pytest.param(2, signal.SIGTERM, marks=pytest.mark.thorough),
        pytest.param(1, signal.SIGINT, marks=pytest.mark.thorough),
        (2, signal.SIGINT),
    ],
)
def test_shutdown_finishes_accepted_work_and_refuses_the_rest(count, number):
    options = ("--workers", str(count), "--threads", "4", "--drain-seconds", "120")
    with process(*SLOW, *options) as served, contextlib.ExitStack() as stack:
        work = slow_request(served.url)
        accepted = [stack.enter_context(connect(served.url)) for _ in range(3)]
        idle = [stack.enter_context(connect(served.url)) for _ in range(8)]
        for connection in idle:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(1000)
            assert b" 200 " in answer
        for connection in accepted:
            connection.sendall(post(work))
        until(lambda: waiting(served.url) + busy(served.url) == len(accepted))
        served.process.send_signal(number)
        refused = [
            response_while_draining(connection, request)
            for connection, request in zip(idle, ("GET /readyz", "POST /v1/execute") * 4, strict=True)
        ]
        assert any(refused) or count > 1  # which process has which connection is chance
        for status, headers, body in filter(None, refused):
            problem = read_problem(status, headers, body)
            assert (status, problem["code"], headers["connection"]) == (503, "draining", "close")
        for connection in accepted:
            assert read_answer(connection)[0] == 200
        assert served.finish() == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{served.url}/livez")
    assert not [line for line in served.lines if "Traceback" in line or "leaked" in line]


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_shutdown_waits_no_longer_than_the_drain_time(count):
    options = ("--workers", str(count), "--drain-seconds", "1", "--threads", "4")
    with process(*SLOW, *options) as served, connect(served.url) as connection:
        connection.sendall(post(ENDLESS))
        until(lambda: busy(served.url) == 1)
        began = time.monotonic()
        served.process.terminate()
        status, headers, body = read_answer(connection)
        assert (status, read_problem(status, headers, body)["code"]) == (503, "draining")
        assert served.finish() == 0
        assert time.monotonic() - began > 0.9


def test_stopping_while_a_worker_starts_is_no_failure():
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", "0", *SLOW, "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        until(lambda: len(workers_of(started.pid)) == 2)
        late = max(workers_of(started.pid))
        os.kill(late, signal.SIGSTOP)
        started.terminate()
        os.kill(late, signal.SIGCONT)
        said = started.communicate(timeout=WITHIN)[1]
    assert started.returncode == 0
    assert "ready at" not in said
    assert "all processes have ended" in said


def test_no_worker_outlives_the_command():
    with process(*SLOW, "--workers", "2") as served:
        alone = workers(served)
        assert len(alone) == 2
        served.process.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in alone))
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{served.url}/livez")


def test_an_address_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(RuntimeError, match="in use") as said, process("--workers", "2", "--port", port):
            pass
    assert "Traceback" not in str(said.value)


def test_a_hanging_worker_is_replaced():
    with process(*SLOW, "--workers", "2", "--hang-seconds", "2") as served:
        first = workers(served)
        before = samples(served.url)["opwire_worker_restarts_total{}"]
        os.kill(min(first), signal.SIGSTOP)
        until(lambda: len(workers(served) - {min(first)}) == 2)
        until(lambda: any("hangs; killing it" in line for line in served.lines))
        until(lambda: samples(served.url)["opwire_workers{}"] == 2)
        assert samples(served.url)["opwire_worker_restarts_total{}"] == before + 1
        for _ in range(20):
            execute(served.url)
        assert max(first) in workers(served)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_keys_are_read_again_on_a_signal(tmp_path, workers):
    """A server logs who it refuses, survives an invalid file, and says when it stops and has stopped."""
    keys = tmp_path / "keys"
    keys.write_text("first:one\n")

    def status(key: str, scheme: str = "Bearer") -> int:
        """Returns the status of a request on a new connection, to any of the processes."""
        headers = {"Authorization": f"{scheme} {key}"} if key else {}
        return httpx.get(f"{served.url}/v1/server/load", headers=headers).status_code

    def logged(text: str) -> int:
        return sum(text in line for line in list(served.lines))

    with process(*SLOW, "--workers", workers, "--api-keys-file", str(keys)) as served:
        assert {status("one") for _ in range(8)} == {200}
        assert status("two") == 401
        until(lambda: logged("unauthorized") == 1)
        (line,) = [line for line in served.lines if "unauthorized" in line]
        assert "peer 127.0.0.1" in line
        assert "key 3fc4ccfe " in line  # printf two | sha256sum
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO ", line)
        assert [status(""), status("one", "Basic")] == [401, 401]
        until(lambda: logged("key missing ") == logged("key malformed ") == 1)

        keys.write_text(f"second:{hashed('two')}\nthird:three\n")
        served.process.send_signal(signal.SIGHUP)
        until(lambda: logged(f"2 API keys read from {keys}") == int(workers))
        assert {status("two") for _ in range(8)} == {200}
        assert {status("one") for _ in range(8)} == {401}

        keys.write_text("not a key\n")
        served.process.send_signal(signal.SIGHUP)
        until(lambda: logged("the API keys remain as they were") == int(workers))
        assert {status("three") for _ in range(8)} == {200}

        served.process.send_signal(signal.SIGTERM)
        assert served.finish() == 0
        assert logged("stopping: running requests may take up to") == 1
        assert logged("stopped: ") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_a_server_without_keys_survives_a_reload():
    with process(*SLOW) as served:
        served.process.send_signal(signal.SIGHUP)
        until(lambda: any("no API keys to read again" in line for line in list(served.lines)))
        assert httpx.get(f"{served.url}/livez").status_code == 200
