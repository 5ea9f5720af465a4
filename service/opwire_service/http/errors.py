"""Error handlers that turn every error into ``application/problem+json``: opwire's, the router's, and bugs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from opwire.errors import (
    AuthenticationError,
    InternalError,
    MethodNotAllowedError,
    NotFoundError,
    OpwireError,
    OverloadedError,
    ProblemCode,
    RequestError,
    SlowBodyError,
    to_problem,
)
from opwire.wire import JSON

PROBLEM_JSON = "application/problem+json"

INFERENCE = "/v2"
"""Prefix of the routes of the Open Inference Protocol."""

_RESOURCES = ("/v1/", INFERENCE)


Page = Callable[[Request], Awaitable[Response]]


def install(app: FastAPI, not_found: Page | None = None) -> None:
    """Installs the error handlers.

    Args:
        not_found: the page for people who follow a wrong link; clients get a problem.
    """
    app.state.not_found = not_found
    app.add_exception_handler(OpwireError, _own)
    app.add_exception_handler(HTTPException, _routing)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(Exception, _defect)


def media_type(path: str) -> str:
    """Returns the media type of errors at a path; Open Inference Protocol clients only read errors from plain JSON."""
    return JSON if path == INFERENCE or path.startswith(f"{INFERENCE}/") else PROBLEM_JSON


def problem_response(error: OpwireError, request_id: str, path: str) -> Response:
    """Returns the response for an error at a path."""
    problem = to_problem(error, request_id)
    headers = {"x-request-id": request_id}
    if isinstance(error, OverloadedError):
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    if isinstance(error, MethodNotAllowedError):
        headers["allow"] = ", ".join(error.members["allow"])
    if isinstance(error, AuthenticationError):
        headers["www-authenticate"] = 'Bearer realm="opwire"'
    if isinstance(error, SlowBodyError) or error.code is ProblemCode.DRAINING:
        headers["connection"] = "close"
    return Response(to_json(problem), int(str(problem["status"])), headers, media_type(path))


def defect() -> InternalError:
    """Returns the error that hides an unexpected exception from the client."""
    detail = "the server failed to process this request; its log has the cause under the request ID"
    return InternalError(ProblemCode.INTERNAL_ERROR, detail)


async def _answer(error: OpwireError, request: Request) -> Response:
    state = request.scope.setdefault("state", {})
    state["problem"] = error.code
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    page: Page | None = request.app.state.not_found
    if page is not None and isinstance(error, NotFoundError) and _is_of_a_person(request, path):
        return await page(request)
    return problem_response(error, state.get("request_id", ""), path)


def _is_of_a_person(request: Request, path: str) -> bool:
    """Whether a browser asks for a page, and not for a resource of the API."""
    return "text/html" in request.headers.get("accept", "") and not path.startswith(_RESOURCES)


async def _own(request: Request, error: Exception) -> Response:
    assert isinstance(error, OpwireError)
    return await _answer(error, request)


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow", "")
        detail = f"{request.method} given; {request.url.path} allows {allow}"
        refused: OpwireError = MethodNotAllowedError(
            ProblemCode.METHOD_NOT_ALLOWED, detail, allow=[method.strip() for method in allow.split(",")]
        )
    elif error.status_code == 404:
        refused = NotFoundError(
            ProblemCode.NOT_FOUND, f"nothing is served at {request.url.path}; see /docs for the available paths"
        )
    else:
        refused = RequestError(ProblemCode.INVALID_REQUEST, str(error.detail))
    return await _answer(refused, request)


async def _parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    detail = "; ".join(f"{'/'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
    return await _answer(RequestError(ProblemCode.INVALID_REQUEST, detail), request)


async def _defect(request: Request, error: Exception) -> Response:
    return await _answer(defect(), request)
