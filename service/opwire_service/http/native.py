"""The native API. Data routes take the raw body and answer raw bytes; their forms are described in ``openapi``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive

from opwire.desc import show
from opwire.describe import LevelInfo, OperatorInfo, OperatorSummary, ServerInfo, describe, levels, summarise
from opwire.errors import NotFoundError, ProblemCode
from opwire.operators import CATALOG, find
from opwire.wire import JSON, OutputFormat, parse_batch, parse_execute, parse_validate, write_batch, write_outcome

from ..pipeline import Stopwatch
from ..server import Server
from .body import AnswerResponse, head_length, read_body, wants_binary
from .openapi import BATCH, EXECUTE, OPERATOR, VALIDATE

T = TypeVar("T")

router = APIRouter(prefix="/v1")


def server_of(request: Request) -> Server:
    """The server that a request came to."""
    server: Server = request.app.state.server
    return server


@router.post("/execute", **EXECUTE)
async def execute(request: Request) -> Response:
    """Runs one operator on the tensors in the body."""
    watch, server, length = Stopwatch(), server_of(request), head_length(request)
    pipeline = server.pipeline
    body = await read_body(request, pipeline.limits)
    watch.lap("receive")
    parsed = parse_execute(body, length)
    watch.lap("parse")
    output_format = OutputFormat.BINARY if wants_binary(request) else parsed.output_format
    outcome = await _while_connected(request.receive, pipeline.execute(parsed, watch, output_format))
    response = AnswerResponse(write_outcome(outcome, request.state.request_id))
    response.headers["server-timing"] = ", ".join(f"{stage};dur={us / 1000}" for stage, us in outcome.timing.items())
    return response


@router.post("/batch", **BATCH)
async def batch(request: Request) -> Response:
    """Runs several operators; each has its own outcome, in the order of the requests."""
    watch, server, length = Stopwatch(), server_of(request), head_length(request)
    pipeline = server.pipeline
    body = await read_body(request, pipeline.limits)
    watch.lap("receive")
    parsed = parse_batch(body, length)
    watch.lap("parse")
    outcomes = await _while_connected(request.receive, pipeline.batch(parsed, watch, wants_binary(request)))
    return AnswerResponse(write_batch(outcomes, request.state.request_id))


@router.post("/validate", **VALIDATE)
async def validate(request: Request) -> Response:
    """Says whether a desc is valid at a feature level, what is wrong with it, and which level would take it."""
    pipeline = server_of(request).pipeline
    length = head_length(request)
    body = await read_body(request, pipeline.limits)
    return Response(to_json(pipeline.validate(parse_validate(body, length))), media_type=JSON)


@router.get("/operators")
async def operators() -> dict[str, list[OperatorSummary]]:
    """All operator types of DirectML; ``executable`` marks those that this server runs."""
    return {"operators": [summarise(kind) for kind in CATALOG.values()]}


@router.get("/operators/{name}", **OPERATOR)
async def operator(name: str) -> OperatorInfo:
    """The fields, support rows and worked examples of an operator type."""
    kind = find(name)
    if kind is None:
        raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, f"{show(name)} is none of DirectML's operator types")
    return describe(kind)


@router.get("/feature-levels")
async def feature_levels() -> dict[str, list[LevelInfo]]:
    """All feature levels, lowest first, with the operator types that each brought."""
    return {"feature_levels": levels()}


@router.get("/server")
async def server_info(request: Request) -> ServerInfo:
    """What this server is: its version, devices and limits."""
    return server_of(request).describe()


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which is cancelled if the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for pending in (task, gone):
            pending.cancel()
        with suppress(asyncio.CancelledError):
            await gone


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
