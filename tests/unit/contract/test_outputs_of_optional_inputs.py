"""Outputs that depend on optional inputs: default data types, and leading ones in sizes."""

from __future__ import annotations

from typing import Any

import pytest

from opwire.check import check, validate
from opwire.tensor import DataType


def tensor(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def product(**changes: Any) -> dict[str, Any]:
    scales = {f"{name}ScaleTensor": tensor("FLOAT32", 1) for name in ("A", "B", "Output")}
    desc = {"ATensor": tensor("INT8", 2, 3), "BTensor": tensor("UINT8", 3, 4), **scales, **changes}
    return {"type": "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "desc": desc}


def quantized(**changes: Any) -> dict[str, Any]:
    desc = {"InputTensor": tensor("FLOAT32", 5), "ScaleTensor": tensor("FLOAT32", 5), **changes}
    return {"type": "ELEMENT_WISE_QUANTIZE_LINEAR", "desc": desc}


ATTENDED = {"QueryTensor": (2, 3, 8), "KeyTensor": (2, 5, 4), "ValueTensor": (2, 5, 6)}


def attention(**changes: Any) -> dict[str, Any]:
    desc = {
        **{name: tensor("FLOAT16", *sizes) for name, sizes in ATTENDED.items()},
        "Scale": 1,
        "MaskFilterValue": -1,
        "QueryHeadCount": 4,
        "KeyValueHeadCount": 2,
        "MaskType": "NONE",
        **changes,
    }
    return {"type": "MULTIHEAD_ATTENTION1", "desc": desc}


@pytest.mark.parametrize(
    ("operator", "data_type"),
    [
        (product(), DataType.INT8),
        (product(OutputZeroPointTensor=tensor("UINT8", 1)), DataType.UINT8),
        (quantized(), DataType.UINT8),
        (quantized(ZeroPointTensor=tensor("INT8", 5)), DataType.INT8),
    ],
)
def test_a_derived_output_has_the_zero_points_type_or_a_default(operator, data_type):
    assert check(operator).outputs["OutputTensor"].data_type is data_type


def test_a_given_output_can_have_another_type_without_a_zero_point():
    assert check(product(OutputTensor=tensor("UINT8", 2, 4))).outputs["OutputTensor"].data_type is DataType.UINT8
    found = validate(product(OutputTensor=tensor("UINT8", 2, 5))).violations
    assert [(each.code, each.pointer) for each in found] == [("sizes_mismatch", "/desc/OutputTensor/Sizes/1")]


def test_a_malformed_optional_input_is_the_only_violation():
    found = validate(quantized(ZeroPointTensor=tensor("UINT9", 5))).violations
    assert [(each.code, each.pointer) for each in found] == [("unknown_value", "/desc/ZeroPointTensor/DataType")]


def test_the_output_of_attention_has_the_rank_of_the_query():
    for ones in ([], [1], [1, 1]):
        given = {name: tensor("FLOAT16", *ones, *sizes) for name, sizes in ATTENDED.items()}
        assert check(attention(**given)).outputs["OutputTensor"].sizes == (*ones, 2, 3, 12)
    found = validate(attention(OutputTensor=tensor("FLOAT16", 1, 2, 3, 12))).violations
    assert [(each.code, each.pointer) for each in found] == [("ranks_differ", "/desc/OutputTensor/Sizes")]
    found = validate(attention(OutputTensor=tensor("FLOAT16", 2, 2, 3, 12))).violations
    assert [(each.code, each.pointer) for each in found] == [("sizes_mismatch", "/desc/OutputTensor/Sizes/0")]


@pytest.mark.parametrize(("room", "fits", "fits_cache"), [(4, False, False), (5, True, True), (9, False, True)])
def test_only_a_cache_can_have_extra_keys(room, fits, fits_cache):
    present = {
        "OutputPresentKeyTensor": tensor("FLOAT16", 2, 2, room, 2),
        "OutputPresentValueTensor": tensor("FLOAT16", 2, 2, room, 3),
    }
    assert validate(attention(**present)).valid is fits
    assert validate(attention(**present, PastSequenceLengthsTensor=tensor("INT32", 2))).valid is fits_cache
