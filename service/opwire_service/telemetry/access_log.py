"""How a request ended, as one line of the log: what failed at the level info, the others at debug."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Scope

from opwire.operators.catalog import find

from .metrics import CLIENT_GONE, OK

log = logging.getLogger("opwire.access")

MOST_SAID = 200
"""Characters of a client's text that the log repeats."""

_TRACEPARENT = re.compile(
    rb"(?!ff|00(?s:.){54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended.

    Attributes:
        route: the path with the names of what varies.
        status: of the answer.
        code: one of ``metrics.OUTCOMES``.
        operator: its name, or the operator of the request as it was sent.
    """

    route: str
    status: int
    code: str
    microseconds: int
    operator: object = None


def write(scope: Scope, request_id: str, ended: Ended) -> None:
    """Logs a request that has ended; nothing of its body but the operator's name."""
    level = logging.DEBUG if ended.code == OK else logging.INFO
    if not log.isEnabledFor(level):
        return
    identity = escaped(request_id)
    fields: dict[str, object] = {
        "request_id": identity,
        "trace_id": trace_id(scope),
        "method": escaped(scope["method"]),
        "path": escaped(scope["path"]),
        "route": ended.route,
        "client": scope.get("state", {}).get("client"),
        "operator": operator_name(ended.operator),
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


def trace_id(scope: Scope) -> str | None:
    """The trace that a request belongs to, by its ``traceparent`` (W3C Trace Context); None without a valid one."""
    for name, value in scope["headers"]:
        if name == b"traceparent":
            found = _TRACEPARENT.fullmatch(value)
            return None if found is None else found[1].decode()
    return None


def operator_name(given: object) -> str | None:
    """The catalog's name of what a request names, so that no text of the client is repeated."""
    kind = find(given.get("type") if isinstance(given, Mapping) else given)
    return None if kind is None else kind.name
