"""The errors that opwire raises, in the client and in the server, and the table of codes, classes and HTTP statuses.

OpwireError
├── RequestError           400  the request cannot be read
├── AuthenticationError    401
├── NotFoundError          404
├── MethodNotAllowedError  405
├── SlowBodyError          408
├── LengthRequiredError    411
├── LimitExceededError     413, 431  too large; limit, size
├── UnsupportedMediaError  415
├── ContractViolation      422  violations
├── NotExecutableError     422  no device can run the operator; devices
├── OverloadedError        429  retry_after
├── InternalError          500
├── UnavailableError       503  retry_after
├── DeadlineExceededError  504  stage
└── TransportError         the client got no usable answer
    ├── ConnectError
    ├── TransportTimeout
    └── InvalidResponseError   status, body
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .operator import Violation

PROBLEM_TYPE = "urn:opwire:problem:"


class ProblemCode(StrEnum):
    """The ``code`` of a problem answer. The set is closed: it is part of the contract."""

    INVALID_JSON = "invalid_json"
    INVALID_REQUEST = "invalid_request"
    INVALID_FRAMING = "invalid_framing"
    INVALID_BASE64 = "invalid_base64"
    INVALID_MODEL = "invalid_model"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    UNKNOWN_OPERATOR = "unknown_operator"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    SLOW_BODY = "slow_body"
    LENGTH_REQUIRED = "length_required"
    BODY_TOO_LARGE = "body_too_large"
    TENSOR_TOO_LARGE = "tensor_too_large"
    WORK_TOO_LARGE = "work_too_large"
    BATCH_TOO_LARGE = "batch_too_large"
    GRAPHS_FULL = "graphs_full"
    HEAD_TOO_LARGE = "head_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    CONTRACT_VIOLATION = "contract_violation"
    OPERATOR_NOT_EXECUTABLE = "operator_not_executable"
    QUEUE_FULL = "queue_full"
    MEMORY_FULL = "memory_full"
    INTERNAL_ERROR = "internal_error"
    NOT_READY = "not_ready"
    DRAINING = "draining"
    DEADLINE_EXCEEDED = "deadline_exceeded"


class OpwireError(Exception):
    """Base class of all errors.

    Attributes:
        code: what went wrong, from the closed set of codes; None if no answer was received.
        detail: a human-readable explanation.
        violations: everything that is wrong with the request, each with its location.
        members: additional members of the problem (``limit``, ``size``, ``stage``, ...).
        status: the HTTP status of the answer; None if no answer was received.
        request_id: the ID of the request, if known.
        retries: how many times the client retried the request.
    """

    retries = 0

    def __init__(
        self,
        code: ProblemCode | None,
        detail: str,
        *,
        violations: Sequence[Violation] = (),
        request_id: str | None = None,
        **members: object,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.violations = tuple(violations)
        self.members: Mapping[str, Any] = members
        self.status = None if code is None else PROBLEMS[code].status
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, unpickling passes ``args`` to the constructor, whose arguments are others.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined] # its stub lacks it

    def __str__(self) -> str:
        return "\n".join([self.detail, *(f"  {_line(violation)}" for violation in self.violations)])


def _line(violation: Violation) -> str:
    """Describes a violation: where, what, its code, and the first level without it."""
    level = "" if violation.available_from is None else f", from {violation.available_from} on"
    is_answered = not violation.listed or violation.message.endswith("?")  # with a suggestion
    allowed = "" if is_answered else f"; allowed: {violation.listed}"
    return f"{violation.pointer or '(request)'}: {violation.message}{allowed} [{violation.code}{level}]"


class RequestError(OpwireError):
    """The request cannot be read: invalid JSON, an invalid envelope, invalid framing or invalid base64."""


class AuthenticationError(OpwireError):
    """The request carries no valid API key."""


class NotFoundError(OpwireError):
    """The resource does not exist."""


class MethodNotAllowedError(OpwireError):
    """The resource does not support this HTTP method; ``members["allow"]`` lists those it does."""


class SlowBodyError(OpwireError):
    """The body did not arrive in time."""


class LengthRequiredError(OpwireError):
    """The request has no Content-Length."""


class LimitExceededError(OpwireError):
    """The request exceeds a limit of the server."""

    @property
    def limit(self) -> int:
        return int(self.members["limit"])

    @property
    def size(self) -> int:
        return int(self.members["size"])


class UnsupportedMediaError(OpwireError):
    """The resource does not support the content type or content encoding of the body."""


class ContractViolation(OpwireError, ValueError):
    """The request violates the DirectML contract at the requested feature level; ``violations`` says where and how."""

    def __init__(
        self,
        violations: Sequence[Violation],
        detail: str | None = None,
        *,
        request_id: str | None = None,
        **members: object,
    ) -> None:
        count = f"{len(violations)} violation{'s' if len(violations) != 1 else ''} of the operator contract"
        super().__init__(
            ProblemCode.CONTRACT_VIOLATION, detail or count, violations=violations, request_id=request_id, **members
        )


class NotExecutableError(OpwireError):
    """The operator is valid, but no device of the server can run it."""


class OverloadedError(OpwireError):
    """The server is at capacity; the same request may be retried."""

    @property
    def retry_after(self) -> float:
        """Seconds to wait before a retry."""
        return float(self.members.get("retry_after", 1))


class InternalError(OpwireError):
    """The server failed to process the request: a bug in the server."""


class UnavailableError(OverloadedError):
    """The server is not ready yet, or is shutting down."""


class DeadlineExceededError(OpwireError):
    """The request did not finish before its deadline."""

    @property
    def stage(self) -> str:
        """The stage in which the time ran out: receive, queue, run, ..."""
        return str(self.members.get("stage", ""))


class TransportError(OpwireError):
    """The client got no usable answer."""

    def __init__(self, detail: str) -> None:
        super().__init__(None, detail)


class ConnectError(TransportError):
    """The client could not connect, or the connection broke."""


class TransportTimeout(TransportError):
    """The answer did not arrive within the client's timeout."""


