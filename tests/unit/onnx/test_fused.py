"""Tests of operators that ONNX Runtime fuses of others, and of those with another layout, as DirectML operators."""

from typing import Any

import numpy as np
import pytest

from opwire.level import FeatureLevel
from opwire.onnx import load
from tests.onnx_models.single import agree, by_onnx_runtime, lowered, single, types

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(8)
FUSED: dict[str, Any] = {"domain": "com.microsoft.dml"}
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft"}


def floats(*sizes: Any) -> Any:
    return RNG.standard_normal(sizes).astype(np.float32)


def activated(name: Any, x: Any, alpha: Any, beta: Any) -> Any:
    """Returns the activation of an array."""
    return {
        "Relu": lambda: np.maximum(x, 0),
        "LeakyRelu": lambda: np.where(x < 0, alpha * x, x),
        "Sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "HardSigmoid": lambda: np.clip(alpha * x + beta, 0, 1),
        "Softplus": lambda: np.log1p(np.exp(x)),
    }[name]()


def agree_fused(
    operator: Any, inputs: Any, activation: Any = "Relu", *, alpha: Any = None, beta: Any = None, **attributes: Any
) -> Any:
    """Compares a fused operator with the one that it is of, in ONNX Runtime, then activated."""
    given: dict[str, Any] = {
        f"fused_{key}": each for key, each in {"alpha": alpha, "beta": beta}.items() if each is not None
    }
    fused = single(f"DmlFused{operator}", inputs, fused_activation=activation, **given, **attributes, **FUSED)
    model, found = lowered(fused, inputs)
    plain = by_onnx_runtime(single(operator, inputs, opset=13, **attributes), inputs)
    expected = activated(activation, plain[0], alpha, beta)
    assert found[0].shape == expected.shape
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)
    return model


IMAGE, FILTERS = floats(2, 4, 6, 6), floats(6, 2, 3, 3)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Conv", [IMAGE, FILTERS, floats(6)], {"group": 2, "pads": [1, 0, 1, 0], "strides": [2, 1]}),
        ("Conv", [floats(2, 4, 9), floats(3, 4, 3)], {}),
        ("ConvTranspose", [IMAGE, floats(4, 3, 3, 3), floats(3)], {"strides": [2, 2], "pads": [1, 1, 0, 0]}),
        ("Gemm", [floats(3, 2), floats(3, 4), floats(4)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
        ("MatMul", [floats(5, 3, 2), floats(2, 4)], {}),
        ("MatMul", [floats(2), floats(3, 2, 4)], {}),
        ("InstanceNormalization", [IMAGE, floats(4), floats(4)], {"epsilon": 1e-3}),
        ("BatchNormalization", [IMAGE, floats(4), floats(4), floats(4), floats(4) ** 2 + 1], {"epsilon": 1e-3}),
        ("MeanVarianceNormalization", [IMAGE], {"axes": [0, 2, 3]}),
        ("Sum", [floats(2, 3), floats(3)], {}),
        ("Sum", [floats(2, 3), floats(3), floats(2, 1)], {}),
        ("Add", [floats(2, 3), floats(3)], {}),
    ],
)
def test_fused_operators(operator, inputs, attributes):
    model = agree_fused(operator, inputs, **attributes)
    assert len(types(model)) == (len(inputs) - 1 if operator == "Sum" else 1)
    assert not any(name.startswith("ACTIVATION") for name in types(model))


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("LeakyRelu", {"alpha": 0.3}), ("Sigmoid", {}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Softplus", {})],
)
def test_fused_activations(activation, parameters):
    agree_fused("Conv", [IMAGE, FILTERS], activation, group=2, **parameters)
    agree_fused("Add", [floats(2, 3), floats(2, 3)], activation, **parameters)


