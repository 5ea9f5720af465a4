"""The data routes of the native protocol. They bypass the framework, which would copy and validate the bodies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import NamedTuple, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from opwire.errors import MethodNotAllowedError, OpwireError, ProblemCode, RequestError, UnavailableError
from opwire.wire import (
    BATCH_BEGINS,
    Answer,
    Buffer,
    ExecuteRequest,
    ModelGiven,
    batch_ends,
    parse_batch,
    write_batch,
    write_error,
)

from ...engine.batches import limit_concurrency
from ...engine.limits import Allowance
from ...engine.pipeline import Engine
from ...engine.registered_graph import RegisteredGraph
from ...offline import onnx_models
from ...telemetry import access_log
from ...telemetry.declarations import BATCH_RESULTS, CLIENT_GONE, OK
from ...telemetry.requests import Ended
from ..context import ended_request
from ..errors import defect, problem_response
from . import models
from .exchange import Exchange, while_connected
from .native import Native

T = TypeVar("T")

Handler = Callable[[Engine, Exchange], Awaitable[None]]

Record = Callable[[Ended], None]
"""Records the outcome of a request."""

log = logging.getLogger("opwire.access")


class Route(NamedTuple):
    """A data route.

    Attributes:
        method: HTTP method of the handler.
        handler: handles the requests.
        path: path template, which labels the metrics.
        allowed: all methods of the path, if there are several.
    """

    method: str
    handler: Handler
    path: str
    allowed: tuple[str, ...] = ()


async def execute(engine: Engine, exchange: Exchange) -> None:
    """Runs one operator on the tensors in the body, or a model."""
    length = exchange.head_length()
    body = await exchange.read_body(engine.limits)
    dialect = Native(exchange.request_id, binary=exchange.wants_binary, find=partial(_graph, engine, exchange))
    try:
        answer = await engine.answer(dialect, body, length, exchange.request)
    except ModelGiven:  # its traceback, which holds the body, must be gone before the model runs
        answer = None
    if answer is None:
        model = await models.read(engine, exchange, body, runs=True)
        answer = await models.execute(engine, exchange, model)
    await exchange.send_answer(answer, ((b"server-timing", server_timing(exchange.request.timing)),))


async def batch(engine: Engine, exchange: Exchange) -> None:
    """Runs several operators, as many at once as the devices take. Each has its own result, in the order given."""
    length, limits = exchange.head_length(), engine.limits
    body = await exchange.read_body(limits)
    parse = partial(parse_batch, most=limits.batch_requests)
    requests = await engine.read(parse, body, length, exchange.request)
    dialect = Native(exchange.request_id, binary=exchange.wants_binary, find=partial(_graph, engine, exchange))
    guard, room = limit_concurrency(engine.dispatcher.places), Allowance(limits.output_bytes)

    async def answer_one(request: ExecuteRequest | RequestError) -> Answer:
        found: Answer | OpwireError
        if isinstance(request, RequestError):
            found = request
        else:
            found = await engine.answer_part(dialect, request, exchange.request.part(guard, room))
        engine.metrics.add(BATCH_RESULTS, str(found.code) if isinstance(found, OpwireError) else OK)
        return write_error(found, exchange.request_id) if isinstance(found, OpwireError) else found

    results = [asyncio.create_task(answer_one(request)) for request in requests]
    try:
        await while_connected(exchange.receive, _send_results(exchange, list(results)))
    finally:
        for result in results:
            result.cancel()
        await asyncio.gather(*results, return_exceptions=True)


def _graph(engine: Engine, exchange: Exchange, name: str) -> RegisteredGraph:
    """Returns the client's registered graph of a name."""
    return engine.graphs.find(name, exchange.client)


