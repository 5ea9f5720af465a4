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
from opwire.wire import (
    Answer,
    Buffer,
    OutputFormat,
    parse_batch,
    parse_execute,
    parse_validate,
    write_batch,
    write_outcome,
)

from ..budget import Hold
from ..pipeline import INLINE_BYTES, Pipeline, Stopwatch
from .body import Exchange, read_body
from .context import request_id
from .errors import defect, problem_response

T = TypeVar("T")

Handler = Callable[[Pipeline, Exchange, Hold], Awaitable[None]]

log = logging.getLogger("opwire.access")


async def execute(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Runs one operator on the tensors in the body."""
    watch = Stopwatch()
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    watch.lap("receive")
    parsed = await parse_body(parse_execute, body, length)
    watch.lap("parse")
    output_format = OutputFormat.BINARY if exchange.wants_binary else parsed.output_format
    outcome = await pipeline.execute(parsed, watch, output_format, hold, partial(while_connected, exchange.receive))
    timing = ", ".join([f"{stage};dur={us / 1000}" for stage, us in outcome.timing.items()])
    await exchange.send_answer(write_outcome(outcome, exchange.request_id), ((b"server-timing", timing.encode()),))


async def batch(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Runs several operators; each has its own outcome, in the order of the requests."""
    watch = Stopwatch()
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    watch.lap("receive")
    parsed = await parse_body(parse_batch, body, length)
    watch.lap("parse")
    outcomes = await while_connected(exchange.receive, pipeline.batch(parsed, watch, hold, exchange.wants_binary))
    await exchange.send_answer(write_batch(outcomes, exchange.request_id))


async def validate(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Says whether a desc is valid at a feature level, what is wrong with it, and which level would take it."""
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    parsed = await parse_body(parse_validate, body, length)
    await exchange.send_answer(Answer([to_json(pipeline.validate(parsed))]))


ROUTES: dict[str, tuple[str, Handler]] = {
    "/v1/execute": ("POST", execute),
    "/v1/batch": ("POST", batch),
    "/v1/validate": ("POST", validate),
}
"""Method and handler of the native data routes, by path."""


async def answer(route: tuple[str, Handler], pipeline: Pipeline, scope: Scope, receive: Receive, send: Send) -> None:
    """Handles a request to a data route, whatever becomes of it."""
    method, handler = route
    exchange = Exchange(scope, receive, send, request_id(scope))
    scope.setdefault("state", {})["request_id"] = exchange.request_id
    try:
        if scope["method"] != method:
            detail = f"{scope['method']} given; {scope['path']} takes {method}"
            raise MethodNotAllowedError(ProblemCode.METHOD_NOT_ALLOWED, detail, allow=[method])
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


async def parse_body(parse: Callable[[Buffer, str | None], T], body: Buffer, length: str | None) -> T:
    """Parses a body, a large one in another thread."""
    if len(body) <= INLINE_BYTES:
        return parse(body, length)
    return await asyncio.to_thread(parse, body, length)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
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
