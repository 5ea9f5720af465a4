"""Checks against the server's limits, and the errors for exceeding them."""

from __future__ import annotations

from opwire.check import Plan
from opwire.desc import show
from opwire.errors import LimitExceededError, ProblemCode
from opwire.graph import GRAPH
from opwire.wire.request_body import RequestBody

from ..settings import Limits

_BYTES_PER_VALUE = 16
"""JSON text allowed per permitted value, in bytes."""

_VALUES_PER_CONTAINER = 16
"""Permitted values per permitted list or object, as those are far slower to create and to free."""


def exceeded(code: ProblemCode, what: str, size: int, limit: int) -> LimitExceededError:
    """Returns the error for something larger than a limit of the server."""
    return LimitExceededError(code, f"{size} {what}; this server takes at most {limit}", limit=limit, size=size)


class Allowance:
    """The memory budget for the outputs of a batch, all of which exist until its response is sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> None:
        """Takes ``size`` bytes of the budget.

        Raises:
            LimitExceededError: fewer bytes are left.
        """
        if self._taken + size > self._limit:
            what = "bytes of output in one batch"
            raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, self._taken + size, self._limit)
        self._taken += size


def refuse_large_json(limits: Limits, body: RequestBody, always: int) -> None:
    """Refuses JSON that would take too much time or memory to parse.

    Args:
        limits: limits of the server.
        body: the unparsed body.
        always: size of JSON that is accepted whatever the limits, in bytes.

    Raises:
        LimitExceededError: the JSON is too long or has too many values.
    """
    values = limits.json_values
    size = max(values * _BYTES_PER_VALUE, always)
    if len(body.text) > size:  # before its values are counted
        what = "bytes of JSON besides tensors in base64"
        raise exceeded(ProblemCode.BODY_TOO_LARGE, what, len(body.text), size)
    containers = values // _VALUES_PER_CONTAINER
    if body.containers > containers:
        what = "lists and objects in the JSON of the request"
        raise exceeded(ProblemCode.BODY_TOO_LARGE, what, body.containers, containers)
    if body.nodes > values:
        raise exceeded(ProblemCode.BODY_TOO_LARGE, "values in the JSON of the request", body.nodes, values)


def refuse_large_plan(limits: Limits, plan: Plan) -> None:
    """Refuses a plan that is too large, before any memory is allocated for it.

    Raises:
        LimitExceededError: a tensor, the outputs together or the work is too large, of the plan or of a graph's node.
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
    """Refuses a graph whose intermediate tensors need more memory than there is for all requests.

    Raises:
        LimitExceededError: the intermediate tensors are too large.
    """
    if plan.operator is GRAPH and size > limits.memory_bytes:
        what = "bytes of intermediate tensors at once between the nodes of the graph"
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, size, limits.memory_bytes)


def refuse_many_numbers(limits: Limits, count: int) -> None:
    """Refuses outputs with too many elements to write as JSON numbers.

    Raises:
        LimitExceededError: there are more elements than the limit.
    """
    most = limits.output_numbers
    if count > most:
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, "elements of output as numbers", count, most)
