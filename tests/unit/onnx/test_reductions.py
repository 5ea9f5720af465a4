"""Reductions, extremes and running sums of ONNX as DirectML operators, against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single, types

rng = np.random.default_rng(11)
X = rng.uniform(0.5, 2, size=(2, 3, 4)).astype("f4")
I32 = rng.integers(-3, 3, size=(2, 3, 2)).astype("i4")

FUNCTIONS = ["Sum", "Mean", "Prod", "LogSum", "LogSumExp", "SumSquare", "L1", "L2", "Max", "Min"]


@pytest.mark.parametrize("function", FUNCTIONS)
class TestReduce:
    @pytest.mark.parametrize("axes", [None, [1], [-1, 0]])
    @pytest.mark.parametrize("keepdims", [0, 1])
    def test_axes_of_attributes(self, function: str, axes: list[int] | None, keepdims: int) -> None:
        given: dict[str, Any] = {} if axes is None else {"axes": axes}
        model = agree(f"Reduce{function}", [X], opset=11, keepdims=keepdims, **given)
        assert model.level is FeatureLevel.V2_1  # that of graphs

    @pytest.mark.parametrize("axes", [[1], [-1, 0], []])
    def test_axes_of_inputs(self, function: str, axes: list[int]) -> None:
        agree(f"Reduce{function}", [X, np.array(axes, "i8")], (1,), opset=18, keepdims=0)

    def test_no_axes_reduce_all(self, function: str) -> None:
        agree(f"Reduce{function}", [X], opset=18)


@pytest.mark.parametrize("function", ["Sum", "Prod", "Max", "Min", "SumSquare", "L1"])
def test_integers(function: str) -> None:
    agree(f"Reduce{function}", [I32], opset=13, keepdims=0)


def test_no_axes_reduce_nothing_if_the_node_says_so() -> None:
    agree("ReduceSum", [X], opset=13, noop_with_empty_axes=1)
    agree("ReduceMax", [X, np.zeros(0, "i8")], (1,), opset=18, noop_with_empty_axes=1)


def test_booleans() -> None:
    agree("ReduceMax", [X > 1, np.array([1], "i8")], (1,), opset=20)


def test_scalars() -> None:
    agree("ReduceSum", [np.array(2.5, "f4")], opset=13)
    agree("ArgMax", [np.array([2.5], "f4")], opset=13)


def test_axes_that_are_not_constant_stay_on_the_cpu() -> None:
    (node,) = opwire.onnx.load(single("ReduceSum", [X, np.array([1], "i8")], opset=13)).nodes
    assert node.reason == "its input 1, x1, is not constant"


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("axis", "keepdims"), [(0, 1), (-1, 0), (1, 0)])
def test_positions_of_extremes(operator: str, last: int, axis: int, keepdims: int) -> None:
    options: dict[str, Any] = {"select_last_index": last, "axis": axis, "keepdims": keepdims}
    agree(operator, [np.round(X)], opset=13, **options)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
class TestRunning:
    @pytest.mark.parametrize("axis", [0, -1])
    def test_sums(self, exclusive: int, reverse: int, axis: int) -> None:
        inputs = [X, np.array(axis, "i4")]
        model = agree("CumSum", inputs, (1,), opset=14, exclusive=exclusive, reverse=reverse)
        assert types(model) == ["CUMULATIVE_SUMMATION"]
        assert model.level is FeatureLevel.V2_1

    def test_products(self, exclusive: int, reverse: int) -> None:
        x = X[:, :, ::-1] if reverse else X
        running = np.cumprod(x, -1)
        if exclusive:
            running = np.concatenate([np.ones_like(x[:, :, :1]), running[:, :, :-1]], -1)
        inputs = [X, np.array(2, "i8")]
        source = single("CumProd", inputs, (1,), opset=26, exclusive=exclusive, reverse=reverse)
        model, found = lowered(source, inputs)
        require_same(found, [running[:, :, ::-1] if reverse else running])
        assert types(model) == ["CUMULATIVE_PRODUCT"]
