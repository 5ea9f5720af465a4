"""Tests of ONNX Runtime's operators for transformers, as DirectML operators."""

from math import erf
from typing import Any

import numpy as np
import pytest

import opwire.onnx
from opwire.level import FeatureLevel
from opwire.onnx import load
from tests.onnx_models.single import agree, by_onnx_runtime, lowered, require_same, single, types

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(5)
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft"}


def floats(*sizes: Any) -> Any:
    return RNG.standard_normal(sizes).astype(np.float32)


X = floats(2, 3, 8)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "became"),
    [
        ("Gelu", [X], {}, ["ACTIVATION_GELU"]),
        ("BiasGelu", [X, floats(8)], {}, ["ELEMENT_WISE_ADD", "ACTIVATION_GELU"]),
        ("QuickGelu", [X], {"alpha": 1.0}, ["ACTIVATION_SIGMOID", "ELEMENT_WISE_MULTIPLY"]),
    ],
)
def test_activations(operator, inputs, attributes, became):
    assert types(agree(operator, inputs, **attributes, **MICROSOFT)) == became


def test_default_of_quick_gelu():
    agree("QuickGelu", [X], **MICROSOFT)


@pytest.mark.parametrize("inputs", [[X], [X, floats(8)], [np.array([[-40, -8, -1e-3, 0, 1e-3, 8, 40]], np.float32)]])
def test_fast_gelu_is_that_of_tanh(inputs):
    model = agree("FastGelu", inputs, **MICROSOFT)
    assert model.nodes[0].level == FeatureLevel.V1_0


def test_bias_add():
    inputs = [floats(2, 6, 4), floats(4), floats(2, 6, 4)]
    _, found = lowered(single("BiasAdd", inputs, **MICROSOFT), inputs)
    np.testing.assert_allclose(found[0], sum(inputs), rtol=1e-6)


def test_bias_split_gelu():
    inputs = [X, floats(8)]
    _, found = lowered(single("BiasSplitGelu", inputs, **MICROSOFT), inputs)
    left, right = np.split((inputs[0] + inputs[1]).astype("f8"), 2, -1)
    np.testing.assert_allclose(
        found[0], left * right * 0.5 * (1 + np.vectorize(erf)(right / np.sqrt(2))), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((2, 3), (3, 4), {"alpha": 0.5}),
        ((3, 2), (4, 3), {"transA": 1, "transB": 1}),
        ((5, 2, 3), (3, 4), {}),
        ((2, 1, 3, 4), (5, 4, 6), {}),
        ((4, 2, 3), (2, 3, 5), {"transBatchA": 1}),
        ((3, 2, 4), (3, 2, 5), {"transA": 1, "transBatchA": 1, "transBatchB": 1}),
        ((2, 3, 4, 5), (2, 3, 5, 6), {"transBatchA": 0}),
        ((3,), (3, 4), {}),
        ((2, 3), (3,), {}),
    ],
)
def test_fused_matmul(a, b, attributes):
    agree("FusedMatMul", [floats(*a), floats(*b)], **attributes, **MICROSOFT)


@pytest.mark.parametrize("is_simplified", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_skip_layer_normalization(is_simplified, has_bias):
    middle = [floats(8)] if is_simplified else [floats(8), floats(8)]
    inputs = [X, floats(2, 3, 8), *middle, floats(8) if has_bias else None]
    name = "SkipSimplifiedLayerNormalization" if is_simplified else "SkipLayerNormalization"
    source = single(name, inputs, outputs=4, **MICROSOFT)
    for i in (1, 2):
        source.graph.node[0].output[i] = ""
    kept = [each for each in source.graph.output if each.name in ("y0", "y3")]
    del source.graph.output[:]
    source.graph.output.extend(kept)
    assert_same(source, inputs)
    if has_bias:
        total = X + inputs[1] + inputs[-1]
        np.testing.assert_allclose(lowered(source, inputs)[1][1], total, rtol=1e-5, atol=1e-6)


def assert_same(source: Any, inputs: Any) -> Any:
    model, found = lowered(source, inputs)
    require_same(found, by_onnx_runtime(source, inputs))
    return model


def test_simplified_layer_normalization_is_of_the_domain_of_onnx():
    for opset in (12, 18):
        agree("SimplifiedLayerNormalization", [X, floats(8)], opset=opset, epsilon=1e-5, axis=-1)


def test_layer_normalization_before_onnx_had_it():
    agree("LayerNormalization", [X, floats(8), floats(8)], opset=12)


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("has_segments", [False, True])
def test_embed_layer_normalization(has_mask, has_segments):
    ids = RNG.integers(0, 10, (2, 3)).astype(np.int32)
    segments = np.array([[0, 1, 1], [0, 0, 1]], np.int32) if has_segments else None
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32) if has_mask else None
    tables = [floats(10, 8), floats(5, 8), floats(2, 8) if has_segments else None]
    agree("EmbedLayerNormalization", [ids, segments, *tables, floats(8), floats(8), mask], outputs=3, **MICROSOFT)


def test_positions_of_embed_layer_normalization():
    ids, positions = (RNG.integers(0, 5, (2, 3)).astype(np.int32) for _ in range(2))
    tables = [floats(10, 8), floats(5, 8), None]
    inputs = [ids, None, *tables, floats(8), floats(8), None, positions]
    agree("EmbedLayerNormalization", inputs, outputs=2, **MICROSOFT)


CACHES = [np.cos(floats(6, 4)), np.sin(floats(6, 4))]


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "ids", "attributes"),
    [
        ((2, 3, 16), [[0, 1, 2], [3, 2, 1]], {}),
        ((2, 2, 3, 8), [[0, 1, 2], [3, 2, 1]], {}),
        ((2, 3, 16), [2], {}),
        ((2, 3, 20), [[0, 1, 2], [3, 2, 1]], {"rotary_embedding_dim": 8, "num_heads": 2}),
    ],
)
def test_rotary_embedding(sizes, ids, attributes, interleaved):
    inputs = [floats(*sizes), np.array(ids, np.int64), *CACHES]
    for constant in ((), (1,)):
        agree("RotaryEmbedding", inputs, constant, interleaved=interleaved, **attributes, **MICROSOFT)


def test_what_has_no_directml_operators():
    inputs = [X, floats(2, 3, 8), floats(8)]
    source = single("SkipLayerNormalization", inputs, outputs=2, **MICROSOFT)
    assert [each.reason for each in load(source).nodes] == ["its mean or deviation is an output"]
    assert opwire.onnx.load(source).report().on_cpu
