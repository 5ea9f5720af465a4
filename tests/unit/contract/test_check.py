"""Refusals: which code, which place, and from which level on they no longer apply."""

from __future__ import annotations

from typing import Any

import pytest

from opwire.check import check, validate
from opwire.errors import ContractViolation
from opwire.level import FeatureLevel
from opwire.operator import Code
from opwire.operators import OPERATORS
from tests.directml.tensor_support import COUNT, FACTS
from tests.support.examples import by_tensor
from tests.support.http.pointers import resolves
from tests.support.rows import for_each


def refusal(operator: object, level: FeatureLevel | str = "6_4", pointer: str = "") -> list[tuple[str, str]]:
    """Returns code and pointer of every violation, after checking that each pointer resolves."""
    with pytest.raises(ContractViolation) as refused:
        check(operator, level, pointer=pointer)
    document = operator
    for name in reversed(pointer.split("/")[1:]):
        document = {name: document}
    violations = refused.value.violations
    assert violations
    for violation in violations:
        assert resolves(document, violation.pointer), violation
    return [(violation.code.value, violation.pointer) for violation in violations]


def tensor(data_type: str = "FLOAT32", *sizes: int, **members: object) -> dict[str, object]:
    return {"DataType": data_type, "Sizes": list(sizes), **members}


def reduce(function: str, source: dict[str, object], axes: list[int], **members: object) -> dict[str, object]:
    return {"type": "REDUCE", "desc": {"Function": function, "InputTensor": source, "Axes": axes, **members}}


def argmax(source: dict[str, object], axes: list[int], **members: object) -> dict[str, object]:
    return {"type": "ARGMAX", "desc": {"InputTensor": source, "Axes": axes, "AxisDirection": "INCREASING", **members}}


def pooling(name: str, source: dict[str, object], **members: object) -> dict[str, object]:
    arrays = {"Strides": [1, 1], "WindowSize": [1, 1], "StartPadding": [0, 0], "EndPadding": [0, 0]}
    return {"type": name, "desc": {"InputTensor": source, **arrays, **members}}


@for_each((operator, bad) for operator in OPERATORS.values() for bad in operator.bad_examples)
def test_bad_examples_are_refused_at_their_place(operator, bad):
    request = {"type": operator.name, "desc": dict(bad.desc)}
    assert (bad.code.value, f"/desc{bad.pointer}") in refusal(request, bad.level)
    # Inside a larger request, pointers are prefixed with the operator's place.
    assert (bad.code.value, f"/in/operator/desc{bad.pointer}") in refusal(request, bad.level, "/in/operator")


@for_each(OPERATORS.values())
def test_examples_are_accepted_at_their_level(operator):
    for example in operator.examples:
        plan = check({"type": operator.name, "desc": dict(example.desc)}, example.level)
        assert plan.operator is operator
        assert plan.level is example.level
        assert set(plan.inputs) == set(by_tensor(operator, example.inputs))
        assert set(plan.outputs) == set(by_tensor(operator, example.outputs))


