"""The routes of the Open Inference Protocol, version 2.

They accommodate existing clients: no content type is required, empty bodies are accepted where clients send them, and
errors have the string member ``error`` that clients read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic_core import to_json

from opwire.errors import NotFoundError, OpwireError, ProblemCode, RequestError
from opwire.wire import Answer, Buffer

from ..engine.pipeline import Engine
from ..engine.service import Service
from ..http.app import WireProtocol
from ..http.data.compression import compress, decompress
from ..http.data.exchange import Exchange
from ..http.data.routes import Handler, Route
from ..http.documents.responses import Schema
from ..http.errors import INFERENCE
from ..settings import Settings
from ..telemetry.metrics import Metrics
from .dialect import Inference
from .graph_models import graph_model, graph_models
from .models import ServedModel, config, find_model, index, is_operator, metadata, models, server_metadata
from .parameters import PARAMETERS_HEADER
from .shared_memory import Regions, Registration
from .statistics import Statistics

_PARAMETERS = PARAMETERS_HEADER.lower().encode()

_NAME = "(?P<name>[^/]+)"
_REGION = "/region/(?P<region>[^/]+)"
_MODEL = rf"/models/{_NAME}(?:/versions/(?P<version>[^/]+))?"


@dataclass(frozen=True, slots=True)
class _PathPattern:
    """A route below ``/v2``: its method, path pattern, factory of handlers from the path's groups, and metric label."""

    method: str
    path: re.Pattern[str]
    handler: Callable[..., Handler]
    label: str


class OpenInference(WireProtocol):
    """The protocol on one server.

    Args:
        settings: settings of the server.
        metrics: metrics with cells for the statistics of models.

    Attributes:
        service: the service that runs the models, from startup on.
        statistics: statistics of the models.
    """

    headers = (PARAMETERS_HEADER,)

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.labels = LABELS
        self.statistics = Statistics(metrics)
        self._settings = settings
        self._opened = ExitStack()
        self._service: Service | None = None
        self._regions: Regions | None = None

    def open(self, service: Service) -> None:
        """See ``WireProtocol``."""
        self._service = service
        prefix = self._settings.shared_memory_prefix
        if prefix is not None:
            shared = service.folder or Path(self._opened.enter_context(TemporaryDirectory(prefix="opwire-")))
            own = shared / "regions"
            own.mkdir(exist_ok=True)
            self._regions = Regions(own, prefix)

    def describe(self) -> tuple[Mapping[str, Schema], Mapping[str, Schema]]:
        """See ``WireProtocol``."""
        from .openapi import PATHS, SCHEMAS  # only needed for the document

        return PATHS, SCHEMAS

    def close(self) -> None:
        """See ``WireProtocol``."""
        self._opened.close()

    def find(self, path: str) -> Route | None:
        """See ``WireProtocol``."""
        if not path.startswith(INFERENCE):
            return None
        below = path.removeprefix(INFERENCE)
        for route in _ROUTES:
            found = route.path.fullmatch(below)
            if found is not None:
                return Route(route.method, route.handler(self, **found.groupdict()), route.label)
        return None

    @property
    def service(self) -> Service:
        assert self._service is not None  # no request arrives before startup
        return self._service

    def model(self, name: str, version: str | None, client: str | None) -> ServedModel:
        """Returns the model of an operator, or of a graph that the client has registered.

        Raises:
            NotFoundError: there is no such model or version.
        """
        graph = None
        if not is_operator(name):
            with suppress(NotFoundError):
                graph = self.service.engine.graphs.find(name, client)
        return find_model(name, version) if graph is None else graph_model(graph, version)

    def graphs(self, client: str | None) -> Iterator[ServedModel]:
        """Returns the models of all graphs of a client."""
        return graph_models(self.service.engine.graphs.of(client))

    @property
    def shares_memory(self) -> bool:
        """Whether clients may register shared memory regions."""
        return self._regions is not None

    @property
    def regions(self) -> Regions:
        """The registered shared memory regions.

        Raises:
            RequestError: shared memory is not enabled.
        """
        if self._regions is None:
            detail = "shared memory is not enabled on this server; start it with --shared-memory-prefix"
            raise RequestError(ProblemCode.INVALID_REQUEST, detail)
        return self._regions


def _json(make: Callable[..., object]) -> Callable[..., Handler]:
    """Returns the handler factory of a route that responds with plain JSON."""

    def factory(protocol: OpenInference, **parts: str | None) -> Handler:
        async def handle(engine: Engine, exchange: Exchange) -> None:
            await exchange.send_answer(Answer([to_json(make(protocol, exchange.client, **parts))]))

        return handle

    return factory


Client = str | None
"""The owner of the API key of a request."""


def _ready(protocol: OpenInference, client: Client) -> dict[str, bool]:
    protocol.service.require_ready()
    return {"ready": True}


def _model_ready(protocol: OpenInference, client: Client, name: str, version: str | None) -> dict[str, object]:
    model = protocol.model(name, version, client)
    return {"name": model.name, **_ready(protocol, client)}


def _metadata(protocol: OpenInference, client: Client, name: str, version: str | None) -> object:
    return metadata(protocol.model(name, version, client))


def _config(protocol: OpenInference, client: Client, name: str, version: str | None) -> object:
    return config(protocol.model(name, version, client))


