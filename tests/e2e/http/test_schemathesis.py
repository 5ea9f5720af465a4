"""Valid and invalid requests generated from the OpenAPI document; the responses must conform to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import given

from opwire_service.settings import Limits, Settings
from tests.support.http import bodies
from tests.support.http.checks import CHECKS
from tests.support.http.problems import read_problem
from tests.support.http.serving import serving
from tests.support.profiles import request_examples

LIMITS = Limits(
    body_bytes=2**20, tensor_elements=2**14, output_bytes=2**16, work=2**14, batch_requests=8, receive_ms=500
)
DATA_ROUTES = ("/v1/execute", "/v1/batch", "/v1/validate")
MODES = list(schemathesis.GenerationMode)


@pytest.fixture(scope="module")
def document() -> Iterator[Any]:
    """The document as served by a running server."""
    with serving(Settings(port=0, limits=LIMITS)) as server:
        yield schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def operations(document: Any) -> dict[str, Any]:
    return {operation.path: operation for operation in (found.ok() for found in document.get_all_operations())}


def check(case: Any) -> None:
    """Checks that the response is documented, and that a problem refers to what was sent."""
    if case.media_type == bodies.JSON and case.headers:
        case.headers.pop(bodies.HEAD_LENGTH, None)  # belongs to the other media type, which OpenAPI cannot express
    response = case.call_and_validate(checks=CHECKS)
    if response.status_code >= 400:
        headers = {name: value for name, (value,) in response.headers.items()}
        body = response.request.body
        sent = None
        if response.request.headers.get("Content-Type") == bodies.JSON:
            with suppress(ValueError):
                sent = json.loads(body)
        read_problem(response.status_code, headers, response.content, sent)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("path", DATA_ROUTES)
def test_data_routes_conform(document, path, mode):
    @request_examples(10)
    @given(case=operations(document)[path].as_strategy(generation_mode=mode))
    def conforms(case):
        check(case)

    conforms()


def test_other_routes_conform(document):
    found = operations(document)
    others = found.keys() - set(DATA_ROUTES)
    assert {"/v1/operators", "/v1/operators/{name}", "/v1/feature-levels", "/v1/server", "/livez", "/readyz"} <= others
    for path in sorted(others):

        @request_examples(5)
        @given(case=found[path].as_strategy())
        def conforms(case):
            case.call_and_validate(checks=CHECKS)

        conforms()