@pytest.mark.parametrize(
    ("operator", "level", "place", "available"),
    [
        (argmax(tensor("INT64", 3), [0]), "4_0", "/desc/InputTensor/DataType", "4_1"),
        (argmax(tensor("FLOAT64", 3), [0]), "6_4", "/desc/InputTensor/DataType", None),
        (argmax(tensor("INT4", 3), [0]), "6_4", "/desc/InputTensor/DataType", None),
        (argmax(tensor("FLOAT32", 3), [0]), "2_1", "/type", "3_0"),
        (argmax(tensor("UINT64", 3), [0]), "1_0", "/type", "3_0"),
        (reduce("SUM", tensor("INT32", 1, 1, 1, 3), [3]), "2_0", "/desc/InputTensor/DataType", "2_1"),
        (reduce("SUM", tensor("INT64", 3), [0]), "4_1", "/desc/InputTensor/DataType", "5_0"),
        (reduce("SUM", tensor("UINT8", 3), [0]), "6_4", "/desc/InputTensor/DataType", None),
        (reduce("SUM", tensor("FLOAT32", 3, 3, 3), [0]), "2_1", "/desc/InputTensor/Sizes", "3_0"),
        (
            reduce("ARGMIN", tensor("FLOAT32", 1, 1, 1, 3), [3], OutputTensor=tensor("INT64", 1, 1, 1, 1)),
            "2_1",
            "/desc/OutputTensor/DataType",
            "3_0",
        ),
        (pooling("MAX_POOLING", tensor("INT8", 1, 1, 2, 2)), "2_1", "/desc/InputTensor/DataType", "3_0"),
        (pooling("MAX_POOLING", tensor("INT16", 1, 1, 2, 2)), "4_1", "/desc/InputTensor/DataType", "5_0"),
        (pooling("MAX_POOLING", tensor("FLOAT32", 1, 1, 1, 1, 2, 2)), "6_4", "/desc/InputTensor/Sizes", None),
        (
            pooling("MAX_POOLING1", tensor("FLOAT32", 1, 1, 2, 2), OutputIndicesTensor=tensor("UINT64", 1, 1, 2, 2)),
            "4_1",
            "/desc/OutputIndicesTensor/DataType",
            "5_0",
        ),
        (pooling("MAX_POOLING2", tensor("FLOAT32", 1, 1, 2, 2), Dilations=[1, 1]), "2_0", "/type", "2_1"),
        ({"type": "UNFOLD", "desc": {}}, "6_3", "/type", "6_4"),
    ],
)
def test_violations_name_the_level_that_resolves_them(operator, level, place, available):
    with pytest.raises(ContractViolation) as refused:
        check(operator, level)
    found = next(violation for violation in refused.value.violations if violation.pointer == place)
    assert found.available_from == (None if available is None else FeatureLevel.parse(available))
    if available is not None and operator["type"] in OPERATORS:
        later = validate(operator, available).violations
        codes = (Code.DATA_TYPE_NOT_IN_LEVEL, Code.RANK_NOT_IN_LEVEL, Code.OPERATOR_NOT_IN_LEVEL)
        assert not [violation for violation in later if violation.pointer == place and violation.code in codes]


def test_violations_at_every_level_name_none():
    found = validate(argmax(tensor("FLOAT32", 3), [7], Axis=1)).violations
    assert {violation.code for violation in found} == {Code.UNKNOWN_FIELD, Code.AXIS_OUT_OF_RANGE}
    assert {violation.available_from for violation in found} == {None}


@pytest.mark.parametrize(
    ("operator", "lowest"),
    [
        (reduce("SUM", tensor("FLOAT32", 1, 2, 3, 4), [1]), "1_0"),
        (reduce("SUM", tensor("FLOAT32", 2), [0]), "3_0"),
        (reduce("SUM", tensor("INT32", 1, 2, 3, 4), [1]), "2_1"),
        (reduce("MAX", tensor("UINT8", 1, 2, 3, 4), [1]), "3_0"),
        (reduce("MIN", tensor("INT64", 2), [0]), "5_0"),
        (reduce("L1", tensor("INT32", 1, 2, 3, 4), [1]), "5_0"),
        (argmax(tensor("FLOAT16", 2), [0]), "3_0"),
        (argmax(tensor("UINT64", 2), [0]), "4_1"),
        (pooling("MAX_POOLING1", tensor("FLOAT32", 1, 1, 2, 2)), "2_0"),
        (
            pooling("MAX_POOLING1", tensor("FLOAT32", 1, 1, 2, 2), OutputIndicesTensor=tensor("UINT64", 1, 1, 2, 2)),
            "5_0",
        ),
        (reduce("AVERAGE", tensor("INT32", 2), [0]), None),
        (argmax(tensor("FLOAT32", 2), [2]), None),
        ({"type": "GEMM", "desc": {}}, None),
        ({"type": "NO_SUCH_THING", "desc": {}}, None),
        (17, None),
    ],
)
def test_the_minimum_feature_level_is_found(operator, lowest):
    minimum = validate(operator).minimum_feature_level
    assert minimum == (None if lowest is None else FeatureLevel.parse(lowest))


