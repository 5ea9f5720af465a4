"""The native routes that hold no tensors: operators, feature levels and the server itself."""

from __future__ import annotations

from fastapi import APIRouter, Request

from opwire.desc import show
from opwire.describe import LevelInfo, OperatorInfo, OperatorSummary, ServerInfo, describe, levels, summarise
from opwire.errors import NotFoundError, ProblemCode
from opwire.schema import CATALOG, find

from ..engine.service import Service
from ..kernels.executable import EXECUTABLE
from .openapi import OPERATOR

router = APIRouter(prefix="/v1")


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    service: Service = request.app.state.service
    return service


@router.get("/operators")
async def operators() -> dict[str, list[OperatorSummary]]:
    """All operator types of DirectML; ``declared`` marks those that it checks, ``executable`` those that it runs."""
    return {"operators": [summarise(kind, EXECUTABLE) for kind in CATALOG.values()]}


@router.get("/operators/{name}", **OPERATOR)
async def operator(name: str) -> OperatorInfo:
    """The fields, support rows and worked examples of an operator type."""
    kind = find(name)
    if kind is None:
        raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, f"{show(name)} is none of DirectML's operator types")
    return describe(kind, EXECUTABLE)


@router.get("/feature-levels")
async def feature_levels() -> dict[str, list[LevelInfo]]:
    """All feature levels, lowest first, with the operator types that each brought."""
    return {"feature_levels": levels()}


@router.get("/server")
async def server_info(request: Request) -> ServerInfo:
    """What this server is: its version, devices and limits."""
    return service_of(request).describe()
