"""Buffers of DxDispatch models: their initial bytes, and what is refused."""

from __future__ import annotations

import math
import struct
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire import RequestError
from opwire.dxdispatch import SourceFile, read_model


def model_of(buffer: object) -> dict[str, Any]:
    return {"resources": {"x": buffer}, "dispatchables": {}, "commands": []}


def initial_bytes(data_type: str | None, values: object, **members: object) -> bytes:
    model = read_model(model_of({"initialValuesDataType": data_type, "initialValues": values, **members}))
    return model.resources["x"].allocate().tobytes()


FORMATS = {
    "FLOAT32": "f",
    "FLOAT64": "d",
    "FLOAT16": "e",
    "INT8": "b",
    "UINT8": "B",
    "INT16": "h",
    "UINT16": "H",
    "INT32": "i",
    "UINT32": "I",
    "INT64": "q",
    "UINT64": "Q",
}


WIDTHS: dict[str, Literal[16, 32, 64]] = {"FLOAT16": 16, "FLOAT32": 32, "FLOAT64": 64}


def limits(data_type: str) -> tuple[int, int]:
    bits = int(data_type.lstrip("FLOATUIN"))
    return (0, 2**bits - 1) if data_type.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def numbers(data_type: str) -> st.SearchStrategy[Any]:
    if data_type in WIDTHS:
        return st.floats(width=WIDTHS[data_type], allow_nan=False, allow_infinity=False)
    return st.integers(*limits(data_type))


TYPES = st.sampled_from(sorted(FORMATS))


def rounded_up(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


@given(st.data(), TYPES)
def test_listed_values_are_packed(data, data_type):
    values = data.draw(st.lists(numbers(data_type), min_size=1, max_size=9))
    expected = struct.pack(f"<{len(values)}{FORMATS[data_type]}", *values)
    assert initial_bytes(data_type, values) == rounded_up(expected)
    assert initial_bytes(f"DML_TENSOR_DATA_TYPE_{data_type}", values) == rounded_up(expected)


@given(st.data(), TYPES, st.integers(1, 9))
def test_a_constant_is_repeated(data, data_type, count):
    value = data.draw(numbers(data_type))
    expected = struct.pack(f"<{FORMATS[data_type]}", value) * count
    assert initial_bytes(data_type, {"value": value, "valueCount": count}) == rounded_up(expected)


@given(st.data(), st.sampled_from([name for name in sorted(FORMATS) if "INT" in name]), st.integers(1, 20))
def test_integer_sequences_wrap_around(data, data_type, count):
    start, delta = data.draw(numbers(data_type)), data.draw(numbers(data_type))
    least, greatest = limits(data_type)
    span = greatest - least + 1
    values = [(start + i * delta - least) % span + least for i in range(count)]
    expected = struct.pack(f"<{count}{FORMATS[data_type]}", *values)
    given_values = {"valueStart": start, "valueDelta": delta, "valueCount": count}
    assert initial_bytes(data_type, given_values) == rounded_up(expected)


@given(st.data(), st.sampled_from(["FLOAT16", "FLOAT32"]), st.integers(1, 20))
def test_float_sequences_round_at_each_step(data, data_type, count):
    limit, code = (1024.0, "e") if data_type == "FLOAT16" else (2.0**100, "f")
    bounded = st.floats(-limit, limit, width=WIDTHS[data_type])
    start, delta = data.draw(bounded), data.draw(bounded)
    values = [start]
    while len(values) < count:
        # The float64 sum of two such floats, rounded again, is correctly rounded: 53 >= 2 * 24 + 2.
        values.append(
            *struct.unpack(f"<{FORMATS[data_type]}", struct.pack(f"<{FORMATS[data_type]}", values[-1] + delta))
        )
    expected = struct.pack(f"<{count}{code}", *values)
    given_values = {"valueStart": start, "valueDelta": delta, "valueCount": count}
    assert initial_bytes(data_type, given_values) == rounded_up(expected)


def test_the_sequence_in_the_guide_matches():
    found = initial_bytes("FLOAT32", {"valueCount": 4, "valueStart": 1, "valueDelta": 2.5})
    assert struct.unpack("<4f", found) == (1, 3.5, 6, 8.5)


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_nan_and_infinity_are_read(data_type):
    found = struct.unpack(
        f"<6{FORMATS[data_type]}", initial_bytes(data_type, ["nan", "NaN", "inf", "Inf", "-INF", "-inf"])
    )
    assert [math.isnan(value) for value in found] == [True, True, False, False, False, False]
    assert found[2:] == (math.inf, math.inf, -math.inf, -math.inf)


def test_mixed_values_are_packed_without_gaps():
    values = [
        {"name": "n", "type": "UINT32", "value": 6},
        {"type": "DML_TENSOR_DATA_TYPE_UINT8", "value": 255},
        {"type": "FLOAT32", "value": 2.25},
        {"type": "FLOAT64", "value": "-inf"},
    ]
    expected = struct.pack("<IBfd", 6, 255, 2.25, -math.inf)
    assert initial_bytes("UNKNOWN", values) == rounded_up(expected)
    assert initial_bytes(None, values, sizeInBytes=256) == expected.ljust(256, b"\0")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, b"\1\2\3\0"),
        ({"sizeInBytes": 3}, b"\1\2\3"),
        ({"sizeInBytes": 6}, b"\1\2\3\0\0\0"),
        ({"initialValuesOffsetInBytes": 2}, b"\0\0\1\2\3\0\0\0"),
        ({"initialValuesOffsetInBytes": 1, "sizeInBytes": 4}, b"\0\1\2\3"),
        ({"initialValuesOffsetInBytes": 0, "sizeInBytes": None, "comment": "ignored"}, b"\1\2\3\0"),
    ],
)
def test_a_buffer_can_have_a_size_and_an_offset(members, expected):
    assert initial_bytes("UINT8", [1, 2, 3], **members) == expected


