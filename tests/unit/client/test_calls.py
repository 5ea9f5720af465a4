"""How the client's methods turn their arguments into operators and tensors."""

from __future__ import annotations

import struct
from typing import Any, get_args

import numpy as np
import pytest

from opwire import DataType, prepare
from opwire.client.calls import Direction, Function, PoolingOperator
from opwire.enums import AxisDirection, ReduceFunction
from opwire.schema import CATALOG
from opwire.wire import Call, Encoding, write_call

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TENSOR = {"DataType": "FLOAT32", "Sizes": [2, 3]}
IMAGE = np.zeros((1, 2, 7, 6), np.int8)
IMAGE_TENSOR = {"DataType": "INT8", "Sizes": [1, 2, 7, 6]}


def fields(call: Call, name: str) -> dict[str, Any]:
    """Returns the fields of the operator in a call."""
    assert call.operator.keys() == {"type", "desc"}
    assert call.operator["type"] == f"DML_OPERATOR_{name}"
    return dict(call.operator["desc"])


def arg_fields(output_type: str = "UINT32", **changes: object) -> dict[str, object]:
    output = {"DataType": output_type, "Sizes": [2, 1]}
    base = {"InputTensor": TENSOR, "OutputTensor": output, "AxisCount": 1, "Axes": [1], "AxisDirection": "INCREASING"}
    return base | changes


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_arg_reductions_have_methods(name):
    method = getattr(prepare, name)
    call = method(X, 1)
    assert fields(call, name.upper()) == arg_fields()
    assert call.inputs == {"InputTensor": X}
    assert fields(method(X, [1], direction="DECREASING"), name.upper()) == arg_fields(AxisDirection="DECREASING")
    assert fields(method(X, (1,), direction=AxisDirection.DECREASING), name.upper()) == arg_fields(AxisDirection=1)
    for output_type in ("INT64", DataType.INT64):
        assert fields(method(X, np.int64(1), output_type=output_type), name.upper()) == arg_fields("INT64")
    both = fields(method(X, np.array([1, 0])), name.upper())
    assert (both["Axes"], both["AxisCount"], both["OutputTensor"]["Sizes"]) == ([1, 0], 2, [1, 1])
    none = fields(method(X, ()), name.upper())
    assert (none["Axes"], none["AxisCount"], none["OutputTensor"]["Sizes"]) == ([], 0, [2, 3])


NAMED = {
    "sum": "SUM",
    "average": "AVERAGE",
    "l1": "L1",
    "l2": "L2",
    "log_sum": "LOG_SUM",
    "log_sum_exp": "LOG_SUM_EXP",
    "max": "MAX",
    "min": "MIN",
    "multiply": "MULTIPLY",
    "sum_square": "SUM_SQUARE",
}


def test_every_function_has_a_method():
    assert set(NAMED.values()) | {"ARGMAX", "ARGMIN"} == {function.name for function in ReduceFunction}


@pytest.mark.parametrize(("method", "function"), NAMED.items())
def test_reduction_methods_call_reduce_with_their_function(method, function):
    expected = {"Function": function, "InputTensor": TENSOR, "AxisCount": 2, "Axes": [0, 1]}
    assert fields(getattr(prepare, method)(X, (0, 1)), "REDUCE") == expected
    assert fields(prepare.reduce(X, function, range(2)), "REDUCE") == expected


def test_reduce_accepts_an_output_type():
    found = fields(prepare.reduce(X, ReduceFunction.ARGMAX, 0, output_type="UINT64"), "REDUCE")
    assert found == {
        "Function": 0,
        "InputTensor": TENSOR,
        "OutputTensor": {"DataType": "UINT64", "Sizes": [1, 3]},
        "AxisCount": 1,
        "Axes": [0],
    }


def pooling_fields(**changes: object) -> dict[str, object]:
    base = {"InputTensor": IMAGE_TENSOR, "DimensionCount": 2, "Strides": [1, 1], "WindowSize": [3, 3]}
    return base | {"StartPadding": [0, 0], "EndPadding": [0, 0]} | changes


def pooled(height: int, width: int, data_type: str = "INT8") -> dict[str, object]:
    return {"DataType": data_type, "Sizes": [1, 2, height, width]}


