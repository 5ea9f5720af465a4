"""Each request of the client, and how its answer is read: pure, and the same for both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic_core import to_json

from ._options import Settings, level_name
from .check import Validation
from .describe import LevelInfo, OperatorInfo, OperatorSummary, ServerInfo
from .errors import InvalidResponseError, OpwireError, RequestError, from_problem
from .wire import (
    HEAD_LENGTH,
    JSON,
    Buffer,
    Call,
    PoolingResult,
    Result,
    parse_json,
    plain,
    read_answer,
    read_answers,
    read_pooling_answer,
    read_validation,
    write_call,
    write_calls,
)

T = TypeVar("T")

PROBLEM_JSON = "application/problem+json"
REQUEST_ID = "X-Request-Id"


@dataclass(frozen=True, slots=True)
class Exchange(Generic[T]):
    """A request to be sent, and what reads the body of its answer.

    Attributes:
        method, path: of the request; the path is below the base URL.
        headers: those that describe its body, and the form of the answer asked for.
        chunks: the pieces of the body.
        read: from the body of a good answer and the length of its head to the result; raises ValueError.
        timeout: seconds for all of it, None for no limit.
    """

    method: str
    path: str
    read: Callable[[Buffer, str | None], T]
    timeout: float | None
    headers: Mapping[str, str] = field(default_factory=lambda: {"Accept": JSON})
    chunks: Sequence[Buffer] = ()


def execute(call: Call, settings: Settings) -> Exchange[Result]:
    """Runs an operator."""
    return _execute(call, settings, read_answer)


def execute_pooling(call: Call, settings: Settings) -> Exchange[PoolingResult]:
    """Runs a pooling that asks for indices."""
    return _execute(call, settings, read_pooling_answer)


def _execute(call: Call, settings: Settings, read: Callable[[Buffer, str | None], T]) -> Exchange[T]:
    headers, chunks = write_call(_with_settings(call, settings), settings.encoding)
    return Exchange("POST", "/v1/execute", read, settings.timeout, headers, chunks)


def execute_many(calls: Sequence[Call], settings: Settings) -> Exchange[list[Result | OpwireError]]:
    """Runs several operators; an outcome for each, in their order."""

    def read(body: Buffer, head_length: str | None) -> list[Result | OpwireError]:
        outcomes = read_answers(body, head_length)
        if len(outcomes) != len(calls):
            raise ValueError(f"{len(outcomes)} results for {len(calls)} requests")
        return outcomes

    headers, chunks = write_calls([_with_settings(call, settings) for call in calls], settings.encoding)
    return Exchange("POST", "/v1/batch", read, settings.timeout, headers, chunks)


def _with_settings(call: Call, settings: Settings) -> Call:
    return Call(call.operator, call.inputs, call.layouts, {**settings.members(), **call.options})


def validate(operator: Mapping[str, Any], settings: Settings) -> Exchange[Validation]:
    """Checks an operator desc."""
    request = {"operator": operator, "feature_level": level_name(settings.feature_level)}
    body = to_json(request, fallback=plain)
    headers = {"Content-Type": JSON, "Accept": JSON, "Content-Length": str(len(body))}
    return Exchange("POST", "/v1/validate", _read_validation, settings.timeout, headers, [body])


def _read_validation(body: Buffer, _: str | None) -> Validation:
    return read_validation(body)


def operators(settings: Settings) -> Exchange[list[OperatorSummary]]:
    """Lists all operator types."""
    return _get("/v1/operators", settings, lambda found: found["operators"])


def operator(name: str, settings: Settings) -> Exchange[OperatorInfo]:
    """Describes an operator type."""
    return _get("/v1/operators/" + quote(name, safe=""), settings, lambda found: found)


def feature_levels(settings: Settings) -> Exchange[list[LevelInfo]]:
    """Lists all feature levels."""
    return _get("/v1/feature-levels", settings, lambda found: found["feature_levels"])


def server(settings: Settings) -> Exchange[ServerInfo]:
    """Describes the server."""
    return _get("/v1/server", settings, lambda found: found)


def readiness(settings: Settings) -> Exchange[None]:
    """Asks whether the server takes work; the answer no is an UnavailableError."""
    return Exchange("GET", "/readyz", _read_nothing, settings.timeout)


def _read_nothing(_: Buffer, __: str | None) -> None:
    """The status says it all."""


def _get(path: str, settings: Settings, pick: Callable[[Any], T]) -> Exchange[T]:
    def read(body: Buffer, _: str | None) -> T:
        try:
            return pick(parse_json(body))
        except (RequestError, LookupError, TypeError) as error:
            raise ValueError(f"not an answer of opwire: {error}") from error

    return Exchange("GET", path, read, settings.timeout)


def read_reply(exchange: Exchange[T], status: int, headers: Mapping[str, str], body: Buffer) -> T:
    """What a received answer comes to.

    Args:
        exchange: that it answers.
        status: of HTTP.
        headers: with names of any case.
        body: whole.

    Raises:
        OpwireError: the one that the answer stands for; InvalidResponseError if it is none of opwire's.
    """
    try:
        if 200 <= status < 300:
            return exchange.read(body, headers.get(HEAD_LENGTH))
        error = _read_problem(headers, body)
    except ValueError as found:
        media = headers.get("Content-Type", "no content type")
        detail = (
            f"{exchange.method} {exchange.path} was answered with {status} and {len(body)} bytes ({media}): {found}"
        )
        error = InvalidResponseError(detail, status=status, body=bytes(body[:1024]), **_retry_after(headers))
    error.request_id = error.request_id or headers.get(REQUEST_ID)
    raise error


def _read_problem(headers: Mapping[str, str], body: Buffer) -> OpwireError:
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != PROBLEM_JSON:
        raise ValueError("not an answer of opwire")
    try:
        problem: Any = parse_json(body)
        return from_problem({**_retry_after(headers), **problem})
    except (RequestError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a problem of opwire: {error}") from error


def _retry_after(headers: Mapping[str, str]) -> dict[str, float]:
    """The wait that an answer asks for; a problem may say it more exactly. A date is not taken."""
    try:
        return {"retry_after": float(headers["Retry-After"])}
    except (LookupError, ValueError):
        return {}