def test_files_of_buffers_are_not_opened():
    model = read_model(model_of({"initialValues": {"sourcePath": "nowhere/x.npy"}}))
    assert model.resources["x"].initial == SourceFile("nowhere/x.npy")
    assert not model.resources["x"].is_loaded
    with pytest.raises(TypeError, match=r"nowhere/x\.npy"):
        model.resources["x"].allocate()


@pytest.mark.parametrize(
    ("buffer", "code", "at"),
    [
        ({"initialValuesDataType": "FLOAT32"}, "missing_field", ""),
        ({"initialValuesDataType": "FLOAT32", "initialValues": 3}, "wrong_type", "/initialValues"),
        ({"initialValuesDataType": "FLOAT32", "initialValues": []}, "out_of_range", "/initialValues"),
        ({"initialValuesDataType": "FLOAT32", "initialValues": "Deferred"}, "wrong_type", "/initialValues"),
        ({"initialValuesDataType": "FLOAT32", "initialValues": [1, "one"]}, "invalid_number", "/initialValues/1"),
        ({"initialValuesDataType": "FLOAT16", "initialValues": [65536]}, "invalid_number", "/initialValues/0"),
        ({"initialValuesDataType": "INT8", "initialValues": [128]}, "invalid_number", "/initialValues/0"),
        ({"initialValuesDataType": "INT8", "initialValues": [1.0]}, "invalid_number", "/initialValues/0"),
        ({"initialValuesDataType": "INT8", "initialValues": ["nan"]}, "invalid_number", "/initialValues/0"),
        ({"initialValuesDataType": "BFLOAT16", "initialValues": [1]}, "unknown_value", "/initialValuesDataType"),
        ({"initialValuesDataType": "UINT4", "initialValues": [1]}, "unknown_value", "/initialValuesDataType"),
        ({"initialValues": {"value": 1, "valueCount": 2}}, "missing_field", ""),
        ({"initialValuesDataType": "INT8", "initialValues": {}}, "missing_field", "/initialValues"),
        ({"initialValuesDataType": "INT8", "initialValues": {"value": 1}}, "missing_field", "/initialValues"),
        (
            {"initialValuesDataType": "INT8", "initialValues": {"value": 1, "valueCount": 0}},
            "out_of_range",
            "/initialValues",
        ),
        (
            {"initialValuesDataType": "INT8", "initialValues": {"value": 1, "valueCount": -1}},
            "out_of_range",
            "/initialValues/valueCount",
        ),
        (
            {"initialValuesDataType": "INT8", "initialValues": {"value": 500, "valueCount": 1}},
            "invalid_number",
            "/initialValues/value",
        ),
        (
            {"initialValuesDataType": "UINT8", "initialValues": {"valueStart": 5, "valueDelta": -1, "valueCount": 2}},
            "invalid_number",
            "/initialValues/valueDelta",
        ),
        (
            {"initialValuesDataType": "UINT8", "initialValues": {"valueStart": 5, "valueCount": 2}},
            "missing_field",
            "/initialValues",
        ),
        (
            {"initialValuesDataType": "UINT8", "initialValues": {"value": 5, "sourcePath": "x"}},
            "missing_field",
            "/initialValues",
        ),
        ({"initialValues": {"sourcePath": 5}}, "wrong_type", "/initialValues/sourcePath"),
        ({"initialValues": [1]}, "wrong_type", "/initialValues/0"),
        ({"initialValues": [{"value": 1}]}, "missing_field", "/initialValues/0"),
        ({"initialValues": [{"type": "UNKNOWN", "value": 1}]}, "unknown_value", "/initialValues/0/type"),
        ({"initialValues": [{"type": "INT8", "value": 200}]}, "invalid_number", "/initialValues/0/value"),
        (
            {"initialValuesDataType": "UINT8", "initialValues": [1, 2], "sizeInBytes": 1},
            "total_size_invalid",
            "/sizeInBytes",
        ),
        (
            {"initialValuesDataType": "UINT8", "initialValues": [1], "sizeInBytes": 2**64},
            "out_of_range",
            "/sizeInBytes",
        ),
        (
            {"initialValuesDataType": "UINT8", "initialValues": [1], "initialValuesOffsetInBytes": "2"},
            "wrong_type",
            "/initialValuesOffsetInBytes",
        ),
        ({"type": "texture", "initialValuesDataType": "UINT8", "initialValues": [1]}, "unknown_value", "/type"),
        ([1, 2], "wrong_type", ""),
    ],
)
def test_malformed_buffers_are_refused(buffer, code, at):
    with pytest.raises(RequestError) as caught:
        read_model(model_of(buffer))
    assert [(found.code.value, found.pointer) for found in caught.value.violations] == [(code, "/resources/x" + at)]
