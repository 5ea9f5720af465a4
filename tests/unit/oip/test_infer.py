"""The Open Inference Protocol without HTTP: reading requests, writing responses, and locating violations."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.errors import ContractViolation, NotFoundError, OpwireError, RequestError
from opwire.operator import Code, Violation
from opwire.tensor import BufferTensorDesc, DataType
from opwire.wire import RequestBody
from opwire_service.kernels.executable import EXECUTABLE
from opwire_service.oip.answer import numbers_in, write_infer
from opwire_service.oip.datatypes import DATA_TYPES, NAMES
from opwire_service.oip.infer import InferRequest, RequestedOutput, parse_infer, with_optional_outputs
from opwire_service.oip.models import ServedModel, config, find_model, index, metadata, models, versions
from opwire_service.oip.parameters import parse_header, read_priority, read_timeout
from opwire_service.oip.pointers import place, relocate
from opwire_service.oip.statistics import CELLS, Statistics
from opwire_service.telemetry.metrics import Layout, Metrics
from tests.directml.tensor_support import FACTS
from tests.support.http.inference import binary_infer_request, infer_request, infer_tensor
from tests.support.rows import for_each

ARGMAX = find_model("ARGMAX", None)
POOLING = find_model("MAX_POOLING1", None)
WINDOW = {"Strides": "1,1", "WindowSize": "1,1", "StartPadding": "0,0", "EndPadding": "0,0"}


def parsed(model: ServedModel = ARGMAX, header: str = "", **changes: Any) -> InferRequest:
    return parse_infer(RequestBody.split(json.dumps(infer_request(**changes)).encode()), model, header)


def pooled(**changes: Any) -> InferRequest:
    return parsed(POOLING, inputs=[infer_tensor(shape=[1, 1, 1, 3])], parameters=WINDOW, **changes)


@pytest.mark.parametrize("name", FACTS["fields"])
def test_models_are_operators_and_versions_are_levels(name):
    introduced = FACTS["operators"][name][1].replace("_", "") + "00"
    known = versions(name)
    assert known[0] == introduced
    assert known[-1] == "6400"
    assert list(known) == sorted(known)
    assert find_model(name, None) is find_model(name, "6400") is find_model(f"DML_OPERATOR_{name}", "6400")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("FLATTEN", None),
        ("argmax", None),
        ("", None),
        ("ARGMAX", "2100"),
        ("ARGMAX", "6_4"),
        ("ARGMAX", ""),
        ("x" * 999, None),
    ],
)
def test_unknown_models_are_not_found(name, version):
    with pytest.raises(NotFoundError) as missing:
        find_model(name, version)
    assert len(missing.value.detail) < 400


def test_the_index_lists_each_model_once():
    listed = [(model["name"], model["version"]) for model in index(())]
    assert len(set(listed)) == len(listed) == sum(1 for _ in models())


@for_each(EXECUTABLE)
def test_metadata_and_configuration_of_each_version(name):
    for model in models((name,)):
        described, configured = metadata(model), config(model)
        assert described["versions"] == list(versions(name))
        assert json.loads(json.dumps(configured)) == configured
        for tensors in (described["inputs"], described["outputs"]):
            assert isinstance(tensors, list)
            assert all(tensor["datatype"] in DATA_TYPES for tensor in tensors)


def test_data_type_names_convert_in_both_directions():
    assert {name: data_type for data_type, name in NAMES.items()} == DATA_TYPES
    assert set(DataType) - set(NAMES) == {DataType.INT4, DataType.UINT4}
    for data_type, name in NAMES.items():
        assert name.removeprefix("FP").removeprefix("U").removeprefix("INT") == str(data_type.bits)


def test_a_request_becomes_an_execute_request():
    request = parsed(id="a", parameters={"Axes": "[0]", "AxisDirection": "INCREASING", "priority": 3, "timeout": 1500})
    execute = request.execute
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0], "AxisDirection": "INCREASING"}
    assert execute.operator == {"type": "ARGMAX", "desc": desc}
    assert execute.feature_level is ARGMAX.level
    assert (execute.priority, execute.timeout_ms) == (2, 2)
    assert (request.identity, request.outputs, request.binary, request.optional) == ("a", (), False, ())


def test_tensors_are_taken_from_the_tail_in_order():
    head, tail = binary_infer_request()
    request = parse_infer(RequestBody.split(bytearray(head + tail), str(len(head))), ARGMAX)
    (payload,) = request.execute.inputs.values()
    assert isinstance(payload, memoryview)
    assert payload == tail


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("[1, 2]", [1, 2]),
        ("1,2", [1, 2]),
        (" [1]", [1]),
        ("", []),
        ("[]", []),
        (3, [3]),
        ([1, 2], [1, 2]),
        (2**70, [2**70]),
        ("1;2", "1;2"),
        ("[1", "[1"),
        (True, True),
        (1.5, 1.5),
    ],
)
def test_arrays_can_be_parameters(given, read):
    request = parsed(parameters={"Axes": given, "AxisDirection": "INCREASING"})
    operator = request.execute.operator
    assert isinstance(operator, dict)
    assert operator["desc"]["Axes"] == read


def test_descs_can_be_parameters():
    request = parsed(parameters={"OutputTensor": '{"DataType": "INT64"}', "AxisCount": 1, "AxisDirection": 0})
    operator = request.execute.operator
    assert isinstance(operator, dict)
    assert (
        operator["desc"].items() >= {"OutputTensor": {"DataType": "INT64"}, "AxisCount": 1, "AxisDirection": 0}.items()
    )


@pytest.mark.parametrize(("given", "priority"), [(0, None), (1, 0), (2, 1), (10, 9), (11, 9), (2**64, 9)])
def test_priorities_are_converted(given, priority):
    assert read_priority({"priority": given}) == priority
    assert read_priority({}) is None


@pytest.mark.parametrize(("given", "ms"), [(0, None), (1, 1), (1000, 1), (1001, 2), (2**64, 2**31 - 1)])
def test_timeouts_are_converted(given, ms):
    assert read_timeout({"timeout": given}) == ms
    assert read_timeout({}) is None


def test_parameters_in_the_body_override_the_header():
    request = parsed(header='{"Axes": [7], "AxisDirection": "DECREASING"}', parameters={"Axes": "0"})
    operator = request.execute.operator
    assert isinstance(operator, dict)
    assert (operator["desc"]["Axes"], operator["desc"]["AxisDirection"]) == ([0], "DECREASING")
    assert request.parameters == {"Axes"}
    assert parse_header("") == {}


@pytest.mark.parametrize(
    ("outputs", "binary", "found", "optional"),
    [
        (None, None, (), ("OutputIndicesTensor",)),
        ([], None, (), ("OutputIndicesTensor",)),
        ([{"name": "OutputTensor"}], None, (RequestedOutput("OutputTensor", False),), ()),
        ([{"name": "OutputTensor"}], True, (RequestedOutput("OutputTensor", True),), ()),
        (
            [{"name": "OutputIndicesTensor", "parameters": {"binary_data": False}}, {"name": "OutputTensor"}],
            True,
            (RequestedOutput("OutputIndicesTensor", False), RequestedOutput("OutputTensor", True)),
            ("OutputIndicesTensor",),
        ),
    ],
)
def test_optional_outputs_are_computed_only_if_requested(outputs, binary, found, optional):
    parameters = WINDOW if binary is None else {**WINDOW, "binary_data_output": binary}
    request = parsed(POOLING, inputs=[infer_tensor(shape=[1, 1, 1, 3])], parameters=parameters, outputs=outputs)
    assert (request.outputs, request.optional) == (found, optional)
    plan = check(with_optional_outputs(request).operator)
    assert list(plan.outputs) == ["OutputTensor", *optional]
    for name in optional:
        assert plan.outputs[name] == BufferTensorDesc(DataType.UINT32, (1, 1, 1, 3))


def test_responses_have_each_form():
    buffers = {
        "OutputTensor": np.frombuffer(struct.pack("<3f", 1, float("nan"), -float("inf")), np.uint8),
        "OutputIndicesTensor": np.frombuffer(struct.pack("<3I", 0, 1, 2), np.uint8),
    }
    sizes = (1, 1, 1, 3)
    descs = {
        "OutputTensor": BufferTensorDesc(DataType.FLOAT32, sizes),
        "OutputIndicesTensor": BufferTensorDesc(DataType.UINT32, sizes),
    }
    outputs = [{"name": "OutputIndicesTensor", "parameters": {"binary_data": True}}, {"name": "OutputTensor"}]
    request = pooled(outputs=outputs, id="7")
    assert numbers_in(request, descs) == 3
    answer = write_infer(request, POOLING, descs, buffers)
    (head,), (tail,) = answer
    assert bytes(tail) == struct.pack("<3I", 0, 1, 2)
    assert answer.head_length == len(head)
    assert b'"data":[1.0,NaN,-Infinity]' in bytes(head)
    found = json.loads(bytes(head))
    assert found | {"outputs": None} == {
        "model_name": "MAX_POOLING1",
        "model_version": "6400",
        "outputs": None,
        "id": "7",
    }
    assert [output["shape"] for output in found["outputs"]] == [[1, 1, 1, 3]] * 2
    assert numbers_in(pooled(), descs) == 6
    whole = write_infer(pooled(), POOLING, descs, buffers)
    assert whole.head_length is None
    assert "id" not in json.loads(bytes(whole.head[0]))


def test_a_strided_output_is_packed():
    desc = BufferTensorDesc(DataType.UINT8, (2, 2), (1, 3))
    buffer = np.arange(5, dtype=np.uint8)
    request = parsed(parameters={"Axes": "0", "AxisDirection": "INCREASING", "binary_data_output": True})
    assert numbers_in(request, {"OutputTensor": desc}) == 0
    (tail,) = write_infer(request, ARGMAX, {"OutputTensor": desc}, {"OutputTensor": buffer}).tail
    assert list(tail) == [0, 3, 1, 4]


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/operator/desc/InputTensor", "/inputs/1"),
        ("/operator/desc/InputTensor/Sizes/2", "/inputs/1/shape/2"),
        ("/operator/desc/InputTensor/DataType", "/inputs/1/datatype"),
        ("/operator/desc/InputTensor/TotalTensorSizeInBytes", "/inputs/1"),
        ("/operator/desc/Axes/0", "/parameters/Axes"),
        ("/operator/desc/Window", ""),
        ("/operator/desc", ""),
        ("/operator", ""),
        ("/inputs", ""),
        ("/inputs/Other/data/0/1", "/inputs/0/data/0/1"),
        ("/inputs/Other", "/inputs/0"),
        ("/device", ""),
        ("", ""),
    ],
)
def test_pointers_are_translated_to_the_protocol(pointer, found):
    assert place(pointer, ["Other", "InputTensor"], {"Axes"}) == found


def test_an_error_contains_its_violations():
    violations = [Violation(Code.WRONG_TYPE, "/operator/desc/Axes", f"reason {i}") for i in range(12)]
    error: OpwireError = ContractViolation(violations)
    relocate(error, ["InputTensor"], {"Axes"})
    assert error.detail.startswith("reason 0; reason 1; ")
    assert error.detail.endswith("; reason 9; and 2 more")
    assert {violation.pointer for violation in error.violations} == {"/parameters/Axes"}


@pytest.mark.parametrize(
    "changes",
    [{"inputs": None}, {"id": 1}, {"x": 1}, {"parameters": {"x": 1}}, {"inputs": [infer_tensor(data=None)] * 2}],
)
def test_malformed_requests_are_refused(changes):
    with pytest.raises(RequestError) as refused:
        parsed(**changes)
    assert refused.value.violations


def test_statistics_add_up():
    counted = Statistics(Metrics(Layout((), (), CELLS)))
    timing = {"receive": 9, "parse": 9, "check": 9, "decode": 2, "queue": 3, "run": 5, "encode": 7, "total": 50}
    for _ in range(2):
        counted.succeeded(ARGMAX, timing)
    counted.failed(ARGMAX, 11)
    (stats,) = counted.to_json([ARGMAX])["model_stats"]
    durations = {"success": 50, "compute_input": 2, "queue": 3, "compute_infer": 5, "compute_output": 7}
    assert stats["inference_stats"] == {
        **{name: {"count": 2, "ns": 2 * us * 1000} for name, us in durations.items()},
        "fail": {"count": 1, "ns": 11_000},
        "cache_hit": {"count": 0, "ns": 0},
        "cache_miss": {"count": 0, "ns": 0},
    }
    assert stats["inference_count"] == stats["execution_count"] == 2
    (other,) = counted.to_json([POOLING])["model_stats"]
    assert other["inference_count"] == other["last_inference"] == 0
