"""Traces as a collector receives them over HTTP from servers in processes of their own."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from opwire import Client
from tests.support.http.inference import infer_request
from tests.support.http.processes import Served, process

SLOW = ("--device", "reference")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
DESC = {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0]}
REQUEST = {"operator": {"type": "REDUCE", "desc": DESC}, "inputs": {"InputTensor": {"data": [1, 2, 3]}}}

ENDLESS = {
    "operator": {
        "type": "REDUCE",
        "desc": {
            "Function": "SUM_SQUARE",
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]},
            "Axes": [0],
        },
    },
    "inputs": {"InputTensor": "AAAAAA=="},
    "timeout_ms": 1,
}


class Collector(ThreadingHTTPServer):
    """Receives traces by OTLP over HTTP.

    Attributes:
        taken: Resource and spans of each export.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ExportHandler)
        self.taken: list[tuple[dict[str, Any], list[Span]]] = []

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a server that sends its traces here, all at shutdown."""
        address = f"http://127.0.0.1:{self.server_address[1]}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_BSP_SCHEDULE_DELAY": "600000"}

    def spans(self, name: str | None = None) -> list[Span]:
        """Returns all spans, or those with a name, earliest first."""
        found = [span for _, spans in self.taken for span in spans if name in (None, span.name)]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


class _ExportHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            spans = [span for scope in resource.scope_spans for span in scope.spans]
            self.server.taken.append((attributes(resource.resource), spans))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def attributes(of: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in of.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def end(served: Served) -> None:
    served.process.terminate()
    assert served.finish() == 0
    assert not [line for line in served.lines if "Traceback" in line]


def test_a_request_is_a_span_in_the_callers_trace_with_its_stages_as_children(collector):
    with process(*SLOW, "--otel", env=collector.variables) as served:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b", "x-request-id": "r-1"}
        answer = httpx.post(f"{served.url}/v1/execute", json=REQUEST, headers=headers)
        timing = answer.json()["timing"]
        assert collector.taken == []
        end(served)
    (span,) = collector.spans("POST /v1/execute")
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state) == (TRACE, PARENT, "a=b")
    assert span.kind == Span.SPAN_KIND_SERVER
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert attributes(span) == {
        "http.request.method": "POST",
        "http.route": "/v1/execute",
        "http.response.status_code": 200,
        "url.path": "/v1/execute",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "opwire.operator": "REDUCE",
        "opwire.device": "reference",
        "opwire.request_id": "r-1",
    }
    children = [child for child in collector.spans() if child.parent_span_id == span.span_id]
    assert [child.name for child in children] == ["receive", "parse", "check", "decode", "queue", "run", "encode"]
    assert len(collector.spans()) == 8
    previous = span.start_time_unix_nano
    for child in children:
        assert child.trace_id == span.trace_id
        assert child.start_time_unix_nano == previous
        previous = child.end_time_unix_nano
        assert previous - child.start_time_unix_nano == timing[child.name] * 1000
    assert previous <= span.end_time_unix_nano
    ((resource, _),) = collector.taken
    assert resource["service.name"] == "opwire"
    assert resource["process.pid"] == served.process.pid


def test_every_route_and_refusal_is_a_span(collector):
    names = {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"}
    with process(*SLOW, "--otel", env={**collector.variables, **names}) as served:
        infer = f"{served.url}/v2/models/ARGMAX"
        assert httpx.post(f"{infer}/infer", json=infer_request()).status_code == 200
        assert httpx.post(f"{infer}/infer", json=infer_request(parameters={})).status_code == 422
        assert httpx.request("PROPFIND", f"{infer}/infer").status_code == 405
        assert httpx.post(f"{served.url}/v1/batch", json={"requests": [REQUEST]}).status_code == 200
        assert httpx.post(f"{served.url}/v1/execute", json=ENDLESS).status_code == 504
        end(served)
    servers = [span for span in collector.spans() if span.kind == Span.SPAN_KIND_SERVER]
    assert [span.name for span in servers] == [
        "POST /v2/models/{name}/infer",
        "POST /v2/models/{name}/infer",
        "HTTP /v2/models/{name}/infer",
        "POST /v1/batch",
        "POST /v1/execute",
    ]
    found = [attributes(span) for span in servers]
    assert [each["http.response.status_code"] for each in found] == [200, 422, 405, 200, 504]
    failed = [None, "contract_violation", "method_not_allowed", None, "deadline_exceeded"]
    assert [each.get("error.type") for each in found] == failed
    assert found[2]["http.request.method"] == "_OTHER"
    assert found[0]["url.path"] == "/v2/models/ARGMAX/infer"
    # A client's mistake is not an error of the server.
    errors = [span.status.code == Status.STATUS_CODE_ERROR for span in servers]
    assert errors == [False, False, False, False, True]
    assert len({span.trace_id for span in servers}) == 5
    assert not any(span.parent_span_id for span in servers)
    ((resource, _),) = collector.taken
    assert resource["service.name"] == "mine"
    assert resource["deployment.environment.name"] == "test"


def test_each_process_exports_its_own_spans(collector):
    with process(*SLOW, "--otel", "--workers", "2", env=collector.variables) as served:
        for _ in range(30):
            httpx.post(f"{served.url}/v1/execute", json=REQUEST)
        end(served)
    assert len(collector.spans("POST /v1/execute")) == 30
    for name in ("process.pid", "service.instance.id"):
        assert len({resource[name] for resource, _ in collector.taken}) == 2


def test_unsampled_requests_are_not_exported(collector):
    variables = {**collector.variables, "OTEL_TRACES_SAMPLER": "parentbased_always_off"}
    with process(*SLOW, "--otel", env=variables) as served:
        for flag in ("00", "01"):
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-{flag}"}
            httpx.post(f"{served.url}/v1/execute", json=REQUEST, headers=headers)
        httpx.post(f"{served.url}/v1/execute", json=REQUEST)
        end(served)
    assert len(collector.spans("POST /v1/execute")) == 1


def test_an_unreachable_collector_does_not_stop_the_server():
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with process(*SLOW, "--otel", env=nowhere) as served:
        with Client(served.url) as client:
            assert client.sum(np.ones(3, np.float32), axes=[0]).output.tolist() == [3]
        end(served)


def test_tracing_is_off_by_default(collector):
    with process(*SLOW, env=collector.variables) as served:
        httpx.post(f"{served.url}/v1/execute", json=REQUEST)
        end(served)
    assert collector.taken == []


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_opentelemetry_is_imported_only_if_enabled():
    code = """
import sys
from opwire_service.process.server import HttpServer
from opwire_service.settings import Settings
HttpServer(Settings())
print(*(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
"""
    found = run(code)
    assert (found.returncode, found.stdout.strip()) == (0, ""), found.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_missing_packages_are_named(workers):
    code = f"""
import sys
sys.modules["opentelemetry.sdk"] = None
sys.argv = ["opwire", "serve", "--port", "0", "--device", "reference", "--otel", "--workers", "{workers}"]
from opwire_service.__main__ import main
main()
"""
    found = run(code)
    assert found.returncode == 2
    lines = found.stderr.strip().splitlines()
    assert [line for line in lines if "INFO" not in line] == lines[-1:]
    assert "pip install 'opwire[otel]'" in lines[-1]
