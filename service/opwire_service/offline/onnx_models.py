"""ONNX models in requests: lowered to graphs, which then take the way of all graphs.

The package ``onnx`` is optional. External data is never read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from opwire.check import read_level
from opwire.errors import DeadlineExceededError, ProblemCode, RequestError, UnsupportedMediaError
from opwire.graph import validate_graph
from opwire.graph.form import MOST_NODES
from opwire.wire import Buffer, write_registration

from ..engine.request import Request

if TYPE_CHECKING:
    from opwire.onnx import Model

T = TypeVar("T")

Poll = Callable[[], None]
"""Called before work on each node of a model; raises if nobody waits for it any more."""

MEDIA_TYPE = "application/x-onnx"

_COPIES = 3
"""How often the weights of a model are in memory while it becomes a graph, beside the body."""

_DIMENSION, _LEVEL = "dim", "feature_level"


async def as_registration(body: Buffer, query: Mapping[str, list[str]], request: Request) -> tuple[Buffer, str]:
    """Returns a model as the body of a request to register its graph, and the length of that body's head.

    Args:
        body: the model.
        query: the parameters of the request: ``dim=NAME=SIZE`` for each dimension.
        request: the request.

    Raises:
        ModelError: it is not a valid model, exceeds a limit, or has nodes without DirectML operators.
        DeadlineExceededError: the deadline has passed.
        RequestError: a parameter is invalid.
        UnsupportedMediaError: this server cannot read models.
    """
    dimensions = _dimensions(query, allowed=(_DIMENSION,))
    await request.hold.grow(_COPIES * len(body), request.deadline)
    return await in_thread(partial(_registration, body, dimensions), request)


def _registration(body: Buffer, dimensions: Mapping[str, int], poll: Poll) -> tuple[Buffer, str]:
    graph = _load(body, dimensions, poll).graph
    headers, chunks = write_registration(graph.to_json(), graph.constants, {})
    return b"".join(chunks), headers["Inference-Header-Content-Length"]


async def validate(body: Buffer, query: Mapping[str, list[str]], request: Request) -> dict[str, Any]:
    """Returns what a model needs, in the form of a validated graph with the report of ``opwire level`` beside it.

    The parameters are those of ``as_registration``, and ``feature_level``; errors likewise.
    """
    dimensions = _dimensions(query, allowed=(_DIMENSION, _LEVEL))
    await request.hold.grow(_COPIES * len(body), request.deadline)
    return await in_thread(partial(_validated, body, dimensions, query.get(_LEVEL, [None])[-1]), request)


def _validated(body: Buffer, dimensions: Mapping[str, int], level: str | None, poll: Poll) -> dict[str, Any]:
    model = _load(body, dimensions, poll)
    report = model.report(None if level is None else read_level(level, "/feature_level"))
    violations = [each.to_json() for node in report.failing for each in report.violations(node)]
    found: dict[str, Any] = {
        "valid": not violations,
        "violations": violations,
        "warnings": [],
        "minimum_feature_level": str(model.level),
        "outputs": {},
        "model": report.to_json(),
        "graph": None,
    }
    if model.is_graph:
        graph = model.graph.to_json()
        whole = validate_graph(graph).to_json()
        found |= {"graph": graph, "outputs": whole["outputs"], "nodes": whole["nodes"]}
    return found


async def in_thread(work: Callable[[Poll], T], request: Request) -> T:
    """Runs work on a model in a thread. It ends at the next node once its result is no longer wanted.

    Raises:
        DeadlineExceededError: the deadline has passed.
    """
    is_wanted = True

    def poll() -> None:
        if not is_wanted or time.monotonic() > request.deadline:
            detail = "the deadline passed while the model was read"
            raise DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, detail, stage="parse")

    try:
        return await asyncio.to_thread(work, poll)
    finally:
        is_wanted = False


def _load(body: Buffer, dimensions: Mapping[str, int], poll: Poll) -> Model:
    if find_spec("onnx") is None:
        detail = "this server reads no ONNX models: it was installed without opwire[onnx]"
        raise UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)
    from opwire.onnx import load

    return load(bytes(body), dimensions=dimensions, most_nodes=MOST_NODES, poll=poll)


def _dimensions(query: Mapping[str, list[str]], allowed: tuple[str, ...]) -> dict[str, int]:
    unknown = query.keys() - {*allowed}
    if unknown:
        detail = f"parameter {min(unknown)[:60]!r} given; allowed: {', '.join(allowed)}"
        raise RequestError(ProblemCode.INVALID_REQUEST, detail)
    found: dict[str, int] = {}
    for given in query.get(_DIMENSION, ()):
        name, _, size = given.rpartition("=")
        if not name or not (size.isascii() and size.isdecimal() and 0 < len(size) < 11) or not int(size):
            detail = f"dim={given[:60]!r} given; expected NAME=SIZE, such as batch=1"
            raise RequestError(ProblemCode.INVALID_REQUEST, detail)
        found[name] = int(size)
    return found
