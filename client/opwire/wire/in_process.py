"""Calls that do not leave the process: as the requests that a server would read, and the results of their outputs.

The requests are those of the wire, and are read by the same functions, so that the errors are the same. Tensors are
passed as views of their arrays instead of being copied to a body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..check import Plan
from ..tensor import Array
from ..tensor_names import grouped
from .calls import Call, Encoding, call_json, registration_json, write_json
from .framing import Buffer, Parts, parse_json
from .registrations import read_registration
from .requests import ExecuteRequest, ValidateRequest, read_execute, read_validate
from .results import INDICES, PoolingResult, Result


class Executed(NamedTuple):
    """A plan that has run.

    Attributes:
        plan: the plan.
        buffers: the buffer of each output, see ``BufferTensorDesc.allocate``.
        device: name of the device that ran it.
        microseconds: time that it ran for.
    """

    plan: Plan
    buffers: Mapping[str, Array]
    device: str
    microseconds: int


class _Pieces(Parts):
    """The tensors of a request as separate buffers, in the order in which they would follow its head."""

    __slots__ = ("_left",)

    def __init__(self, pieces: list[Buffer]) -> None:
        super().__init__(None)
        self._left: Iterator[Buffer] = iter(pieces)

    def take(self, size: int, pointer: str) -> memoryview:
        """See ``Parts``."""
        return memoryview(next(self._left))


def request_of(call: Call) -> ExecuteRequest:
    """Returns the request that a server would read from a call.

    Raises:
        RequestError: an option is malformed.
        ValueError: the operator or graph has a value that JSON cannot express.
    """
    tail: list[Buffer] = []
    envelope = call_json(call, Encoding.BINARY, tail)
    return read_execute(_plain(envelope, "graph" if call.is_graph else "operator"), _Pieces(tail))


def registration_of(
    graph: Mapping[str, Any], constants: Mapping[str, Array], options: Mapping[str, object]
) -> ExecuteRequest:
    """Returns the request that a server would read from a registration; see ``write_registration``.

    Raises:
        RequestError, ValueError: as for ``request_of``.
    """
    tail: list[Buffer] = []
    envelope = registration_json(graph, constants, options, tail)
    return read_registration(_plain(envelope, "graph"), _Pieces(tail))


def validation_of(operator: object, options: Mapping[str, object], *, is_graph: bool) -> ValidateRequest:
    """Returns the request that a server would read to check an operator desc, a graph or the name of one.

    Raises:
        RequestError, ValueError: as for ``request_of``.
    """
    member = "graph" if is_graph else "operator"
    return read_validate(_plain({member: operator, **options}, member), Parts(None))


def _plain(envelope: dict[str, object], member: str) -> dict[str, Any]:
    """Returns a request with only values of JSON in a member."""
    plain: Any = parse_json(write_json({member: envelope[member]}))
    return {**envelope, **plain}


def result_of(executed: Executed, total: int) -> Result:
    """Returns the result of a plan that has run.

    Args:
        executed: the plan and its outputs.
        total: microseconds of the whole call.
    """
    plan = executed.plan
    buffers = executed.buffers
    outputs = grouped({name: desc.elements(desc.view(buffers[name])) for name, desc in plan.outputs.items()})
    timing = {"run": executed.microseconds, "total": total}
    return (PoolingResult if INDICES in outputs else Result)(outputs, plan.level, executed.device, timing, "")