def test_every_violation_is_reported_at_once():
    operator = {
        "type": "DML_OPERATOR_MAX_POOLING2",
        "dsc": {},
        "desc": {
            "InputTensor": {"DataType": "FLOAT31", "Sizes": [1, 0, 4, -4], "Strides": [1], "Color": "red"},
            "OutputTensor": 5,
            "OutputIndicesTensor": {"DataType": "UINT32", "Sizes": [1, 1, 4, 4], "Flags": ["OWNED_BY_DML"]},
            "DimensionCount": 3,
            "Strides": [0, 2**32],
            "WindowSize": [2, "2"],
            "StartPadding": None,
            "EndPadding": [0, 0],
            "Windowsize": [2, 2],
        },
    }
    assert sorted(refusal(operator)) == sorted(
        [
            ("unknown_field", "/dsc"),
            ("unknown_field", "/desc/Windowsize"),
            ("out_of_range", "/desc/Strides/1"),
            ("wrong_type", "/desc/WindowSize/1"),
            ("missing_field", "/desc/StartPadding"),
            ("count_mismatch", "/desc/EndPadding"),
            ("unknown_field", "/desc/InputTensor/Color"),
            ("unknown_value", "/desc/InputTensor/DataType"),
            ("out_of_range", "/desc/InputTensor/Sizes/1"),
            ("out_of_range", "/desc/InputTensor/Sizes/3"),
            ("wrong_type", "/desc/OutputTensor"),
            ("flags_invalid", "/desc/OutputIndicesTensor/Flags"),
        ]
    )


def test_violations_of_level_and_operator_are_reported_together():
    operator = reduce(
        "SUM", tensor("UINT8", 2, 3), [2, 0, 0], OutputTensor=tensor("INT8", 2, 3, Strides=[0, 1]), AxisCount=3
    )
    assert sorted(refusal(operator, "2_1")) == sorted(
        [
            ("data_type_not_in_level", "/desc/InputTensor/DataType"),
            ("rank_not_in_level", "/desc/InputTensor/Sizes"),
            ("output_overlaps", "/desc/OutputTensor/Strides"),
            ("axis_out_of_range", "/desc/Axes/0"),
        ]
    )


def test_a_wrong_attribute_does_not_hide_a_wrong_tensor():
    source = tensor("FLOAT64", 2, 3)
    assert ("data_type_not_in_level", "/desc/InputTensor/DataType") in refusal(
        {"type": "ARGMAX", "desc": {"InputTensor": source, "Axes": None, "AxisDirection": "SIDEWAYS"}}
    )
    assert ("data_type_not_in_level", "/desc/InputTensor/DataType") in refusal(
        {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": source, "Axes": [-1]}}
    )


def test_scatter_is_an_alias_of_scatter_elements():
    desc = {"InputTensor": tensor("FLOAT32", 5), "UpdatesTensor": tensor("FLOAT32", 2), "Axis": 0}
    plan = check({"type": "DML_OPERATOR_SCATTER", "desc": {**desc, "IndicesTensor": tensor("UINT32", 2)}})
    assert plan.operator is OPERATORS["SCATTER_ELEMENTS"]


def attention(operator: str, **tensors: object) -> dict[str, Any]:
    """Returns attention with one head, one query and two keys."""
    heads = {"HeadCount": 1} if operator == "MULTIHEAD_ATTENTION" else {"QueryHeadCount": 1, "KeyValueHeadCount": 1}
    sizes = {"QueryTensor": (1, 1, 2), "KeyTensor": (1, 2, 2), "ValueTensor": (1, 2, 2)}
    shared = {"Scale": 1, "MaskFilterValue": -10000, "MaskType": "NONE"}
    given = {name: tensor("FLOAT32", *of) for name, of in sizes.items()}
    return {"type": operator, "desc": {**given, **shared, **heads, **tensors}}


@pytest.mark.parametrize("operator", ["MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"])
def test_a_member_can_be_given_by_its_alias(operator):
    plan = check(attention(operator, AttentionBiasTensor=tensor("FLOAT32", 1, 1, 1, 2)))
    assert plan.inputs["RelativePositionBiasTensor"].sizes == (1, 1, 1, 2)
    wrong = attention(operator, AttentionBiasTensor=tensor("INT8", 1, 1, 1, 2))
    assert ("data_type_not_in_level", "/desc/AttentionBiasTensor/DataType") in refusal(wrong)
    both = attention(operator, **dict.fromkeys(("AttentionBiasTensor", "RelativePositionBiasTensor"), None))
    assert refusal(both) == [("unknown_field", "/desc/AttentionBiasTensor")]


@pytest.mark.parametrize(
    "written",
    ["ARGMEAN", "", "argmax", "DML_OPERATOR_", "DML_OPERATOR_DML_OPERATOR_ARGMAX", "INVALID", 0, COUNT + 1, -1, 2**70],
)
def test_unknown_operators_are_refused(written):
    assert refusal({"type": written, "desc": {}}) == [("unknown_operator", "/type")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("RELU", "ACTIVATION_RELU"),
        ("DML_OPERATOR_relu", "ACTIVATION_RELU"),
        ("argmax", "ARGMAX"),
        ("LeakyRelu", "ACTIVATION_LEAKY_RELU"),
        ("MaxPool", "MAX_POOLING"),
        ("Min", "ELEMENT_WISE_MIN"),
        ("Mul", "ELEMENT_WISE_MULTIPLY"),
        ("REDUCE_SUM", "REDUCE"),
        ("MAX_POOLING22", "MAX_POOLING2"),
        ("MatMul", None),
        ("A" * 10**6, None),
        ("DML_OPERATOR_", None),
        (None, None),
    ],
)
def test_an_unknown_operator_gets_a_suggestion(written, meant):
    (violation,) = validate({"type": written, "desc": {}}).violations
    hint = f"; did you mean {meant}?" if meant else "operator types"
    assert violation.message.endswith(hint)


