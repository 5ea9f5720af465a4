"""The load endpoint, for watching a server live; Prometheus gets more metrics, but at longer intervals."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from opwire.desc import show
from opwire.errors import ProblemCode, RequestError
from opwire.graph import GRAPH
from opwire.schema import CATALOG, find

from ...telemetry.load import Load
from ...telemetry.load import load as read_load
from ..documents.console import PATHS
from ..documents.responses import LISTING
from .contract_routes import service_of

router = APIRouter()

PATH = "/v1/server/load"
_UNCOUNTED = frozenset({PATH, "/v1/server", *PATHS})


@router.get(PATH, **LISTING)
async def server_load(
    request: Request,
    operator: Annotated[
        list[str] | None,
        Query(max_length=1 + len(CATALOG), description="operator type to include histograms for; repeatable"),
    ] = None,
) -> Load:
    """Returns counters of all worker processes since the server started, and what is queued and running now.

    Requests for the load, for the description of the server, and for pages are not counted.
    """
    service = service_of(request)
    service.publish()
    named = set()
    for given in operator or ():
        kind = GRAPH if given == GRAPH.name else find(given)
        if kind is None:
            detail = f"{show(given)} is not a DirectML operator type, nor {GRAPH.name}"
            raise RequestError(ProblemCode.INVALID_REQUEST, detail)
        named.add(kind.name)
    settings = service.settings
    return read_load(service.metrics, settings.workers, settings.devices, uncounted=_UNCOUNTED, named=named)
