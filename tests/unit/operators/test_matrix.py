"""Matrix products: operands of any rank and type that DirectML takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import check, validate
from opwire_service.execution import Arrays
from tests.support.execution import never_stop

MATRICES = ("ATensor", "BTensor")
TYPES = {
    "GEMM": ("FLOAT32", "FLOAT32"),
    "MATRIX_MULTIPLY_INTEGER": ("INT8", "INT32"),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": ("INT8", "FLOAT32"),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": ("INT8", "INT8"),
}
SCALES = {"MATRIX_MULTIPLY_INTEGER_TO_FLOAT": 2, "QUANTIZED_LINEAR_MATRIX_MULTIPLY": 3}
FACTORS = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}

ALL = pytest.mark.parametrize("operator", TYPES)


def tensor(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def product(operator: str, a: list[int], b: list[int], output: list[int]) -> dict[str, Any]:
    given, result = TYPES[operator]
    names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")[: SCALES.get(operator, 0)]
    desc = dict(zip(MATRICES, (tensor(given, *a), tensor(given, *b)), strict=True))
    desc |= {name: tensor("FLOAT32", 1) for name in names} | {"OutputTensor": tensor(result, *output)}
    return {"type": operator, "desc": desc | (FACTORS if operator == "GEMM" else {})}


@ALL
@pytest.mark.parametrize("rank", [1, 5])
@pytest.mark.parametrize("changed", [*MATRICES, "OutputTensor"])
def test_matrices_of_foreign_ranks_are_refused(operator, rank, changed):
    given = product(operator, [1, 1], [1, 1], [1, 1])
    given["desc"][changed]["Sizes"] = [1] * rank
    found = validate(given)
    assert ("rank_not_in_level", f"/desc/{changed}/Sizes") in {(each.code, each.pointer) for each in found.violations}


@pytest.mark.parametrize("operator", list(TYPES)[1:])
@pytest.mark.parametrize(("a", "b", "output"), [([2, 3], [1, 3, 4], [1, 1, 2, 4]), ([1, 1, 2, 3], [3, 4], [2, 4])])
def test_ranks_of_integer_matrices_may_differ(operator, a, b, output, device):
    given = product(operator, a, b, output)
    found = validate(given)
    assert found.valid
    assert {each.code for each in found.warnings} == {"ranks_differ"}
    left, right = np.arange(6).reshape(a), np.arange(-2, 10).reshape(b)
    plan = check(given)
    inputs: Arrays = {"ATensor": left.astype(np.int8), "BTensor": right.astype(np.int8)}
    inputs = {**dict.fromkeys(plan.inputs, np.ones(1, np.float32)), **inputs}
    result = plan.outputs["OutputTensor"].view(bytearray(plan.outputs["OutputTensor"].total_size_in_bytes))
    device.run(plan, inputs, {"OutputTensor": result}, never_stop)
    assert result.tolist() == (left.reshape(2, 3) @ right.reshape(3, 4)).reshape(output).tolist()


@ALL
def test_leading_sizes_that_are_omitted_count_as_1(operator):
    found = validate(product(operator, [2, 3], [5, 3, 4], [5, 2, 4]))
    assert "/desc/BTensor/Sizes/0" in {each.pointer for each in found.violations}


def test_types_of_scaled_products_are_independent(device):
    given = product("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", [2, 2], [2, 1], [2, 1])
    given["desc"] |= {
        "ATensor": tensor("UINT8", 2, 2),
        "AScaleTensor": tensor("FLOAT16", 2, 1),
        "BTensor": tensor("INT32", 2, 1),
        "BZeroPointTensor": tensor("INT32", 1),
    }
    plan = check(given)
    assert {each.code for each in validate(given).warnings} == {"data_types_differ", "ranks_differ"}
    inputs: Arrays = {
        "ATensor": np.array([[200, 1], [0, 3]], np.uint8),
        "AScaleTensor": np.array([[0.5], [2]], np.float16),
        "BTensor": np.array([[100_000], [-7]], np.int32),
        "BScaleTensor": np.array([0.25], np.float32),
        "BZeroPointTensor": np.array([-1], np.int32),
    }
    result = np.empty((2, 1), np.float32)
    device.run(plan, inputs, {"OutputTensor": result}, never_stop)
    assert result.tolist() == [[(200 * 100_001 - 6) / 8], [-18 / 2]]


@pytest.mark.parametrize(("axes", "along"), [([1, 1], [1]), ([0, 1, 0], [0, 1]), ([], [])])
def test_the_axes_of_a_fused_softmax_may_repeat_or_be_missing(axes, along, device):
    fused = {"Type": "ACTIVATION_SOFTMAX1", "Axes": axes}
    given = product("GEMM", [2, 2], [2, 2], [2, 2])
    given["desc"]["FusedActivation"] = fused
    plan = check(given)
    left = np.array([[1, 2], [3, 4]], np.float32)
    result = np.empty((2, 2), np.float32)
    device.run(plan, {"ATensor": left, "BTensor": np.eye(2, dtype=np.float32)}, {"OutputTensor": result}, never_stop)
    powers = np.exp(left.astype(np.float64))
    np.testing.assert_allclose(result, powers / powers.sum(tuple(along), keepdims=True) if along else 1, rtol=1e-6)
