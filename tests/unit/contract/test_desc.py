"""Descs as Microsoft's DxDispatch writes them, in every spelling, and those that it would misread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.enums import AxisDirection, ReduceFunction
from opwire.errors import ContractViolation
from opwire.tensor import DataType, TensorFlags
from tests.directml.tensor_support import FACTS
from tests.support.http.pointers import resolves

SOURCE = {"DataType": "FLOAT32", "Sizes": [2, 3]}


def argmax(**members: Any) -> dict[str, Any]:
    """Returns ARGMAX along the rows of a 2x3 tensor; members given as ... are left out."""
    desc = {"InputTensor": SOURCE, "AxisCount": 1, "Axes": [1], "AxisDirection": "INCREASING", **members}
    return {"type": "ARGMAX", "desc": {name: value for name, value in desc.items() if value is not ...}}


def source(**members: Any) -> dict[str, Any]:
    return argmax(InputTensor={**SOURCE, **members})


def refused(operator: object) -> list[tuple[str, str]]:
    with pytest.raises(ContractViolation) as refusal:
        check(operator)
    assert all(resolves(operator, violation.pointer) for violation in refusal.value.violations)
    return [(violation.code.value, violation.pointer) for violation in refusal.value.violations]


@pytest.mark.parametrize("name", ["ARGMAX", "DML_OPERATOR_ARGMAX", 138])
def test_operator_types_are_accepted_in_every_spelling(name):
    assert check({**argmax(), "type": name}).operator.name == "ARGMAX"


@pytest.mark.parametrize("name", FACTS["enums"]["Function"])
def test_functions_are_accepted_in_every_spelling(name):
    for written in (name, f"DML_REDUCE_FUNCTION_{name}", FACTS["enums"]["Function"][name]):
        plan = check({"type": "REDUCE", "desc": {"Function": written, "InputTensor": SOURCE, "Axes": []}})
        assert plan.attributes.Function is ReduceFunction[name]


@pytest.mark.parametrize("name", FACTS["enums"]["AxisDirection"])
def test_directions_are_accepted_in_every_spelling(name):
    for written in (name, f"DML_AXIS_DIRECTION_{name}", FACTS["enums"]["AxisDirection"][name]):
        assert check(argmax(AxisDirection=written)).attributes.AxisDirection is AxisDirection[name]


@pytest.mark.parametrize("name", [name for name, row in FACTS["data_types"].items() if name in FACTS["types"].values()])
def test_data_types_are_accepted_in_every_spelling(name):
    for written in (name, f"DML_TENSOR_DATA_TYPE_{name}", FACTS["data_types"][name][0]):
        assert check(source(DataType=written)).inputs["InputTensor"].data_type is DataType[name]


@pytest.mark.parametrize("written", ["increasing", "DML_AXIS_DIRECTION_", "DML_REDUCE_FUNCTION_INCREASING", "", 2, -1])
def test_unknown_enum_values_are_refused(written):
    assert refused(argmax(AxisDirection=written)) == [("unknown_value", "/desc/AxisDirection")]


@pytest.mark.parametrize("written", [True, 0.0, [0], {}])
def test_enum_values_of_other_types_are_refused(written):
    assert refused(argmax(AxisDirection=written)) == [("wrong_type", "/desc/AxisDirection")]


@pytest.mark.parametrize("written", ["UNKNOWN", 0, 14, "float32", "BFLOAT16"])
def test_unknown_data_types_are_refused(written):
    assert refused(source(DataType=written)) == [("unknown_value", "/desc/InputTensor/DataType")]


@pytest.mark.parametrize("kind", [..., None, "BUFFER", "DML_TENSOR_TYPE_BUFFER", 1])
def test_a_tensor_desc_can_be_nested(kind):
    members = {**SOURCE, "Strides": [4, 1], "TotalTensorSizeInBytes": 64}
    nested = {"Desc": members} if kind is ... else {"Type": kind, "Desc": members}
    inline = members if kind is ... else {"Type": kind, **members}
    for written in (nested, inline):
        desc = check(argmax(InputTensor=written)).inputs["InputTensor"]
        assert (desc.sizes, desc.strides, desc.total_size_in_bytes) == ((2, 3), (4, 1), 64)


def test_violations_in_a_nested_desc_point_inside():
    written = {"Type": "INVALID", "Desc": {"DataType": "FLOAT64", "Sizes": [2, 0], "sizes": []}, "Sizes": [2, 3]}
    assert sorted(refused(argmax(InputTensor=written))) == [
        ("out_of_range", "/desc/InputTensor/Desc/Sizes/1"),
        ("unknown_field", "/desc/InputTensor/Desc/sizes"),
        ("unknown_field", "/desc/InputTensor/Sizes"),
        ("unknown_value", "/desc/InputTensor/Type"),
    ]
    assert refused(argmax(InputTensor={"Desc": {"DataType": "FLOAT64", "Sizes": [2, 3]}})) == [
        ("data_type_not_in_level", "/desc/InputTensor/Desc/DataType")
    ]
    assert refused(argmax(InputTensor={"Desc": 5})) == [("wrong_type", "/desc/InputTensor/Desc")]


@pytest.mark.parametrize(
    ("written", "flags"),
    [
        ("NONE", TensorFlags.NONE),
        ("DML_TENSOR_FLAG_NONE", TensorFlags.NONE),
        (0, TensorFlags.NONE),
        ([], TensorFlags.NONE),
        (["NONE"], TensorFlags.NONE),
        (None, TensorFlags.NONE),
        ("OWNED_BY_DML", TensorFlags.OWNED_BY_DML),
        ("DML_TENSOR_FLAG_OWNED_BY_DML", TensorFlags.OWNED_BY_DML),
        (1, TensorFlags.OWNED_BY_DML),
        (["OWNED_BY_DML"], TensorFlags.OWNED_BY_DML),
        (["DML_TENSOR_FLAG_OWNED_BY_DML", "NONE"], TensorFlags.OWNED_BY_DML),
        ([1, 0, 1], TensorFlags.OWNED_BY_DML),
    ],
)
def test_flags_are_accepted_in_every_spelling(written, flags):
    assert check(source(Flags=written)).inputs["InputTensor"].flags == flags


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (2, [("unknown_value", "/desc/InputTensor/Flags")]),
        ("OWNED", [("unknown_value", "/desc/InputTensor/Flags")]),
        ([0, "X", 3], [("unknown_value", f"/desc/InputTensor/Flags/{i}") for i in (1, 2)]),
        (True, [("wrong_type", "/desc/InputTensor/Flags")]),
        ([[]], [("wrong_type", "/desc/InputTensor/Flags/0")]),
    ],
)
def test_unknown_flags_are_refused(written, found):
    assert refused(source(Flags=written)) == found


@pytest.mark.parametrize("written", ["OWNED_BY_DML", 1, ["OWNED_BY_DML"]])
def test_outputs_cannot_be_owned_by_dml(written):
    output = {"DataType": "UINT32", "Sizes": [2, 1], "Flags": written}
    assert refused(argmax(OutputTensor=output)) == [("flags_invalid", "/desc/OutputTensor/Flags")]


@pytest.mark.parametrize("axes", [..., None, []])
def test_axes_can_be_empty_with_count_0(axes):
    assert check(argmax(AxisCount=0, Axes=axes)).attributes.Axes == ()


@pytest.mark.parametrize("count", [..., None])
def test_a_count_can_be_omitted(count):
    assert check(argmax(AxisCount=count)).attributes.Axes == (1,)
    assert check(argmax(AxisCount=count, Axes=[])).attributes.Axes == ()


@pytest.mark.parametrize("count", [..., None, 1])
def test_a_null_array_needs_a_count_of_0(count):
    assert refused(argmax(AxisCount=count, Axes=None)) == [("missing_field", "/desc/Axes")]
    assert refused(argmax(AxisCount=count, Axes=...)) == [("missing_field", "/desc")]


@pytest.mark.parametrize("count", [0, 2, 2**32 - 1])
def test_counts_must_match_their_arrays(count):
    assert refused(argmax(AxisCount=count)) == [("count_mismatch", "/desc/AxisCount")]


@pytest.mark.parametrize(
    ("count", "code"), [(-1, "out_of_range"), (2**32, "out_of_range"), ("1", "wrong_type"), (1.0, "wrong_type")]
)
def test_counts_are_unsigned_integers(count, code):
    assert refused(argmax(AxisCount=count)) == [(code, "/desc/AxisCount")]


def test_the_dimension_count_of_a_tensor_must_match():
    assert check(source(DimensionCount=2)).inputs["InputTensor"].rank == 2
    assert refused(source(DimensionCount=4)) == [("count_mismatch", "/desc/InputTensor/DimensionCount")]
    assert refused(source(Strides=[3, 1, 1])) == [("count_mismatch", "/desc/InputTensor/Strides")]
    assert refused(source(Sizes=[1] * 9)) == [("out_of_range", "/desc/InputTensor/Sizes")]
    assert refused(source(Sizes=[])) == [("out_of_range", "/desc/InputTensor/Sizes")]


def test_the_dimension_count_of_a_pooling_must_match():
    desc: dict[str, Any] = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
        "Strides": [1, 1],
        "WindowSize": [1, 1],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
    }
    for count in (None, 2):
        assert check({"type": "MAX_POOLING", "desc": {**desc, "DimensionCount": count}}).outputs
    assert refused({"type": "MAX_POOLING", "desc": {**desc, "DimensionCount": 1}}) == [
        ("count_mismatch", f"/desc/{name}") for name in ("Strides", "WindowSize", "StartPadding", "EndPadding")
    ]
    assert refused({"type": "MAX_POOLING", "desc": {**desc, "EndPadding": [0, 0, 0]}}) == [
        ("count_mismatch", "/desc/EndPadding")
    ]


@pytest.mark.parametrize("output", [..., None])
def test_an_omitted_output_is_derived(output):
    derived = check(argmax(OutputTensor=output)).outputs["OutputTensor"]
    assert (derived.data_type, derived.sizes, derived.strides) == (DataType.UINT32, (2, 1), None)


@pytest.mark.parametrize("members", [{"Strides": None}, {"TotalTensorSizeInBytes": 0}, {"Flags": None}])
def test_null_and_zero_members_have_defaults(members):
    assert check(source(**members)).inputs == check(argmax()).inputs


def test_numpy_integers_are_accepted():
    plan = check(source(Sizes=[np.int64(2), np.uint8(3)], Strides=np.array([3, 1]).tolist()))
    assert plan.inputs["InputTensor"].sizes == (2, 3)
    assert all(type(size) is int for size in plan.inputs["InputTensor"].sizes)


@pytest.mark.parametrize(
    ("axes", "found"),
    [
        ([2], [("axis_out_of_range", "/desc/Axes/0")]),
        ([-1], [("out_of_range", "/desc/Axes/0")]),
        ([2**32], [("out_of_range", "/desc/Axes/0")]),
        ([1.0], [("wrong_type", "/desc/Axes/0")]),
        ([None], [("wrong_type", "/desc/Axes/0")]),
        ([True], [("wrong_type", "/desc/Axes/0")]),
        (["1"], [("wrong_type", "/desc/Axes/0")]),
        ("1", [("wrong_type", "/desc/Axes")]),
        (1, [("wrong_type", "/desc/Axes")]),
        ({"0": 1}, [("wrong_type", "/desc/Axes")]),
        ([5, -5, 5], [("out_of_range", "/desc/Axes/1")]),
    ],
)
def test_invalid_axes_are_refused(axes, found):
    assert refused(argmax(AxisCount=..., Axes=axes)) == found


def test_an_axis_given_twice_counts_once():
    plan = check(argmax(AxisCount=2, Axes=[1, 1]))
    assert plan.attributes.Axes == (1,)


def test_the_order_of_axes_does_not_matter():
    operator = argmax(AxisCount=2, Axes=[1, 0])
    assert check(operator).outputs["OutputTensor"].sizes == (1, 1)


def test_a_misspelt_field_gets_a_suggestion():
    with pytest.raises(ContractViolation) as refusal:
        check(argmax(AxisDirektion=1))
    (violation,) = refusal.value.violations
    assert "AxisDirection" in violation.message
    assert violation.allowed == FACTS["fields"]["ARGMAX"].split()
