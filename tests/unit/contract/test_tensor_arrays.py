"""Arrays of tensors everywhere: requests and responses, both protocols, both clients, and bindings of models."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from opwire import Call, prepare
from opwire.check import check
from opwire.desc import Report
from opwire.dxdispatch import Dispatch, parse_model
from opwire.errors import ContractViolation, ProblemCode, RequestError
from opwire.fields.tensors import MOST_TENSORS
from opwire.level import HIGHEST, FeatureLevel
from opwire.tensor_names import grouped, place, split, ungrouped
from opwire.wire import (
    HEAD_LENGTH,
    Encoding,
    Outcome,
    OutputFormat,
    RequestBody,
    encode_output,
    output_frames,
    parse_batch,
    parse_execute,
    read_answer,
    read_inputs,
    write_call,
    write_calls,
    write_outcome,
)
from opwire_service.offline.bindings import bind, require_all, require_apart
from opwire_service.oip.answer import write_infer
from opwire_service.oip.infer import parse_infer, refuse_unknown_outputs
from opwire_service.oip.models import config, model_of, version_at
from opwire_service.oip.pointers import place as place_in_inference
from tests.support.array_operators import JOIN, SPLIT, counted, join_operator, join_plan, split_plan

encodings = pytest.mark.parametrize("encoding", list(Encoding))
NUMBERS = {"data": [1, 2]}


def parsed(inputs: object, **members: object) -> Any:
    body = {"operator": join_operator(2, 2), "inputs": inputs, **members}
    return parse_execute(RequestBody.split(json.dumps(body).encode()))


def faults(error: Any) -> list[tuple[str, str]]:
    return [(found.code.value, found.pointer) for found in error.value.violations]


# --- names


def test_names_of_array_elements_are_parsed():
    assert split("InputTensors[12]") == ("InputTensors", 12)
    for name in ("InputTensor", "A[01]", "A[-1]", "A[]", "[0]", "A[1", "A[1] ", "A[99999999999]"):
        assert split(name) == (name, None)
    assert place("/inputs", "A[3]") == "/inputs/A/3"
    assert place("/inputs", "A/B") == "/inputs/A~1B"
    flat = {"A[0]": 1, "A[1]": 2, "B": 3, "C[0]": 4}
    assert grouped(flat) == {"A": [1, 2], "B": 3, "C": [4]}
    assert grouped({"A[1]": 1, "B": 2, "A[0]": 3, "C[1]": 4}) == {"A": [3, 1], "B": 2, "C[1]": 4}
    assert ungrouped(grouped(flat)) == flat


# --- requests


@encodings
def test_lists_of_tensors_round_trip(encoding):
    arrays = counted(2, 3, 1)
    call = prepare.execute(join_operator(2, 3, 1), {"InputTensors": list(arrays)})
    headers, chunks = write_call(call, encoding)
    body = b"".join(chunks)
    head = json.loads(body[: int(headers.get(HEAD_LENGTH, len(body)))])
    assert list(head["inputs"]) == ["InputTensors"]
    assert len(head["inputs"]["InputTensors"]) == 3
    request = parse_execute(RequestBody.split(body, headers.get(HEAD_LENGTH)))
    found = read_inputs(join_plan(2, 3, 1), request)
    assert list(found) == ["InputTensors[0]", "InputTensors[1]", "InputTensors[2]"]
    assert [array.tolist() for array in found.values()] == [array.tolist() for array in arrays]


def test_tensors_of_a_list_follow_each_other_in_the_tail():
    calls = [prepare.execute(join_operator(n, 1), {"InputTensors": list(counted(n, 1))}) for n in (2, 3)]
    headers, chunks = write_calls(calls, Encoding.BINARY)
    body = b"".join(chunks)
    tail = np.frombuffer(body[int(headers[HEAD_LENGTH]) :], np.float32)
    assert tail.tolist() == [0, 1, 100, 0, 1, 2, 100]
    first, second = parse_batch(RequestBody.split(body, headers[HEAD_LENGTH]), 2)
    assert not isinstance(first, RequestError)
    assert not isinstance(second, RequestError)
    assert read_inputs(join_plan(3, 1), second)["InputTensors[0]"].tolist() == [0, 1, 2]


def test_a_single_input_can_be_a_list_of_tensors():
    call = prepare.execute(join_operator(2, 2), counted(2, 2))
    assert list(call.inputs) == ["InputTensors[0]", "InputTensors[1]"]
    numbers = prepare.execute(join_operator(2, 2), {"InputTensors": [[1.0, 2.0], [3.0, 4.0]]})
    assert numbers.inputs["InputTensors[1]"].tolist() == [3, 4]
    with pytest.raises(TypeError, match="takes a list of tensors"):
        prepare.execute(join_operator(2), {"InputTensors": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match=r"InputTensors\[1\] is an array"):
        prepare.execute(join_operator(2, 2), {"InputTensors": counted(2, 3)})


def test_tensors_of_a_list_can_have_any_layout():
    operator = join_operator(2, 2)
    operator["desc"]["InputTensors"][1]["Strides"] = [2]
    call = prepare.execute(operator, {"InputTensors": counted(2, 2)})
    assert list(call.layouts) == ["InputTensors[1]"]
    _, chunks = write_call(call, Encoding.BINARY)
    assert np.frombuffer(b"".join(chunks[1:]), np.float32).tolist() == [0, 1, 100, 0, 101]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"InputTensors": [NUMBERS]}, [("count_mismatch", "/inputs/InputTensors")]),
        ({"InputTensors": [NUMBERS] * 3}, [("count_mismatch", "/inputs/InputTensors")]),
        ({"InputTensors": NUMBERS}, [("count_mismatch", "/inputs/InputTensors")]),
        ({}, [("missing_tensor", "/inputs")]),
        ({"InputTensors": [NUMBERS] * 2, "Other": [NUMBERS] * MOST_TENSORS}, [("unknown_tensor", "/inputs/Other")]),
        ({"InputTensors": [NUMBERS, {"data": [1]}]}, [("shape_mismatch", "/inputs/InputTensors/1/data")]),
        ({"InputTensors": [NUMBERS, "AAAA"]}, [("byte_count_mismatch", "/inputs/InputTensors/1")]),
    ],
)
def test_tensors_without_a_desc_are_refused(inputs, expected):
    with pytest.raises(ContractViolation) as error:
        read_inputs(join_plan(2, 2), parsed(inputs))
    assert faults(error) == expected


def test_a_list_for_a_single_tensor_is_refused():
    with pytest.raises(ContractViolation, match=r"a list of 1 tensor given; .* takes a single tensor"):
        read_inputs(split_plan(1, 1), parsed({"InputTensor": [NUMBERS]}))


def test_invalid_base64_in_a_list_is_located():
    with pytest.raises(RequestError) as error:
        read_inputs(join_plan(2, 2), parsed({"InputTensors": ["AAAAAAAAAAA=", "????"]}))
    assert faults(error) == [("invalid_base64", "/inputs/InputTensors/1")]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"InputTensors": []}, [("out_of_range", "/inputs/InputTensors")]),
        ({"InputTensors": [NUMBERS] * (MOST_TENSORS + 1)}, [("out_of_range", "/inputs/InputTensors")]),
        ({"InputTensors": [[NUMBERS]]}, [("wrong_type", "/inputs/InputTensors/0")]),
        ({"InputTensors": [None, NUMBERS]}, [("wrong_type", "/inputs/InputTensors/0")]),
        ({"InputTensors[0]": NUMBERS}, [("unknown_tensor", "/inputs/InputTensors[0]")]),
    ],
)
def test_malformed_lists_are_refused(inputs, expected):
    with pytest.raises(RequestError) as error:
        parsed(inputs)
    assert error.value.code is ProblemCode.INVALID_REQUEST
    assert faults(error) == expected


def test_an_oversized_list_invalidates_the_tail():
    tensors = [{"binary_data_size": 0}] * (MOST_TENSORS + 1)
    head = json.dumps({"operator": {}, "inputs": {"InputTensors": tensors}}).encode()
    with pytest.raises(RequestError, match="1025 tensors given") as error:
        parse_execute(RequestBody.split(head, str(len(head))))
    assert error.value.code is ProblemCode.INVALID_FRAMING


# --- answers


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_array_outputs_are_returned_as_lists(output_format):
    plan, arrays = split_plan(2, 1), counted(2, 1)
    frames = output_frames(plan.outputs)
    encoded = [
        encode_output(frames[name], plan.outputs[name], array.view(np.uint8), output_format)
        for name, array in zip(plan.outputs, arrays, strict=True)
    ]
    made = write_outcome(Outcome(encoded, FeatureLevel.V6_4, "cpu", {}), "r")
    head = json.loads(b"".join(made.head))
    assert [tensor["desc"]["Sizes"] for tensor in head["outputs"]["OutputTensors"]] == [[2], [1]]
    length = None if made.head_length is None else str(made.head_length)
    result = read_answer(b"".join((*made.head, *made.tail)), length)
    assert [array.tolist() for array in result.outputs["OutputTensors"]] == [[0, 1], [100]]
    assert result.output.tolist() == [0, 1]
    assert list(result.tensors) == ["OutputTensors[0]", "OutputTensors[1]"]
    assert "OutputTensors[1]: float32[1]" in repr(result)


def test_single_outputs_can_accompany_a_list():
    tensor = join_plan(1).outputs["OutputTensor"]
    frames = output_frames({"A": tensor, "B[0]": tensor, "B[1]": tensor, "C[0]": tensor, "D": tensor})
    text = b",".join(frame.head + b'"data":"AAAAAA=="' + frame.end for frame in frames.values())
    found = json.loads(b"{" + text + b"}")
    assert {name: len(given) if isinstance(given, list) else None for name, given in found.items()} == {
        "A": None,
        "B": 2,
        "C": 1,
        "D": None,
    }


def test_an_empty_list_is_not_an_output():
    answer = {"outputs": {"A": []}, "feature_level": "6_4", "device": "cpu", "timing": {}, "request_id": "r"}
    with pytest.raises(ValueError, match="A is an empty list"):
        read_answer(json.dumps(answer).encode(), None)


# --- the Open Inference Protocol


def inference(names: list[str], outputs: list[str] | None = None, operator: Any = JOIN) -> Any:
    tensors = [{"name": name, "datatype": "FP32", "shape": [2], "data": [1, 2]} for name in names]
    request = {"inputs": tensors, "parameters": {"Axis": 0}, "outputs": [{"name": name} for name in outputs or ()]}
    return parse_infer(RequestBody.split(json.dumps(request).encode()), model_of(operator.name, version_at(HIGHEST)))


def test_inference_requests_name_the_tensors_of_an_array():
    request = inference(["InputTensors[1]", "InputTensors[0]"])
    assert [tensor["Sizes"] for tensor in request.execute.operator["desc"]["InputTensors"]] == [[2], [2]]
    assert list(request.execute.inputs) == ["InputTensors[1]", "InputTensors[0]"]
    assert list(read_inputs(join_plan(2, 2), request.execute)) == ["InputTensors[0]", "InputTensors[1]"]


@pytest.mark.parametrize(
    ("names", "code", "pointer"),
    [
        (["InputTensors"], "unknown_tensor", "/inputs/0/name"),
        (["InputTensors[0]", "InputTensor"], "unknown_tensor", "/inputs/1/name"),
        (["InputTensors[0]", "InputTensors[2]"], "missing_tensor", "/inputs"),
        (["InputTensors[4294967295]"], "missing_tensor", "/inputs"),
        (["InputTensors[0]", "InputTensors[0]"], "wrong_type", "/inputs/1/name"),
        ([f"InputTensors[{i}]" for i in range(3000)], "out_of_range", "/inputs"),
    ],
)
def test_inference_requests_with_wrong_names_are_refused(names, code, pointer):
    with pytest.raises((RequestError, ContractViolation)) as error:
        inference(names)
    assert faults(error) == [(code, pointer)]


def test_inference_responses_name_the_tensors_of_an_array():
    request = inference(["InputTensor"], ["OutputTensors[1]"], SPLIT)
    plan = split_plan(1, 1)
    refuse_unknown_outputs(request, plan)
    buffers = {name: np.ones(1, np.float32).view(np.uint8) for name in plan.outputs}
    answer = json.loads(
        b"".join(write_infer(request, model_of(SPLIT.name, version_at(HIGHEST)), plan.outputs, buffers).head)
    )
    assert [output["name"] for output in answer["outputs"]] == ["OutputTensors[1]"]
    with pytest.raises(ContractViolation, match=r"OutputTensors\[1\] given; this desc has the outputs") as error:
        refuse_unknown_outputs(request, split_plan(2))
    assert faults(error) == [("unknown_tensor", "/outputs/0/name")]
    with pytest.raises(ContractViolation, match=r"OutputTensors\[0\], OutputTensors\[1\], \.\.\."):
        inference(["InputTensor"], ["OutputTensors"], SPLIT)


def test_inference_violations_point_to_their_tensors():
    names = ["InputTensors[1]", "InputTensors[0]"]
    assert place_in_inference("/operator/desc/InputTensors/1/Sizes/0", names, ()) == "/inputs/0/shape/0"
    assert place_in_inference("/inputs/InputTensors/0/data/3", names, ()) == "/inputs/1/data/3"
    assert place_in_inference("/operator/desc/InputTensors", names, ()) == ""
    assert place_in_inference("/outputs/0/name", names, ()) == "/outputs/0/name"


def test_metadata_describes_arrays():
    model = model_of(JOIN.name, version_at(HIGHEST))
    assert model.inputs == {"InputTensors": True}
    described: Any = config(model)
    assert [tensor["name"] for tensor in described["input"]] == ["InputTensors[0]"]


# --- models of DxDispatch


def bound(inputs: object, buffers: tuple[str, ...] = ("A", "B")) -> Any:
    buffer = {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 8}}
    operator = {"type": "JOIN", "desc": join_operator(2, 2)["desc"]}
    command = {"type": "dispatch", "dispatchable": "join", "bindings": {"InputTensors": inputs, "OutputTensor": "Out"}}
    resources = dict.fromkeys((*buffers, "Out"), buffer)
    document = {"resources": resources, "dispatchables": {"join": operator}, "commands": [command]}
    return parse_model(json.dumps(document))


def test_bindings_of_an_array_are_a_list():
    model = bound(["A", {"name": "B", "elementOffset": 4}])
    command = model.commands[0]
    assert isinstance(command, Dispatch)
    plan, report = join_plan(2, 2), Report()
    known = {**plan.inputs, **plan.outputs}
    pieces = bind(command.bindings, plan, known, model.resources, "/commands/0/bindings", report)
    require_all(plan, known, command.bindings, "/commands/0/bindings", report)
    require_apart(pieces, plan, report)
    assert report.violations == []
    assert {name: (piece.resource, piece.start) for name, piece in pieces.items()} == {
        "InputTensors[0]": ("A", 0),
        "InputTensors[1]": ("B", 16),
        "OutputTensor": ("Out", 0),
    }


@pytest.mark.parametrize("inputs", ["A", ["A"], ["A", "B", "A"]])
def test_bindings_of_the_wrong_length_are_refused(inputs):
    model, plan, report = bound(inputs), join_plan(2, 2), Report()
    bind(model.commands[0].bindings, plan, {**plan.inputs, **plan.outputs}, model.resources, "/b", report)
    assert [(found.code.value, found.pointer) for found in report.violations] == [("count_mismatch", "/b/InputTensors")]


def test_an_unbound_array_is_reported_once():
    report = Report()
    plan = join_plan(1, 1, 1)
    require_all(plan, plan.inputs, (), "/b", report)
    assert [found.message for found in report.violations] == ["nothing is bound to InputTensors"]


@pytest.mark.parametrize("inputs", [[], ["A"] * (MOST_TENSORS + 1), [["A"]], ["A", "Nothing"]])
def test_malformed_bindings_are_refused(inputs):
    with pytest.raises(RequestError) as error:
        bound(inputs)
    assert len(error.value.violations) == 1


def attention() -> dict[str, Any]:
    """Returns attention with a bias, named as in ONNX Runtime's headers."""
    sizes = {"QueryTensor": [1, 1, 2], "KeyTensor": [1, 2, 2], "ValueTensor": [1, 2, 2]}
    desc = {name: {"DataType": "FLOAT32", "Sizes": of} for name, of in sizes.items()}
    bias = {"AttentionBiasTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 2]}}
    scalars = {"Scale": 1, "MaskFilterValue": -1, "MaskType": "NONE", "HeadCount": 1}
    return {"type": "MULTIHEAD_ATTENTION", "desc": {**desc, **bias, **scalars}}


def test_an_input_can_be_given_by_any_alias():
    operator = attention()
    names = ("QueryTensor", "KeyTensor", "ValueTensor")
    inputs = {name: {"data": np.zeros(operator["desc"][name]["Sizes"]).tolist()} for name in names}
    body = {"operator": operator, "inputs": {**inputs, "AttentionBiasTensor": {"data": [[[[1, 2]]]]}}}
    request = parse_execute(RequestBody.split(json.dumps(body).encode()))
    read = read_inputs(check(operator), request)
    assert read["RelativePositionBiasTensor"].ravel().tolist() == [1, 2]
    body["inputs"]["AttentionBiasTensor"] = {"data": [1]}
    request = parse_execute(RequestBody.split(json.dumps(body).encode()))
    with pytest.raises(ContractViolation) as error:
        read_inputs(check(operator), request)
    assert faults(error) == [("shape_mismatch", "/inputs/AttentionBiasTensor/data")]


def test_a_tensor_can_be_bound_by_any_alias():
    operator = attention()
    buffer = {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 8}}
    tensors = [name for name in operator["desc"] if name.endswith("Tensor")]
    names = dict.fromkeys((*tensors, "OutputTensor"), "A")
    command = {"type": "dispatch", "dispatchable": "attend", "bindings": names}
    document = {"resources": {"A": buffer}, "dispatchables": {"attend": operator}, "commands": [command]}
    model, plan, report = parse_model(json.dumps(document)), check(operator), Report()
    dispatch = model.commands[0]
    assert isinstance(dispatch, Dispatch)
    known = {**plan.inputs, **plan.outputs}
    pieces = bind(dispatch.bindings, plan, known, model.resources, "/b", report)
    require_all(plan, known, dispatch.bindings, "/b", report)
    assert report.violations == []
    assert set(pieces) == {"QueryTensor", "KeyTensor", "ValueTensor", "RelativePositionBiasTensor", "OutputTensor"}


def test_calls_keep_tensors_by_name():
    call = Call(join_operator(1, 1), dict(zip(("InputTensors[0]", "InputTensors[1]"), counted(1, 1), strict=True)))
    assert b"InputTensors" in b"".join(write_call(call, Encoding.NUMBERS)[1])
