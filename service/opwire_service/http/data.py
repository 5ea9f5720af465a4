"""The data routes, as plain ASGI in front of the framework: raw bodies in, raw bytes out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from opwire.errors import MethodNotAllowedError, OpwireError, ProblemCode
from opwire.wire import Answer, OutputFormat, parse_batch, parse_execute, parse_validate, write_batch, write_outcome

from ..budget import Hold
from ..pipeline import INLINE_BYTES, Pipeline, Stopwatch
from .body import Exchange, read_body
from .context import request_id
from .errors import defect, problem_response

T = TypeVar("T")

Handler = Callable[[Pipeline, Exchange, Hold], Awaitable[None]]

METHOD = "POST"

log = logging.getLogger("opwire.access")


async def execute(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Runs one operator on the tensors in the body."""
    watch = Stopwatch()
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    watch.lap("receive")
    parsed = await _parse(parse_execute, body, length)
    watch.lap("parse")
    output_format = OutputFormat.BINARY if exchange.wants_binary else parsed.output_format
    outcome = await pipeline.execute(parsed, watch, output_format, hold, partial(_while_connected, exchange.receive))
    timing = ", ".join([f"{stage};dur={us / 1000}" for stage, us in outcome.timing.items()])
    await exchange.send_answer(write_outcome(outcome, exchange.request_id), ((b"server-timing", timing.encode()),))


async def batch(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Runs several operators; each has its own outcome, in the order of the requests."""
    watch = Stopwatch()
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    watch.lap("receive")
    parsed = await _parse(parse_batch, body, length)
    watch.lap("parse")
    outcomes = await _while_connected(exchange.receive, pipeline.batch(parsed, watch, hold, exchange.wants_binary))
    await exchange.send_answer(write_batch(outcomes, exchange.request_id))


async def validate(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Says whether a desc is valid at a feature level, what is wrong with it, and which level would take it."""
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    parsed = await _parse(parse_validate, body, length)
    await exchange.send_answer(Answer([to_json(pipeline.validate(parsed))]))


ROUTES: dict[str, Handler] = {"/v1/execute": execute, "/v1/batch": batch, "/v1/validate": validate}
"""The data routes by path; all take POST."""


async def answer(handler: Handler, pipeline: Pipeline, scope: Scope, receive: Receive, send: Send) -> None:
    """Handles a request to a data route, whatever becomes of it."""
    exchange = Exchange(scope, receive, send, request_id(scope))
    scope.setdefault("state", {})["request_id"] = exchange.request_id
    try:
        if scope["method"] != METHOD:
            detail = f"{scope['method']} given; {scope['path']} takes {METHOD}"
            raise MethodNotAllowedError(ProblemCode.METHOD_NOT_ALLOWED, detail, allow=[METHOD])
        with pipeline.memory.open() as hold:
            await handler(pipeline, exchange, hold)
    except OpwireError as error:
        log.info("%s %d %s %s", scope["path"], error.status, error.code, exchange.request_id)
        await problem_response(error, exchange.request_id)(scope, receive, send)
    except ClientDisconnect:
        log.info("%s client gone %s", scope["path"], exchange.request_id)
    except Exception:
        log.exception("%s failed %s", scope["path"], exchange.request_id)
        if not exchange.answered:
            await problem_response(defect(), exchange.request_id)(scope, receive, send)


async def _parse(parse: Callable[[bytearray | bytes, str | None], T], body: bytearray | bytes, length: str | None) -> T:
    if len(body) <= INLINE_BYTES:
        return parse(body, length)
    return await asyncio.to_thread(parse, body, length)


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
        await asyncio.wait((task, gone))


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
