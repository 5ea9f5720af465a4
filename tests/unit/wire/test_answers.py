"""Responses as bytes: what the service writes, what the client reads, and what it must reject."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import validate
from opwire.errors import ContractViolation, OverloadedError, ProblemCode
from opwire.level import FeatureLevel
from opwire.operator import Code, Violation
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire.wire import (
    Outcome,
    OutputFormat,
    PoolingResult,
    Result,
    encode_output,
    output_frames,
    read_answer,
    read_answers,
    read_pooling_answer,
    read_validation,
    write_batch,
    write_error,
    write_outcome,
)
from tests.strategies.operators import buffers
from tests.support.execution import logical

TYPES = [data_type for data_type in DataType if data_type.bits >= 8]
formats = pytest.mark.parametrize("output_format", list(OutputFormat))


@st.composite
def outputs(draw: st.DrawFn) -> tuple[BufferTensorDesc, bytes]:
    """Draws a valid output tensor and its buffer."""
    data_type = draw(st.sampled_from(TYPES))
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    steps, strides = draw(st.sampled_from([1, 2])), []
    for size in sizes:  # column-major, possibly with gaps
        strides.append(steps)
        steps *= size
    desc = BufferTensorDesc(data_type, sizes, draw(st.sampled_from([None, tuple(strides)])))
    return desc, draw(buffers(data_type, desc.extent))


def answer(outputs: Any, **changes: object) -> dict[str, Any]:
    return {
        "outputs": outputs,
        "feature_level": "DML_FEATURE_LEVEL_4_1",
        "device": "cpu",
        "timing": {"run": 7, "total": 9},
        "request_id": "r1",
        **changes,
    }


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def desc_json(desc: BufferTensorDesc) -> dict[str, object]:
    members: dict[str, object] = {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}
    return members if desc.strides is None else members | {"Strides": list(desc.strides)}


def named(value: Any) -> Any:
    """Returns numbers as JSON represents them."""
    if isinstance(value, list):
        return [named(item) for item in value]
    if isinstance(value, int) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@given(tensor=outputs())
def test_outputs_are_read_in_every_form(tensor):
    desc, buffer = tensor
    described = {"desc": desc_json(desc)}
    expected = logical(desc, buffer)
    encoded = text(answer({"y": described | {"data": base64.b64encode(buffer).decode()}}))
    assert read_answer(encoded, None).output.tobytes() == expected.tobytes()
    head = text(answer({"y": described | {"binary_data_size": len(buffer)}}))
    assert read_answer(head + buffer, str(len(head))).output.tobytes() == expected.tobytes()
    numbers = text(answer({"y": described | {"data": named(expected.tolist())}}))
    np.testing.assert_array_equal(read_answer(numbers, None).output, expected)


def test_a_result_has_everything_in_the_response():
    packed = {"desc": {"DataType": "FLOAT32", "Sizes": [1, 2]}, "binary_data_size": 8}
    positions = {"desc": {"DataType": "UINT64", "Sizes": [1]}, "binary_data_size": 8}
    head = text(answer({"OutputTensor": packed, "OutputIndicesTensor": positions}))
    body = head + struct.pack("<2fQ", 1, 2, 3)
    result = read_pooling_answer(body, str(len(head)))
    assert isinstance(result, PoolingResult)
    assert result.output.tolist() == [[1, 2]]
    assert result.indices.tolist() == [3]
    assert list(result.outputs) == ["OutputTensor", "OutputIndicesTensor"]
    assert (result.feature_level, result.device) == (FeatureLevel.V4_1, "cpu")
    assert (result.timing, result.request_id) == ({"run": 7, "total": 9}, "r1")
    assert repr(result) == (
        "<PoolingResult OutputTensor: float32[1, 2], OutputIndicesTensor: uint64[1] from cpu in 9 us, request r1>"
    )


@pytest.mark.parametrize("blanks", range(8))
def test_outputs_are_aligned_wherever_their_bytes_are(blanks):
    head = text(answer({"y": {"desc": {"DataType": "FLOAT64", "Sizes": [2]}, "binary_data_size": 16}})) + b" " * blanks
    found = read_answer(head + struct.pack("<2d", 1, 2), str(len(head))).output
    assert found.flags.aligned
    assert found.tolist() == [1, 2]


def test_a_response_without_requested_indices_is_invalid():
    body = text(answer({"OutputTensor": {"desc": {"DataType": "UINT8", "Sizes": [1]}, "data": "AA=="}}))
    assert type(read_answer(body, None)) is Result
    with pytest.raises(ValueError, match="indices are missing"):
        read_pooling_answer(body, None)


def written(desc: BufferTensorDesc, buffer: Array, output_format: OutputFormat) -> Outcome:
    output = encode_output(output_frames({"y": desc})["y"], desc, buffer, output_format)
    return Outcome([output], FeatureLevel.V6_4, "reference", {"total": 5})


@formats
@given(tensor=outputs())
def test_the_service_writes_plain_json_and_buffers(output_format, tensor):
    desc, buffer = tensor
    made = write_outcome(written(desc, np.frombuffer(buffer, np.uint8), output_format), "r2")
    body = b"".join((*made.head, *made.tail))
    assert made.size == len(body)
    found = json.loads(body[: made.head_length])
    output = found["outputs"].pop("y")
    rest = {"feature_level": "DML_FEATURE_LEVEL_6_4", "device": "reference", "timing": {"total": 5}}
    assert found == {"outputs": {}, **rest, "request_id": "r2"}
    total = -(-len(buffer) // 4) * 4
    assert output.pop("desc") == desc_json(desc) | {"TotalTensorSizeInBytes": total}
    if output_format is OutputFormat.BINARY:
        assert output == {"binary_data_size": len(buffer)}
        assert body[made.head_length :] == buffer
    elif output_format is OutputFormat.BASE64:
        assert output == {"data": base64.b64encode(buffer).decode()}
    else:
        assert output == {"data": named(logical(desc, buffer).tolist())}


@formats
def test_a_batch_has_a_result_for_each_request(output_format):
    desc = BufferTensorDesc(DataType.INT16, (2,))
    first, last = (written(desc, np.frombuffer(data, np.uint8), output_format) for data in (b"\1\0\2\0", b"\3\0\4\0"))
    violation = Violation(Code.SHAPE_MISMATCH, "/requests/1/inputs/x", "why", [1], FeatureLevel.V5_0)
    full = OverloadedError(ProblemCode.QUEUE_FULL, "later", retry_after=3)
    one, two = write_outcome(first, "r3"), write_outcome(last, "r3")
    refusals = [write_error(error, "r3") for error in (ContractViolation([violation]), full)]
    made = write_batch([one, *refusals, two], "r3")
    body = b"".join((*made.head, *made.tail))
    assert json.loads(body[: made.head_length])["request_id"] == "r3"
    found = read_answers(body, None if made.head_length is None else str(made.head_length))
    began, refused, overloaded, ended = found
    assert isinstance(began, Result)
    assert isinstance(ended, Result)
    assert [began.output.tolist(), ended.output.tolist()] == [[1, 2], [3, 4]]
    assert isinstance(refused, ContractViolation)
    assert refused.violations == (violation,)
    assert (refused.status, refused.request_id) == (422, "r3")
    assert isinstance(overloaded, OverloadedError)
    assert (overloaded.retry_after, overloaded.detail, overloaded.status) == (3, "later", 429)


@pytest.mark.parametrize("level", [FeatureLevel.V6_4, FeatureLevel.V2_0])
def test_validations_round_trip(level):
    output = {"DataType": "UINT64", "Sizes": [1, 3], "Strides": [9, 2], "GuaranteedBaseOffsetAlignment": 16}
    source = {"DataType": "INT64", "Sizes": [2, 3]}
    desc = {"InputTensor": source, "OutputTensor": output, "Axes": [0], "AxisDirection": 0}
    made = validate({"type": "ARGMAX", "desc": desc}, level)
    assert made.valid is (level is FeatureLevel.V6_4)
    assert read_validation(text(made.to_json())) == made


OUTPUT = {"desc": {"DataType": "FLOAT32", "Sizes": [2]}, "data": "AACAPwAAAEA="}


def changed(**changes: object) -> bytes:
    return text(answer({"y": OUTPUT | changes}))


NO_ANSWERS = [
    b"",
    b"<html>",
    b"[]",
    b"null",
    b"{}",
    text(answer([OUTPUT])),
    text(answer({"y": OUTPUT}, feature_level="DML_FEATURE_LEVEL_9_9")),
    text({**answer({"y": OUTPUT}), "outputs": None}),
    text({name: value for name, value in answer({"y": OUTPUT}).items() if name != "device"}),
    changed(data="AACAPwAAAE"),
    changed(data="AACAPw=="),
    changed(data=[1, "two"]),
    changed(data=[1, 2, 3]),
    changed(data=None),
    changed(binary_data_size=8),
    changed(desc={"DataType": "FLOAT33", "Sizes": [2]}),
    changed(desc={"DataType": "UINT4", "Sizes": [2]}),
    changed(desc={"DataType": "FLOAT32", "Sizes": [-2]}),
    changed(desc={"DataType": "FLOAT32", "Sizes": [2**70]}),
    changed(desc={"DataType": "FLOAT32", "Sizes": ["2"]}),
    changed(desc={"DataType": "FLOAT32", "Sizes": [2], "Strides": [1, 1]}),
    changed(desc={"DataType": "FLOAT32", "Sizes": [2], "Strides": [-1]}),
    changed(desc=None),
]


@pytest.mark.parametrize("body", NO_ANSWERS, ids=[body.decode()[:120] for body in NO_ANSWERS])
def test_malformed_responses_raise_value_error(body):
    assert read_answer(changed(), None).output.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"."):
        read_answer(body, None)


@pytest.mark.parametrize("size", [-8, 0, 4, 7, 9, 16, "8", None])
def test_a_tail_of_the_wrong_length_raises_value_error(size):
    head = text(answer({"y": {"desc": OUTPUT["desc"], "binary_data_size": size}}))
    with pytest.raises(ValueError, match=r"."):
        read_answer(head + struct.pack("<2f", 1, 2), str(len(head)))


@given(st.data())
def test_damaged_responses_are_read_or_raise_value_error(data):
    head = text(answer({"y": {"desc": {"DataType": "FLOAT32", "Sizes": [2]}, "binary_data_size": 8}}))
    body = bytearray(head + struct.pack("<2f", 1, 2))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_answer(bytes(body), str(len(head)))
    except ValueError:
        return
    assert len(found.outputs) == 1


def test_results_are_compared_by_identity():
    one, other = (read_answer(changed(), None) for _ in range(2))
    assert one == one
    assert one != other
    assert len({one, other}) == 2
