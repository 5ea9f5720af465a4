"""Answers of routes in the OpenAPI document, for modules that declare routes: little, and soon loaded."""

from __future__ import annotations

from typing import Any

from opwire.errors import PROBLEMS
from opwire.jsonschema import ref
from opwire.wire import HEAD_LENGTH

Schema = dict[str, Any]

_PROBLEM_JSON = "application/problem+json"


def problem(status: int, media: str = _PROBLEM_JSON) -> Schema:
    """The response of a status that is an error."""
    titles = sorted({row.title for row in PROBLEMS.values() if row.status == status})
    return {"description": "; ".join(titles), "content": {media: {"schema": ref("Problem")}}}


ERRORS: dict[int | str, dict[str, Any]] = {status: problem(status) for status in (401, 405, 500)}
"""The errors that any route may answer with."""

DATA_STATUSES = sorted({row.status for row in PROBLEMS.values()} - {404})

LENGTH: Schema = {
    "name": HEAD_LENGTH,
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "the bytes of JSON in front of the raw tensors, where there are any",
}
"""The parameter of a route whose bodies may have a tail."""

OPERATOR: dict[str, Any] = {"responses": {404: problem(404)}}
LISTING: dict[str, Any] = {"responses": {400: problem(400)}}


def fixed(media: str) -> dict[str, Any]:
    """The responses of a route whose document is the same for every client."""
    document = {"description": "The document", "content": {media: {"schema": {"type": "object"}}}}
    return {"responses": {200: document, 304: {"description": "The document is the one of If-None-Match"}}}


READY: dict[str, Any] = {"responses": {503: problem(503)}}
METRICS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Prometheus' text format, or OpenMetrics where it is asked for",
            "content": {
                media: {"schema": {"type": "string"}} for media in ("text/plain", "application/openmetrics-text")
            },
        }
    }
}


CONTRACT = ("/v1/schema", "/v1/schema/meta", "/v1/schema/documents", "/v1/operators", "/v1/feature-levels")
"""The paths of what is the same for every server."""

ONE_OPERATOR = "/v1/operators/"
"""The prefix of the paths of a single operator."""

OPEN = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready", *CONTRACT})
"""The paths that are open to everyone: of health, and of the contract."""