async def _send_results(exchange: Exchange, results: list[asyncio.Task[Answer]]) -> None:
    """Sends the results of a batch in order as they complete; with a binary tail, once all are complete."""
    if exchange.wants_binary:
        await exchange.send_answer(write_batch([await result for result in results], exchange.request_id))
        return

    async def pieces() -> AsyncIterator[Sequence[Buffer]]:
        separator = BATCH_BEGINS
        results.reverse()
        while results:
            yield (separator, *(await results.pop()).head)
            separator = b","
        yield (b"" if separator == b"," else separator, batch_ends(exchange.request_id))

    await exchange.send_stream(pieces())


async def validate(engine: Engine, exchange: Exchange) -> None:
    """Validates a desc or a model at a feature level, and finds the lowest level at which it is valid."""
    length = None if exchange.has_onnx else exchange.head_length()
    body = await exchange.read_body(engine.limits)
    found: dict[str, object] | None = None
    if exchange.has_onnx:
        exchange.request.deadline = engine.deadline(exchange.request.started, None)
        validating = onnx_models.validate(body, exchange.query(), exchange.request)
        found = await while_connected(exchange.receive, validating)
    else:
        with suppress(ModelGiven):
            found = await engine.validate(body, length, exchange.request, exchange.client)
    if found is None:
        found = await models.validate(engine, await models.read(engine, exchange, body, runs=False))
    await exchange.send_answer(Answer([to_json(found)]))


ROUTES: dict[str, Route] = {
    path: Route("POST", handler, path)
    for path, handler in (("/v1/execute", execute), ("/v1/batch", batch), ("/v1/validate", validate))
}
"""The native data routes by path."""


def server_timing(timing: Mapping[str, int]) -> bytes:
    """Returns the value of ``Server-Timing``, in milliseconds, from microseconds by stage."""
    return _timed(tuple(timing)) % tuple([us / 1000 for us in timing.values()])


@cache
def _timed(stages: tuple[str, ...]) -> bytes:
    return b", ".join(b"%b;dur=%%.3f" % stage.encode() for stage in stages)


async def answer(
    route: Route, engine: Engine, scope: Scope, receive: Receive, send: Send, record: Record | None = None
) -> None:
    """Handles a request to a data route, including its errors, then counts, logs and optionally records its outcome."""
    started = time.perf_counter_ns()
    exchange = Exchange(scope, receive, send, engine.memory.open())
    status, code = 200, OK
    try:
        # The HTTP server omits the body of a response to HEAD.
        if scope["method"] != route.method and (scope["method"], route.method) != ("HEAD", "GET"):
            allowed = route.allowed or (route.method,)
            detail = f"{scope['method'][:60]} given; {route.path} allows {', '.join(allowed)}"
            raise MethodNotAllowedError(ProblemCode.METHOD_NOT_ALLOWED, detail, allow=list(allowed))
        with exchange.request.hold:
            await route.handler(engine, exchange)
            status = exchange.status
    except OpwireError as error:
        status, code = await _refuse(exchange, error)
    except ClientDisconnect:
        code = CLIENT_GONE
    except asyncio.CancelledError:  # the server is shutting down and the grace period is over
        cut_off = UnavailableError(ProblemCode.DRAINING, "the server stopped before the request was completed")
        status, code = await _refuse(exchange, cut_off)
    except Exception:
        log.exception("unhandled exception in %s, request %s", route.path, exchange.request_id)
        status, code = await _refuse(exchange, defect())
    microseconds = (time.perf_counter_ns() - started) // 1000
    engine.metrics.ended(route.path, code, microseconds)
    has_line = access_log.wants(code)
    if has_line or record is not None:
        ended = ended_request(scope, exchange.request_id, route.path, status, code, microseconds, exchange.request)
        if has_line:
            access_log.write(ended)
        if record is not None:
            record(ended)


async def _refuse(exchange: Exchange, error: OpwireError) -> tuple[int, str]:
    """Responds with a problem, unless a response has started. Returns status and code."""
    response = problem_response(error, exchange.request_id, exchange.scope["path"])
    await exchange.send_problem(response)
    return response.status_code, str(error.code)