class InvalidResponseError(TransportError):
    """The answer is not a valid opwire answer. ``body`` holds its first KiB."""

    def __init__(self, detail: str, *, status: int, body: bytes, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.members = {} if retry_after is None else {"retry_after": retry_after}
        self.status = status
        self.body = body[:1024]


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the error table."""

    status: int
    title: str
    exception: type[OpwireError]


PROBLEMS: dict[ProblemCode, Problem] = {
    ProblemCode.INVALID_JSON: Problem(400, "The body is not JSON", RequestError),
    ProblemCode.INVALID_REQUEST: Problem(400, "The request does not have the expected form", RequestError),
    ProblemCode.INVALID_FRAMING: Problem(400, "The parts of the body do not fit together", RequestError),
    ProblemCode.INVALID_BASE64: Problem(400, "A tensor is not valid base64", RequestError),
    ProblemCode.INVALID_MODEL: Problem(400, "The ONNX model cannot be used", RequestError),
    ProblemCode.UNAUTHORIZED: Problem(401, "No valid API key", AuthenticationError),
    ProblemCode.NOT_FOUND: Problem(404, "There is no such resource", NotFoundError),
    ProblemCode.UNKNOWN_OPERATOR: Problem(404, "There is no such operator", NotFoundError),
    ProblemCode.METHOD_NOT_ALLOWED: Problem(405, "The resource does not support this method", MethodNotAllowedError),
    ProblemCode.SLOW_BODY: Problem(408, "The body did not arrive in time", SlowBodyError),
    ProblemCode.LENGTH_REQUIRED: Problem(411, "Content-Length is required", LengthRequiredError),
    ProblemCode.BODY_TOO_LARGE: Problem(413, "The body is too large", LimitExceededError),
    ProblemCode.TENSOR_TOO_LARGE: Problem(413, "A tensor is too large", LimitExceededError),
    ProblemCode.WORK_TOO_LARGE: Problem(413, "The operator requires too much work", LimitExceededError),
    ProblemCode.BATCH_TOO_LARGE: Problem(413, "The batch has too many requests", LimitExceededError),
    ProblemCode.GRAPHS_FULL: Problem(413, "There is no room for the graph", LimitExceededError),
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: Problem(
        415, "The media type of the body is not supported", UnsupportedMediaError
    ),
    ProblemCode.CONTRACT_VIOLATION: Problem(422, "The request violates the operator contract", ContractViolation),
    ProblemCode.OPERATOR_NOT_EXECUTABLE: Problem(422, "No device can run the operator", NotExecutableError),
    ProblemCode.HEAD_TOO_LARGE: Problem(431, "The head of the request is too large", LimitExceededError),
    ProblemCode.QUEUE_FULL: Problem(429, "The queue is full", OverloadedError),
    ProblemCode.MEMORY_FULL: Problem(429, "The memory for requests is full", OverloadedError),
    ProblemCode.INTERNAL_ERROR: Problem(500, "The server failed", InternalError),
    ProblemCode.NOT_READY: Problem(503, "The server is not ready", UnavailableError),
    ProblemCode.DRAINING: Problem(503, "The server is stopping", UnavailableError),
    ProblemCode.DEADLINE_EXCEEDED: Problem(504, "The time for the request ran out", DeadlineExceededError),
}
"""HTTP status, title and exception of each problem code."""


def to_problem(error: OpwireError, request_id: str | None = None) -> dict[str, object]:
    """Returns an error as the members of an ``application/problem+json`` answer (RFC 9457).

    ``error`` repeats the title and detail in one string, for clients that read nothing else.
    """
    code = error.code or ProblemCode.INTERNAL_ERROR
    row = PROBLEMS[code]
    problem: dict[str, object] = {
        "type": PROBLEM_TYPE + code.value,
        "title": row.title,
        "status": row.status,
        "detail": error.detail,
        "code": code.value,
        "request_id": error.request_id or request_id,
        "error": f"{row.title}: {error.detail}",
        **error.members,
    }
    if error.violations:
        problem["violations"] = [violation.to_json() for violation in error.violations]
    return problem


_RESERVED = frozenset({"type", "title", "status", "detail", "code", "request_id", "error", "violations"})

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "code": str,
    "detail": str,
    "request_id": (str, type(None)),
    "violations": list,
    "limit": int,
    "size": int,
    "stage": str,
    "retry_after": (int, float),
}
"""The expected types of the problem members that errors read."""


def from_problem(problem: Mapping[str, Any]) -> OpwireError:
    """Returns the error that a problem answer represents.

    Raises:
        ValueError: it is not a valid opwire problem.
    """
    if "code" not in problem:
        raise ValueError("the problem has no code")
    for name, types in _TYPES.items():
        if name in problem and (not isinstance(problem[name], types) or isinstance(problem[name], bool)):
            raise ValueError(f"the {name} of the problem is of type {type(problem[name]).__name__}")
    code = ProblemCode(problem["code"])
    detail = str(problem.get("detail", ""))
    request_id = problem.get("request_id")
    members = {name: value for name, value in problem.items() if name not in _RESERVED}
    violations = [Violation.from_json(item) for item in problem.get("violations", ())]
    if code is ProblemCode.CONTRACT_VIOLATION:
        return ContractViolation(violations, detail, request_id=request_id, **members)
    return PROBLEMS[code].exception(code, detail, violations=violations, request_id=request_id, **members)
