"""The data routes, as plain ASGI in front of the framework: raw bodies in, raw bytes out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from opwire.errors import MethodNotAllowedError, OpwireError, OverloadedError, ProblemCode, UnavailableError
from opwire.wire import (
    Answer,
    Buffer,
    ExecuteRequest,
    Outcome,
    OutputFormat,
    parse_batch,
    parse_execute,
    parse_validate,
    write_batch,
    write_outcome,
)

from ..engine.intake import LARGE
from ..engine.memory import Hold
from ..engine.pipeline import INLINE_BYTES, Pipeline, Stopwatch
from ..engine.plan_cache import Prepared
from ..engine.request_templates import is_small, repeat
from ..telemetry import access_log as access
from ..telemetry.metrics import BATCH_RESULTS, CLIENT_GONE, OK, STAGES, Metrics
from .errors import defect, problem_response
from .exchange import Exchange, json_bytes, objects_bytes, read_body
from .known import REMEMBER, Fields, Written

T = TypeVar("T")

Handler = Callable[[Pipeline, Exchange, Hold], Awaitable[None]]

Record = Callable[[Scope, Exchange, access.Ended], None]
"""Keeps how a request went, when it has ended."""

log = logging.getLogger("opwire.access")


class Route(NamedTuple):
    """A data route: its method, its handler, and its path with the names of what varies, by which it is counted."""

    method: str
    handler: Handler
    path: str


async def execute(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Runs one operator on the tensors in the body."""
    exchange.watch = watch = Stopwatch()
    length = exchange.head_length()
    given = (pipeline, length, exchange.wants_binary)
    body = await read_body(exchange, pipeline.limits, hold)
    watch.lap("receive")
    at_once = partial(_execute_at_once, *given)
    if await exchange.answer_again(partial(_execute_again, *given), body):
        exchange.again = at_once
        return
    outcome, short = await _execute(pipeline, exchange, body, length, watch, hold)
    if short:
        exchange.again = at_once
    exchange.device = outcome.device
    await exchange.send_answer(write_outcome(outcome, exchange.request_id), _timing(outcome))


def _execute_again(
    pipeline: Pipeline, length: str | None, binary: bool, body: bytes, request_id: str, watch: Stopwatch
) -> Written | None:
    """See ``Again``: answers what is known but for its tensors."""
    known = pipeline.repeats.find(length, body)
    if known is None:
        return None
    output_format = OutputFormat.BINARY if binary else known.request.output_format
    outcome = pipeline.execute_again(known, body, watch, output_format)
    return None if outcome is None else _written(outcome, known.request.operator, request_id)


def _execute_at_once(
    pipeline: Pipeline, length: str | None, binary: bool, body: bytes, request_id: str, watch: Stopwatch
) -> Written | None:
    """See ``Again``: answers what is short, too."""
    written = _execute_again(pipeline, length, binary, body, request_id, watch)
    if written is not None:
        return written
    with pipeline.memory.open() as hold:
        hold.take(len(body) + objects_bytes(body, length))
        parsed = parse_execute(body, length)
        watch.lap("parse")
        output_format = OutputFormat.BINARY if binary else parsed.output_format
        prepared = pipeline.prepare(parsed, watch, hold, numbers=output_format is OutputFormat.NUMBERS)
        done = pipeline.run_now(parsed, prepared, watch, hold)
        if done is None:
            return None
        outcome = pipeline.encode_now(done, watch, output_format)
    _keep(pipeline, length, body, parsed, prepared)
    return _written(outcome, parsed.operator, request_id)


def _written(outcome: Outcome, operator: object, request_id: str) -> Written:
    return Written(write_outcome(outcome, request_id), _timing(outcome), operator, outcome.device)


def _keep(pipeline: Pipeline, length: str | None, body: bytes, parsed: ExecuteRequest, prepared: Prepared) -> None:
    """Keeps a request whose plan has come before, so that nothing but its tensors is read next time."""
    known = repeat(body, length, parsed, prepared) if prepared.repeated else None
    if known is not None:
        pipeline.repeats.keep(length, body, known.tensors, known)


def _timing(outcome: Outcome) -> Fields:
    return ((b"server-timing", server_timing(outcome.timing)),)


async def _execute(
    pipeline: Pipeline, exchange: Exchange, body: Buffer, length: str | None, watch: Stopwatch, hold: Hold
) -> tuple[Outcome, bool]:
    """The outcome of a request, and whether others like it can be answered at once."""
    parsed = await parse_body(parse_execute, body, length, hold)
    exchange.operator = parsed.operator
    exchange.deadline = pipeline.deadline(watch.started, parsed.timeout_ms)
    watch.lap("parse")
    output_format = OutputFormat.BINARY if exchange.wants_binary else parsed.output_format
    guard = partial(while_connected, exchange.receive)
    prepared = pipeline.prepare(parsed, watch, hold, numbers=output_format is OutputFormat.NUMBERS)
    done = await pipeline.run(parsed, prepared, watch, hold, guard)
    outcome = await pipeline.encode(done, watch, output_format)
    if not is_small(body):
        return outcome, False
    _keep(pipeline, length, body, parsed, prepared)
    return outcome, pipeline.is_short(parsed, prepared)


