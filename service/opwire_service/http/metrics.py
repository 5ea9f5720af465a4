"""The metrics, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder

from .contract_routes import service_of
from .responses import METRICS

router = APIRouter()


@router.get("/metrics", response_class=Response, **METRICS)
async def metrics(request: Request) -> Response:
    """The metrics of all processes of this server, for Prometheus."""
    service = service_of(request)
    service.publish()
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(service.registry), media_type=media_type)
