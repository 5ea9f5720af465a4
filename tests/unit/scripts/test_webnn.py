"""The table of WebNN's operators: complete, of what exists, and with conversions that give the right results."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opwire
from opwire.describe import describe
from opwire.schema import CATALOG
from scripts.webnn import ROWS

OPERATORS = """
abs add argMax argMin averagePool2d batchNormalization cast ceil clamp concat conv2d convTranspose2d cos
cumulativeSum dequantizeLinear div elu equal erf exp expand floor gather gatherElements gatherND gelu gemm greater
greaterOrEqual gru gruCell hardSigmoid hardSwish identity instanceNormalization isInfinite isNaN l2Pool2d
layerNormalization leakyRelu lesser lesserOrEqual linear log logicalAnd logicalNot logicalOr logicalXor lstm lstmCell
matmul max maxPool2d min mul neg notEqual pad pow prelu quantizeLinear reciprocal reduceL1 reduceL2 reduceLogSum
reduceLogSumExp reduceMax reduceMean reduceMin reduceProduct reduceSum reduceSumSquare relu resample2d reshape reverse
roundEven scatterElements scatterND sigmoid sign sin slice softmax softplus softsign split sqrt sub tan tanh tile
transpose triangular where
"""
"""The methods of MLGraphBuilder that compute, from the specification."""

DML = opwire.local(device="reference")
X = np.array([[-4, -2.5, -1, -0.5], [0.5, 1, 2.5, 4]], np.float32)


def test_every_operator_is_listed_once():
    listed = [name for row in ROWS for name in row["webnn"]]
    assert sorted(listed) == sorted(OPERATORS.split())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["webnn"][0])
def test_operators_and_members_exist(row):
    members = {member["name"] for name in row["directml"] for member in describe(CATALOG[name])["fields"]}
    named = set(re.findall(r"`([A-Z]\w*)`", row["how"])) - {"DataType", "Sizes", "Strides", "ScaleBias"}
    assert named <= members
    capitals = set(re.findall(r"\b[A-Z]+(?:_[A-Z\d]+)+\b", row["how"]))
    values = {
        value
        for name in row["directml"]
        for member in describe(CATALOG[name])["fields"]
        for value in member.get("values", ())
    }
    assert capitals <= {*CATALOG, *values}


def test_negation_below_its_level():
    found = DML.element_wise_identity(X, scale_bias={"Scale": -1, "Bias": 0}, feature_level="4_0").output
    assert found.tolist() == (-X).tolist()


def test_hard_swish():
    found = DML.activation_hard_swish(X, alpha=1 / 6, beta=0.5).output
    np.testing.assert_allclose(found, X * np.clip(X + 3, 0, 6) / 6, rtol=1e-6)


def test_hard_swish_below_its_level():
    gate = DML.activation_hard_sigmoid(X, alpha=1 / 6, beta=0.5, feature_level="4_0").output
    found = DML.element_wise_multiply(X, gate, feature_level="4_0").output
    np.testing.assert_allclose(found, X * np.clip(X + 3, 0, 6) / 6, rtol=1e-6)


def test_reversal():
    found = DML.slice1(X, input_window_offsets=[0, 0], input_window_sizes=[2, 4], input_window_strides=[1, -1]).output
    assert found.tolist() == X[:, ::-1].tolist()


@pytest.mark.parametrize("diagonal", [-1, 0, 1])
def test_triangles(diagonal):
    def zeroed(begin: int, end: int) -> object:
        filled = DML.diagonal_matrix1(
            X, value_data_type="FLOAT32", value=0, diagonal_fill_begin=begin, diagonal_fill_end=end
        )
        return filled.output.tolist()

    assert zeroed(diagonal + 1, 4) == np.tril(X, diagonal).tolist()
    assert zeroed(-2, diagonal) == np.triu(X, diagonal).tolist()


def test_layer_normalization():
    found = DML.mean_variance_normalization1(X, axes=[1], normalize_variance=True, epsilon=1e-5).output
    centered = X - X.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-5), rtol=1e-5)


def test_cumulative_sums_backwards():
    found = DML.cumulative_summation(X, axis=1, axis_direction="DECREASING", has_exclusive_sum=True).output
    assert found.tolist() == (np.cumsum(X[:, ::-1], axis=1)[:, ::-1] - X).tolist()


def test_transposed_convolution():
    image, weights = X.reshape(1, 1, 2, 4), np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    found = DML.convolution(image, weights, direction="BACKWARD", strides=[2, 2]).output
    assert found.tolist() == np.kron(X, weights[0, 0])[None, None].tolist()
