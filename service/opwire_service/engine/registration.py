"""Registration of graphs: a graph is checked like one to run, its constants are decoded, and all workers see it."""

from __future__ import annotations

import asyncio

from opwire.errors import ProblemCode
from opwire.graph import CONSTANT
from opwire.wire import Buffer, parse_registration, read_constants

from .graph_registry import refuse_name
from .limits import exceeded
from .pipeline import Engine
from .registered_graph import RegisteredGraph, StoredGraph
from .request import Request

MAX_TENSORS = 512
"""Maximum number of inputs and outputs of a registered graph; every listing of graphs describes them."""


async def register(
    engine: Engine, name: str, owner: str | None, body: Buffer, head_length: str | None, request: Request
) -> tuple[RegisteredGraph, bool]:
    """Registers the graph in a request body.

    Args:
        engine: checks and decodes the graph.
        name: name to register it under.
        owner: owner of the request's API key.
        body: body as received.
        head_length: length of its JSON head if a binary tail follows.
        request: the request.

    Returns:
        The graph, and whether the owner had no graph of that name before.

    Raises:
        ContractViolation: the graph is not valid at its level, or a constant does not match its desc.
        LimitExceededError: the graph is too large, or there is no room for it.
        RequestError: the request or the name is invalid.
    """
    refuse_name(name)
    execute = await engine.read(parse_registration, body, head_length, request)
    prepared = await engine.plan(execute)
    plan = prepared.plan
    tensors = len(plan.outputs) + sum(not each.startswith(CONSTANT) for each in plan.inputs)
    if tensors > MAX_TENSORS:
        what = "inputs and outputs of the graph"
        raise exceeded(ProblemCode.BODY_TOO_LARGE, what, tensors, MAX_TENSORS)
    request.lap("check")
    size = sum(desc.data_size_in_bytes for each, desc in plan.inputs.items() if each.startswith(CONSTANT))
    await request.hold.grow(size, request.deadline)
    constants = await engine.coders.code(size, read_constants, plan, execute)
    request.lap("decode")
    written = StoredGraph(execute.operator, plan, constants)
    graph, is_new = await asyncio.to_thread(engine.graphs.put, name, owner, written)
    engine.plans.keep_registered(graph, execute, prepared)
    return graph, is_new
