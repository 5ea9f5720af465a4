"""Liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from .contract_routes import service_of
from .responses import READY

router = APIRouter()


class Live(TypedDict):
    """The process answers."""

    live: bool


class Ready(TypedDict):
    """The server takes work."""

    ready: bool


@router.get("/livez")
async def live() -> Live:
    """Whether the process answers."""
    return {"live": True}


@router.get("/readyz", **READY)
async def ready(request: Request) -> Ready:
    """Whether the server takes work."""
    service_of(request).require_ready()
    return {"ready": True}
