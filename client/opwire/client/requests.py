"""The requests that the clients send and how to read their answers. Pure, and shared by both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast
from urllib.parse import quote

from ..check import Validation
from ..describe import GraphInfo, LevelInfo, OperatorInfo, OperatorSummary, ServerInfo
from ..errors import OpwireError, RequestError
from ..transport.request import OutgoingRequest
from ..wire import (
    JSON,
    Buffer,
    Call,
    PoolingResult,
    Result,
    parse_json,
    read_answer,
    read_answers,
    read_pooling_answer,
    read_validation,
    write_call,
    write_calls,
    write_json,
    write_registration,
)
from .arrays import with_type_names
from .calls import AnyGraph, BuiltGraph, checked_name, is_graph
from .expected import Expected
from .graph_tensors import graph_tensor_of
from .options import EffectiveOptions

T = TypeVar("T")
R = TypeVar("R", bound=Result)

MAX_DESCRIPTION_BYTES = 16 * 2**20
"""Maximum size, in bytes, of an answer that describes a server, operators, graphs or a desc."""


def execute(call: Call, settings: EffectiveOptions) -> OutgoingRequest[Result]:
    """Runs an operator."""
    return _execute(call, settings, read_answer)


def execute_pooling(call: Call, settings: EffectiveOptions) -> OutgoingRequest[PoolingResult]:
    """Runs a pooling that also returns indices."""
    return _execute(call, settings, read_pooling_answer)


def _execute(
    call: Call, settings: EffectiveOptions, read: Callable[[Buffer, str | None, int], R]
) -> OutgoingRequest[R]:
    call = with_settings(call, settings)
    headers, chunks = write_call(call, settings.encoding)
    expected = Expected([call], settings.encoding)

    def read_expected(body: Buffer, head_length: str | None) -> R:
        result = read(body, head_length, expected.most_values)
        expected.verify([result])
        return result

    return OutgoingRequest("POST", "/v1/execute", read_expected, expected.most_bytes, settings.timeout, headers, chunks)


def execute_many(calls: Sequence[Call], settings: EffectiveOptions) -> OutgoingRequest[list[Result | OpwireError]]:
    """Runs several operators. The answer has one outcome per call, in order."""
    calls = [with_settings(call, settings) for call in calls]
    headers, chunks = write_calls(calls, settings.encoding)
    expected = Expected(calls, settings.encoding)

    def read(body: Buffer, head_length: str | None) -> list[Result | OpwireError]:
        outcomes = read_answers(body, head_length, expected.most_values)
        expected.verify(outcomes)
        return outcomes

    return OutgoingRequest("POST", "/v1/batch", read, expected.most_bytes, settings.timeout, headers, chunks)


def with_settings(call: Call, settings: EffectiveOptions) -> Call:
    """Returns a call with the options that it does not set itself.

    Raises:
        TypeError: a tensor has no elements yet.
    """
    for name, array in call.inputs.items():
        if (tensor := graph_tensor_of(array)) is not None:
            raise TypeError(f"{name} is {tensor!r}, which has no elements yet; execute its graph instead")
    return call.with_options({**settings.members(), **call.options})


def register_graph(
    name: str, graph: Mapping[str, Any] | BuiltGraph, settings: EffectiveOptions
) -> OutgoingRequest[GraphInfo]:
    """Registers a graph under a name."""
    options = settings.contract()
    if isinstance(graph, BuiltGraph):
        headers, chunks = write_registration(graph.to_json(), graph.constants, options)
    else:
        headers, chunks = write_registration(with_type_names(graph), {}, options)
    request = _get(_graph_path(name), settings, lambda found: cast(GraphInfo, found))
    return replace(request, method="PUT", headers={**headers, "Accept": JSON}, chunks=chunks)


def registered_graphs(settings: EffectiveOptions) -> OutgoingRequest[list[GraphInfo]]:
    """Lists the registered graphs."""
    return _get("/v1/graphs", settings, lambda found: found["graphs"])


def registered_graph(name: str, settings: EffectiveOptions) -> OutgoingRequest[GraphInfo]:
    """Describes a registered graph."""
    return _get(_graph_path(name), settings, lambda found: found)


def delete_graph(name: str, settings: EffectiveOptions) -> OutgoingRequest[None]:
    """Removes a registered graph."""
    return OutgoingRequest("DELETE", _graph_path(name), _read_nothing, _most_of_description, settings.timeout)


def _graph_path(name: str) -> str:
    return "/v1/graphs/" + _segment(name)


def _segment(name: object) -> str:
    """Returns a name as a path segment.

    Raises:
        TypeError, ValueError: it is none.
    """
    return quote(checked_name(name), safe="")


def validate(operator: AnyGraph, settings: EffectiveOptions) -> OutgoingRequest[Validation]:
    """Checks an operator desc or a graph."""
    kind = "graph" if is_graph(operator) else "operator"
    desc = operator.to_json() if isinstance(operator, BuiltGraph) else with_type_names(operator)
    request = {kind: desc, **settings.contract()}
    body = write_json(request)
    headers = {"Content-Type": JSON, "Accept": JSON, "Content-Length": str(len(body))}
    return OutgoingRequest(
        "POST", "/v1/validate", _read_validation, _most_of_description, settings.timeout, headers, [body]
    )


def _read_validation(body: Buffer, _: str | None) -> Validation:
    return read_validation(body)


def operators(settings: EffectiveOptions) -> OutgoingRequest[list[OperatorSummary]]:
    """Lists all operator types."""
    return _get("/v1/operators", settings, lambda found: found["operators"])


def operator(name: str, settings: EffectiveOptions) -> OutgoingRequest[OperatorInfo]:
    """Describes an operator type."""
    return _get("/v1/operators/" + _segment(name), settings, lambda found: found)


def feature_levels(settings: EffectiveOptions) -> OutgoingRequest[list[LevelInfo]]:
    """Lists all feature levels."""
    return _get("/v1/feature-levels", settings, lambda found: found["feature_levels"])


def server(settings: EffectiveOptions) -> OutgoingRequest[ServerInfo]:
    """Describes the server."""
    return _get("/v1/server", settings, lambda found: found)


def readiness(settings: EffectiveOptions) -> OutgoingRequest[None]:
    """Asks whether the server accepts work. If it does not, the answer is an UnavailableError."""
    return OutgoingRequest("GET", "/readyz", _read_nothing, _most_of_description, settings.timeout)


def _read_nothing(_: Buffer, __: str | None) -> None:
    """Ignores the body; only the status matters."""


def _get(path: str, settings: EffectiveOptions, pick: Callable[[Any], T]) -> OutgoingRequest[T]:
    def read(body: Buffer, _: str | None) -> T:
        try:
            return pick(parse_json(body))
        except (RequestError, LookupError, TypeError) as error:
            raise ValueError(f"not an answer of opwire: {error}") from error

    return OutgoingRequest("GET", path, read, _most_of_description, settings.timeout)


def _most_of_description() -> int:
    return MAX_DESCRIPTION_BYTES
