"""The metrics endpoint for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder

from ..documents.responses import METRICS
from .contract_routes import service_of

router = APIRouter()


@router.get("/metrics", response_class=Response, **METRICS)
async def metrics(request: Request) -> Response:
    """Returns the metrics of all worker processes in Prometheus format."""
    service = service_of(request)
    service.publish()
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(service.registry), media_type=media_type)
