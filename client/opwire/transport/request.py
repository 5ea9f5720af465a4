"""Requests and how their answers are read, independent of the transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Generic, TypeVar

from ..errors import InvalidResponseError, OpwireError, RequestError, from_problem
from ..wire import HEAD_LENGTH, JSON, Buffer, parse_json

T = TypeVar("T")

PROBLEM_JSON = "application/problem+json"
REQUEST_ID = "x-request-id"
_HEAD_LENGTH = HEAD_LENGTH.lower()

Headers = Mapping[str, str]
"""The headers of an answer, with names in lower case."""

MAX_PROBLEM_BYTES = 2**20
"""Maximum size of an error's body, in bytes."""


_GOOD = (200, 201)
"""Statuses of success: OK and Created."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest(Generic[T]):
    """A request to send, with a function that reads its answer.

    Attributes:
        method, path: the HTTP method, and the path relative to the base URL.
        read: returns the result, given the body of a successful answer and the length of its head; raises ValueError.
        most_bytes: returns the maximum size of a successful answer's body; called once the answer begins.
        timeout: seconds for the whole exchange, None for no limit.
        headers: the headers that describe the body and the requested form of the answer.
        chunks: the chunks of the body.
    """

    method: str
    path: str
    read: Callable[[Buffer, str | None], T]
    most_bytes: Callable[[], int]
    timeout: float | None
    headers: Mapping[str, str] = field(default_factory=lambda: {"Accept": JSON})
    chunks: Sequence[Buffer] = ()

    def most_bytes_of(self, status: int) -> int:
        """Returns the maximum size of the body of an answer with a status."""
        return self.most_bytes() if status in _GOOD else MAX_PROBLEM_BYTES

    def result(self, status: int, headers: Headers, body: Buffer) -> T:
        """Returns the result of an answer.

        Args:
            status: the HTTP status.
            headers: the headers of the answer.
            body: the whole body.

        Raises:
            OpwireError: the answer is an error; InvalidResponseError if it is not a valid opwire answer.
        """
        try:
            if status in _GOOD:
                return self.read(body, headers.get(_HEAD_LENGTH))
            error = _read_problem(headers, body)
        except ValueError as found:
            raise self.refuse(status, headers, f"{len(body)} bytes", str(found), bytes(body[:1024])) from None
        error.request_id = error.request_id or headers.get(REQUEST_ID)
        raise error

    def refuse(self, status: int, headers: Headers, what: str, why: str, body: bytes = b"") -> InvalidResponseError:
        """Returns the error for a rejected answer: ``what`` was received, and ``why`` it is rejected."""
        media = headers.get("content-type", "no content type")
        detail = f"{self.method} {self.path} was answered with {status}, {what} ({media[:80]}): {why}"
        error = InvalidResponseError(detail, status=status, body=body, retry_after=_retry_after(headers))
        error.request_id = headers.get(REQUEST_ID)
        return error


def _read_problem(headers: Headers, body: Buffer) -> OpwireError:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != PROBLEM_JSON:
        raise ValueError("not an answer of opwire")
    try:
        problem: Any = parse_json(body)
        error = from_problem(problem)
    except (RequestError, LookupError, TypeError, AttributeError) as found:
        raise ValueError(f"not a problem of opwire: {found}") from found
    hint = _retry_after(headers)
    if hint is not None and "retry_after" not in error.members:
        error.members = {**error.members, "retry_after": hint}
    return error


def _retry_after(headers: Headers) -> float | None:
    """Returns the seconds of Retry-After, given as a number or a date (RFC 9110, section 10.2.3), or None."""
    text = headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
        except (ValueError, OverflowError):
            return None
    return seconds if isfinite(seconds) and seconds >= 0 else None
