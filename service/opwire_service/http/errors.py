"""Every error as ``application/problem+json``: opwire's own, those of the router, and defects."""

from __future__ import annotations

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
"""Where the routes of the Open Inference Protocol begin."""


def install(app: FastAPI) -> None:
    """Makes every error of the app a problem."""
    app.add_exception_handler(OpwireError, _own)
    app.add_exception_handler(HTTPException, _routing)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(Exception, _defect)


def media_type(path: str) -> str:
    """The media type of errors at a path: clients of the Open Inference Protocol read reasons from plain JSON alone."""
    return JSON if path == INFERENCE or path.startswith(f"{INFERENCE}/") else PROBLEM_JSON


def problem_response(error: OpwireError, request_id: str, path: str) -> Response:
    """An error as the answer to a request for a path."""
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
    """The error that a client sees where the server has a defect."""
    detail = "the server failed; its log has the reason under this request id"
    return InternalError(ProblemCode.INTERNAL_ERROR, detail)


def _answer(error: OpwireError, request: Request) -> Response:
    state = request.scope.setdefault("state", {})
    state["problem"] = error.code
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return problem_response(error, state.get("request_id", ""), path)


async def _own(request: Request, error: Exception) -> Response:
    assert isinstance(error, OpwireError)
    return _answer(error, request)


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow", "")
        detail = f"{request.method} given; {request.url.path} takes {allow}"
        refused: OpwireError = MethodNotAllowedError(
            ProblemCode.METHOD_NOT_ALLOWED, detail, allow=[method.strip() for method in allow.split(",")]
        )
    elif error.status_code == 404:
        refused = NotFoundError(
            ProblemCode.NOT_FOUND, f"there is nothing at {request.url.path}; /docs lists what there is"
        )
    else:
        refused = RequestError(ProblemCode.INVALID_REQUEST, str(error.detail))
    return _answer(refused, request)


async def _parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    detail = "; ".join(f"{'/'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
    return _answer(RequestError(ProblemCode.INVALID_REQUEST, detail), request)


async def _defect(request: Request, error: Exception) -> Response:
    return _answer(defect(), request)
