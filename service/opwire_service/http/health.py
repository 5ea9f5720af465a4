"""Liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from opwire.errors import ProblemCode, UnavailableError

from .native import server_of
from .openapi import READY

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
    if not server_of(request).ready:
        raise UnavailableError(ProblemCode.NOT_READY, "the server is starting or stopping")
    return {"ready": True}
