"""The load of the server, for whoever watches it live; Prometheus has more of it, but not each second."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from opwire.desc import show
from opwire.errors import ProblemCode, RequestError
from opwire.graph import GRAPH
from opwire.schema import CATALOG, find

from ..telemetry.load import Load
from ..telemetry.load import load as read_load
from .console import PATHS
from .contract_routes import service_of
from .responses import LISTING

router = APIRouter()

PATH = "/v1/server/load"
_UNCOUNTED = frozenset({PATH, "/v1/server", *PATHS})


@router.get(PATH, **LISTING)
async def server_load(
    request: Request,
    operator: Annotated[
        list[str] | None, Query(max_length=1 + len(CATALOG), description="whose buckets are wanted; may be given again")
    ] = None,
) -> Load:
    """What all processes of the server have counted since it started, and what waits and runs now.

    Requests for the load, for what the server is, and for pages are not counted in it.
    """
    service = service_of(request)
    service.publish()
    named = set()
    for given in operator or ():
        kind = GRAPH if given == GRAPH.name else find(given)
        if kind is None:
            detail = f"{show(given)} is none of DirectML's operator types, nor {GRAPH.name}"
            raise RequestError(ProblemCode.INVALID_REQUEST, detail)
        named.add(kind.name)
    settings = service.settings
    return read_load(service.metrics, settings.workers, settings.devices, uncounted=_UNCOUNTED, named=named)