def _index(protocol: OpenInference, client: Client) -> object:
    return index(protocol.graphs(client))


def _statistics(protocol: OpenInference, client: Client, name: str, version: str | None) -> object:
    model = protocol.model(name, version, client)
    chosen = [model] if version is not None or model.graph else models((model.name,))
    return protocol.statistics.to_json(chosen)


def _all_statistics(protocol: OpenInference, client: Client) -> object:
    return protocol.statistics.to_json([*models(), *protocol.graphs(client)])


def _load(protocol: OpenInference, client: Client, name: str) -> dict[str, object]:
    protocol.model(name, None, client)
    return {}


def _unload(protocol: OpenInference, client: Client, name: str) -> dict[str, object]:
    if protocol.model(name, None, client).graph is None:
        detail = f"{name} is a built-in operator and cannot be unloaded"
    else:
        detail = f"{name} is a registered graph; remove it with DELETE /v1/graphs/{name}"
    raise RequestError(ProblemCode.INVALID_REQUEST, detail)


def _status(protocol: OpenInference, region: str | None = None) -> Handler:
    async def handle(engine: Engine, exchange: Exchange) -> None:
        found = protocol.regions.status(region, exchange.client)
        await exchange.send_answer(Answer([to_json([each.to_json() for each in found])]))

    return handle


def _register(protocol: OpenInference, region: str) -> Handler:
    async def handle(engine: Engine, exchange: Exchange) -> None:
        regions = protocol.regions
        body = await exchange.read_body(engine.limits)
        regions.register(Registration.parse(region, body), exchange.client)
        await exchange.send_answer(Answer([b"{}"]))

    return handle


def _unregister(protocol: OpenInference, region: str | None = None) -> Handler:
    async def handle(engine: Engine, exchange: Exchange) -> None:
        protocol.regions.unregister(region, exchange.client)
        await exchange.send_answer(Answer([b"{}"]))

    return handle


def _infer(protocol: OpenInference, name: str, version: str | None) -> Handler:
    async def handle(engine: Engine, exchange: Exchange) -> None:
        await infer(protocol, protocol.model(name, version, exchange.client), exchange)

    return handle


_SHOWN = {_MODEL: "/models/{name}", _NAME: "{name}", _REGION: "/region/{region}"}
"""Path patterns and their form in metric labels."""


def _label(path: str) -> str:
    for pattern, shown in _SHOWN.items():
        path = path.replace(pattern, shown)
    return INFERENCE + path


_ROUTES = tuple(
    _PathPattern(method, re.compile(path), handler, _label(path))
    for method, path, handler in (
        ("POST", f"{_MODEL}/infer", _infer),
        ("GET", "", _json(lambda protocol, client: server_metadata(shared_memory=protocol.shares_memory))),
        ("GET", "/health/live", _json(lambda protocol, client: {"live": True})),
        ("GET", "/health/ready", _json(_ready)),
        ("GET", "/models/stats", _json(_all_statistics)),
        ("GET", f"{_MODEL}/stats", _json(_statistics)),
        ("GET", f"{_MODEL}/ready", _json(_model_ready)),
        ("GET", f"{_MODEL}/config", _json(_config)),
        ("GET", _MODEL, _json(_metadata)),
        ("POST", "/repository/index", _json(_index)),
        ("POST", f"/repository/models/{_NAME}/load", _json(_load)),
        ("POST", f"/repository/models/{_NAME}/unload", _json(_unload)),
        ("GET", "/systemsharedmemory/status", _status),
        ("GET", f"/systemsharedmemory{_REGION}/status", _status),
        ("POST", "/systemsharedmemory/unregister", _unregister),
        ("POST", f"/systemsharedmemory{_REGION}/unregister", _unregister),
        ("POST", f"/systemsharedmemory{_REGION}/register", _register),
    )
)


LABELS = tuple(dict.fromkeys(route.label for route in _ROUTES))
"""Metric labels of the routes."""


async def infer(protocol: OpenInference, model: ServedModel, exchange: Exchange) -> None:
    """Handles an inference request for one model."""
    engine, request = protocol.service.engine, exchange.request
    request.operator = model.operator.name
    encoding = exchange.header(b"accept-encoding")
    try:
        body = await _read(exchange, engine)
        with ExitStack() as opened:
            dialect = Inference(
                model,
                exchange.header(_PARAMETERS),
                lambda place: opened.enter_context(protocol.regions.open(place, exchange.client)),
                engine.limits.body_bytes,
            )
            answer = await engine.answer(dialect, body, exchange.head_length_of_any_type(), request)
    except OpwireError:
        protocol.statistics.failed(model, request.elapsed)
        raise
    protocol.statistics.succeeded(model, request.timing)
    encoded, headers = await compress(answer, encoding)
    await exchange.send_answer(answer, headers, encoded)


async def _read(exchange: Exchange, engine: Engine) -> Buffer:
    body: Buffer = await exchange.read_body(engine.limits)
    encoding = exchange.header(b"content-encoding", "identity").strip().lower()
    if encoding != "identity":
        request = exchange.request
        deadline = engine.deadline(request.started, None)
        body = await decompress(body, encoding, engine.limits.body_bytes, request.hold, deadline)
        request.lap("receive")
    return body