POOLINGS: list[tuple[dict[str, Any], str, dict[str, object]]] = [
    ({}, "MAX_POOLING", pooling_fields()),
    ({"window": (2, 3)}, "MAX_POOLING", pooling_fields(WindowSize=[2, 3])),
    ({"strides": 2, "start_padding": [1, 0], "end_padding": (0, 1)}, "MAX_POOLING",
     pooling_fields(Strides=[2, 2], StartPadding=[1, 0], EndPadding=[0, 1])),
    ({"ceil": True, "strides": 2}, "MAX_POOLING", pooling_fields(Strides=[2, 2], OutputTensor=pooled(3, 3))),
    ({"indices": True}, "MAX_POOLING1",
     pooling_fields(OutputTensor=pooled(5, 4), OutputIndicesTensor=pooled(5, 4, "UINT32"))),
    ({"indices": True, "index_type": DataType.UINT64, "strides": 2}, "MAX_POOLING1",
     pooling_fields(Strides=[2, 2], OutputTensor=pooled(3, 2), OutputIndicesTensor=pooled(3, 2, "UINT64"))),
    ({"indices": True, "ceil": True, "strides": 2}, "MAX_POOLING1",
     pooling_fields(Strides=[2, 2], OutputTensor=pooled(3, 3), OutputIndicesTensor=pooled(3, 3, "UINT32"))),
    ({"dilations": 2}, "MAX_POOLING2", pooling_fields(Dilations=[2, 2])),
    ({"dilations": (2, 1), "indices": True}, "MAX_POOLING2",
     pooling_fields(Dilations=[2, 1], OutputTensor=pooled(3, 4), OutputIndicesTensor=pooled(3, 4, "UINT32"))),
    ({"operator": "MAX_POOLING1"}, "MAX_POOLING1", pooling_fields()),
    ({"operator": "MAX_POOLING2"}, "MAX_POOLING2", pooling_fields(Dilations=[1, 1])),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "name", "expected"), POOLINGS, ids=[str(row[0]) for row in POOLINGS])
def test_max_pooling_uses_the_oldest_sufficient_operator(arguments, name, expected):
    assert fields(prepare.max_pooling(IMAGE, **{"window": 3, **arguments}), name) == expected


@pytest.mark.parametrize(
    "arguments",
    [{"window": 9}, {"window": (3, 3, 3)}, {"window": 3, "strides": 0}, {"window": 3, "start_padding": [1]}],
)
def test_a_pooling_without_a_size_is_left_to_the_server(arguments):
    call = prepare.max_pooling(IMAGE, indices=True, ceil=True, **arguments)
    assert "OutputIndicesTensor" not in call.operator["desc"]


def test_a_pooling_of_a_vector_is_left_to_the_server():
    assert fields(prepare.max_pooling(np.zeros(4, np.int8), 2, indices=True), "MAX_POOLING1")["WindowSize"] == []


@pytest.mark.parametrize("axes", [-1, [0, -2], np.int64(-1)])
def test_negative_axes_are_refused(axes):
    with pytest.raises(ValueError, match="unsigned"):
        prepare.sum(X, axes)


@pytest.mark.parametrize("axes", [1.0, "1", [0.5], None])
def test_non_integer_axes_are_refused(axes):
    with pytest.raises(TypeError):
        prepare.sum(X, axes)


