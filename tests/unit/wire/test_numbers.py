"""Tensors as JSON numbers: what is read, and everything that is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire.errors import ContractViolation
from opwire.jsontensor import FEW, NumberError, read_numbers
from opwire.operator import Code
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire.wire import RequestBody, parse_execute, read_inputs
from tests.support.http.pointers import resolves

INTEGERS = {
    DataType.INT8: (-(2**7), 2**7 - 1),
    DataType.INT16: (-(2**15), 2**15 - 1),
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.INT64: (-(2**63), 2**63 - 1),
    DataType.UINT8: (0, 2**8 - 1),
    DataType.UINT16: (0, 2**16 - 1),
    DataType.UINT32: (0, 2**32 - 1),
    DataType.UINT64: (0, 2**64 - 1),
}
# The largest number, and the smallest that rounds to infinity: a tie half an ULP above it.
GREATEST = {DataType.FLOAT16: (65504, 65520), DataType.FLOAT32: (2**128 - 2**104, 2**128 - 2**103)}


def envelope(data: object, data_type: str = "FLOAT32", sizes: tuple[int, ...] = (2, 3), **members: object) -> bytes:
    tensor = {"DataType": data_type, "Sizes": list(sizes), **members}
    operator = {"type": "ARGMIN", "desc": {"InputTensor": tensor, "Axes": [], "AxisDirection": 0}}
    return json.dumps({"operator": operator, "inputs": {"InputTensor": {"data": data}}}).encode()


def read(body: bytes) -> Array:
    request = parse_execute(RequestBody.split(body))
    return read_inputs(check(request.operator), request)["InputTensor"]


def refusal(body: bytes) -> tuple[Code, str]:
    """Returns code and place, relative to the data, of the only violation, after checking that the place exists."""
    with pytest.raises(ContractViolation) as refused:
        read(body)
    (violation,) = refused.value.violations
    assert resolves(json.loads(body), violation.pointer)
    return violation.code, violation.pointer.removeprefix("/inputs/InputTensor/data")


@pytest.mark.parametrize("data_type", INTEGERS)
def test_integers_have_the_range_of_their_type(data_type):
    least, greatest = INTEGERS[data_type]
    body = envelope([least, greatest], data_type.name, (2,))
    assert [int(value) for value in read(body)] == [least, greatest]
    for beyond in (least - 1, greatest + 1, 10**400):
        assert refusal(envelope([0, beyond], data_type.name, (2,))) == (Code.INVALID_NUMBER, "/1")


@pytest.mark.parametrize("given_number", [1.0, 0.5, "1", "NaN", True, None, {}])
def test_invalid_integers_are_refused(given_number):
    assert refusal(envelope([[0, 0, 0], [0, given_number, 0]], "INT32")) == (Code.INVALID_NUMBER, "/1/1")


@pytest.mark.parametrize("data_type", GREATEST)
def test_floats_have_the_range_of_their_type(data_type):
    greatest, tie = GREATEST[data_type]
    below = math.nextafter(tie, 0)
    body = envelope([greatest, -greatest, below, -below], data_type.name, (4,))
    assert [int(value) for value in read(body)] == [greatest, -greatest] * 2
    for beyond in (tie, -float(tie), 10**400):
        assert refusal(envelope([0, beyond], data_type.name, (2,))) == (Code.INVALID_NUMBER, "/1")


@pytest.mark.parametrize("given_number", ["nan", "inf", "+Infinity", "1", True, False, None, {}])
def test_invalid_floats_are_refused(given_number):
    assert refusal(envelope([[0, 0, 0], [0, 0, given_number]])) == (Code.INVALID_NUMBER, "/1/2")


@pytest.mark.parametrize("count", [3, FEW + 1], ids=["few", "many"])
@pytest.mark.parametrize("first", [[1], ["NaN"], [1, "NaN"]], ids=str)
@pytest.mark.parametrize(
    ("last", "found"),
    [
        (2.5, 2.5),
        (2**53 + 1, 2.0**53),
        (65504, 65504),
        ("Infinity", math.inf),
        (65520, None),
        (10**400, None),
        (True, None),
    ],
)
def test_few_numbers_are_read_as_many_are(count, first, last, found):
    desc = BufferTensorDesc(DataType.FLOAT64 if last == 2**53 + 1 else DataType.FLOAT16, (count,))
    data = [*first, *[0.5] * (count - len(first) - 1), last]
    if found is not None:
        np.testing.assert_array_equal(read_numbers(data, desc, ""), [*map(float, data[:-1]), found])
        return
    with pytest.raises(NumberError) as refused:
        read_numbers(data, desc, "")
    assert (refused.value.violation.code, refused.value.violation.pointer) == (Code.INVALID_NUMBER, f"/{count - 1}")


def test_nan_and_infinities_are_read_by_name():
    found = read(envelope([["NaN", "Infinity", "-Infinity"], [-0.0, 5e-324, 1e-45]]))
    assert math.isnan(found[0, 0])
    assert found[0, 1:].tolist() == [math.inf, -math.inf]
    assert math.copysign(1, found[1, 0]) == -1
    assert found[1].tolist() == [0, 0, 2.0**-149]


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]], ids=["flat", "nested"])
def test_numbers_can_be_flat_or_nested(data):
    assert read(envelope(data)).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (1, ""),
        (None, ""),
        ({"0": 1}, ""),
        ([], ""),
        ([1, 2, 3, 4, 5], ""),
        ([1, 2, 3, 4, 5, 6, 7], ""),
        ([[1, 2, 3]], ""),
        ([[1, 2], [3, 4], [5, 6]], ""),
        ([[1, 2, 3], [4, 5]], "/1"),
        ([[1, 2, 3], 4], "/1"),
        ([1, [2, 3, 4]], "/0"),
        ([[1, 2, 3], "NaN"], "/1"),
    ],
)
def test_lists_of_the_wrong_shape_are_refused(data, place):
    assert refusal(envelope(data)) == (Code.SHAPE_MISMATCH, place)


def test_lists_that_are_nested_too_deeply_are_refused():
    assert refusal(envelope([[[1], [2], [3]], [[4], [5], [6]]])) == (Code.INVALID_NUMBER, "/0/0")


def test_numbers_are_logical_elements_regardless_of_strides():
    assert read(envelope([[1, 2, 3], [4, 5, 6]], Strides=[1, 2])).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert read(envelope([[1, 2, 3], [1, 2, 3]], Strides=[0, 5])).tolist() == [[1, 2, 3], [1, 2, 3]]
    assert read(envelope([[1, 2, 3], [2, 3, 4]], Strides=[1, 1])).tolist() == [[1, 2, 3], [2, 3, 4]]


@pytest.mark.parametrize(
    ("data", "strides"),
    [([[1, 2, 3], [1, 2, 4]], [0, 1]), ([[1, 2, 3], [2, 4, 4]], [1, 1]), ([[0.0] * 3, [-0.0] * 3], [0, 0])],
)
def test_one_element_cannot_have_two_values(data, strides):
    assert refusal(envelope(data, Strides=strides)) == (Code.OVERLAP_CONFLICT, "")


def test_a_nan_equals_itself_where_elements_overlap():
    assert np.isnan(read(envelope(["NaN", "NaN"], sizes=(2,), Strides=[0]))).all()


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_float64_round_trips(values):
    desc = BufferTensorDesc(DataType.FLOAT64, (len(values),))
    assert read_numbers(json.loads(json.dumps(values)), desc, "").tobytes() == np.array(values).tobytes()