def test_attributes_of_the_fused_normalizations():
    inputs = [IMAGE]
    fused = single("DmlFusedMeanVarianceNormalization", inputs, across_channels=1, fused_activation="Relu", **FUSED)
    (found,) = lowered(fused, inputs)[1]
    (plain,) = by_onnx_runtime(single("MeanVarianceNormalization", inputs, axes=[0, 1, 2, 3]), inputs)
    np.testing.assert_allclose(found, np.maximum(plain, 0), rtol=1e-5, atol=1e-5)
    inputs = [IMAGE, floats(4), floats(4), floats(4), floats(4) ** 2 + 1]
    given: dict[str, Any] = {"spatial": 1, "momentum": 0.9, "training_mode": 0}
    (found,) = lowered(single("DmlFusedBatchNormalization", inputs, fused_activation="Relu", **given, **FUSED), inputs)[
        1
    ]
    (plain,) = by_onnx_runtime(single("BatchNormalization", inputs), inputs)
    np.testing.assert_allclose(found, np.maximum(plain, 0), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_fused():
    inputs = [floats(2, 3), floats(3, 2)]
    source = single("DmlFusedMatMul", inputs, fused_activation="Mish", **FUSED)
    assert [each.reason for each in load(source).nodes] == ["its activation is Mish, which DirectML does not fuse"]


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", {}), ("LeakyRelu", {"alpha": 0.3}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4})],
)
def test_activated_product(activation, parameters):
    """ONNX Runtime has it for DirectML alone."""
    inputs = [floats(2, 3, 4), floats(4, 5)]
    given: dict[str, Any] = {f"activation_{key}": each for key, each in parameters.items()}
    source = single("FusedMatMulActivation", inputs, activation=activation, alpha=0.5, **given, **MICROSOFT)
    (found,) = lowered(source, inputs)[1]
    expected = activated(activation, 0.5 * inputs[0] @ inputs[1], parameters.get("alpha"), parameters.get("beta"))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_softmax_of_a_product():
    inputs = [floats(2, 3, 4), floats(5, 4)]
    attributes: dict[str, Any] = {"activation": "Softmax", "activation_axis": -1, "transB": 1}
    model, (found,) = lowered(single("FusedMatMulActivation", inputs, **attributes, **MICROSOFT), inputs)
    exponents = np.exp(inputs[0] @ inputs[1].T)
    np.testing.assert_allclose(found, exponents / exponents.sum(-1, keepdims=True), rtol=1e-5)
    assert types(model) == ["GEMM", "ACTIVATION_SOFTMAX"]


def test_channels_last_convolution():
    attributes: dict[str, Any] = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}
    (expected,) = by_onnx_runtime(
        single("Conv", [IMAGE, FILTERS, floats(6)], group=2, **attributes), [IMAGE, FILTERS, BIAS]
    )
    inputs = [IMAGE.transpose(0, 2, 3, 1).copy(), FILTERS.transpose(0, 2, 3, 1).copy(), BIAS]
    model, (found,) = lowered(single("NhwcConv", inputs, group=2, **attributes, **MICROSOFT), inputs)
    np.testing.assert_allclose(found, expected.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)
    assert types(model)[0] == "CONVOLUTION"
    assert model.nodes[0].level == FeatureLevel.V1_0


BIAS = floats(6)


def test_transposed_convolution_with_pads_as_an_input():
    inputs = [IMAGE, floats(4, 3, 3, 3), np.array([1, 0, 0, 1]), floats(3)]
    agree("ConvTransposeWithDynamicPads", inputs, (2,), strides=[2, 2], output_padding=[1, 0], **MICROSOFT)
    source = single("ConvTransposeWithDynamicPads", inputs, strides=[2, 2], **MICROSOFT)
    assert "is not constant" in load(source).nodes[0].reason


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("channels_last", [0, 1])
def test_group_norm(channels_last, activation):
    """ONNX Runtime has no kernel for it on the CPU."""
    scale, bias = floats(4), floats(4)
    inputs = [IMAGE.transpose(0, 2, 3, 1).copy() if channels_last else IMAGE, scale, bias]
    attributes: dict[str, Any] = {
        "groups": 2,
        "channels_last": channels_last,
        "activation": activation,
        "epsilon": 1e-3,
    }
    (found,) = lowered(single("GroupNorm", inputs, **attributes, **MICROSOFT), inputs)[1]
    x = IMAGE.astype("f8").reshape(2, 2, -1)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    y = x.reshape(IMAGE.shape) * scale[:, None, None] + bias[:, None, None]
    y = y / (1 + np.exp(-y)) if activation else y
    np.testing.assert_allclose(found, y.transpose(0, 2, 3, 1) if channels_last else y, rtol=1e-4, atol=1e-5)
