"""The record of a completed request, for the access log and traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opwire.graph import GRAPH
from opwire.schema import find


@dataclass(frozen=True, slots=True)
class Ended:
    """A completed request.

    Attributes:
        method, path, scheme, version: as sent by the client.
        route: path template.
        status: status code of the response.
        code: outcome, one of ``metrics.OUTCOMES``.
        microseconds: time from arrival to the last byte of the response.
        request_id: ID of the request.
        client: owner of its API key.
        peer: IP address at the other end of its connection.
        carriers: headers that carry the trace context.
        operator: name of the operator, or the operator as sent in the request.
        device: device that ran it.
        stages: microseconds per stage.
        refused_key: fingerprint of its API key if that is not valid, or what is wrong with the header.
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
    peer: str | None
    carriers: Mapping[str, str]
    operator: object = None
    device: str | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    refused_key: str | None = None

    @property
    def operator_name(self) -> str | None:
        """The catalog's name of the operator, so that no client-supplied text is repeated."""
        given = self.operator
        if given == GRAPH.name:
            return GRAPH.name
        kind = find(given.get("type") if isinstance(given, Mapping) else given)
        return None if kind is None else kind.name
