"""How a request ended: what the access log and the traces tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opwire.graph import GRAPH
from opwire.schema import find


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that has ended.

    Attributes:
        method, path, scheme, version: of the request, as the client said them.
        route: the path with the names of what varies.
        status: of the answer.
        code: one of ``metrics.OUTCOMES``.
        microseconds: from its arrival to the last byte of the answer.
        request_id: of the request.
        client: the owner of its API key.
        carriers: those of its headers that carry the context of a trace.
        operator: its name, or the operator of the request as it was sent.
        device: that ran it.
        stages: microseconds by stage.
    """

    method: str
    path: str
    scheme: str
    version: str
    route: str
    status: int
    code: str
    microseconds: int
    request_id: str
    client: str | None
    carriers: Mapping[str, str]
    operator: object = None
    device: str | None = None
    stages: Mapping[str, int] = field(default_factory=dict)

    @property
    def operator_name(self) -> str | None:
        """The catalog's name of what the request names, so that no text of the client is repeated."""
        given = self.operator
        if given == GRAPH.name:
            return GRAPH.name
        kind = find(given.get("type") if isinstance(given, Mapping) else given)
        return None if kind is None else kind.name
