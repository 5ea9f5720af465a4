"""The routes of the Open Inference Protocol, version 2, for its clients as they are: no content type required, empty
bodies where they send them, and errors with the string ``error`` that they read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic_core import to_json

from opwire.errors import ContractViolation, OpwireError, ProblemCode, RequestError
from opwire.wire import Answer, Buffer

from ..budget import Hold
from ..oip.answer import numbers_in, write_infer
from ..oip.infer import InferRequest, parse_infer, with_optional_outputs
from ..oip.models import MODELS, Model, config, find_model, index, metadata, server_metadata
from ..oip.parameters import PARAMETERS_HEADER
from ..oip.places import relocate
from ..pipeline import INLINE_BYTES, Completed, Guard, Pipeline, Stopwatch
from ..server import Server
from . import data
from .body import Exchange, read_body
from .compression import compress, decompress
from .data import Handler, parse_body, while_connected
from .errors import INFERENCE

_PARAMETERS = PARAMETERS_HEADER.lower().encode()

_NAME = "(?P<name>[^/]+)"
_MODEL = rf"/models/{_NAME}(?:/versions/(?P<version>[^/]+))?"


@dataclass(frozen=True, slots=True)
class Route:
    """A path below ``/v2``, its method, what makes the handler from the parts of the path, and how it is counted."""

    method: str
    path: re.Pattern[str]
    handler: Callable[..., Handler]
    label: str


def find(path: str, server: Server) -> data.Route | None:
    """The route of a path; None if the protocol has no such path."""
    below = path.removeprefix(INFERENCE)
    for route in _ROUTES:
        found = route.path.fullmatch(below)
        if found is not None:
            return data.Route(route.method, route.handler(server, **found.groupdict()), route.label)
    return None


def _json(make: Callable[..., object]) -> Callable[..., Handler]:
    """The handler factory of a route that answers with JSON alone."""

    def factory(server: Server, **parts: str | None) -> Handler:
        async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
            await exchange.send_answer(Answer([to_json(make(server, **parts))]))

        return handle

    return factory


def _ready(server: Server) -> dict[str, bool]:
    server.require_ready()
    return {"ready": True}


def _model_ready(server: Server, name: str, version: str | None) -> dict[str, object]:
    model = find_model(name, version)
    return {"name": model.operator.name, **_ready(server)}


def _statistics(server: Server, name: str, version: str | None) -> object:
    model = find_model(name, version)
    models = MODELS[model.operator.name].values() if version is None else [model]
    return server.oip_statistics.to_json(models)


def _all_statistics(server: Server) -> object:
    return server.oip_statistics.to_json(model for versions in MODELS.values() for model in versions.values())


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
    Route(
        method, re.compile(path), handler, INFERENCE + path.replace(_MODEL, "/models/{name}").replace(_NAME, "{name}")
    )
    for method, path, handler in (
        ("POST", f"{_MODEL}/infer", _infer),
        ("GET", "", _json(lambda server: server_metadata())),
        ("GET", "/health/live", _json(lambda server: {"live": True})),
        ("GET", "/health/ready", _json(_ready)),
        ("GET", "/models/stats", _json(_all_statistics)),
        ("GET", f"{_MODEL}/stats", _json(_statistics)),
        ("GET", f"{_MODEL}/ready", _json(_model_ready)),
        ("GET", f"{_MODEL}/config", _json(lambda server, name, version: config(find_model(name, version)))),
        ("GET", _MODEL, _json(lambda server, name, version: metadata(find_model(name, version)))),
        ("POST", "/repository/index", _json(lambda server: index())),
        ("POST", f"/repository/models/{_NAME}/load", _json(_load)),
        ("POST", f"/repository/models/{_NAME}/unload", _json(_unload)),
    )
)


LABELS = tuple(dict.fromkeys(route.label for route in _ROUTES))
"""By which the routes are counted."""


async def infer(server: Server, model: Model, exchange: Exchange, hold: Hold) -> None:
    """Runs one operator on the tensors in the body."""
    exchange.operator = model.operator.name
    watch = Stopwatch()
    pipeline = server.pipeline
    try:
        body = await _read(exchange, pipeline, watch, hold)
        parse = partial(parse_infer, model=model, header=exchange.header(_PARAMETERS))
        request = await parse_body(parse, body, exchange.head_length_of_any_type(), hold)
        exchange.deadline = pipeline.deadline(watch.started, request.execute.timeout_ms)
        watch.lap("parse")
        done = await _run(pipeline, request, watch, hold, partial(while_connected, exchange.receive))
    except OpwireError:
        server.oip_statistics.failed(model, watch.total()["total"])
        raise
    answer = await _encode(request, model, done)
    watch.lap("encode")
    timing = watch.total()
    server.oip_statistics.succeeded(model, timing)
    pipeline.metrics.executed(model.operator.name, timing)
    await exchange.send_answer(*await compress(answer, exchange.header(b"accept-encoding")))


async def _read(exchange: Exchange, pipeline: Pipeline, watch: Stopwatch, hold: Hold) -> Buffer:
    body: Buffer = await read_body(exchange, pipeline.limits, hold)
    encoding = exchange.header(b"content-encoding", "identity").strip().lower()
    if encoding != "identity":
        body = await decompress(body, encoding, pipeline.limits.body_bytes, hold)
    watch.lap("receive")
    return body


async def _run(pipeline: Pipeline, request: InferRequest, watch: Stopwatch, hold: Hold, guard: Guard) -> Completed:
    execute = request.execute
    try:
        if request.optional:
            execute = with_optional_outputs(request, pipeline.plans.plan(execute).plan)
        numbers = not all(output.binary for output in request.outputs)
        return await pipeline.run(execute, watch, hold, guard, numbers=numbers)
    except (ContractViolation, RequestError) as error:
        relocate(error, list(execute.inputs), request.parameters)
        raise


async def _encode(request: InferRequest, model: Model, done: Completed) -> Answer:
    """The answer; one with many numbers is written in another thread."""
    descs, buffers = done.prepared.plan.outputs, done.buffers
    if numbers_in(request, buffers) <= INLINE_BYTES:
        return write_infer(request, model, descs, buffers)
    return await asyncio.to_thread(write_infer, request, model, descs, buffers)