class ByArray:
    """Converts to an array by ``__array__``."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray[Any, Any]:
        return X


class ByDLPack:
    """Exports its buffer by DLPack."""

    def __dlpack__(self, **options: Any) -> Any:
        return X.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return X.__dlpack_device__()


@pytest.mark.parametrize(
    "x", [X, ByArray(), ByDLPack(), np.float32(1), X.astype(">f4")], ids=lambda x: type(x).__name__
)
def test_array_likes_are_tensors(x):
    call = prepare.sum(x, 0)
    expected = np.array(1, np.float32) if isinstance(x, np.float32) else X
    assert np.array_equal(call.inputs["InputTensor"], expected)
    assert call.operator["desc"]["InputTensor"] == {"DataType": "FLOAT32", "Sizes": list(expected.shape)}


REFUSED = {
    "list": ([1, 2], "its data type must be known"),
    "float": (1.0, "its data type must be known"),
    "none": (None, "its data type must be known"),
    "bytes": (b"12", "its data type must be known"),
    "bool": (np.array([True]), r"\.view\('uint8'\)"),
    "complex": (np.array([1j]), "no DirectML data type"),
    "text": (np.array(["a"]), "no DirectML data type"),
    "object": (np.array([None]), "no DirectML data type"),
    "time": (np.array([1], "M8[s]"), "no DirectML data type"),
    "record": (np.zeros(1, [("a", "f4")]), "no DirectML data type"),
    "long_double": (np.zeros(1, np.longdouble), "no DirectML data type"),
    "masked": (np.ma.masked_array([1.0], [True]), "masked"),
}


@pytest.mark.parametrize(("x", "message"), REFUSED.values(), ids=REFUSED)
def test_other_objects_are_refused_as_tensors(x, message):
    with pytest.raises(TypeError, match=message):
        prepare.sum(x, 0)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_data_types_are_never_converted(dtype):
    call = prepare.sum(np.ones(2, dtype), 0)
    bits = np.dtype(dtype).itemsize * 8
    kind = {"f": "FLOAT", "i": "INT", "u": "UINT"}[dtype[0]]
    assert call.operator["desc"]["InputTensor"]["DataType"] == f"{kind}{bits}"
    assert call.inputs["InputTensor"].dtype == dtype


def operator(data_type: str = "FLOAT32", **members: object) -> dict[str, Any]:
    return {"type": "ARGMAX", "desc": {"InputTensor": {"DataType": data_type, "Sizes": [2, 3], **members}, "Axes": [1]}}


def sent(call: Call) -> bytes:
    """Returns the bytes of the tensors."""
    return b"".join(write_call(call, Encoding.BINARY)[1][1:])


PACKED = struct.pack("<6f", *range(6))
FORMS: dict[str, object] = {
    "array": X,
    "other_layout": np.asfortranarray(X),
    "big_endian": X.astype(">f4"),
    "elements": X.reshape(-1),
    "big_endian_elements": X.reshape(-1).astype(">f4"),
    "uint8": np.frombuffer(PACKED, np.uint8),
    "bytes": PACKED,
    "bytearray": bytearray(PACKED),
    "memoryview": memoryview(PACKED),
    "lists": [[0, 1, 2], [3, 4.0, 5]],
    "flat_list": [0, 1, 2, 3, 4, 5],
    "dlpack": ByDLPack(),
}


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("by_name", [True, False])
def test_execute_accepts_every_form_of_a_tensor(value, by_name):
    call = prepare.execute(operator(), {"InputTensor": value} if by_name else value)
    assert call.operator == operator()
    assert list(call.inputs) == ["InputTensor"]
    assert sent(call) == PACKED


COLUMNS = struct.pack("<7f", 0, 3, 9, 1, 4, 9, 2) + struct.pack("<f", 5)
STRIDED: dict[str, object] = {
    "array": X,
    "elements": np.frombuffer(COLUMNS, np.float32),
    "uint8": np.frombuffer(COLUMNS, np.uint8),
    "bytes": COLUMNS,
    "lists": [[0, 1, 2], [3, 4, 5]],
}


@pytest.mark.parametrize("value", STRIDED.values(), ids=STRIDED)
def test_a_strided_tensor_is_sent_with_its_gaps(value):
    buffer = sent(prepare.execute(operator(Strides=[1, 3]), value))
    elements = struct.unpack("<8f", buffer)
    assert [elements[i] for i in (0, 3, 6, 1, 4, 7)] == [0, 1, 2, 3, 4, 5]


def test_whole_buffers_are_sent_as_numbers_of_their_elements():
    call = prepare.execute(operator(Strides=[1, 3]), COLUMNS)
    assert b'"data":[[0.0,1.0,2.0],[3.0,4.0,5.0]]' in b"".join(write_call(call, Encoding.NUMBERS)[1])


def test_a_buffer_can_have_the_total_size_of_the_desc():
    for size in (6, 8, 64):
        call = prepare.execute(operator("UINT8", TotalTensorSizeInBytes=64), bytes(range(size)))
        assert sent(call) == bytes(range(6))
    with pytest.raises(ValueError, match="6 or 8 or 64 bytes"):
        prepare.execute(operator("UINT8", TotalTensorSizeInBytes=64), bytes(7))


def test_an_ambiguous_array_is_the_tensor_rather_than_its_buffer():
    tensor = {"DataType": "UINT8", "Sizes": [4], "Strides": [0]}
    same = np.full(4, 7, np.uint8)
    call = prepare.execute({"type": "ARGMAX", "desc": {"InputTensor": tensor}}, same)
    assert sent(call) == b"\x07"
    call = prepare.execute({"type": "ARGMAX", "desc": {"InputTensor": tensor}}, np.arange(4, dtype=np.uint8))
    with pytest.raises(ValueError, match="share an address"):
        sent(call)


MISFITS = {
    "other_type": (X.astype(np.float64), TypeError, r"array of float64.*says FLOAT32.*astype\('float32'\)"),
    "other_type_of_the_same_width": (X.astype(np.int32), TypeError, "array of int32"),
    "uint8_tensor": (X.astype(np.uint8), TypeError, "array of uint8"),
    "bool": (X > 1, TypeError, "bool"),
    "other_shape": (X.T, ValueError, r"shape \[3, 2\].*takes FLOAT32 with shape \[2, 3\]"),
    "short_buffer": (PACKED[:-1], ValueError, "23.*6 elements, or 24 bytes"),
    "short_elements": (X.reshape(-1)[:5], ValueError, r"shape \[5\]"),
    "ragged_lists": ([[0, 1, 2], [3, 4]], ValueError, "InputTensor/1: 2 elements"),
    "no_numbers": ([[0, 1, 2], [3, "4", 5]], ValueError, 'InputTensor/1/1: "4" given'),
    "too_large": ([[0, 1, 2], [3, 4, 1e39]], ValueError, "out of the range of FLOAT32"),
    "nothing": (None, TypeError, "NoneType"),
}


@pytest.mark.parametrize(("value", "error", "message"), MISFITS.values(), ids=MISFITS)
def test_a_tensor_that_does_not_fit_its_desc_is_refused(value, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        prepare.execute(operator(), value)


@pytest.mark.parametrize(
    "desc",
    [
        {},
        {"InputTensor": None},
        {"InputTensor": {"DataType": "FLOAT33", "Sizes": [2, 3]}},
        {"InputTensor": {"DataType": "FLOAT32", "Sizes": [2, -3]}},
        [],
        None,
    ],
)
def test_malformed_descs_are_left_to_the_server(desc):
    given = {"type": "ARGMAX", "desc": desc}
    assert sent(prepare.execute(given, X)) == PACKED
    assert prepare.execute(given, PACKED).operator == given


def test_unknown_operators_and_inputs_are_left_to_the_server():
    assert list(prepare.execute({"type": "NONSENSE"}, X).inputs) == ["InputTensor"]
    assert list(prepare.execute({}, X).inputs) == ["InputTensor"]
    assert sorted(prepare.execute(operator(), {"InputTensor": X, "Other": X}).inputs) == ["InputTensor", "Other"]


def test_a_desc_of_zero_strides_accepts_broadcast_arrays():
    tensor = {"DataType": "FLOAT32", "Sizes": [2**15, 2**15], "Strides": [0, 0]}
    call = prepare.execute({"type": "ARGMAX", "desc": {"InputTensor": tensor}}, np.array([5], np.float32))
    assert sent(call) == struct.pack("<f", 5)
    call = prepare.execute(
        {"type": "ARGMAX", "desc": {"InputTensor": tensor}}, np.broadcast_to(np.float32(5), (2**15, 2**15))
    )
    assert sent(call) == struct.pack("<f", 5)


def literals(of: Any) -> set[str]:
    """Returns the strings that a type admits."""
    return {
        name for each in get_args(of) for name in (literals(each) if get_args(each) else [each]) if type(name) is str
    }


def test_the_types_of_arguments_admit_the_names_of_the_schema():
    """Type checkers need them written out."""
    assert literals(Function) == {each.name for each in ReduceFunction}
    assert literals(Direction) == {each.name for each in AxisDirection}
    assert literals(PoolingOperator) == {name for name in CATALOG if name.rstrip("12") == "MAX_POOLING"}
