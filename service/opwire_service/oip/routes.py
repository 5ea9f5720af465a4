"""The routes of the Open Inference Protocol, version 2, for its clients as they are: no content type required, empty
bodies where they send them, and errors with the string ``error`` that they read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pydantic_core import to_json

from opwire.errors import ContractViolation, LimitExceededError, OpwireError, ProblemCode, RequestError
from opwire.wire import Answer, Buffer

from ..engine.memory import Hold
from ..engine.pipeline import INLINE_BYTES, Completed, Guard, Pipeline, Stopwatch
from ..engine.request_templates import is_small, repeat
from ..engine.service import Server
from ..http import data_routes as data
from ..http.compression import compress, compresses, decompress
from ..http.data_routes import Handler, parse_body, while_connected
from ..http.errors import INFERENCE
from ..http.exchange import Exchange, read_body
from ..http.known import Written
from .answer import numbers_in, pack, write_infer
from .infer import InferRequest, parse_infer, refuse_small_places, with_optional_outputs, with_shared_inputs
from .models import MODELS, Model, config, find_model, index, metadata, server_metadata
from .parameters import PARAMETERS_HEADER
from .pointers import relocate
from .shared_memory import Registration, Window

T = TypeVar("T")

_PARAMETERS = PARAMETERS_HEADER.lower().encode()

_NAME = "(?P<name>[^/]+)"
_REGION = "/region/(?P<region>[^/]+)"
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


def _regions(server: Server, region: str | None = None) -> Handler:
    async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
        found = server.regions().status(region, exchange.client)
        await exchange.send_answer(Answer([to_json([each.to_json() for each in found])]))

    return handle


def _register(server: Server, region: str) -> Handler:
    async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
        regions = server.regions()
        registration = Registration.parse(region, await read_body(exchange, pipeline.limits, hold))
        regions.register(registration, exchange.client)
        await exchange.send_answer(Answer([b"{}"]))

    return handle


def _unregister(server: Server, region: str | None = None) -> Handler:
    async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
        server.regions().unregister(region, exchange.client)
        await exchange.send_answer(Answer([b"{}"]))

    return handle


def _infer(server: Server, name: str, version: str | None) -> Handler:
    async def handle(pipeline: Pipeline, exchange: Exchange, hold: Hold) -> None:
        await infer(server, find_model(name, version), exchange, hold)

    return handle


_SHOWN = {_MODEL: "/models/{name}", _NAME: "{name}", _REGION: "/region/{region}"}
"""How metrics name the parts of paths that vary."""


def _label(path: str) -> str:
    for pattern, shown in _SHOWN.items():
        path = path.replace(pattern, shown)
    return INFERENCE + path


_ROUTES = tuple(
    Route(method, re.compile(path), handler, _label(path))
    for method, path, handler in (
        ("POST", f"{_MODEL}/infer", _infer),
        ("GET", "", _json(lambda server: server_metadata(shared_memory=server.shares_memory))),
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
        ("GET", "/systemsharedmemory/status", _regions),
        ("GET", f"/systemsharedmemory{_REGION}/status", _regions),
        ("POST", "/systemsharedmemory/unregister", _unregister),
        ("POST", f"/systemsharedmemory{_REGION}/unregister", _unregister),
        ("POST", f"/systemsharedmemory{_REGION}/register", _register),
    )
)


LABELS = tuple(dict.fromkeys(route.label for route in _ROUTES))
"""By which the routes are counted."""


async def infer(server: Server, model: Model, exchange: Exchange, hold: Hold) -> None:
    """Runs one operator on the tensors in the body."""
    exchange.operator = model.operator.name
    exchange.watch = watch = Stopwatch()
    pipeline = server.pipeline
    encoding = exchange.header(b"accept-encoding")
    try:
        body = await _read(exchange, pipeline, watch, hold)
        again = partial(_infer_again, server, model, _kind(model, exchange))
        if not compresses(encoding) and await exchange.answer_again(again, body):
            exchange.again = again
            return
        request, done = await _infer_anew(server, model, exchange, body, watch, hold)
    except OpwireError:
        server.oip_statistics.failed(model, watch.total()["total"])
        raise
    exchange.device = done.device
    answer = await _encode(request, model, done)
    _count(server, model, watch)
    await exchange.send_answer(*await compress(answer, encoding))


def _infer_again(
    server: Server, model: Model, kind: object, body: bytes, request_id: str, watch: Stopwatch
) -> Written | None:
    """See ``Again``."""
    found = server.inferences.find(kind, body)
    if found is None:
        return None
    request, known = found
    done = server.pipeline.run_again(known, body, watch)
    if done is None:
        return None
    answer = write_infer(request, model, done.prepared.plan.outputs, done.buffers)
    _count(server, model, watch)
    return Written(answer, (), model.operator.name, done.device)


def _count(server: Server, model: Model, watch: Stopwatch) -> None:
    """Counts an inference whose answer is written."""
    watch.lap("encode")
    timing = watch.total()
    server.oip_statistics.succeeded(model, timing)
    server.pipeline.metrics.executed(model.operator.name, timing)


async def _infer_anew(
    server: Server, model: Model, exchange: Exchange, body: Buffer, watch: Stopwatch, hold: Hold
) -> tuple[InferRequest, Completed]:
    pipeline = server.pipeline
    length = exchange.head_length_of_any_type()
    parse = partial(parse_infer, model=model, header=exchange.header(_PARAMETERS))
    request = await parse_body(parse, body, length, hold)
    exchange.deadline = pipeline.deadline(watch.started, request.execute.timeout_ms)
    watch.lap("parse")
    with ExitStack() as opened:
        places = _open(server, request, exchange.client, opened)
        if request.shared:
            request = await _receive(request, places, pipeline, watch, hold)
        done = await _run(pipeline, request, watch, hold, partial(while_connected, exchange.receive))
        await _send(request, places, done)
    if is_small(body) and done.prepared.repeated and not places:
        known = repeat(body, length, request.execute, done.prepared)
        if known is not None:
            kept = replace(request, execute=known.request)
            server.inferences.keep(_kind(model, exchange), body, known.tensors, (kept, known))
    return request, done


def _kind(model: Model, exchange: Exchange) -> object:
    """What the meaning of a body depends on besides its bytes."""
    return model, exchange.header(_PARAMETERS), exchange.head_length_of_any_type()


async def _read(exchange: Exchange, pipeline: Pipeline, watch: Stopwatch, hold: Hold) -> Buffer:
    body: Buffer = await read_body(exchange, pipeline.limits, hold)
    encoding = exchange.header(b"content-encoding", "identity").strip().lower()
    if encoding != "identity":
        body = await decompress(body, encoding, pipeline.limits.body_bytes, hold)
    watch.lap("receive")
    return body


def _open(server: Server, request: InferRequest, owner: str | None, opened: ExitStack) -> dict[str, Window]:
    """The places of a request in shared memory, by tensor, until ``opened`` is closed."""
    places = {output.name: output.place for output in request.outputs if output.place is not None}
    places.update(request.shared)
    return {name: opened.enter_context(server.regions().open(place, owner)) for name, place in places.items()}


async def _receive(
    request: InferRequest, places: Mapping[str, Window], pipeline: Pipeline, watch: Stopwatch, hold: Hold
) -> InferRequest:
    """The request with its inputs out of shared memory; they count as part of the body."""
    size, limit = sum(place.byte_size for place in request.shared.values()), pipeline.limits.body_bytes
    if size > limit:
        detail = f"{size} bytes of shared memory; this server takes at most {limit}"
        raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=limit, size=size)
    hold.take(size)
    read = {name: await _copy(places[name].read, place.byte_size) for name, place in request.shared.items()}
    received = watch.stages["receive"]
    watch.lap("receive")
    watch.stages["receive"] += received
    return replace(request, execute=with_shared_inputs(request.execute, read))


async def _send(request: InferRequest, places: Mapping[str, Window], done: Completed) -> None:
    """Puts those outputs into shared memory that the client wants there."""
    for output in request.outputs:
        if output.place is not None:
            data = pack(done.prepared.plan.outputs[output.name], done.buffers[output.name]).data
            await _copy(partial(places[output.name].write, data), data.nbytes)


async def _copy(copy: Callable[[], T], size: int) -> T:
    """Copies bytes, many of them in another thread."""
    return copy() if size <= INLINE_BYTES else await asyncio.to_thread(copy)


async def _run(pipeline: Pipeline, request: InferRequest, watch: Stopwatch, hold: Hold, guard: Guard) -> Completed:
    execute = request.execute
    try:
        if request.optional:
            execute = with_optional_outputs(request, pipeline.plans.plan(execute).plan)
        if any(output.place for output in request.outputs):
            refuse_small_places(request, pipeline.plans.plan(execute).plan)
        prepared = pipeline.prepare(execute, watch, hold, numbers=request.has_numbers)
        return await pipeline.run(execute, prepared, watch, hold, guard)
    except (ContractViolation, RequestError) as error:
        relocate(error, list(execute.inputs), request.parameters)
        raise


async def _encode(request: InferRequest, model: Model, done: Completed) -> Answer:
    """The answer; one with many numbers is written in another thread."""
    descs, buffers = done.prepared.plan.outputs, done.buffers
    if numbers_in(request, buffers) <= INLINE_BYTES:
        return write_infer(request, model, descs, buffers)
    return await asyncio.to_thread(write_infer, request, model, descs, buffers)
