"""The registration of a graph: checked as one that is run, its constants decoded, and kept for all processes."""

from __future__ import annotations

import asyncio

from opwire.errors import ProblemCode
from opwire.graph import CONSTANT
from opwire.wire import Buffer, parse_registration, read_constants

from .graph_registry import refuse_name
from .limits import exceeded
from .memory import Hold
from .pipeline import Engine
from .progress import Progress
from .registered_graph import RegisteredGraph, StoredGraph

MOST_TENSORS = 512
"""Inputs and outputs of a registered graph: they are described wherever graphs are listed."""


async def register(
    engine: Engine,
    name: str,
    owner: str | None,
    body: Buffer,
    head_length: str | None,
    progress: Progress,
    hold: Hold,
) -> tuple[RegisteredGraph, bool]:
    """Registers the graph in a body; returns whether the owner had none of that name.

    Args:
        name: for the graph.
        owner: of the key of the request.
        body: as received.
        head_length: the length of its JSON if a tail follows.
        progress: of the request.
        hold: of the memory that the request takes, its body among it.

    Raises:
        ContractViolation: the graph is not valid at its level, or a constant is not what its desc says.
        LimitExceededError: it is too large, or there is no room for it.
        RequestError: the request, or the name, cannot be taken.
    """
    refuse_name(name)
    request = await engine.read(parse_registration, body, head_length, progress, hold)
    prepared = await engine.plan(request)
    plan = prepared.plan
    tensors = len(plan.outputs) + sum(not each.startswith(CONSTANT) for each in plan.inputs)
    if tensors > MOST_TENSORS:
        what = "inputs and outputs of the graph"
        raise exceeded(ProblemCode.BODY_TOO_LARGE, what, tensors, MOST_TENSORS)
    progress.lap("check")
    size = sum(desc.data_size_in_bytes for each, desc in plan.inputs.items() if each.startswith(CONSTANT))
    await hold.grow(size, progress.deadline)
    constants = await engine.code(size, read_constants, plan, request)
    progress.lap("decode")
    written = StoredGraph(request.operator, plan, constants)
    graph, is_new = await asyncio.to_thread(engine.graphs.put, name, owner, written)
    engine.graphs.keep_plan(graph, prepared)
    return graph, is_new
