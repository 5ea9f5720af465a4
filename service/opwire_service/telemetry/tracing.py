"""OpenTelemetry traces of data requests: a server span per request, with a child span per stage.

This is the only module that needs the extra ``opwire[otel]``. Spans are created after a request has completed, from
timestamps that are taken anyway, so tracing adds nothing to the request path. Export and sampling are configured by the
standard environment variables ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER`` etc.

Source: OpenTelemetry's semantic conventions for HTTP server spans.
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
from .declarations import CLIENT_GONE, OK, STAGES
from .requests import Ended

_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})


class Tracing:
    """Exports the spans of one process, in batches on a background thread."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("opwire", version("opwire"))

    def record(self, ended: Ended) -> None:
        """Creates the spans of a request that has just completed."""
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
        """Creates a span for each stage, back to back; the small gaps between stages are ignored."""
        context = set_span_in_context(span)
        for stage in STAGES:
            if stage in stages:
                child = self._tracer.start_span(stage, context, start_time=start)
                start += stages[stage] * 1000
                child.end(start)

    def close(self) -> None:
        """Exports the remaining spans. Nothing can be recorded afterwards."""
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
    """Returns the resource described by the environment, with defaults for this service."""
    own: dict[str, str | int] = {
        "service.name": "opwire",
        "service.version": version("opwire"),
        "service.instance.id": str(uuid.uuid4()),
        "process.pid": os.getpid(),
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())
