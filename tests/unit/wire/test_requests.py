"""Requests as bytes: what the client writes, what the service reads, and everything it refuses."""

from __future__ import annotations

import base64
import json
import struct
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire.errors import ContractViolation, ProblemCode, RequestError
from opwire.level import HIGHEST, FeatureLevel
from opwire.operator import Code
from opwire.tensor import Array
from opwire.wire import (
    HEAD_LENGTH,
    Buffer,
    Call,
    Encoding,
    ExecuteRequest,
    OutputFormat,
    RequestBody,
    parse_batch,
    parse_execute,
    parse_validate,
    read_inputs,
    write_call,
    write_calls,
)
from tests.strategies.operators import Case, one_input_cases
from tests.support.execution import logical
from tests.support.http.pointers import resolves

encodings = pytest.mark.parametrize("encoding", list(Encoding))


def call_of(case: Case) -> Call:
    plan = check(case.operator, case.level)
    layouts = {name: desc for name, desc in plan.inputs.items() if desc.strides is not None}
    return Call(case.operator, case.inputs, layouts, {"feature_level": str(case.level)})


def same(found: Array, expected: Array, encoding: Encoding) -> bool:
    """Whether arrays are equal bit for bit; JSON numbers have only one NaN."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if encoding is Encoding.NUMBERS and expected.dtype.kind == "f":
        both_nan = np.isnan(found) & np.isnan(expected)
        found, expected = (np.where(both_nan, np.zeros((), array.dtype), array) for array in (found, expected))
    return found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_named(coding):
    with pytest.raises(RequestError, match="byte order mark; JSON must be UTF-8 without one") as refused:
        parse_execute(RequestBody.split('{"operator": {}}'.encode(coding)))
    assert refused.value.code is ProblemCode.INVALID_JSON


@encodings
@given(case=one_input_cases())
def test_the_service_reads_what_the_client_writes(encoding, case):
    headers, chunks = write_call(call_of(case), encoding)
    body = b"".join(chunks)
    assert int(headers["Content-Length"]) == len(body)
    request = parse_execute(RequestBody.split(body, headers.get(HEAD_LENGTH)))
    assert (request.operator, request.feature_level) == (case.operator, str(case.level))
    assert request.output_format is (OutputFormat.NUMBERS if encoding is Encoding.NUMBERS else OutputFormat.BASE64)
    plan = check(request.operator, case.level)
    arrays = read_inputs(plan, request)
    assert arrays.keys() == case.inputs.keys()
    assert all(same(arrays[name], case.inputs[name], encoding) for name in arrays)


@given(case=one_input_cases())
def test_a_binary_body_is_aligned_json_followed_by_buffers(case):
    headers, chunks = write_call(call_of(case), Encoding.BINARY)
    body, length = b"".join(chunks), int(headers[HEAD_LENGTH])
    head = json.loads(body[:length])
    desc = check(case.operator, case.level).inputs["InputTensor"]
    assert headers["Content-Type"] == headers["Accept"] == "application/octet-stream"
    assert length % 64 == 0
    assert head["inputs"] == {"InputTensor": {"binary_data_size": desc.data_size_in_bytes}}
    assert logical(desc, body[length:]).tobytes() == case.inputs["InputTensor"].tobytes()


@given(case=one_input_cases())
def test_a_base64_body_is_plain_json(case):
    headers, chunks = write_call(call_of(case), Encoding.BASE64)
    data = base64.b64decode(json.loads(b"".join(chunks))["inputs"]["InputTensor"], validate=True)
    desc = check(case.operator, case.level).inputs["InputTensor"]
    assert headers["Content-Type"] == headers["Accept"] == "application/json"
    assert HEAD_LENGTH not in headers
    assert len(data) == desc.data_size_in_bytes
    assert logical(desc, data).tobytes() == case.inputs["InputTensor"].tobytes()


def test_numbers_are_nested_with_names_for_nan_and_infinities():
    array = np.array([[1, -0.0, np.nan], [np.inf, -np.inf, 0.1]], np.float32)
    _, chunks = write_call(Call({}, {"x": array}), Encoding.NUMBERS)
    request = json.loads(b"".join(chunks))
    assert request["output_format"] == "numbers"
    assert request["inputs"]["x"]["data"] == [[1, 0, "NaN"], ["Infinity", "-Infinity", 0.10000000149011612]]
    assert str(request["inputs"]["x"]["data"][0][1]) == "-0.0"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.arange(12, dtype="<i4").reshape(2, 6)[:, ::2] // 2,
        np.asfortranarray(np.arange(6, dtype="<i4").reshape(2, 3)),
        np.arange(5, -1, -1, dtype="<i4")[::-1].reshape(2, 3),
    ],
    ids=["big_endian", "sliced", "fortran_order", "reversed"],
)
def test_any_array_is_sent_packed_and_little_endian(array):
    _, chunks = write_call(Call({}, {"x": array}), Encoding.BINARY)
    assert b"".join(chunks[1:]) == struct.pack("<6i", *range(6))


def test_conflicting_repeated_elements_are_not_sent():
    desc = check(operator("FLOAT32", [2, 2], Strides=[1, 0])).inputs["InputTensor"]
    array = np.array([[1, 1], [2, 3]], np.float32)
    with pytest.raises(ValueError, match="share an address"):
        write_call(Call({}, {"x": array}, {"x": desc}), Encoding.BINARY)


def test_a_broadcast_array_is_written_once():
    desc = check(operator("FLOAT32", [2, 2**31 - 1], Strides=[1, 0])).inputs["InputTensor"]
    array = np.broadcast_to(np.array([[1], [2]], np.float32), (2, 2**31 - 1))
    _, chunks = write_call(Call({}, {"x": array}, {"x": desc}), Encoding.BINARY)
    assert b"".join(chunks[1:]) == struct.pack("<2f", 1, 2)


def test_numpy_scalars_in_a_desc_are_sent_as_numbers():
    _, chunks = write_call(Call({"desc": {"Axes": np.arange(2), "AxisCount": np.uint8(2)}}, {}), Encoding.BASE64)
    assert json.loads(b"".join(chunks))["operator"] == {"desc": {"Axes": [0, 1], "AxisCount": 2}}
    with pytest.raises(ValueError, match="/operator/desc/Axes is <object"):
        write_call(Call({"desc": {"Axes": object()}}, {}), Encoding.BASE64)


def operator(data_type: str = "FLOAT32", sizes: list[int] | None = None, **members: object) -> dict[str, object]:
    tensor = {"DataType": data_type, "Sizes": sizes or [2], **members}
    return {"type": "ARGMAX", "desc": {"InputTensor": tensor, "Axes": [0], "AxisDirection": "INCREASING"}}


def envelope(tensor: object, sizes: list[int] | None = None, data_type: str = "FLOAT32", **members: object) -> bytes:
    return json.dumps({"operator": operator(data_type, sizes, **members), "inputs": {"InputTensor": tensor}}).encode()


def tensor_of(request: ExecuteRequest | RequestError, level: FeatureLevel = HIGHEST) -> Array:
    assert isinstance(request, ExecuteRequest)
    return read_inputs(check(request.operator, level), request)["InputTensor"]


def read(body: Buffer, head_length: str | None = None) -> Array:
    return tensor_of(parse_execute(RequestBody.split(body, head_length)))


def refusal(body: bytes) -> list[tuple[Code, str]]:
    """Returns code and pointer of each violation in a tensor, after checking that the pointers resolve."""
    with pytest.raises((ContractViolation, RequestError)) as refused:
        read(body)
    violations = refused.value.violations
    assert violations
    assert all(resolves(json.loads(body), violation.pointer) for violation in violations)
    return [(violation.code, violation.pointer) for violation in violations]


SIZE = {"binary_data_size": 8}
HEAD = envelope(SIZE)
LENGTH = str(len(HEAD))


def test_a_binary_body_is_read():
    assert read(HEAD + struct.pack("<2f", 1, 2), LENGTH).tolist() == [1, 2]


def test_an_unaligned_tail_is_read():
    buffer = bytearray(b"x" + HEAD + struct.pack("<2f", 1, 2))
    found = read(memoryview(buffer)[1:], LENGTH)
    assert found.tolist() == [1, 2]
    assert found.flags.aligned


@pytest.mark.parametrize(
    "length", ["", "x", "-1", "+8", " 8", "8.0", "0x8", "1_0", "\u0668", "9" * 30, str(len(HEAD) + 9)]
)
def test_invalid_head_lengths_are_refused(length):
    with pytest.raises(RequestError) as refused:
        parse_execute(RequestBody.split(HEAD + bytes(8), length))
    assert refused.value.code is ProblemCode.INVALID_FRAMING


@pytest.mark.parametrize("cut", [0, 1, len(HEAD) - 1, len(HEAD) + 1])
def test_a_head_length_that_truncates_the_json_is_refused(cut):
    with pytest.raises(RequestError) as refused:
        parse_execute(RequestBody.split(HEAD + bytes(8), str(cut)))
    assert refused.value.code is ProblemCode.INVALID_JSON


@pytest.mark.parametrize("size", [-1, True, 8.0, "8", None, [8]])
def test_invalid_binary_sizes_are_refused(size):
    head = envelope({"binary_data_size": size})
    with pytest.raises(RequestError) as refused:
        parse_execute(RequestBody.split(head + bytes(8), str(len(head))))
    assert refused.value.code is ProblemCode.INVALID_FRAMING


@pytest.mark.parametrize("tail", [b"", bytes(7), bytes(9)])
def test_the_tail_must_be_as_long_as_its_tensors(tail):
    with pytest.raises(RequestError) as refused:
        parse_execute(RequestBody.split(HEAD + tail, LENGTH))
    assert refused.value.code is ProblemCode.INVALID_FRAMING


def test_without_a_head_length_there_is_no_tail():
    with pytest.raises(RequestError) as refused:
        parse_execute(RequestBody.split(HEAD))
    assert refused.value.code is ProblemCode.INVALID_FRAMING


def test_a_validate_request_has_no_tensors():
    head = json.dumps({"operator": operator()}).encode()
    assert parse_validate(RequestBody.split(head + b"", str(len(head)))).feature_level is HIGHEST
    with pytest.raises(RequestError) as refused:
        parse_validate(RequestBody.split(head + b"x", str(len(head))))
    assert refused.value.code is ProblemCode.INVALID_FRAMING


@pytest.mark.parametrize("body", [b"", b"{", b"[1]x", b'{"operator": 01}', b"\xff\xfe", b"{'a': 1}"])
@pytest.mark.parametrize("parse", [parse_execute, partial(parse_batch, most=9), parse_validate])
def test_invalid_json_is_refused(parse, body):
    with pytest.raises(RequestError) as refused:
        parse(RequestBody.split(body))
    assert refused.value.code is ProblemCode.INVALID_JSON


MALFORMED = [
    (b"[]", ""),
    (b"null", ""),
    (b"{}", ""),
    (b'{"operator": {}}', ""),
    (b'{"operator": {}, "inputs": []}', "/inputs"),
    (b'{"operator": {}, "inputs": {"x": 1}}', "/inputs/x"),
    (b'{"operator": {}, "inputs": {"a/b~c": null}}', "/inputs/a~1b~0c"),
    (b'{"operator": {}, "inputs": {"x": {"data": [1], "more": 1}}}', "/inputs/x"),
    (b'{"operator": {}, "inputs": {}, "input": {}}', "/input"),
    (b'{"operator": {}, "inputs": {}, "timeout_ms": 0}', "/timeout_ms"),
    (b'{"operator": {}, "inputs": {}, "timeout_ms": 1.5}', "/timeout_ms"),
    (b'{"operator": {}, "inputs": {}, "timeout_ms": 2147483648}', "/timeout_ms"),
    (b'{"operator": {}, "inputs": {}, "priority": 10}', "/priority"),
    (b'{"operator": {}, "inputs": {}, "priority": true}', "/priority"),
    (b'{"operator": {}, "inputs": {}, "device": 0}', "/device"),
    (b'{"operator": {}, "inputs": {}, "output_format": "binary"}', "/output_format"),
    (b'{"operator": {}, "inputs": {}, "output_format": ["base64"]}', "/output_format"),
]


@pytest.mark.parametrize(("body", "pointer"), MALFORMED, ids=[body.decode() for body, _ in MALFORMED])
def test_malformed_requests_are_refused_at_their_place(body, pointer):
    with pytest.raises(RequestError) as refused:
        parse_execute(RequestBody.split(body))
    assert refused.value.code is ProblemCode.INVALID_REQUEST
    assert pointer in [violation.pointer for violation in refused.value.violations]
    assert all(resolves(json.loads(body), violation.pointer) for violation in refused.value.violations)


@pytest.mark.parametrize("name", ["feature_level", "timeout_ms", "priority", "device", "output_format"])
def test_null_members_count_as_omitted(name):
    assert parse_execute(
        RequestBody.split(json.dumps({"operator": {}, "inputs": {}, name: None}).encode())
    ) == parse_execute(RequestBody.split(b'{"operator": {}, "inputs": {}}'))


@pytest.mark.parametrize("count", [8, 4000, 100_000])
def test_base64_is_read_whatever_its_length_and_its_escapes(count):
    data = bytes(range(256)) * (count // 256 + 1)
    text = base64.b64encode(data[:count]).decode()
    body = envelope(text, [count], "UINT8")
    assert read(body).tobytes() == data[:count]
    assert read(body.replace(b"/", rb"\/")).tobytes() == data[:count]
    assert read(envelope({"data": text}, [count], "UINT8")).tobytes() == data[:count]


@pytest.mark.parametrize("count", [6, 6000])
@pytest.mark.parametrize("broken", ["-", "_", "\n", " ", "=", "é", '"', "\\", "\ud800"])
def test_invalid_base64_is_refused_at_its_place(count, broken):
    text = base64.b64encode(bytes(count)).decode()
    body = envelope(text[:1] + broken + text[2:], [count], "UINT8")
    with pytest.raises(RequestError) as refused:
        read(body)
    assert refused.value.code in (ProblemCode.INVALID_BASE64, ProblemCode.INVALID_JSON)
    if refused.value.code is ProblemCode.INVALID_BASE64:
        assert [violation.pointer for violation in refused.value.violations] == ["/inputs/InputTensor"]
    else:
        assert broken == "\ud800"  # a lone surrogate is not valid text


@pytest.mark.parametrize(
    ("members", "accepted"),
    [
        ({"data_type": "FLOAT16", "sizes": [3]}, {6, 8}),
        ({"data_type": "UINT8", "sizes": [5], "TotalTensorSizeInBytes": 16}, {5, 8, 16}),
        ({"data_type": "FLOAT32", "sizes": [2, 3], "Strides": [5, 1]}, {32}),
        ({"data_type": "FLOAT32", "sizes": [2, 3], "Strides": [0, 1]}, {12}),
        ({"data_type": "INT8", "sizes": [2, 3], "Strides": [0, 0]}, {1, 4}),
    ],
)
def test_buffers_have_the_data_size_the_rounded_minimum_or_the_total(members, accepted):
    found = set()
    for size in range(40):
        body = envelope(base64.b64encode(bytes(size)).decode(), **members)
        try:
            assert not read(body).any()
        except ContractViolation:
            assert refusal(body) == [(Code.BYTE_COUNT_MISMATCH, "/inputs/InputTensor")]
        else:
            found.add(size)
        head = envelope({"binary_data_size": size}, **members)
        request = parse_execute(RequestBody.split(head + bytes(size), str(len(head))))
        if size in found:
            assert not read_inputs(check(request.operator), request)["InputTensor"].any()
        else:
            with pytest.raises(ContractViolation):
                read_inputs(check(request.operator), request)
    assert found == accepted


def test_missing_and_unknown_tensors_are_named():
    body = json.dumps({"operator": operator(), "inputs": {"Input/Tensor": ""}}).encode()
    assert refusal(body) == [(Code.MISSING_TENSOR, "/inputs"), (Code.UNKNOWN_TENSOR, "/inputs/Input~1Tensor")]


def test_the_tensors_of_a_batch_follow_each_other_in_the_tail():
    requests = [
        {"operator": operator(), "inputs": {"InputTensor": SIZE}},
        {
            "operator": operator(),
            "inputs": {"InputTensor": SIZE},
            "prio": 1,
        },  # malformed, but has a tensor  # malformed, but its tensor still occupies the tail
        {"operator": operator(), "inputs": {"InputTensor": base64.b64encode(struct.pack("<2f", 5, 6)).decode()}},
        7,
        {"operator": operator(), "inputs": {"InputTensor": SIZE}},
    ]
    head = json.dumps({"requests": requests}).encode()
    body = RequestBody.split(head + struct.pack("<6f", *range(6)), str(len(head)))
    first, malformed, second, number, third = parse_batch(body, 9)
    assert [tensor_of(request).tolist() for request in (first, second, third)] == [[0, 1], [5, 6], [4, 5]]
    for refused_request, pointer in ((malformed, "/requests/1/prio"), (number, "/requests/3")):
        assert isinstance(refused_request, RequestError)
        assert [violation.pointer for violation in refused_request.violations] == [pointer]
    for tail in (bytes(20), bytes(28)):
        with pytest.raises(RequestError) as refused:
            parse_batch(RequestBody.split(head + tail, str(len(head))), 9)
        assert refused.value.code is ProblemCode.INVALID_FRAMING


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"requests": {}}', b'{"requests": [], "more": 1}'])
def test_malformed_batches_are_refused(body):
    with pytest.raises(RequestError) as refused:
        parse_batch(RequestBody.split(body), 9)
    assert refused.value.code is ProblemCode.INVALID_REQUEST
    assert all(resolves(json.loads(body), violation.pointer) for violation in refused.value.violations)


@encodings
@given(drawn=st.lists(one_input_cases(), max_size=3))
def test_a_batch_contains_its_calls_in_order(encoding, drawn):
    headers, chunks = write_calls([call_of(case) for case in drawn], encoding)
    requests = parse_batch(RequestBody.split(b"".join(chunks), headers.get(HEAD_LENGTH)), 9)
    assert len(requests) == len(drawn)
    for i, (case, request) in enumerate(zip(drawn, requests, strict=True)):
        assert isinstance(request, ExecuteRequest)
        assert request.pointer == f"/requests/{i}"
        assert same(tensor_of(request, case.level), case.inputs["InputTensor"], encoding)
