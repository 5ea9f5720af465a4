"""Triton's client, sync and async, against a real server: its results match those of the native route."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from ml_dtypes import bfloat16
from tritonclient.http.auth import BasicAuth
from tritonclient.utils import InferenceServerException

from opwire_service.kernels.executable import EXECUTABLE
from tests.support.examples import IN_EVERY_FORM, ROWS, VARIED, Row, check_all
from tests.support.http import inference
from tests.support.http.inference import assert_equal

VARIED_EXAMPLES = [pytest.param(*row, id=str(row)) for row in ROWS if str(row) in VARIED]

ARGMAX = {"Axes": "[0]", "AxisDirection": "INCREASING"}
VERSIONS = {
    "ARGMAX": "3000 3100 4000 4100 5000 5100 5200 6000 6100 6200 6300 6400",
    "MAX_POOLING2": "2100 3000 3100 4000 4100 5000 5100 5200 6000 6100 6200 6300 6400",
}


@pytest.fixture(scope="module")
def address(server_url: str) -> str:
    return server_url.removeprefix("http://")


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with triton.InferenceServerClient(address, concurrency=4) as found:
        yield found


def infer_input(name: str, array: Any, *, binary: bool = True) -> Any:
    tensor = triton.InferInput(name, array.shape, inference.DATATYPES[array.dtype.name.upper()])
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def infer_arguments(array: Any, *, binary: bool = True, **options: Any) -> dict[str, Any]:
    """Returns the arguments of ``infer`` for ARGMAX along the first axis."""
    return {
        "model_name": "ARGMAX",
        "inputs": [infer_input("InputTensor", array, binary=binary)],
        "parameters": ARGMAX,
        **options,
    }


def calls(operator: Any, example: Any, right: Iterable[str]) -> Iterator[tuple[dict[str, Any], dict[str, bool]]]:
    """Yields an example in every form: arguments of ``infer``, and for each output whether it comes as numbers."""
    names = list(right)
    for binary in (True, False):
        arrays = inference.arrays(example).items()
        asked = {
            "model_name": operator.name,
            "model_version": inference.version_of(example),
            "inputs": [infer_input(name, array, binary=binary) for name, array in arrays],
            "parameters": inference.parameters(example),
        }
        yield asked, dict.fromkeys(names, False)
        for first in (True, False):
            raw = {name: first if i == 0 else not first for i, name in enumerate(names)}
            outputs = [triton.InferRequestedOutput(name, binary_data=raw[name]) for name in names]
            yield {**asked, "outputs": outputs}, {name: not raw[name] for name in names}
            yield {**asked, "outputs": outputs[:1]}, {names[0]: not first}


def test_examples_match_the_native_route(client, http):
    def holds(row: Row) -> None:
        right = inference.run_native(http, *row)
        asked, found = next(calls(*row, right))
        result = client.infer(**asked)
        for name in found:
            assert_equal(result.as_numpy(name), right[name])

    check_all(ROWS, holds)


@pytest.mark.parametrize(("operator", "example"), IN_EVERY_FORM)
def test_examples_match_in_every_form(client, http, operator, example):
    right = inference.run_native(http, operator, example)
    for asked, found in calls(operator, example, right):
        result = client.infer(**asked)
        assert [output["name"] for output in result.get_response()["outputs"]] == list(found)
        for name, text in found.items():
            assert_equal(result.as_numpy(name), right[name], text=text)


@pytest.mark.anyio
@pytest.mark.parametrize(("operator", "example"), VARIED_EXAMPLES)
async def test_examples_match_in_every_form_async(address, http, operator, example):
    right = inference.run_native(http, operator, example)
    async with triton_aio.InferenceServerClient(address) as client:
        for asked, found in calls(operator, example, right):
            result = await client.infer(**asked)
            for name, text in found.items():
                assert_equal(result.as_numpy(name), right[name], text=text)


def test_async_infer_returns_all_results(client):
    arrays = [np.eye(8, dtype=np.float32)[i] for i in range(8)]
    asked = [client.async_infer(**infer_arguments(array)) for array in arrays]
    assert [request.get_result().as_numpy("OutputTensor").tolist() for request in asked] == [[i] for i in range(8)]


@pytest.mark.parametrize("answer", [None, "gzip", "deflate"])
@pytest.mark.parametrize("sent", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_requests_and_responses_can_be_compressed(client, sent, answer, binary):
    array = np.arange(200_000, dtype=np.float32).reshape(100, 2000)
    outputs = [triton.InferRequestedOutput("OutputTensor", binary_data=binary)]
    options = {"request_compression_algorithm": sent, "response_compression_algorithm": answer}
    result = client.infer(**infer_arguments(array, binary=binary, outputs=outputs, **options))
    assert result.as_numpy("OutputTensor").tolist() == [[99] * 2000]


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", [None, "gzip", "deflate"])
async def test_compression_works_async(address, encoding):
    options = {"request_compression_algorithm": encoding, "response_compression_algorithm": encoding}
    async with triton_aio.InferenceServerClient(address) as client:
        result = await client.infer(**infer_arguments(np.arange(1000, dtype=np.int64), **options))
        assert result.as_numpy("OutputTensor").tolist() == [999]


def test_health_and_readiness_are_reported(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("ARGMAX")
    assert client.is_model_ready("ARGMAX", "3000")
    assert not client.is_model_ready("ARGMAX", "2100")
    assert not client.is_model_ready("ARGMAX", "1")
    assert not client.is_model_ready("FLATTEN")


@pytest.mark.anyio
async def test_model_queries_work_async(address, client):
    async with triton_aio.InferenceServerClient(address) as other:
        assert await other.is_server_live()
        assert await other.is_server_ready()
        assert await other.is_model_ready("REDUCE", "1000")
        assert await other.get_server_metadata() == client.get_server_metadata()
        assert await other.get_model_metadata("REDUCE") == client.get_model_metadata("REDUCE")
        assert await other.get_model_config("REDUCE") == client.get_model_config("REDUCE")
        assert await other.get_model_repository_index() == client.get_model_repository_index()
        assert (await other.get_inference_statistics("REDUCE", "1000"))["model_stats"][0]["version"] == "1000"


def test_server_metadata_lists_extensions(client):
    metadata = client.get_server_metadata()
    assert metadata["name"] == "opwire"
    assert {"binary_tensor_data", "model_configuration", "parameters", "statistics"} <= set(metadata["extensions"])
    assert "system_shared_memory" not in metadata["extensions"]


@pytest.mark.parametrize(("name", "versions"), VERSIONS.items())
def test_model_metadata_and_config_agree(client, name, versions):
    metadata = client.get_model_metadata(name)
    assert metadata["name"] == name
    assert metadata["versions"] == versions.split()
    for tensors in (metadata["inputs"], metadata["outputs"]):
        assert all(set(tensor) == {"name", "datatype", "shape"} for tensor in tensors)
        assert all(set(tensor["shape"]) == {-1} for tensor in tensors)
    config = client.get_model_config(name)
    assert config["max_batch_size"] == 0
    for key, listed in (("input", metadata["inputs"]), ("output", metadata["outputs"])):
        assert [tensor["name"] for tensor in config[key]] == [tensor["name"] for tensor in listed]
        assert [tensor["data_type"] for tensor in config[key]] == [f"TYPE_{tensor['datatype']}" for tensor in listed]


def test_model_metadata_has_the_support_of_each_version(client):
    def support(version: str) -> Any:
        (row,) = client.get_model_metadata("ARGMAX", version)["parameters"]["support"]
        return row["tensors"]

    assert "INT64" in support("4100")["InputTensor"]["data_types"]
    assert "INT64" not in support("3000")["InputTensor"]["data_types"]
    assert support("3000")["InputTensor"]["ranks"] == list(range(1, 9))
    attributes = client.get_model_metadata("ARGMAX")["parameters"]["attributes"]
    assert set(attributes) == {"OutputTensor", "AxisCount", "Axes", "AxisDirection"}
    assert attributes["AxisDirection"] == "INCREASING | DECREASING"
    functions = client.get_model_metadata("REDUCE", "1000")["parameters"]["support"]
    named = " ".join(sorted(name for row in functions for name in row["when"]["Function"]))
    assert named == "ARGMAX ARGMIN AVERAGE L1 L2 LOG_SUM LOG_SUM_EXP MAX MIN MULTIPLY SUM SUM_SQUARE"


def graph_names(http: httpx.Client) -> set[str]:
    """Returns the names of graphs registered by other tests, which are models too."""
    return {graph["name"] for graph in http.get("/v1/graphs").json()["graphs"]}


def test_the_repository_lists_all_models(client, http):
    graphs = graph_names(http)
    index = [model for model in client.get_model_repository_index() if model["name"] not in graphs]
    assert {model["name"] for model in index} == set(EXECUTABLE)
    assert [model["version"] for model in index if model["name"] == "ARGMAX"] == VERSIONS["ARGMAX"].split()
    assert {model["state"] for model in index} == {"READY"}
    client.load_model("ARGMAX")
    with pytest.raises(InferenceServerException, match="cannot be unloaded"):
        client.unload_model("ARGMAX")
    with pytest.raises(InferenceServerException, match='there is no model "FLATTEN"'):
        client.load_model("FLATTEN")


MEMBERS = {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"}


def test_statistics_count_successes_and_failures(client, http):
    def one() -> Any:
        (found,) = client.get_inference_statistics("ARGMIN", "5100")["model_stats"]
        return found

    before = one()
    asked = {**infer_arguments(np.array([3, 1, 2], np.uint8)), "model_name": "ARGMIN", "model_version": "5100"}
    client.infer(**asked)
    with pytest.raises(InferenceServerException):
        client.infer(**{**asked, "parameters": {}})
    after = one()
    assert after["version"] == "5100"
    assert set(after["inference_stats"]) == MEMBERS
    for member in ("inference_count", "execution_count"):
        assert after[member] == before[member] + 1
    for member in ("success", "fail", "queue", "compute_infer"):
        assert after["inference_stats"][member]["count"] == before["inference_stats"][member]["count"] + 1
    assert after["inference_stats"]["success"]["ns"] > before["inference_stats"]["success"]["ns"]
    assert after["last_inference"] > 1_600_000_000_000
    listed = client.get_inference_statistics("ARGMIN")["model_stats"]
    assert [stats["version"] for stats in listed] == VERSIONS["ARGMAX"].split()
    counted = {stats["name"] for stats in client.get_inference_statistics()["model_stats"]}
    assert counted - graph_names(http) == set(EXECUTABLE)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("dtype", "values", "winner"),
    [
        ("float16", [1, 65504, 2.5], 1),
        ("float16", [1e-7, 0, np.inf], 2),
        ("float32", [np.nan, -np.inf, -1e38], 2),
        ("float32", [np.nan, np.nan, np.nan], 0),
        ("uint64", [2**64 - 2, 2**64 - 1, 0], 1),
        ("int64", [-(2**63), 2**63 - 2, 2**63 - 1], 2),
        ("int8", [-128, 127, 0], 1),
    ],
)
def test_extreme_values_of_each_data_type_arrive(client, binary, dtype, values, winner):
    array = np.array(values, dtype)
    outputs = [triton.InferRequestedOutput("OutputTensor", binary_data=binary)]
    assert client.infer(**infer_arguments(array, binary=binary, outputs=outputs)).as_numpy("OutputTensor") == [winner]
    same = {**infer_arguments(array, binary=binary, outputs=outputs), "model_name": "REDUCE"}
    found = client.infer(**{**same, "parameters": {"Function": "MAX", "Axes": ""}}).as_numpy("OutputTensor")
    assert_equal(found, array, text=not binary)


def test_additional_options_of_the_client_are_ignored(client):
    array = np.array([1, 5, 2], np.float32)
    for options in (
        {"priority": 1},
        {"priority": 2**64 - 1},
        {"timeout": 30_000_000},
        {"sequence_id": 7, "sequence_start": True, "sequence_end": True},
        {"sequence_id": "seven", "sequence_start": True},
        {"query_params": {"unknown": [1, 2], "other": "x"}},
        {"headers": {"X-Other": "y"}},
    ):
        assert client.infer(**infer_arguments(array, **options)).as_numpy("OutputTensor").tolist() == [1]
    assert client.get_server_metadata(query_params={"verbose": 1})["name"] == "opwire"


def test_the_request_id_is_echoed(client):
    array = np.array([1, 5, 2], np.float32)
    assert client.infer(**infer_arguments(array, request_id='a"é')).get_response()["id"] == 'a"é'
    response = client.infer(**infer_arguments(array)).get_response()
    assert "id" not in response
    assert (response["model_name"], response["model_version"]) == ("ARGMAX", "6400")


def test_attributes_are_accepted_in_every_spelling(client):
    array = np.array([[1, 5], [5, 2]], np.float32)
    for axes in ("[1]", "1", " 1 ", 1):
        for direction in ("DECREASING", "DML_AXIS_DIRECTION_DECREASING", 1):
            given = {"Axes": axes, "AxisDirection": direction, "AxisCount": 1}
            assert client.infer(**infer_arguments(array) | {"parameters": given}).as_numpy("OutputTensor").tolist() == [
                [1],
                [0],
            ]
    for axes in ("[0, 1]", "0,1"):
        output = '{"DataType": "INT64", "Sizes": [1, 1]}'
        given = {**ARGMAX, "Axes": axes, "OutputTensor": output}
        found = client.infer(**infer_arguments(array) | {"parameters": given, "model_name": "DML_OPERATOR_ARGMAX"})
        assert_equal(found.as_numpy("OutputTensor"), np.array([[1]], np.int64))


def test_strided_outputs_are_returned_packed(client):
    array = np.array([[1, 2], [3, 4]], np.uint16)
    output = '{"DataType": "UINT16", "Sizes": [2, 2], "Strides": [1, 3]}'
    asked = infer_arguments(array, model_version="5000") | {
        "model_name": "REDUCE",
        "parameters": {"Function": "MAX", "Axes": "[]", "OutputTensor": output},
    }
    for binary in (True, False):
        outputs = [triton.InferRequestedOutput("OutputTensor", binary_data=binary)]
        assert_equal(client.infer(**asked, outputs=outputs).as_numpy("OutputTensor"), array)


def test_an_authentication_plugin_is_ignored_without_keys(address):
    with triton.InferenceServerClient(address) as client:
        client.register_plugin(BasicAuth("user", "password"))
        assert client.infer(**infer_arguments(np.array([1, 5], np.float32))).as_numpy("OutputTensor").tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"model_name": "FLATTEN"}, "404", 'there is no model "FLATTEN"; GET'),
        ({"model_version": "2100"}, "404", 'ARGMAX has no version "2100"; its versions are 3000, 3100'),
        ({"parameters": {}}, "422", "The request violates the operator contract: Axes is required and missing"),
        ({"parameters": {**ARGMAX, "Axes": "[1]"}}, "422", "axis 1 given; InputTensor has rank 1"),
        ({"parameters": {**ARGMAX, "Axis": 0}}, "400", 'ARGMAX has no parameter "Axis"'),
        ({"parameters": {**ARGMAX, "AxisDirection": "UP"}}, "422", '"UP" given; allowed: INCREASING, DECREASING'),
        ({"outputs": [triton.InferRequestedOutput("Indices")]}, "422", '"Indices" given; allowed: OutputTensor'),
        ({"outputs": [triton.InferRequestedOutput("OutputTensor", class_count=3)]}, "400", "classification"),
        ({"timeout": -1}, "400", "timeout is -1; it must be a non-negative integer"),
        ({"inputs": []}, "422", "InputTensor is required and missing"),
        ({"inputs": [infer_input("Input", np.zeros(3, np.float32))]}, "422", '"Input" given; allowed: InputTensor'),
    ],
)
def test_refusals_reach_the_caller(client, changes, status, said):
    with pytest.raises(InferenceServerException) as refused:
        client.infer(**infer_arguments(np.array([1, 5, 2], np.float32)) | changes)
    assert refused.value.status() == status
    assert said in refused.value.message()


@pytest.mark.parametrize(
    ("datatype", "array"),
    [("BF16", np.zeros(3, bfloat16)), ("BOOL", np.zeros(3, bool)), ("BYTES", np.array([b"a"], object))],
)
def test_data_types_unknown_to_directml_are_refused(client, datatype, array):
    tensor = triton.InferInput("InputTensor", array.shape, datatype)
    tensor.set_data_from_numpy(array)
    with pytest.raises(InferenceServerException, match=f'"{datatype}" given; allowed: FP32, FP16'):
        client.infer("ARGMAX", [tensor], parameters=ARGMAX)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("shape", "said"), [((0,), "the allowed range is 1 to"), ((), "a tensor has 1 to 8 dimensions")]
)
def test_empty_tensors_and_scalars_are_refused(client, shape, said, binary):
    with pytest.raises(InferenceServerException, match=said):
        client.infer(**infer_arguments(np.zeros(shape, np.float32), binary=binary))


@pytest.mark.anyio
async def test_refusals_reach_the_async_caller(address):
    async with triton_aio.InferenceServerClient(address) as client:
        with pytest.raises(InferenceServerException, match="there is no model") as refused:
            await client.infer(**infer_arguments(np.zeros(3, np.float32)) | {"model_name": "FLATTEN"})
        assert refused.value.status() == "404"


@pytest.mark.parametrize("binary", [True, False])
def test_repeated_requests_use_their_own_tensors(client, binary):
    """Results depend on the tensors of each request, not on those of the previous one."""
    for winner in (2, 0, 1, 1):
        array = np.zeros((3, 4), np.float32)
        array[winner] = 7
        for _ in range(2):
            found = client.infer(**infer_arguments(array, binary=binary))
            assert found.as_numpy("OutputTensor").tolist() == [[winner] * 4]