@pytest.mark.parametrize("written", [None, True, 138.0, ["ARGMAX"], {"name": "ARGMAX"}])
def test_operator_types_of_other_types_are_refused(written):
    assert refusal({"type": written, "desc": {}}) == [("unknown_operator", "/type")]


@pytest.mark.parametrize(
    ("operator", "found"),
    [
        ({}, [("missing_field", ""), ("missing_field", "")]),
        ({"type": "ARGMAX"}, [("missing_field", "")]),
        ({"type": "ARGMAX", "desc": None}, [("wrong_type", "/desc")]),
        ({"type": "ARGMAX", "desc": []}, [("wrong_type", "/desc")]),
        (None, [("wrong_type", "")]),
        ("ARGMAX", [("wrong_type", "")]),
        ([], [("wrong_type", "")]),
        ({"type": "ARGMAX", "desc": {}}, [("missing_field", "/desc")] * 2),
        (
            {"type": "ARGMAX", "desc": {"InputTensor": None, "Axes": None, "AxisDirection": None}},
            [
                ("missing_field", "/desc/Axes"),
                ("missing_field", "/desc/AxisDirection"),
                ("missing_field", "/desc/InputTensor"),
            ],
        ),
        # A count of 0 stands for an omitted array.
        (
            {"type": "MAX_POOLING", "desc": {"InputTensor": tensor("FLOAT32", 1, 1, 2, 2), "DimensionCount": 0}},
            [("count_mismatch", "/desc")],
        ),
        (
            {"type": "ARGMAX", "desc": {"~a/b": 1}},
            [("missing_field", "/desc")] * 2 + [("unknown_field", "/desc/~0a~1b")],
        ),
    ],
)
def test_missing_fields_are_reported(operator, found):
    assert sorted(refusal(operator)) == sorted(found)


