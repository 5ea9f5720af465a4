"""How a request ended, as one line of the log: what failed at the level info, the others at debug.

Of requests that are refused for load, one a second has a line, which counts those before it: a server with too much to
do has no time to say so each time, and metrics count them all.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass

from opwire.errors import ProblemCode

from .metrics import CLIENT_GONE, OK
from .requests import Ended

log = logging.getLogger("opwire.access")

MOST_SAID = 200
"""Characters of a client's text that the log repeats."""

_TRACEPARENT = re.compile(
    r"(?!ff|00(?s:.){54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


_FOR_LOAD = frozenset({ProblemCode.QUEUE_FULL.value, ProblemCode.MEMORY_FULL.value})
_SECONDS_BETWEEN = 1.0


@dataclass(slots=True)
class _Refusals:
    """Requests refused for load: when one had a line last, and how many came since then."""

    said: float = float("-inf")
    unsaid: int = 0

    def is_due(self) -> bool:
        """Whether the next one has a line; else it is counted."""
        now = time.monotonic()
        if now - self.said < _SECONDS_BETWEEN:
            self.unsaid += 1
            return False
        self.said = now
        return True

    def take(self) -> int:
        """How many had none."""
        unsaid, self.unsaid = self.unsaid, 0
        return unsaid


_refusals = _Refusals()


def wants(code: str) -> bool:
    """Whether a request that ended so has a line; it is to be asked once."""
    if log.isEnabledFor(logging.DEBUG):
        return True
    return code != OK and log.isEnabledFor(logging.INFO) and (code not in _FOR_LOAD or _refusals.is_due())


def write(ended: Ended) -> None:
    """Logs a request that has ended and has a line; nothing of its body but the operator's name."""
    identity = escaped(ended.request_id)
    fields: dict[str, object] = {
        "request_id": identity,
        "trace_id": trace_id(ended),
        "method": escaped(ended.method),
        "path": escaped(ended.path),
        "route": ended.route,
        "client": ended.client,
        "operator": ended.operator_name,
        "status": None if ended.code == CLIENT_GONE else ended.status,
        "code": ended.code,
        "milliseconds": ended.microseconds / 1000,
    }
    said = [
        f"{name} {fields[name]}" for name in ("status", "client", "operator", "trace_id") if fields[name] is not None
    ]
    message = f"{fields['method']} '{fields['path']}' {ended.code} {fields['milliseconds']} ms"
    if ended.code in _FOR_LOAD and (unsaid := _refusals.take()):
        fields["more_refused"] = unsaid
        said.append(f"more_refused {unsaid}")
    level = logging.DEBUG if ended.code == OK else logging.INFO
    log.log(level, "%s", " ".join([message, *said, identity]), extra={"fields": fields})


def escaped(text: str) -> str:
    """A client's text as the log repeats it: at most ``MOST_SAID`` characters of printable ASCII.

    Others, and single quotes, are escaped as in a literal of Python, so that none can forge a line, or end a quotation.
    """
    ascii_text = text[: MOST_SAID + 1].encode("unicode_escape").decode("ascii").replace("'", "\\'")
    return ascii_text if len(ascii_text) <= MOST_SAID else ascii_text[: MOST_SAID - 3] + "..."


def trace_id(ended: Ended) -> str | None:
    """The trace that a request belongs to, by its ``traceparent`` (W3C Trace Context); None without a valid one."""
    found = _TRACEPARENT.fullmatch(ended.carriers.get("traceparent", ""))
    return None if found is None else found[1]
