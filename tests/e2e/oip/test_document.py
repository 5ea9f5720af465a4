"""The OpenAPI document of the inference routes is complete, and its examples and responses are valid."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import given

from opwire.schema import CATALOG
from opwire_service.kernels.executable import EXECUTABLE
from opwire_service.oip import routes as oip
from tests.support.examples import by_tensor
from tests.support.http import bodies
from tests.support.http.checks import CHECKS
from tests.support.http.problems import read_problem
from tests.support.profiles import request_examples


@pytest.fixture(scope="module")
def document(http) -> Any:
    return http.get("/openapi.json").json()


def test_every_route_is_described(document):
    described = {
        path.replace("/versions/{version}", "")
        for path in document["paths"]
        if path == "/v2" or path.startswith("/v2/")
    }
    assert described == set(oip.LABELS)
    for path in described:
        for operation in document["paths"][path].values():
            media = {name for status, answer in operation["responses"].items() for name in answer["content"]}
            assert media <= {"application/json", "application/octet-stream"}


def test_the_examples_succeed(document, http):
    body = document["paths"]["/v2/models/{name}/infer"]["post"]["requestBody"]["content"]["application/json"]
    right = {
        f"{operator.name}-{example.name}": (operator.name, example)
        for operator in EXECUTABLE.values()
        for example in operator.examples
    }
    assert set(body["examples"]) <= set(right)
    families = {CATALOG[right[name][0]].family for name in body["examples"]}
    assert families == {CATALOG[model].family for model, _ in right.values()}
    for name in body["examples"]:
        model, example = right[name]
        outputs = by_tensor(EXECUTABLE[model], example.outputs)
        response = http.post(f"/v2/models/{model}/infer", json=body["examples"][name]["value"])
        assert response.status_code == 200, response.text
        for output in response.json()["outputs"]:
            if output["name"] in outputs:
                data_type = {"FP32": "FLOAT32", "FP16": "FLOAT16"}.get(output["datatype"], output["datatype"])
                desc = {"DataType": data_type, "Sizes": output["shape"]}
                numbers = outputs[output["name"]]
                assert bodies.same(bodies.rounded(desc, output["data"]), bodies.rounded(desc, numbers))


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=str)
def test_responses_match_the_document(server_url, mode):
    schema = schemathesis.openapi.from_url(f"{server_url}/openapi.json")
    operation = schema["/v2/models/{name}/infer"]["POST"]

    @request_examples(30)
    @given(case=operation.as_strategy(generation_mode=mode))
    def conforms(case):
        response = case.call_and_validate(checks=CHECKS)
        if response.status_code >= 400:
            headers = {name: value for name, (value,) in response.headers.items()}
            sent = None
            with suppress(ValueError, TypeError):
                sent = json.loads(response.request.body)
            read_problem(response.status_code, headers, response.content, sent, bodies.JSON)

    conforms()
