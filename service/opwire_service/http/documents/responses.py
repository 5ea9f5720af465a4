"""OpenAPI responses for the modules that declare routes, kept apart from ``openapi`` because that is slow to import."""

from __future__ import annotations

from typing import Any

from opwire.errors import PROBLEMS
from opwire.jsonschema import ref
from opwire.level import FeatureLevel
from opwire.wire import BINARY, HEAD_LENGTH, JSON

Schema = dict[str, Any]

_PROBLEM_JSON = "application/problem+json"


_RETRY = {
    "Retry-After": {
        "schema": {"type": "integer", "minimum": 1},
        "description": "seconds to wait before the request is repeated, if repeating it can help",
    }
}


def problem(status: int, media: str = _PROBLEM_JSON) -> Schema:
    """Returns the OpenAPI response of an error status."""
    titles = sorted({row.title for row in PROBLEMS.values() if row.status == status})
    headers = {"headers": _RETRY} if status in (429, 503) else {}
    return {"description": "; ".join(titles), **headers, "content": {media: {"schema": ref("Problem")}}}


ERRORS: dict[int | str, dict[str, Any]] = {status: problem(status) for status in (401, 405, 500)}
"""Errors that every route may return."""

DATA_STATUSES = sorted({row.status for row in PROBLEMS.values()} - {404})

DIMENSIONS: Schema = {
    "name": "dim",
    "in": "query",
    "schema": {"type": "array", "items": {"type": "string", "pattern": "^.+=[0-9]+$"}},
    "description": "of an ONNX model, the size of a dimension as NAME=SIZE, or INPUT:AXIS=SIZE if it has no name",
}
"""Parameter of the routes that take ONNX models."""

MODEL_LEVEL: Schema = {
    "name": "feature_level",
    "in": "query",
    "schema": {"enum": [str(level) for level in FeatureLevel]},
    "description": "of an ONNX model, the feature level to check it against; bodies of JSON have a member for it",
}

LENGTH: Schema = {
    "name": HEAD_LENGTH,
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "length in bytes of the JSON head, if a binary tail with raw tensors follows it",
}
"""Header parameter of routes whose bodies may have a binary tail."""

_TAIL: Schema = {
    "description": f"The response. With ``Accept: {BINARY}``, it is of that type: the JSON and a binary tail",
    "headers": {HEAD_LENGTH: {key: LENGTH[key] for key in ("schema", "description")}},
}


def answered(schema: Schema, *, tail: bool = False) -> Schema:
    """Returns the OpenAPI response of a success, which may have a binary tail if the client asks for one.

    The type of such a body is said in words: a generated client would take the JSON as either type.
    """
    return {"description": "The response", **(_TAIL if tail else {}), "content": {JSON: {"schema": schema}}}


OPERATOR: dict[str, Any] = {"responses": {404: problem(404)}}
LISTING: dict[str, Any] = {"responses": {400: problem(400)}}


def fixed(media: str) -> dict[str, Any]:
    """Returns the responses of a route whose document never changes while the server runs."""
    document = {
        "description": "The document",
        "content": {media: {"schema": {"type": "object", "additionalProperties": True}}},
    }
    return {"responses": {200: document, 304: {"description": "The document matches If-None-Match"}}}


READY: dict[str, Any] = {"responses": {503: problem(503)}}
METRICS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Prometheus text format, or OpenMetrics if the client accepts it",
            "content": {
                media: {"schema": {"type": "string"}} for media in ("text/plain", "application/openmetrics-text")
            },
        }
    }
}


CONTRACT = ("/v1/schema", "/v1/schema/meta", "/v1/schema/documents", "/v1/operators", "/v1/feature-levels")
"""Paths of the contract, which is the same on every server."""

ONE_OPERATOR = "/v1/operators/"
"""Prefix of the paths of single operators."""

OPEN = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready", *CONTRACT})
"""Paths that need no API key: health probes and the contract."""
