"""Requirements on every error response, stated independently of the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support.http.pointers import resolves

STATUSES = {
    "graphs_full": 413,
    "invalid_json": 400,
    "invalid_request": 400,
    "invalid_framing": 400,
    "invalid_base64": 400,
    "unauthorized": 401,
    "not_found": 404,
    "unknown_operator": 404,
    "method_not_allowed": 405,
    "slow_body": 408,
    "length_required": 411,
    "body_too_large": 413,
    "tensor_too_large": 413,
    "work_too_large": 413,
    "batch_too_large": 413,
    "invalid_model": 400,
    "head_too_large": 431,
    "unsupported_media_type": 415,
    "contract_violation": 422,
    "operator_not_executable": 422,
    "queue_full": 429,
    "memory_full": 429,
    "internal_error": 500,
    "not_ready": 503,
    "draining": 503,
    "deadline_exceeded": 504,
}
"""Every error code, with its HTTP status."""

MEMBERS = ("type", "title", "status", "detail", "code", "request_id", "error")
LEAKS = ("Traceback", "Error(", "Error:", "Exception", " object at 0x", "<class ", "site-packages", "opwire_service")
"""Texts that would reveal the server's internals."""


def check_problem(problem: Any, sent: object = None) -> Mapping[str, Any]:
    """Checks that an error object is complete and that its violations point into the JSON that was sent."""
    assert isinstance(problem, dict), problem
    for name in MEMBERS:
        assert name in problem, name
    assert problem["status"] == STATUSES[problem["code"]]
    assert problem["type"] == f"urn:opwire:problem:{problem['code']}"
    assert problem["error"] == f"{problem['title']}: {problem['detail']}"
    assert problem["request_id"]
    text = json.dumps(problem)
    assert not [leak for leak in LEAKS if leak in text], problem
    for violation in problem.get("violations", ()):
        assert len(violation["allowed"] or ()) == 5 or "allowed_more" not in violation
        assert set(violation) - {"allowed_more"} == {
            "code",
            "pointer",
            "message",
            "allowed",
            "available_from",
            "source",
            "documented",
        }
        assert violation["message"]
        assert resolves(sent, violation["pointer"]), violation
    return problem


def read_problem(
    status: int, headers: Mapping[str, str], body: bytes, sent: object = None, media: str = "application/problem+json"
) -> Mapping[str, Any]:
    """Returns the problem of an error response, checked."""
    assert headers["content-type"] == media
    assert int(headers["content-length"]) == len(body)
    problem = check_problem(json.loads(body), sent)
    assert problem["status"] == status
    assert problem["request_id"] == headers["x-request-id"]
    return problem
