"""Liveness and readiness probes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from ..documents.responses import READY
from .contract_routes import service_of

router = APIRouter()


class Live(TypedDict):
    """Liveness of the process."""

    live: bool


class Ready(TypedDict):
    """Readiness of the server."""

    ready: bool


@router.get("/livez")
async def live() -> Live:
    """Liveness probe: succeeds while the process responds."""
    return {"live": True}


@router.get("/readyz", **READY)
async def ready(request: Request) -> Ready:
    """Readiness probe: succeeds while the server accepts work."""
    service_of(request).require_ready()
    return {"ready": True}