def server_timing(timing: Mapping[str, int]) -> bytes:
    """The header's value, in milliseconds, from microseconds by stage."""
    return b", ".join(
        [
            _DURATION[stage] + (_MILLISECONDS[us] if us < len(_MILLISECONDS) else b"%d.%03d" % divmod(us, 1000))
            for stage, us in timing.items()
        ]
    )


_DURATION = {stage: b"%b;dur=" % stage.encode() for stage in STAGES}
_MILLISECONDS = tuple(b"0.%03d" % us for us in range(1000))


async def batch(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Runs several operators; each has its own outcome, in the order of the requests."""
    exchange.watch = watch = Stopwatch()
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    watch.lap("receive")
    parsed = await parse_body(parse_batch, body, length, hold)
    watch.lap("parse")
    outcomes = await while_connected(exchange.receive, pipeline.batch(parsed, watch, hold, exchange.wants_binary))
    _count_results(pipeline.metrics, outcomes)
    await exchange.send_answer(write_batch(outcomes, exchange.request_id))


async def validate(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
    """Says whether a desc is valid at a feature level, what is wrong with it, and which level would take it."""
    length = exchange.head_length()
    body = await read_body(exchange, pipeline.limits, hold)
    parsed = await parse_body(parse_validate, body, length, hold)
    exchange.operator = parsed.operator
    await exchange.send_answer(Answer([to_json(pipeline.validate(parsed))]))


ROUTES: dict[str, Route] = {
    path: Route("POST", handler, path)
    for path, handler in (("/v1/execute", execute), ("/v1/batch", batch), ("/v1/validate", validate))
}
"""The native data routes, by path."""


async def answer(
    route: Route, pipeline: Pipeline, scope: Scope, receive: Receive, send: Send, record: Record | None = None
) -> None:
    """Handles a request to a data route, whatever becomes of it.

    It is counted and logged when it has ended, and recorded where that is asked for.
    """
    started = time.perf_counter_ns()
    exchange = Exchange(scope, receive, send)
    status, code = 200, OK
    try:
        # Of an answer to HEAD the server of the network leaves the body out.
        if scope["method"] != route.method and (scope["method"], route.method) != ("HEAD", "GET"):
            detail = f"{scope['method']} given; {scope['path']} takes {route.method}"
            raise MethodNotAllowedError(ProblemCode.METHOD_NOT_ALLOWED, detail, allow=[route.method])
        with pipeline.memory.open() as hold:
            await route.handler(pipeline, exchange, hold)
        if exchange.again is not None and REMEMBER in scope:
            scope[REMEMBER](exchange.again, route.path)
    except OpwireError as error:
        status, code = await _refuse(exchange, error, scope, receive, send)
    except ClientDisconnect:
        code = CLIENT_GONE
    except asyncio.CancelledError:  # the server ends, and the time for accepted work is over
        cut_off = UnavailableError(ProblemCode.DRAINING, "the server stopped before the work was done")
        status, code = await _refuse(exchange, cut_off, scope, receive, send)
    except Exception:
        log.exception("'%s' failed %s", access.escaped(scope["path"]), exchange.request_id)
        status, code = await _refuse(exchange, defect(), scope, receive, send)
    microseconds = (time.perf_counter_ns() - started) // 1000
    pipeline.metrics.ended(route.path, code, microseconds)
    if code != OK or record is not None or log.isEnabledFor(logging.DEBUG):
        ended = access.Ended(route.path, status, code, microseconds, exchange.operator)
        access.write(scope, exchange.request_id, ended)
        if record is not None:
            record(scope, exchange, ended)


async def _refuse(
    exchange: Exchange, error: OpwireError, scope: Scope, receive: Receive, send: Send
) -> tuple[int, str]:
    """Answers with a problem, unless an answer has begun. Returns status and code."""
    response = problem_response(error, exchange.request_id, scope["path"])
    if exchange.unread > LARGE and isinstance(error, OverloadedError):
        # To read a body and drop it takes almost as much as to use it. Closing ends that.
        response.headers["connection"] = "close"
    if not exchange.answered:
        await response(scope, receive, send)
    return response.status_code, str(error.code)


def _count_results(metrics: Metrics, outcomes: Sequence[Outcome | OpwireError]) -> None:
    for outcome in outcomes:
        metrics.add(BATCH_RESULTS, str(outcome.code) if isinstance(outcome, OpwireError) else OK)


async def parse_body(parse: Callable[[Buffer, str | None], T], body: Buffer, length: str | None, hold: Hold) -> T:
    """Parses a body, in another thread if its JSON is large.

    Raises:
        OverloadedError: what its JSON becomes takes more memory than others leave.
    """
    if json_bytes(body, length) <= INLINE_BYTES:
        hold.take(objects_bytes(body, length))
        return parse(body, length)
    hold.take(await asyncio.to_thread(objects_bytes, body, length))
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
