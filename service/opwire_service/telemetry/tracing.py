"""Traces of data requests for OpenTelemetry: a server span for each, with a child for each of its stages.

The only module that needs the extra ``opwire[otel]``. A span is made when its request has ended, from times that are
taken anyway; so nothing of this is in the path of a request. Where spans go and how many are kept is up to the standard
variables of the environment, ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER`` and so on.

Source: the semantic conventions of OpenTelemetry for HTTP server spans.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

from .access_log import escaped
from .metrics import CLIENT_GONE, OK, STAGES
from .requests import Ended

_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


class Tracing:
    """Sends the spans of one process, in batches and by a thread of its own."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("opwire", version("opwire"))

    def record(self, ended: Ended) -> None:
        """Makes the spans of a request that has just ended."""
        end = time.time_ns()
        start = end - ended.microseconds * 1000
        method = ended.method if ended.method in _METHODS else "_OTHER"
        span = self._tracer.start_span(
            f"{'HTTP' if method == '_OTHER' else method} {ended.route}",
            extract(ended.carriers),
            SpanKind.SERVER,
            _attributes(ended, method),
            start_time=start,
        )
        if span.is_recording():
            if ended.status >= 500 and ended.code != CLIENT_GONE:
                span.set_status(StatusCode.ERROR)
            self._record_stages(span, start, ended.stages)
        span.end(end)

    def _record_stages(self, span: Span, start: int, stages: Mapping[str, int]) -> None:
        """Makes a span for each stage. One follows the other; the little time between them is left out."""
        context = set_span_in_context(span)
        for stage in STAGES:
            if stage in stages:
                child = self._tracer.start_span(stage, context, start_time=start)
                start += stages[stage] * 1000
                child.end(start)

    def close(self) -> None:
        """Sends what has not been sent; nothing can be recorded any more."""
        self._provider.shutdown()


def _attributes(ended: Ended, method: str) -> dict[str, str | int]:
    known: dict[str, str | int | None] = {
        "http.request.method": method,
        "http.route": ended.route,
        "http.response.status_code": None if ended.code == CLIENT_GONE else ended.status,
        "url.path": escaped(ended.path),
        "url.scheme": ended.scheme,
        "network.protocol.version": ended.version,
        "error.type": None if ended.code == OK else ended.code,
        "opwire.operator": ended.operator_name,
        "opwire.device": ended.device,
        "opwire.request_id": ended.request_id,
    }
    return {name: value for name, value in known.items() if value is not None}


def _resource() -> Resource:
    """The resource that the environment describes, with defaults of this service."""
    own: dict[str, str | int] = {
        "service.name": "opwire",
        "service.version": version("opwire"),
        "service.instance.id": str(uuid.uuid4()),
        "process.pid": os.getpid(),
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())
