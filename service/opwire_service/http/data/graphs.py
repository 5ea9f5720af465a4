"""Routes for registering, listing, showing and removing graphs."""

from __future__ import annotations

import asyncio
import re
from functools import partial

from pydantic_core import to_json

from opwire.wire import Answer

from ...engine.pipeline import Engine
from ...engine.registration import register
from ...offline import onnx_models
from .exchange import Exchange, while_connected
from .routes import Handler, Route

ALL = "/v1/graphs"
ONE = "/v1/graphs/{name}"
LABELS = (ALL, ONE)
"""Metric labels of the routes."""

_ONE = re.compile(f"{ALL}/([^/]+)")


def find(path: str, method: str) -> Route | None:
    """Returns the route of a path, or None if the path is not one of graphs. An unsupported method gets that of GET."""
    if path == ALL:
        return Route("GET", _list, ALL)
    found = _ONE.fullmatch(path)
    if found is None:
        return None
    handlers: dict[str, Handler] = {each: partial(handle, found[1]) for each, handle in _HANDLERS.items()}
    chosen = method if method in handlers else "GET"
    return Route(chosen, handlers[chosen], ONE, tuple(handlers))


async def _list(engine: Engine, exchange: Exchange) -> None:
    """Lists all graphs of the client."""

    def listed() -> bytes:
        return to_json({"graphs": [graph.to_json() for graph in engine.graphs.of(exchange.client)]})

    await exchange.send_answer(Answer([await asyncio.to_thread(listed)]))


async def _show(name: str, engine: Engine, exchange: Exchange) -> None:
    """Shows one graph, with its constants if the client accepts a binary tail."""
    described, constants = await asyncio.to_thread(engine.graphs.find(name, exchange.client).whole)
    head = to_json(described, inf_nan_mode="constants")
    await exchange.send_answer(Answer([head], constants if exchange.wants_binary else ()))


async def _put(name: str, engine: Engine, exchange: Exchange) -> None:
    """Registers a graph, or an ONNX model as one."""
    length = None if exchange.has_onnx else exchange.head_length()
    body = await exchange.read_body(engine.limits)
    if exchange.has_onnx:
        exchange.request.deadline = engine.deadline(exchange.request.started, None)
        lowering = onnx_models.as_registration(body, exchange.query(), exchange.request)
        body, length = await while_connected(exchange.receive, lowering)
    graph, is_new = await register(engine, name, exchange.client, body, length, exchange.request)
    await exchange.send_answer(Answer([to_json(graph.to_json())]), status=201 if is_new else 200)


async def _remove(name: str, engine: Engine, exchange: Exchange) -> None:
    """Removes a graph."""
    engine.graphs.remove(name, exchange.client)
    await exchange.send_answer(Answer([b"{}"]))


_HANDLERS = {"GET": _show, "PUT": _put, "DELETE": _remove}
