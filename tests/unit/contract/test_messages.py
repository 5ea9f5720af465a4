"""What violations say: short lists of allowed values, none of them twice, and how tensors are broadcast."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from opwire import ContractViolation, Violation, check, validate
from opwire.operators import OPERATORS
from tests.directml.tensor_support import COUNT


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": [*sizes]}


def only(operator: dict[str, Any]) -> Violation:
    """Returns the only violation of an operator."""
    (violation,) = validate(operator).violations
    return violation


GEMM = {"ATensor": tensor(2, 3), "BTensor": tensor(3, 4)}


def test_of_many_allowed_values_the_likeliest_are_listed():
    unknown = only({"type": "MaxPooling", "desc": {}})
    assert unknown.allowed is not None
    assert (len(unknown.allowed), unknown.allowed_more) == (5, COUNT - 5)
    assert unknown.allowed[:3] == ["MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"]
    assert only({"type": "GEMN", "desc": {}}).allowed[0] == "GEMM"  # type: ignore[index]
    fused = only({"type": "GEMM", "desc": {**GEMM, "FusedActivation": {"Type": "ACTIVATION_HARDMAX"}}})
    assert (fused.allowed_more, len(fused.allowed or ())) == (17, 5)
    assert "ACTIVATION_HARD_SIGMOID" in (fused.allowed or ())
    for violation in (unknown, fused):
        assert Violation.from_json(json.loads(json.dumps(violation.to_json()))) == violation


def test_a_list_that_is_not_long_is_whole():
    violation = only({"type": "REDUCE", "desc": {"Function": "MEDIAN", "InputTensor": tensor(2), "Axes": [0]}})
    assert (len(violation.allowed or ()), violation.allowed_more) == (12, 0)
    assert "allowed_more" not in violation.to_json()


def test_errors_list_a_few_allowed_values():
    with pytest.raises(ContractViolation) as refused:
        check({"type": "GEMM", "desc": {**GEMM, "Foo": 1, "FusedActivation": {"Type": "GEMM"}}})
    said = str(refused.value)
    assert (
        'no field "Foo"; allowed: ATensor, BTensor, CTensor, OutputTensor, TransA, ... 4 more [unknown_field]' in said
    )
    assert ", ... 17 more [operator_not_fusable]" in said
    with pytest.raises(ContractViolation, match=r"did you mean GEMM\? \[unknown_operator\]$"):
        check({"type": "GEM", "desc": {}})
    with pytest.raises(ContractViolation, match=r"6_4 \[unknown_feature_level\]$"):  # the message has the range
        check({"type": "GEMM", "desc": GEMM}, "9_9")


BAD = [(name, bad) for name, operator in OPERATORS.items() for bad in operator.bad_examples]
ONES = [
    {"type": "GEMM", "desc": {"ATensor": tensor(1, 3), "BTensor": tensor(3, 1), "CTensor": tensor(5, 1)}},
    {"type": "GEMM", "desc": {"ATensor": tensor(2, 3), "BTensor": tensor(3, 1), "CTensor": tensor(2, 5)}},
    {
        "type": "MATRIX_MULTIPLY_INTEGER",
        "desc": {
            "ATensor": tensor(1, 3, data_type="UINT8"),
            "AZeroPointTensor": tensor(4, 1, data_type="UINT8"),
            "BTensor": tensor(3, 2, data_type="UINT8"),
        },
    },
]


def test_no_value_is_allowed_twice():
    found: list[Violation] = []
    for name, bad in BAD:
        found += validate({"type": name, "desc": bad.desc}, bad.level).violations
    for operator in ONES:
        found += validate(operator).violations
    listed = 0
    for violation in found:
        values = [json.dumps(value) for value in violation.allowed or ()]
        assert len(values) == len(set(values)), violation
        _, is_listed, said = violation.message.partition("allowed: ")
        words = re.split(r", | or ", said)
        assert len(words) == len(set(words)), violation
        listed += bool(is_listed)
    assert listed > 20


@pytest.mark.parametrize(
    ("one", "other"),
    [((2, 3), (3,)), ((2, 3), (1, 3)), ((1, 3), (2, 3)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((4, 2, 3), (2, 1))],
)
@pytest.mark.parametrize("name", ["ELEMENT_WISE_ADD", "ELEMENT_WISE_POW", "ELEMENT_WISE_QUANTIZE_LINEAR"])
def test_the_message_says_how_tensors_are_broadcast(name: str, one: tuple[int, ...], other: tuple[int, ...]):
    members = {"ELEMENT_WISE_ADD": ("ATensor", "BTensor"), "ELEMENT_WISE_POW": ("InputTensor", "ExponentTensor")}
    first, second = members.get(name, ("InputTensor", "ScaleTensor"))
    desc = {first: tensor(*one), second: tensor(*other)}
    if name == "ELEMENT_WISE_QUANTIZE_LINEAR":
        desc = {**desc, "OutputTensor": tensor(*one, data_type="UINT8")}
    found = validate({"type": name, "desc": desc}).violations
    (message,) = {each.message for each in found if "A stride of 0" in each.message}
    sizes = json.loads(message.partition("with the sizes ")[2])
    for member, strides in re.findall(r"(\w+) the strides (\[[^]]*\])", message):
        desc[member] = {**desc[member], "Sizes": sizes, "Strides": json.loads(strides)}
    if name == "ELEMENT_WISE_QUANTIZE_LINEAR":
        desc["OutputTensor"] = tensor(*sizes, data_type="UINT8")
    assert check({"type": name, "desc": desc}).outputs["OutputTensor"].sizes == tuple(sizes)


def test_tensors_that_cannot_be_broadcast_get_no_advice():
    for sizes in ((4, 5), (2,)):
        violation = only({"type": "ELEMENT_WISE_ADD", "desc": {"ATensor": tensor(2, 3), "BTensor": tensor(*sizes)}})
        assert violation.message.endswith("they must be equal")
