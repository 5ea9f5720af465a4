"""Tensors of 4-bit types: how they are packed, and how clients pass and receive them."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opwire.client.arrays import fit
from opwire.client.calls import execute
from opwire.jsontensor import NumberError, read_numbers
from opwire.nibbles import pack, unpacked
from opwire.tensor import BufferTensorDesc, DataType
from opwire.wire.calls import Encoding, write_call

INT4 = BufferTensorDesc(DataType.INT4, (5,))
UINT4 = BufferTensorDesc(DataType.UINT4, (2, 3))
COLUMNS = BufferTensorDesc(DataType.INT4, (2, 3), (1, 3))


def test_the_first_element_is_in_the_low_bits():
    buffer = bytearray(4)
    INT4.put(np.array([1, 2, 3, 4, 5], np.int8), INT4.view(buffer))
    assert buffer.hex() == "21430500"
    assert INT4.elements(INT4.view(buffer)).tolist() == [1, 2, 3, 4, 5]


def test_rows_are_packed_without_gaps():
    buffer, view = UINT4.allocate()
    UINT4.put(np.array([[1, 2, 3], [4, 5, 15]], np.uint8), view)
    assert buffer.tobytes().hex() == "2143f5"


def test_strides_count_elements_and_gaps_are_preserved():
    buffer = bytearray(b"\xaa\xaa\xaa\xaa")
    COLUMNS.put(np.array([[1, -2, 3], [-8, 7, 0]], np.int8), COLUMNS.view(buffer))
    # The rows are elements 0, 3, 6 and 1, 4, 7 of the buffer.
    assert [buffer[i // 2] >> 4 * (i % 2) & 15 for i in (0, 3, 6, 1, 4, 7)] == [1, 14, 3, 8, 7, 0]
    assert [buffer[i // 2] >> 4 * (i % 2) & 15 for i in (2, 5)] == [10, 10]
    assert COLUMNS.elements(COLUMNS.view(buffer)).tolist() == [[1, -2, 3], [-8, 7, 0]]


@pytest.mark.parametrize("count", [1, 2, 7, 8])
@pytest.mark.parametrize("signed", [True, False])
def test_packing_round_trips(count, signed):
    least = -8 if signed else 0
    elements = (np.arange(count) % 16 + least).astype(np.int8 if signed else np.uint8)
    packed = np.full((count + 1) // 2, 0xF0, np.uint8)
    pack(elements, packed)
    assert unpacked(packed, count, signed=signed).tolist() == elements.tolist()
    assert count % 2 == 0 or packed[-1] >> 4 == 15


def test_numbers_must_be_in_range():
    assert INT4.elements(read_numbers([-8, 7, 0, 1, 2], INT4, "")).tolist() == [-8, 7, 0, 1, 2]
    with pytest.raises(NumberError, match="INT4 takes integers from -8 to 7"):
        read_numbers([8, 0, 0, 0, 0], INT4, "")


GIVEN: list[Any] = [
    np.array([1, -2, 3, -8, 7], np.int8),
    np.array([1, -2, 3, -8, 7], ml_dtypes.int4),
    np.array([0xE1, 0x83, 0x07], np.uint8),
    bytes([0xE1, 0x83, 0x07, 0]),
    [1, -2, 3, -8, 7],
]


@pytest.mark.parametrize("given", GIVEN, ids=["int8", "ml_dtypes", "packed", "bytes", "numbers"])
def test_arrays_that_fit_a_desc_are_accepted(given):
    assert fit(given, INT4, "x").tolist() == [1, -2, 3, -8, 7]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.array([1, -2, 3, -9, 7], np.int8), ValueError, "outside -8 to 7"),
        (np.array([1, 2], np.int8), ValueError, r"INT4 as int8 with shape \[5\]"),
        (np.array([1, 2, 3, 4, 5], np.float32), TypeError, "INT4 as int8"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        fit(given, INT4, "x")


@pytest.mark.parametrize("encoding", Encoding)
def test_calls_send_packed_bytes_or_numbers(encoding):
    desc = {"InputTensor": {"DataType": "INT4", "Sizes": [5]}}
    call = execute({"type": "DEQUANTIZE", "desc": desc}, {"InputTensor": GIVEN[0]})
    head, *tail = (bytes(piece) for piece in write_call(call, encoding)[1])
    sent = json.loads(head)["inputs"]["InputTensor"]
    expected = {
        Encoding.BINARY: ({"binary_data_size": 3}, [bytes([0xE1, 0x83, 0x07])]),
        Encoding.BASE64: ("4YMH", []),
        Encoding.NUMBERS: ({"data": [1, -2, 3, -8, 7]}, []),
    }
    assert (sent, tail) == expected[encoding]


def test_ml_dtypes_arrays_determine_the_data_type():
    array = np.array([[1, 2, 15]], ml_dtypes.uint4)
    assert DataType.of(array.dtype) is DataType.UINT4
    assert BufferTensorDesc.packed(array).data_size_in_bytes == 2
