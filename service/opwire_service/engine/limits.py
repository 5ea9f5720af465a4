"""What exceeds the limits of a server, and how that is said."""

from __future__ import annotations

from opwire.check import Plan
from opwire.desc import show
from opwire.errors import LimitExceededError, ProblemCode
from opwire.graph import GRAPH
from opwire.wire.request_body import RequestBody

from ..settings import Limits

_BYTES_PER_VALUE = 16
"""Of JSON text, at most, for each value that a request may have."""

_VALUES_PER_CONTAINER = 16
"""So many times more values than lists and objects: these take much longer to make, and to free."""


def exceeded(code: ProblemCode, what: str, size: int, limit: int) -> LimitExceededError:
    """The error for something that is larger than the server takes."""
    return LimitExceededError(code, f"{size} {what}; this server takes at most {limit}", limit=limit, size=size)


class Allowance:
    """The memory for the outputs of a batch, all of which exist until its answer is sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> None:
        """
        Raises:
            LimitExceededError: so many bytes are not left.
        """
        if self._taken + size > self._limit:
            what = "bytes of output in one batch"
            raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, self._taken + size, self._limit)
        self._taken += size


def refuse_large_json(limits: Limits, body: RequestBody, always: int) -> None:
    """Refuses JSON with more in it than is parsed in bounded time and memory.

    Args:
        always: bytes of JSON that are taken with any limit.

    Raises:
        LimitExceededError: before it is parsed.
    """
    values = limits.json_values
    size = max(values * _BYTES_PER_VALUE, always)
    if len(body.text) > size:  # then nothing is counted
        what = "bytes of JSON besides tensors in base64"
        raise exceeded(ProblemCode.BODY_TOO_LARGE, what, len(body.text), size)
    containers = values // _VALUES_PER_CONTAINER
    if body.containers > containers:
        what = "lists and objects in the JSON of the request"
        raise exceeded(ProblemCode.BODY_TOO_LARGE, what, body.containers, containers)
    if body.nodes > values:
        raise exceeded(ProblemCode.BODY_TOO_LARGE, "values in the JSON of the request", body.nodes, values)


def refuse_large_plan(limits: Limits, plan: Plan) -> None:
    """Refuses what is too large before any memory is taken for it.

    Raises:
        LimitExceededError: a tensor, the outputs together or the work are too large; of a graph those of any operator.
    """
    if plan.operator is GRAPH:
        for step in plan.attributes.steps:
            _refuse_large_tensors(limits, step.plan, f" of the node {show(step.name)}")
    _refuse_large_tensors(limits, plan)
    if plan.work > limits.work:
        raise exceeded(ProblemCode.WORK_TOO_LARGE, "element visits", plan.work, limits.work)


def _refuse_large_tensors(limits: Limits, plan: Plan, where: str = "") -> None:
    for name, desc in (*plan.inputs.items(), *plan.outputs.items()):
        if desc.element_count > limits.tensor_elements:
            what = f"elements in {name}{where}"
            raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, desc.element_count, limits.tensor_elements)
    size = sum(desc.data_size_in_bytes for desc in plan.outputs.values())
    if size > limits.output_bytes:
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, f"bytes of output{where}", size, limits.output_bytes)


def refuse_large_block(limits: Limits, plan: Plan, size: int) -> None:
    """Refuses a graph that needs more memory between its nodes than there is for all requests.

    Raises:
        LimitExceededError: before any of it is taken.
    """
    if plan.operator is GRAPH and size > limits.memory_bytes:
        what = "bytes are needed at a time between the nodes of the graph"
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, size, limits.memory_bytes)


def refuse_many_numbers(limits: Limits, count: int) -> None:
    """Refuses outputs with more elements than are written as numbers.

    Raises:
        LimitExceededError: they are more.
    """
    most = limits.output_numbers
    if count > most:
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, "elements of output as numbers", count, most)
