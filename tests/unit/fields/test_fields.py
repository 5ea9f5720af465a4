"""Members of every kind: the spellings that DxDispatch accepts, and what is refused, with code and place."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from opwire.check import check, validate
from opwire.desc import Report
from opwire.fields import UNREAD, Member, ScaleBias, Size2D
from opwire.level import FeatureLevel
from opwire.schema import CATALOG, schema_of
from tests.support.rows import for_each

VECTOR = {"DataType": "FLOAT32", "Sizes": [3]}
IMAGE = {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]}
KERNEL = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
ARRAYS = {"Strides": [1, 1], "Dilations": [1, 1], "StartPadding": [0, 0], "EndPadding": [0, 0], "OutputPadding": [0, 0]}


def member(operator: str, name: str) -> Member:
    return next(member for member in schema_of(operator).members.every if member.name == name)


def read(operator: str, name: str, given: Any, **others: Any) -> Any:
    """Returns what a member reads; in place of a refused value, the code and place of each violation."""
    report = Report()
    value = member(operator, name).read({name: given, **others}, "", report)
    found = [(violation.code.value, violation.pointer) for violation in report.violations]
    assert (value is UNREAD) == bool(found)
    return found or value


def clip(**members: Any) -> dict[str, Any]:
    return {"type": "ELEMENT_WISE_CLIP", "desc": {"InputTensor": VECTOR, "Min": -1, "Max": 1, **members}}


def convolution(activation: object, **members: Any) -> dict[str, Any]:
    modes = {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD", "GroupCount": 1}
    desc = {"InputTensor": IMAGE, "FilterTensor": KERNEL, **modes, **ARRAYS, "FusedActivation": activation, **members}
    return {"type": "CONVOLUTION", "desc": desc}


def refused(operator: dict[str, Any], level: str = "6_4") -> list[tuple[str, str]]:
    return [(found.code.value, found.pointer) for found in validate(operator, level).violations]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (1, 1.0),
        (0.1, 0.10000000149011612),
        (-0.0, -0.0),
        (2**24 + 1, 16777216.0),
        ("inf", math.inf),
        ("-INF", -math.inf),
        ("-Infinity", -math.inf),
        (math.inf, math.inf),
        (3.4028234663852886e38, 3.4028234663852886e38),
        (3.5e38, [("out_of_range", "/Min")]),
        (10**400, [("out_of_range", "/Min")]),
        ("nan", math.nan),
        (math.nan, math.nan),
        ("1", [("wrong_type", "/Min")]),
        (True, [("wrong_type", "/Min")]),
        ([1], [("wrong_type", "/Min")]),
        (None, [("missing_field", "/Min")]),
    ],
)
def test_floats_are_narrowed(given, value):
    assert repr(read("ELEMENT_WISE_CLIP", "Min", given)) == repr(value)


@pytest.mark.parametrize(
    ("operator", "name", "given", "value"),
    [
        ("GATHER", "Axis", 3, 3),
        ("GATHER", "Axis", -1, [("out_of_range", "/Axis")]),
        ("GATHER", "Axis", 2**32, [("out_of_range", "/Axis")]),
        ("GATHER", "Axis", 3.0, [("wrong_type", "/Axis")]),
        ("DIAGONAL_MATRIX", "Offset", -(2**31), -(2**31)),
        ("DIAGONAL_MATRIX", "Offset", 2**31, [("out_of_range", "/Offset")]),
        ("TOP_K", "K", 0, [("out_of_range", "/K")]),
        ("SLICE1", "InputWindowStrides", [-1, 2], (-1, 2)),
        ("SLICE1", "InputWindowStrides", 1, [("wrong_type", "/InputWindowStrides")]),
        ("RESAMPLE", "Scales", [0.5, "inf"], (0.5, math.inf)),
        ("RESAMPLE", "Scales", [1, "nan", "x"], [("wrong_type", "/Scales/2")]),
        ("LP_POOLING", "Strides", [1] * 5000, [("out_of_range", "/Strides")]),
        ("CUMULATIVE_PRODUCT", "HasExclusiveProduct", True, True),
        ("CUMULATIVE_PRODUCT", "HasExclusiveProduct", 0, [("wrong_type", "/HasExclusiveProduct")]),
        ("ROI_POOLING", "PooledSize", {"Width": 2, "Height": 3}, Size2D(2, 3)),
        ("ROI_POOLING", "PooledSize", [2, 3], [("wrong_type", "/PooledSize")]),
        ("ROI_POOLING", "PooledSize", {"Width": 2}, [("missing_field", "/PooledSize")]),
        ("ELEMENT_WISE_ABS", "ScaleBias", {"Scale": 2, "Bias": "inf"}, ScaleBias(2.0, math.inf)),
        ("ELEMENT_WISE_ABS", "ScaleBias", None, None),
        (
            "ELEMENT_WISE_ABS",
            "ScaleBias",
            {"Scale": "nan", "Bias": 1, "Bais": 1},
            [("unknown_field", "/ScaleBias/Bais")],
        ),
    ],
)
def test_numbers_arrays_and_structs_are_read(operator, name, given, value):
    assert read(operator, name, given) == value


@pytest.mark.parametrize(
    ("data_type", "given", "value"),
    [
        ("FLOAT32", 0.1, 0.10000000149011612),
        ("FLOAT32", {"Float32": "nan"}, math.nan),
        ("FLOAT64", {"Float64": 0.1}, 0.1),
        ("FLOAT16", 0.1, 0.0999755859375),
        ("FLOAT16", {"UInt16": 0x3C00}, 1.0),
        ("FLOAT16", 1e6, math.inf),
        ("UINT8", -2, 254),
        ("INT8", 200, -56),
        ("INT64", 2**63, -(2**63)),
        ("DML_TENSOR_DATA_TYPE_UINT32", {"UInt32": 7}, 7),
        (6, {"Int32": -7}, -7),
        ("UINT8", 2**64, [("out_of_range", "/Value")]),
        ("INT32", 1.5, [("wrong_type", "/Value")]),
        ("FLOAT32", "nan", [("wrong_type", "/Value")]),
        ("FLOAT32", {"Int32": 1}, [("union_mismatch", "/Value/Int32")]),
        ("FLOAT32", {"Float32": 1, "Int32": 1}, [("union_mismatch", "/Value/Int32")]),
        ("FLOAT32", {}, [("union_mismatch", "/Value")]),
        ("FLOAT16", {"UInt16": 2**16}, [("out_of_range", "/Value/UInt16")]),
        ("INT4", 9, -7),
        ("UINT4", {"UInt8": 17}, 1),
    ],
)
def test_unions_have_the_type_of_their_sibling(data_type, given, value):
    assert repr(read("FILL_VALUE_CONSTANT", "Value", given, ValueDataType=data_type)) == repr(value)


def test_a_union_without_a_type_adds_no_violation():
    report = Report()
    assert member("FILL_VALUE_CONSTANT", "Value").read({"Value": 1, "ValueDataType": "X"}, "", report) is UNREAD
    assert not report.violations


ELU = "ACTIVATION_ELU"


@pytest.mark.parametrize(
    "written",
    [
        {"Type": ELU, "Alpha": 0.5},
        {"type": ELU, "Alpha": 0.5},
        {"Type": f"DML_OPERATOR_{ELU}", "Desc": {"Alpha": 0.5}},
        {"type": ELU, "desc": {"Alpha": 0.5, "InputTensor": None}},
        {"Type": CATALOG[ELU].value, "desc": {"Alpha": 0.5}},
    ],
)
def test_nested_operators_are_accepted_in_every_spelling(written):
    nested = check(convolution(written)).attributes.FusedActivation
    assert (nested.name, dict(nested.values)) == (ELU, {"Alpha": 0.5})


@pytest.mark.parametrize("activation", [None, ...])
def test_an_activation_can_be_omitted(activation):
    operator = convolution(activation)
    if activation is ...:
        del operator["desc"]["FusedActivation"]
    assert check(operator).attributes.FusedActivation is None


AT = "/desc/FusedActivation"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (5, [("wrong_type", AT)]),
        ({}, [("missing_field", AT)]),
        ({"Type": "ELU"}, [("unknown_operator", f"{AT}/Type")]),
        ({"Type": "GEMM"}, [("operator_not_fusable", f"{AT}/Type")]),
        ({"type": "CONVOLUTION", "FusedActivation": {"Type": ELU}}, [("operator_not_fusable", f"{AT}/type")]),
        ({"Type": "ACTIVATION_LINEAR"}, [("missing_field", AT)] * 2),
        ({"Type": ELU, "Alpha": None}, [("missing_field", f"{AT}/Alpha")]),
        ({"Type": ELU, "Desc": 1}, [("wrong_type", f"{AT}/Desc")]),
        ({"Type": ELU, "Desc": {"Alpha": "x"}}, [("wrong_type", f"{AT}/Desc/Alpha")]),
        ({"Type": ELU, "Alpha": 1, "Beta": 1}, [("unknown_field", f"{AT}/Beta")]),
        ({"Type": ELU, "Alpha": 1, "Desc": {"Alpha": 1}}, [("unknown_field", f"{AT}/Alpha")]),
        ({"Type": ELU, "Alpha": 1, "InputTensor": VECTOR}, [("unexpected_tensor", f"{AT}/InputTensor")]),
    ],
)
def test_invalid_nested_operators_are_refused(written, found):
    assert refused(convolution(written)) == found


def test_activations_can_be_fused_from_their_level_on():
    gelu = convolution({"Type": "ACTIVATION_GELU"})
    (violation,) = validate(gelu, "5_0").violations
    assert (violation.code.value, violation.pointer) == ("operator_not_fusable", f"{AT}/Type")
    assert violation.available_from is FeatureLevel.V5_1
    assert validate(gelu).minimum_feature_level is FeatureLevel.V5_1


def test_directml_does_not_enforce_attributes_of_fused_activations():
    steep = convolution({"Type": "ACTIVATION_SOFTPLUS", "Steepness": 0.5})
    (warning,) = validate(steep, "6_3").warnings
    assert (warning.code.value, warning.pointer) == ("out_of_range", f"{AT}/Steepness")
    assert not validate(steep, "6_4").warnings


def test_nested_operators_do_not_nest():
    deep: dict[str, Any] = {"Type": "CONVOLUTION"}
    for _ in range(500):
        deep = {"Type": "CONVOLUTION", "FusedActivation": deep}
    assert refused(convolution(deep)) == [("operator_not_fusable", f"{AT}/Type")]


def test_values_of_enums_have_levels():
    report = Report()
    assert member("PADDING", "PaddingMode").read({"PaddingMode": "WRAP"}, "", report) == 4
    (found,) = report.at_levels
    assert (found.until, found.violation.available_from) == (FeatureLevel.V6_4, FeatureLevel.V6_4)
    assert found.counts_at(FeatureLevel.V6_3)
    assert not found.counts_at(FeatureLevel.V6_4)


def test_arrays_of_tensors_are_read():
    report = Report()
    join = member("JOIN", "InputTensors")
    tensors: Any = join.read({"InputTensors": [VECTOR, {"Desc": IMAGE}]}, "/desc", report)
    assert [tensor.pointer for tensor in tensors] == ["/desc/InputTensors/0", "/desc/InputTensors/1/Desc"]
    assert not report.violations
    assert read("JOIN", "InputTensors", VECTOR) == [("wrong_type", "/InputTensors")]
    assert read("JOIN", "InputTensors", [VECTOR, 5]) == [("wrong_type", "/InputTensors/1")]
    assert read("JOIN", "InputTensors", [VECTOR] * 5000) == [("out_of_range", "/InputTensors")]
    activations = read("RNN", "ActivationDescs", [{"Type": ELU, "Alpha": 1}] * 2)
    assert [nested.name for nested in activations] == [ELU, ELU]
    assert read("RNN", "ActivationDescs", [{"Type": ELU, "Alpha": 1}] * 7) == [("out_of_range", "/ActivationDescs")]


def test_counts_of_tensor_arrays_must_match():
    report = Report()
    desc = {"InputCount": 3, "InputTensors": [VECTOR, VECTOR], "OutputTensor": VECTOR, "Axis": 0}
    read = schema_of("JOIN").members.read_tensors(desc, "/desc", report)
    assert not read.complete
    assert list(read.places) == ["InputTensors[0]", "InputTensors[1]", "OutputTensor"]
    assert [(found.code.value, found.pointer) for found in report.violations] == [
        ("count_mismatch", "/desc/InputCount")
    ]


def endless() -> list[Any]:
    """Returns a list that contains itself, as a program may construct."""
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "operator",
    [
        {"type": "JOIN", "desc": {"InputTensors": [5] * 100_000}},
        convolution([{"Type": ELU}] * 100_000),
        convolution({"Type": ELU, **{f"a{i}": 1 for i in range(100_000)}}),
        clip(ScaleBias={f"a{i}": 1 for i in range(100_000)}),
        clip(Min=[1] * 100_000),
        clip(Min="9" * 1_000_000),
        clip(Min=10**5000),
        clip(Min=[10**5000]),
        clip(Min=endless()),
        clip(InputTensor={"DataType": "FLOAT32", "Sizes": endless()}),
        convolution(endless()),
        convolution({"Type": endless()}),
        {"type": endless(), "desc": endless()},
    ],
)
def test_huge_values_are_refused_quickly(operator):
    began = time.process_time()
    found = validate(operator).violations
    assert time.process_time() - began < 2
    assert found
    assert len(json.dumps([violation.to_json() for violation in found])) < 100_000


@for_each(CATALOG)
def test_every_member_has_a_description_json_schema_and_hint(name):
    for each in schema_of(name).members.every:
        assert json.loads(json.dumps(each.describe())) == each.describe()
        assert json.loads(json.dumps(each.json_schema()))
        assert each.hint()


def test_parameters_are_text_numbers_or_booleans():
    assert member("ARGMAX", "Axes").from_parameter("1,2") == [1, 2]
    assert member("ARGMAX", "Axes").from_parameter("[1]") == [1]
    assert member("ARGMAX", "Axes").from_parameter(1) == [1]
    assert member("RESAMPLE", "Scales").from_parameter(0.5) == [0.5]
    assert member("ELEMENT_WISE_CLIP", "Min").from_parameter(0.5) == 0.5
    assert member("ELEMENT_WISE_ABS", "ScaleBias").from_parameter('{"Scale": 1, "Bias": 0}') == {"Scale": 1, "Bias": 0}
    assert member("FILL_VALUE_CONSTANT", "Value").from_parameter('{"Int32": 1}') == {"Int32": 1}
    assert member("FILL_VALUE_CONSTANT", "Value").from_parameter("nan") == "nan"
    assert member("CONVOLUTION", "FusedActivation").from_parameter("not JSON") == "not JSON"


def test_a_tensor_can_become_optional_at_a_later_level():
    limits = schema_of("ELEMENT_WISE_QUANTIZE_LINEAR").support
    assert [(row.level.short, row.required) for row in limits.rows({})][:2] == [
        ("6_2", ()),
        ("6_0", ("ZeroPointTensor",)),
    ]
