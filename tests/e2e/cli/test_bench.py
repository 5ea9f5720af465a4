"""``opwire bench`` against a real server, and its load generator against failing servers."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle

import pytest

from opwire_service.bench.load_generator import Address, LoadResult, measure, write_request

PNG = b"\x89PNG\r\n\x1a\n"
SECONDS = 0.3


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opwire_service", "bench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("encoding", ["base64", pytest.param("binary", marks=pytest.mark.thorough)])
def test_a_sweep_reports_each_number_of_connections(server_url, tmp_path, encoding):
    given = ["--connections", "1,4", "--seconds", SECONDS, "--encoding", encoding, "--sizes", "2,5,3", "--axis", "2"]
    done = bench(server_url, *given, "--json", tmp_path / "found.json", "--plot", tmp_path / "found.png")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["workload"]["sizes"] == [2, 5, 3]
    assert found["server"]["name"] == "opwire"
    assert [load["connections"] for load in found["loads"]] == [1, 4]
    for load in found["loads"]:
        assert load["errors"] == {}
        assert load["answers"] > 10
        assert load["requests_per_second"] == pytest.approx(load["answers"] / load["seconds"], rel=0.01)
        assert 0 < load["p50_ms"] <= load["p90_ms"] <= load["p99_ms"] <= load["max_ms"]
        # Each connection has one request in flight, so the rate cannot exceed connections over latency.
        assert load["p50_ms"] / 1000 * load["answers"] / 2 <= load["seconds"] * load["connections"]
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows == ["1", "4"]
    assert (tmp_path / "found.png").read_bytes().startswith(PNG)


def test_results_are_written_as_json_to_stdout(server_url):
    done = bench(server_url, "--connections", "2", "--seconds", SECONDS, "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["loads"][0]["connections"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ftp://host"], 2, "expected a URL"),
        (["http://127.0.0.1:1", "--connections", "0"], 2, "expected positive integers"),
        (["http://127.0.0.1:1", "--sizes", "3", "--axis", "1"], 2, "allowed: 0 to 0"),
        (["http://127.0.0.1:1"], 1, "no connection"),
    ],
    ids=["scheme", "connections", "axis", "nobody-listens"],
)
def test_invalid_arguments_are_refused(arguments, code, words):
    done = bench(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_device_is_refused_by_the_server(server_url):
    done = bench(server_url, "--device", "abacus")
    assert done.returncode == 1
    assert '"abacus"' in done.stderr


# --- the generator


Answer = Callable[[], bytes | None]
"""Returns the bytes of the next response, or None to close the connection."""


@contextmanager
def answering(answer: Answer) -> Iterator[Address]:
    """Runs a server that reads requests without bodies and sends the given responses."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):  # the client disconnects when its time is up
                while self.rfile.readline():
                    while self.rfile.readline().strip():
                        pass
                    told = answer()
                    if told is None:
                        return
                    self.wfile.write(told)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Address("127.0.0.1", server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def response(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nhi".encode()


REQUEST = write_request("http://host/path", {"X-One": "1"}, b"")


def test_client_and_server_count_the_same_requests():
    answers = iter(range(10**9))

    def answer() -> bytes:
        next(answers)
        return response("200 OK")

    with answering(answer) as address:
        load = measure(address, lambda: REQUEST, 3, SECONDS)
    sent = next(answers)
    assert load.errors == {}
    assert sent - 3 <= len(load.latencies) <= sent
    assert list(load.latencies) == sorted(load.latencies)
    assert load.seconds == pytest.approx(SECONDS, abs=0.2)


def test_failures_are_counted_and_the_load_goes_on():
    told = cycle([response("200 OK"), response("429 Too Many Requests"), None, b"nonsense\r\n\r\n"])
    with answering(lambda: next(told)) as address:
        load = measure(address, lambda: REQUEST, 1, SECONDS)
    assert set(load.errors) == {"429", "connection lost", "not HTTP"}
    assert len(load.latencies) - min(load.errors.values()) in (0, 1)
    assert max(load.errors.values()) - min(load.errors.values()) <= 1
    assert min(load.errors.values()) > 1


def test_a_closed_port_raises_connection_refused():
    with socket.socket() as bound:  # but not listening
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            measure(Address("127.0.0.1", bound.getsockname()[1]), lambda: REQUEST, 1, SECONDS)


def test_a_slow_first_answer_is_waited_for():
    gate = threading.Event()

    def answer() -> bytes:
        gate.wait(2 * SECONDS)
        return response("200 OK")

    with answering(answer) as address:
        load = measure(address, lambda: REQUEST, 1, SECONDS)
    assert len(load.latencies) == 1
    assert load.latencies[0] >= 2 * SECONDS


def test_a_request_is_written_as_http():
    text = write_request("http://host:8000/v1/execute", {"Content-Type": "text/plain"}, b"body")
    assert text == (
        b"POST /v1/execute HTTP/1.1\r\nHost: host:8000\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody"
    )


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1.0), (1, 1.0), (10, 1.0), (50, 5.0), (51, 6.0), (90, 9.0), (99, 10.0), (100, 10.0)]
)
def test_percentiles_use_the_nearest_rank(percent, expected):
    load = LoadResult(1)
    load.latencies.extend(float(i) for i in range(1, 11))
    assert load.percentile(percent) == expected


def test_the_percentile_of_no_answers_is_nan():
    assert str(LoadResult(1).percentile(50)) == "nan"
    assert LoadResult(1).rate == 0.0


@pytest.mark.parametrize(("cpu", "bound"), [(0.5, False), (0.95, True)])
def test_a_saturated_client_is_reported(cpu, bound):
    assert LoadResult(1, 1.0, cpu).client_bound is bound
