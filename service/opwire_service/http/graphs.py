"""The routes of registered graphs: put under a name, listed, shown, removed."""

from __future__ import annotations

import asyncio
import re
from functools import partial

from pydantic_core import to_json

from opwire.wire import Answer

from ..engine.memory import Hold
from ..engine.pipeline import Engine
from ..engine.registration import register
from .data_routes import Handler, Route
from .exchange import Exchange

ALL = "/v1/graphs"
ONE = "/v1/graphs/{name}"
LABELS = (ALL, ONE)
"""The labels by which the routes are counted."""

_ONE = re.compile(f"{ALL}/([^/]+)")


def find(path: str, method: str) -> Route | None:
    """The route of a path, for this method if the path takes it; None if it is none of these."""
    if path == ALL:
        return Route("GET", _list, ALL)
    found = _ONE.fullmatch(path)
    if found is None:
        return None
    handlers: dict[str, Handler] = {each: partial(handle, found[1]) for each, handle in _HANDLERS.items()}
    chosen = method if method in handlers else "GET"
    return Route(chosen, handlers[chosen], ONE, tuple(handlers))


async def _list(engine: Engine, exchange: Exchange, hold: Hold) -> None:
    """All graphs of the client."""

    def listed() -> bytes:
        return to_json({"graphs": [graph.to_json() for graph in engine.graphs.of(exchange.client)]})

    await exchange.send_answer(Answer([await asyncio.to_thread(listed)]))


async def _show(name: str, engine: Engine, exchange: Exchange, hold: Hold) -> None:
    """One graph; with its constants for those who take a tail."""
    described, constants = await asyncio.to_thread(engine.graphs.find(name, exchange.client).whole)
    head = to_json(described, inf_nan_mode="constants")
    await exchange.send_answer(Answer([head], constants if exchange.wants_binary else ()))


async def _put(name: str, engine: Engine, exchange: Exchange, hold: Hold) -> None:
    """Registers a graph."""
    length = exchange.head_length()
    body = await exchange.read_body(engine.limits, hold)
    graph, is_new = await register(engine, name, exchange.client, body, length, exchange.progress, hold)
    await exchange.send_answer(Answer([to_json(graph.to_json())]), status=201 if is_new else 200)


async def _remove(name: str, engine: Engine, exchange: Exchange, hold: Hold) -> None:
    """Forgets a graph."""
    engine.graphs.remove(name, exchange.client)
    await exchange.send_answer(Answer([b"{}"]))


_HANDLERS = {"GET": _show, "PUT": _put, "DELETE": _remove}