PADDED = {"StartPadding": [0, 0], "EndPadding": [0, 0]}
DEFAULTS = [
    (
        "GEMM",
        {"ATensor": tensor("FLOAT32", 2, 3), "BTensor": tensor("FLOAT32", 3, 4)},
        {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1},
    ),
    (
        "CONVOLUTION",
        {"InputTensor": tensor("FLOAT32", 1, 2, 5, 5), "FilterTensor": tensor("FLOAT32", 4, 2, 3, 3)},
        {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD", "Strides": [1, 1], "Dilations": [1, 1], **PADDED}
        | {"OutputPadding": [0, 0], "GroupCount": 1},
    ),
    (
        "MAX_POOLING2",
        {"InputTensor": {"Type": "BUFFER", "Desc": tensor("FLOAT32", 1, 2, 5, 5)}, "WindowSize": [2, 3]},
        {"Strides": [1, 1], "Dilations": [1, 1], **PADDED},
    ),
    ("ACTIVATION_HARD_SIGMOID", {"InputTensor": tensor("FLOAT32", 2)}, {"Alpha": 0.2, "Beta": 0.5}),
    ("ELEMENT_WISE_ROUND", {"InputTensor": tensor("FLOAT32", 2)}, {"RoundingMode": "HALVES_TO_NEAREST_EVEN"}),
    ("ARGMIN", {"InputTensor": tensor("FLOAT32", 2), "Axes": [0]}, {"AxisDirection": "INCREASING"}),
]


@pytest.mark.parametrize(("name", "desc", "defaults"), DEFAULTS, ids=[row[0] for row in DEFAULTS])
def test_members_with_a_default_can_be_left_out(name, desc, defaults):
    whole, short = ({"type": name, "desc": given} for given in ({**desc, **defaults}, desc))
    assert check(short).attributes == check(whole).attributes
    assert check(short).outputs == check(whole).outputs
    for member in defaults:
        some = {"type": name, "desc": {**desc, **{each: defaults[each] for each in defaults if each != member}}}
        assert check(some).attributes == check(whole).attributes
        null = {"type": name, "desc": {**desc, **defaults, member: None}}
        assert refusal(null) == [("missing_field", f"/desc/{member}")]


def test_an_array_that_is_left_out_is_as_long_as_the_others():
    desc: dict[str, Any] = {"InputTensor": tensor("FLOAT32", 1, 1, 5, 5), "WindowSize": [2, 2, 2]}
    assert {code for code, _ in refusal({"type": "MAX_POOLING", "desc": desc})} == {"count_mismatch"}
    desc["DimensionCount"] = 2
    assert refusal({"type": "MAX_POOLING", "desc": desc}) == [("count_mismatch", "/desc/WindowSize")]


def test_a_default_that_cannot_be_known_adds_no_violation():
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": 5}, "FilterTensor": tensor("FLOAT32", 1, 1, 3, 3)}
    assert refusal({"type": "CONVOLUTION", "desc": desc}) == [("wrong_type", "/desc/InputTensor/Sizes")]
    assert refusal({"type": "CONVOLUTION", "desc": {}}) == [("missing_field", "/desc")] * 2


def test_a_fused_activation_has_its_defaults():
    vector = tensor("FLOAT32", 2)
    desc = {"ATensor": vector, "BTensor": vector, "FusedActivation": {"Type": "ACTIVATION_ELU"}}
    assert check({"type": "ELEMENT_WISE_ADD1", "desc": desc}).attributes.FusedActivation.values == {"Alpha": 1}


@pytest.mark.parametrize("written", ["DML_FEATURE_LEVEL_4_1", "4_1", "0x4100", 0x4100, FeatureLevel.V4_1])
def test_levels_are_accepted_in_every_spelling(written):
    assert check(argmax(tensor("FLOAT32", 2), [0]), written).level is FeatureLevel.V4_1


@pytest.mark.parametrize("written", ["4.1", "V4_1", "", "7_0", 4.1, 0x4101, 4, True, None, [], "0X4100", "DML_4_1"])
def test_unknown_levels_are_refused(written):
    with pytest.raises(ContractViolation) as refused:
        check(argmax(tensor("FLOAT32", 2), [0]), written)
    (violation,) = refused.value.violations
    assert violation.code is Code.UNKNOWN_FEATURE_LEVEL
    assert violation.allowed == [f"DML_FEATURE_LEVEL_{name}" for name in FACTS["levels"]]


def test_indices_must_fit_their_type():
    fits = argmax(tensor("FLOAT32", 65536, 32768), [0, 1], OutputTensor=tensor("INT32", 1, 1))
    assert check(fits).work == 2**31
    too_many = tensor("FLOAT32", 65536, 32769)
    assert refusal(argmax(too_many, [1, 0], OutputTensor=tensor("INT32", 1, 1))) == [
        ("index_overflow", "/desc/OutputTensor/DataType")
    ]
    assert refusal(reduce("ARGMIN", too_many, [0, 1], OutputTensor={"Desc": tensor("INT32", 1, 1)})) == [
        ("index_overflow", "/desc/OutputTensor/Desc/DataType")
    ]
    for data_type in ("UINT32", "INT64", "UINT64"):
        assert check(argmax(too_many, [0, 1], OutputTensor=tensor(data_type, 1, 1))).outputs
    # Only elements that are reduced together count.
    assert check(argmax(too_many, [0], OutputTensor=tensor("INT32", 1, 32769))).outputs


def test_messages_name_given_and_allowed_values():
    with pytest.raises(ContractViolation) as refused:
        check(reduce("SUM", tensor("UINT8", 2), [0]), "3_0")
    (violation,) = refused.value.violations
    assert "UINT8" in violation.message
    assert "3_0" in violation.message
    assert violation.allowed is not None
    assert set(violation.allowed) == {"FLOAT32", "FLOAT16", "INT32", "UINT32"}
    assert violation.message in str(refused.value)


def test_many_wrong_attributes_are_reported_with_a_wrong_tensor():
    desc = {
        "InputTensor": {"DataType": "FLOAT64", "Sizes": [2, 3]},
        "AxisCount": 2,
        "Axes": [0, 9, 0],
        "AxisDirection": "SIDEWAYS",
        "Axis": 1,
    }
    with pytest.raises(ContractViolation) as refused:
        check({"type": "ARGMAX", "desc": desc})
    assert {(found.code, found.pointer) for found in refused.value.violations} == {
        (Code.DATA_TYPE_NOT_IN_LEVEL, "/desc/InputTensor/DataType"),
        (Code.UNKNOWN_VALUE, "/desc/AxisDirection"),
        (Code.COUNT_MISMATCH, "/desc/AxisCount"),
        (Code.AXIS_OUT_OF_RANGE, "/desc/Axes/1"),
        (Code.UNKNOWN_FIELD, "/desc/Axis"),
    }


def test_the_output_of_an_array_is_derived_from_the_plans_inputs():
    join = {"InputTensors": [tensor("INT8", 2, 3), tensor("INT8", 2, 4)], "Axis": 1}
    plan = check({"type": "JOIN", "desc": join})
    assert list(plan.inputs) == ["InputTensors[0]", "InputTensors[1]"]
    rules = plan.operator.output_rules(plan.attributes, plan.inputs)
    assert rules["OutputTensor"].derived() == plan.outputs["OutputTensor"]
    assert plan.outputs["OutputTensor"].sizes == (2, 7)


@pytest.mark.parametrize(
    ("sizes", "given", "is_wrong"),
    [
        ([1, 1, 4, 5], {}, True),  # 3 or 2 columns never meet 4 or 5 rows
        ([1, 1, 5, 3], {}, False),  # they do if B is transposed
        ([1, 1, 5, 3], {"TransB": "NONE"}, True),
        ([1, 1, 5, 2], {"TransA": "transposed"}, False),
        ([1, 1, 4, 5], {"TransA": "transposed"}, True),
    ],
)
def test_rules_are_judged_where_missing_members_cannot_matter(sizes, given, is_wrong):
    first, second = ({"DataType": "FLOAT32", "Sizes": each} for each in ([1, 1, 2, 3], sizes))
    desc = {"ATensor": first, "BTensor": second, **dict.fromkeys(("TransA", "TransB", "Alpha", "Beta")), **given}
    found = [(each.code, each.pointer) for each in validate({"type": "GEMM", "desc": desc}).violations]
    structural = [code for code, _ in found if code in (Code.MISSING_FIELD, Code.UNKNOWN_VALUE)]
    assert len(structural) == 4 - (given.get("TransB") is not None)
    assert (len(found) > len(structural)) == is_wrong
