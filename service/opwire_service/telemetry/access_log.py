"""How a request ended, as one line of the log: what failed at the level info, the others at debug."""

from __future__ import annotations

import logging
import re

from .metrics import CLIENT_GONE, OK
from .requests import Ended

log = logging.getLogger("opwire.access")

MOST_SAID = 200
"""Characters of a client's text that the log repeats."""

_TRACEPARENT = re.compile(
    r"(?!ff|00(?s:.){54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


def write(ended: Ended) -> None:
    """Logs a request that has ended; nothing of its body but the operator's name."""
    level = logging.DEBUG if ended.code == OK else logging.INFO
    if not log.isEnabledFor(level):
        return
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
    log.log(level, "%s", " ".join([message, *said, identity]), extra={"fields": fields})


def escaped(text: str) -> str:
    """What a client has said, as the log repeats it: at most ``MOST_SAID`` characters of printable ASCII.

    Others, and single quotes, are escaped as in a literal of Python, so that none can forge a line, or end a quotation.
    """
    ascii_text = text[: MOST_SAID + 1].encode("unicode_escape").decode("ascii").replace("'", "\\'")
    return ascii_text if len(ascii_text) <= MOST_SAID else ascii_text[: MOST_SAID - 3] + "..."


def trace_id(ended: Ended) -> str | None:
    """The trace that a request belongs to, by its ``traceparent`` (W3C Trace Context); None without a valid one."""
    found = _TRACEPARENT.fullmatch(ended.carriers.get("traceparent", ""))
    return None if found is None else found[1]
