"""Normalization of ONNX as DirectML operators, against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single, types

rng = np.random.default_rng(7)
SHAPES = [(5, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 4), (1, 3, 2, 2, 2, 2)]


def floats(*sizes: int) -> np.ndarray:
    return rng.normal(size=sizes).astype("f4")


def positive(*sizes: int) -> np.ndarray:
    return rng.uniform(0.5, 2, size=sizes).astype("f4")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(shape: tuple[int, ...], opset: int) -> None:
    inputs = [floats(*shape), positive(3), floats(3), floats(3), positive(3)]
    model = agree("BatchNormalization", inputs, range(1, 5), opset=opset, epsilon=0.01, tolerance=1e-4)
    assert types(model)[-1] == "BATCH_NORMALIZATION"
    assert model.level is FeatureLevel.V2_1  # that of graphs


def test_batch_normalization_of_each_element() -> None:
    inputs = [floats(2, 3, 4), *(positive(3, 4) for _ in range(4))]
    x, scale, bias, mean, variance = inputs
    _, (found,) = lowered(single("BatchNormalization", inputs, (1, 2, 3, 4), opset=7, spatial=0), inputs)
    require_same([found], [((x - mean) / np.sqrt(variance + 1e-5) * scale + bias).astype("f4")], 1e-4)


def test_batch_normalization_of_halves_with_parameters_of_floats() -> None:
    inputs = [floats(2, 3, 4).astype("f2"), positive(3), floats(3), floats(3), positive(3)]
    x, scale, bias, mean, variance = (each if each.ndim > 1 else each[:, None] for each in inputs)
    _, (found,) = lowered(single("BatchNormalization", inputs, (1, 2, 3, 4), opset=15), inputs)
    expected = (x.astype("f4") - mean) / np.sqrt(variance + 1e-5) * scale + bias
    require_same([found], [expected.astype("f2")], 2e-3)


def test_training_moves_mean_and_variance() -> None:
    inputs = [floats(4, 3, 5), positive(3), floats(3), floats(3), positive(3)]
    x, scale, bias, mean, variance = inputs
    source = single("BatchNormalization", inputs, opset=15, outputs=3, training_mode=1, momentum=0.75)
    _, found = lowered(source, inputs)
    axes = (0, 2)
    own_mean, own_variance = x.mean(axes), x.var(axes)
    y = (x - own_mean[:, None]) / np.sqrt(own_variance + 1e-5)[:, None] * scale[:, None] + bias[:, None]
    moved = [0.75 * before + 0.25 * now for before, now in ((mean, own_mean), (variance, own_variance))]
    require_same(found, [y.astype("f4"), *(each.astype("f4") for each in moved)], 1e-4)


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("opset", [7, 22])
def test_instance_normalization(shape: tuple[int, ...], opset: int) -> None:
    agree("InstanceNormalization", [floats(*shape), floats(3), floats(3)], (1, 2), opset=opset, tolerance=1e-4)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset: int) -> None:
    parameters = 2 if opset == 18 else 6
    inputs = [floats(2, 6, 3, 2), floats(parameters), floats(parameters)]
    source = single("GroupNormalization", inputs, (1, 2), opset=opset, num_groups=2)
    model, (found,) = lowered(source, inputs)
    x, scale, bias = inputs
    grouped = x.reshape(2, 2, 3, 3, 2)
    axes = (2, 3, 4)
    normalized = (grouped - grouped.mean(axes, keepdims=True)) / np.sqrt(grouped.var(axes, keepdims=True) + 1e-5)
    scale, bias = (each.reshape(1, 2, -1, 1, 1) for each in (scale, bias))
    require_same([found], [(normalized * scale + bias).reshape(x.shape).astype("f4")], 1e-4)
    assert types(model) == ["MEAN_VARIANCE_NORMALIZATION"]


@pytest.mark.parametrize(("axis", "scale"), [(-1, (4,)), (1, (3, 4)), (-2, (3, 1)), (0, (2, 3, 4))])
@pytest.mark.parametrize("with_bias", [False, True])
def test_layer_normalization(axis: int, scale: tuple[int, ...], with_bias: bool) -> None:
    inputs = [floats(2, 3, 4), floats(*scale), *([floats(*scale)] if with_bias else [])]
    x = inputs[0]
    axes = tuple(range(axis % 3, 3))
    expected = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5) * inputs[1]
    expected = expected + (inputs[2] if with_bias else 0)
    model, (found,) = lowered(single("LayerNormalization", inputs, (1, 2), opset=17, axis=axis), inputs)
    require_same([found], [expected.astype("f4")], 1e-4)
    assert "MEAN_VARIANCE_NORMALIZATION" in types(model)
    assert model.level is FeatureLevel.V2_1  # that of graphs


def test_layer_normalization_of_halves_returns_statistics_of_floats() -> None:
    inputs = [(floats(2, 8) * 100).astype("f2"), floats(8).astype("f2")]
    agree("LayerNormalization", inputs, (1,), opset=17, outputs=3, tolerance=2e-3)


def test_scales_of_rows_in_layer_normalization() -> None:
    inputs = [floats(2, 3, 4), floats(2, 3, 1)]
    x, scale = inputs
    _, (found,) = lowered(single("LayerNormalization", inputs, opset=17), inputs)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale
    require_same([found], [expected.astype("f4")], 1e-4)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_rms_normalization(dtype: str) -> None:
    inputs = [(floats(2, 3, 4) * 300).astype(dtype), floats(3, 4).astype(dtype)]
    x, scale = (each.astype("f4") for each in inputs)
    model, (found,) = lowered(single("RMSNormalization", inputs, (1,), opset=23, axis=1), inputs)
    expected = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-5) * scale
    require_same([found], [expected.astype(dtype)], 1e-5 if dtype == "f4" else 2e-3)
    assert model.level is FeatureLevel.V2_1  # that of graphs


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp_normalization(p: int, axis: int) -> None:
    x = floats(3, 4, 2)
    x[:, 1] = 0
    agree("LpNormalization", [x], opset=7, p=p, axis=axis)


def test_nothing_has_no_norm() -> None:
    agree("LpNormalization", [np.zeros((2, 3), "f4")], opset=7, axis=1)


@pytest.mark.parametrize("shape", [(2, 6, 3, 2), (2, 6, 3), (2, 6, 2, 3, 2)])
@pytest.mark.parametrize("size", [3, 4])
def test_lrn(size: int, shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    source = single("LRN", [x], opset=7, size=size, alpha=0.5, beta=0.6, bias=1.5)
    _, (found,) = lowered(source, [x])
    before, after = (size - 1) // 2, size // 2
    sums = [(x[:, max(c - before, 0) : c + after + 1] ** 2).sum(1) for c in range(6)]
    require_same([found], [(x / (1.5 + 0.5 / size * np.stack(sums, 1)) ** 0.6).astype("f4")])


@pytest.mark.parametrize("axes", [None, [2, 3], [-1], [0, 1, 2, 3]])
def test_mean_variance_normalization(axes: list[int] | None) -> None:
    given: dict[str, Any] = {} if axes is None else {"axes": axes}
    agree("MeanVarianceNormalization", [floats(3, 2, 4, 5)], opset=13, tolerance=1e-4, **given)


def test_mean_variance_normalization_of_what_does_not_vary() -> None:
    x = np.full((2, 2, 3, 3), 1.5, "f4")
    _, (found,) = lowered(single("MeanVarianceNormalization", [x], opset=9), [x])
    require_same([found], [np.zeros_like(x)])


def test_training_before_it_had_a_mode_stays_on_the_cpu() -> None:
    inputs = [floats(2, 3, 4), *(positive(3) for _ in range(4))]
    (node,) = opwire.onnx.load(single("BatchNormalization", inputs, opset=9, outputs=5)).nodes
    assert "trains" in node.reason
