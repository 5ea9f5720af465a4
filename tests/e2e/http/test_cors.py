"""The headers that pages of other origins may send and read."""

from __future__ import annotations

import httpx

from opwire_service.settings import Settings
from tests.support.http.serving import serving

ORIGIN = {"Origin": "https://pages.example", "Access-Control-Request-Method": "POST"}


def test_every_documented_header_is_allowed():
    """These are the headers in the OpenAPI document, the README and the protocols."""
    with (
        serving(Settings(port=0, cors_origins=("*",))) as server,
        httpx.Client(base_url=server.url or "", timeout=30) as http,
    ):
        paths = http.get("/openapi.json").json()["paths"].values()
        operations = [operation for path in paths for operation in path.values()]
        given = [parameter for operation in operations for parameter in operation.get("parameters", [])]
        documented = {parameter["name"] for parameter in given if parameter["in"] == "header"}
        assert documented == {"Inference-Header-Content-Length", "Opwire-Parameters"}
        sent = documented | {"Authorization", "Content-Encoding", "traceparent", "tracestate", "X-Request-Id"}
        asked = {**ORIGIN, "Access-Control-Request-Headers": ", ".join(sorted(sent)).lower()}
        assert http.options("/v2/models/ARGMAX/infer", headers=asked).status_code == 200
        refused = http.options("/v1/execute", headers={**asked, "Access-Control-Request-Headers": "x-other"})
        assert refused.status_code == 400
        answer = http.get("/livez", headers={"Origin": "https://pages.example"})
        readable = answer.headers["access-control-expose-headers"].lower().split(", ")
        asked_for = "allow retry-after server-timing www-authenticate x-request-id content-encoding"
        assert {"inference-header-content-length", *asked_for.split()} == set(readable)
