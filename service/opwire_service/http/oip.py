"""The routes of the Open Inference Protocol, version 2, for its clients as they are: no content type required, empty
bodies where they send them, and errors with the string ``error`` that they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from pydantic_core import to_json

from opwire.errors import ContractViolation, OpwireError, ProblemCode, RequestError, UnavailableError
from opwire.wire import Answer, Buffer

from ..budget import Hold
from ..oip.infer import InferRequest, parse_infer, relocate, with_optional_outputs, write_infer
from ..oip.models import Model, config, find_model, index, metadata, server_metadata
from ..pipeline import Completed, Guard, Pipeline, Stopwatch
from ..server import Server
from .body import Exchange, read_body
from .compression import COMPRESS, decompress
from .data import Handler, parse_body, while_connected

PREFIX = "/v2"

_MODEL = r"/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"


@dataclass(frozen=True, slots=True)
class Route:
    """A path below ``/v2``, its method, and what makes the handler from the parts of the path."""

    method: str
    path: re.Pattern[str]
    handler: Callable[..., Handler]


def find(path: str, server: Server) -> tuple[str, Handler] | None:
    """The method and the handler of a path; None if the protocol has no such path."""
    below = path.removeprefix(PREFIX)
    for route in _ROUTES:
        found = route.path.fullmatch(below)
        if found is not None:
            return route.method, route.handler(server, **found.groupdict())
    return None


def _json(make: Callable[..., object]) -> Callable[..., Handler]:
    """The handler factory of a route that answers with JSON alone."""

    def factory(server: Server, **parts: str | None) -> Handler:
        async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
            await exchange.send_answer(Answer([to_json(make(server, **parts))]))

        return handle

    return factory


def _ready(server: Server) -> dict[str, bool]:
    if not server.ready:
        raise UnavailableError(ProblemCode.NOT_READY, "the server is starting or stopping")
    return {"ready": True}


def _model_ready(server: Server, name: str, version: str | None) -> dict[str, object]:
    model = find_model(name, version)
    return {"name": model.operator.name, **_ready(server)}


def _statistics(server: Server, name: str, version: str | None) -> dict[str, object]:
    find_model(name, version)
    return server.oip_statistics.to_json(name, version)


def _load(server: Server, name: str) -> dict[str, object]:
    find_model(name, None)
    return {}


def _unload(server: Server, name: str) -> dict[str, object]:
    find_model(name, None)
    raise RequestError(ProblemCode.INVALID_REQUEST, f"{name} is part of the server and cannot be unloaded")


def _infer(server: Server, name: str, version: str | None) -> Handler:
    async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
        await infer(server, find_model(name, version), exchange, hold)

    return handle


_ROUTES = tuple(
    Route(method, re.compile(path), handler)
    for method, path, handler in (
        ("POST", f"{_MODEL}/infer", _infer),
        ("GET", "", _json(lambda server: server_metadata())),
        ("GET", "/health/live", _json(lambda server: {"live": True})),
        ("GET", "/health/ready", _json(_ready)),
        ("GET", "/models/stats", _json(lambda server: server.oip_statistics.to_json())),
        ("GET", f"{_MODEL}/stats", _json(_statistics)),
        ("GET", f"{_MODEL}/ready", _json(_model_ready)),
        ("GET", f"{_MODEL}/config", _json(lambda server, name, version: config(find_model(name, version)))),
        ("GET", _MODEL, _json(lambda server, name, version: metadata(find_model(name, version)))),
        ("POST", "/repository/index", _json(lambda server: index())),
        ("POST", "/repository/models/(?P<name>[^/]+)/load", _json(_load)),
        ("POST", "/repository/models/(?P<name>[^/]+)/unload", _json(_unload)),
    )
)


async def infer(server: Server, model: Model, exchange: Exchange, hold: Hold) -> None:
    """Runs one operator on the tensors in the body."""
    watch = Stopwatch()
    pipeline = server.pipeline
    try:
        body: Buffer = await read_body(exchange, pipeline.limits, hold)
        watch.lap("receive")
        encoding = exchange.header(b"content-encoding", "identity")
        if encoding != "identity":
            body = decompress(body, encoding, pipeline.limits.body_bytes)
            hold.take(len(body))
        parse = partial(parse_infer, model=model)
        request = await parse_body(parse, body, exchange.head_length_of_any_type())
        watch.lap("parse")
        done = await _run(pipeline, request, watch, hold, partial(while_connected, exchange.receive))
    except OpwireError:
        server.oip_statistics.failed(model, watch.total()["total"])
        raise
    answer = write_infer(request, model, done.prepared.plan.outputs, done.buffers)
    watch.lap("encode")
    server.oip_statistics.succeeded(model, watch.total())
    await exchange.send_answer(*_compressed(answer, exchange.header(b"accept-encoding")))


async def _run(pipeline: Pipeline, request: InferRequest, watch: Stopwatch, hold: Hold, guard: Guard) -> Completed:
    try:
        execute = request.execute
        if request.optional:
            execute = with_optional_outputs(request, pipeline.plans.plan(execute).plan)
        return await pipeline.run(execute, watch, hold, guard)
    except (ContractViolation, RequestError) as error:
        relocate(error, request.places)
        raise


def _compressed(answer: Answer, accepted: str) -> tuple[Answer, Iterable[tuple[bytes, bytes]]]:
    """Compresses for clients that ask for exactly one encoding; the others only say what they could read."""
    compress = COMPRESS.get(accepted.strip().lower())
    if compress is None:
        return answer, ()
    data = compress(b"".join(answer.chunks))
    return replace(answer, chunks=[data]), ((b"content-encoding", accepted.strip().lower().encode()),)
