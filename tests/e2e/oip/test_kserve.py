"""KServe's client against a real server: its results match those of the native route."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest

from opwire_service.kernels.executable import EXECUTABLE
from tests.support.examples import EXAMPLES
from tests.support.http import inference
from tests.support.http.inference import assert_equal

kserve = pytest.importorskip("kserve", reason="KServe's client is not installed: scripts/test-all does")
RequestedOutput = pytest.importorskip("kserve.protocol.infer_type").RequestedOutput

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    async with kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=30)) as found:
        yield found


def infer_request(operator: Any, example: Any, *, binary: bool, outputs: list[Any] | None = None) -> Any:
    inputs = []
    for name, array in inference.arrays(example).items():
        inputs.append(kserve.InferInput(name, list(array.shape), inference.DATATYPES[array.dtype.name.upper()]))
        inputs[-1].set_data_from_numpy(array, binary_data=binary)
    given = {**inference.parameters(example), "binary_data_output": binary}
    return kserve.InferRequest(operator.name, inputs, "id-1", parameters=given, request_outputs=outputs)


def fits_json(*arrays: Any) -> bool:
    """Whether the client can send these arrays as JSON: no FLOAT16, NaN or infinities."""
    return all(array.dtype != np.float16 and np.isfinite(array).all() for array in arrays)


@pytest.mark.parametrize(("operator", "example"), EXAMPLES)
async def test_examples_match_the_native_route(client, http, server_url, operator, example):
    right = inference.run_native(http, operator, example)
    names = list(right)
    # The client has no parameter for versions, but puts the model's name into the URL unescaped.
    model = f"{operator.name}/versions/{inference.version_of(example)}"
    as_json = fits_json(*inference.arrays(example).values()) and fits_json(*right.values())
    for binary in (True, False) if as_json else (True,):
        for outputs in (None, [RequestedOutput(names[-1], {"binary_data": binary})]):
            asked = infer_request(operator, example, binary=binary, outputs=outputs)
            answer = await client.infer(server_url, asked, model_name=model)
            assert answer.model_name == operator.name
            assert answer.id == "id-1"
            for output in answer.outputs:
                assert_equal(output.as_numpy(), right[output.name], text=True)
            assert [output.name for output in answer.outputs] == (names if outputs is None else names[-1:])


async def test_health_and_readiness_are_reported(client, server_url):
    assert await client.is_server_live(server_url)
    assert await client.is_server_ready(server_url)
    assert await client.is_model_ready(server_url, "ARGMAX")
    assert not await client.is_model_ready(server_url, "FLATTEN")


@pytest.mark.parametrize(
    ("model", "axes", "said"),
    [("FLATTEN", "[0]", 'there is no model "FLATTEN"'), ("ARGMAX", "[7]", "axis 7 given for an InputTensor of rank 2")],
)
async def test_refusals_reach_the_caller(client, server_url, model, axes, said):
    operator = EXECUTABLE["ARGMAX"]
    asked = infer_request(operator, operator.examples[0], binary=True)
    asked.parameters["Axes"] = axes
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await client.infer(server_url, asked, model_name=model)
    assert said in str(refused.value)


async def test_null_is_refused_as_a_number(client, server_url):
    """The client sends null for NaN in JSON."""
    tensor = kserve.InferInput("InputTensor", [2], "FP32", data=[1.0, float("nan")])
    asked = kserve.InferRequest("ARGMAX", [tensor], parameters={"Axes": "0", "AxisDirection": "INCREASING"})
    with pytest.raises(httpx.HTTPStatusError, match="null given"):
        await client.infer(server_url, asked, model_name="ARGMAX")
