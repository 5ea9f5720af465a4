"""The access log: one line per completed request, at level info for failures and debug for successes.

Refusals due to overload are logged at most once per second, with the number of those omitted, as an overloaded server
has no time to log each of them. The metrics count them all.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass

from opwire.errors import ProblemCode

from .declarations import CLIENT_GONE, OK
from .requests import Ended

log = logging.getLogger("opwire.access")

MAX_TEXT_LENGTH = 200
"""Maximum length of client-supplied text in the log, in characters."""

_TRACEPARENT = re.compile(
    r"(?!ff|00(?s:.){54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


_FOR_LOAD = frozenset({ProblemCode.QUEUE_FULL.value, ProblemCode.MEMORY_FULL.value})
_SECONDS_BETWEEN = 1.0


@dataclass(slots=True)
class _Refusals:
    """Rate limiter for log lines of refusals due to overload.

    Attributes:
        last_logged: time of the last line.
        omitted: number of refusals since then without one.
    """

    last_logged: float = float("-inf")
    omitted: int = 0

    def is_due(self) -> bool:
        """Whether the next refusal is logged; otherwise counts it as omitted."""
        now = time.monotonic()
        if now - self.last_logged < _SECONDS_BETWEEN:
            self.omitted += 1
            return False
        self.last_logged = now
        return True

    def take(self) -> int:
        """Returns and resets the number of omitted refusals."""
        omitted, self.omitted = self.omitted, 0
        return omitted


_refusals = _Refusals()


def wants(code: str) -> bool:
    """Whether a request with this outcome is logged. Must be called once per request, as it also counts."""
    if log.isEnabledFor(logging.DEBUG):
        return True
    return code != OK and log.isEnabledFor(logging.INFO) and (code not in _FOR_LOAD or _refusals.is_due())


def write(ended: Ended) -> None:
    """Logs a completed request, with nothing of its body but the operator's name."""
    identity = escaped(ended.request_id)
    fields: dict[str, object] = {
        "request_id": identity,
        "trace_id": trace_id(ended),
        "method": escaped(ended.method),
        "path": escaped(ended.path),
        "route": ended.route,
        "client": ended.client,
        "peer": ended.peer,
        "key": ended.refused_key,
        "operator": ended.operator_name,
        "status": None if ended.code == CLIENT_GONE else ended.status,
        "code": ended.code,
        "milliseconds": ended.microseconds / 1000,
    }
    details = [
        f"{name} {fields[name]}"
        for name in ("status", "client", "peer", "key", "operator", "trace_id")
        if fields[name] is not None
    ]
    message = f"{fields['method']} '{fields['path']}' {ended.code} {fields['milliseconds']} ms"
    if ended.code in _FOR_LOAD and (omitted := _refusals.take()):
        fields["more_refused"] = omitted
        details.append(f"more_refused {omitted}")
    level = logging.DEBUG if ended.code == OK else logging.INFO
    log.log(level, "%s", " ".join([message, *details, identity]), extra={"fields": fields})


def escaped(text: str) -> str:
    """Escapes client-supplied text for the log, as at most ``MAX_TEXT_LENGTH`` characters of printable ASCII.

    Other characters and single quotes are escaped as in Python literals, so that clients cannot forge lines or end a
    quotation.
    """
    ascii_text = text[: MAX_TEXT_LENGTH + 1].encode("unicode_escape").decode("ascii").replace("'", "\\'")
    return ascii_text if len(ascii_text) <= MAX_TEXT_LENGTH else ascii_text[: MAX_TEXT_LENGTH - 3] + "..."


def trace_id(ended: Ended) -> str | None:
    """Returns the trace ID of a request's ``traceparent`` header (W3C Trace Context), or None without a valid one."""
    found = _TRACEPARENT.fullmatch(ended.carriers.get("traceparent", ""))
    return None if found is None else found[1]
