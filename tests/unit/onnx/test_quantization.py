"""Quantization of ONNX, and ONNX Runtime's operators on quantized tensors, as DirectML operators."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx.reference import ReferenceEvaluator

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.building import info, model, node
from tests.onnx_models.single import agree, by_onnx_runtime, lowered, require_same, single, types

rng = np.random.default_rng(9)
X: Any = rng.normal(size=(2, 4, 6)).astype("f4")
HALF = np.float32(0.5)


def bytes_of(*sizes: int, signed: bool = False) -> Any:
    return rng.integers(-128, 128, size=sizes).astype("i1") if signed else rng.integers(256, size=sizes).astype("u1")


def as_evaluated(operator: str, inputs: list[Any], **options: Any) -> opwire.onnx.Model:
    """Compares a node with the evaluator of the onnx package, and returns the model."""
    source = single(operator, inputs, range(1, len(inputs)), **options)
    model, found = lowered(source, inputs)
    expected: Any = ReferenceEvaluator(source).run(None, {"x0": inputs[0]})
    require_same(found, expected)
    return model


class TestLinear:
    @pytest.mark.parametrize("zero", [None, np.uint8(3), np.int8(-5)], ids=str)
    @pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
    def test_one_parameter(self, zero: Any, opset: int) -> None:
        inputs = [X, np.float32(0.02), *([] if zero is None else [zero])]
        model = agree("QuantizeLinear", inputs, (1, 2), opset=opset)
        assert model.level is FeatureLevel.V2_1
        data = bytes_of(2, 4, 6, signed=isinstance(zero, np.int8))
        agree("DequantizeLinear", [data, *inputs[1:]], (1, 2), opset=opset)

    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("opset", [13, 21])
    def test_parameters_along_an_axis(self, axis: int, opset: int) -> None:
        count = X.shape[axis]
        scale, zero = rng.uniform(0.01, 0.1, count).astype("f4"), bytes_of(count)
        agree("QuantizeLinear", [X, scale, zero], (1, 2), opset=opset, axis=axis)
        agree("DequantizeLinear", [bytes_of(*X.shape), scale, zero], (1, 2), opset=opset, axis=axis)

    def test_an_axis_of_more_dimensions_than_the_lowest_level_takes(self) -> None:
        data, scale = bytes_of(2, 3, 2, 2, 2, 2), np.array([0.1, 0.2, 0.3], "f4")
        model = agree("DequantizeLinear", [data, scale], (1,), opset=13)
        assert model.level is FeatureLevel.V2_1

    def test_integers_of_32_bits(self) -> None:
        data = rng.integers(-1000, 1000, size=(2, 4)).astype("i4")
        agree("DequantizeLinear", [data, HALF], (1,), opset=10)
        source = single("QuantizeLinear", [data, np.float32(10.5), np.int8(0)], (1, 2), opset=10)
        _, (found,) = lowered(source, [data])
        require_same([found], [np.clip(np.rint(data / 10.5), -128, 127).astype("i1")])

    @pytest.mark.parametrize("dtype", ["i2", "u2"])
    def test_integers_of_16_bits(self, dtype: str) -> None:
        inputs = [X * 30000, HALF, np.array(100, dtype)]
        agree("QuantizeLinear", inputs, (1, 2), opset=21)
        agree("DequantizeLinear", [(X * 1000).astype(dtype), *inputs[1:]], (1, 2), opset=21)

    def test_halves(self) -> None:
        scale = np.float16(0.25)
        agree("DequantizeLinear", [bytes_of(2, 4), scale, np.uint8(100)], (1, 2), opset=19)
        agree("QuantizeLinear", [X.astype("f2"), scale, np.uint8(100)], (1, 2), opset=19)

    def test_named_types(self) -> None:
        agree("QuantizeLinear", [X, HALF], (1,), opset=21, output_dtype=3)

    def test_parameters_that_do_not_fit_stay_on_the_cpu(self) -> None:
        data, scale = bytes_of(2, 4, 6), np.ones((2, 2, 6), "f4")
        (only,) = opwire.onnx.load(single("DequantizeLinear", [data, scale], (1,), opset=21, block_size=3)).nodes
        assert "do not divide" in only.reason


class TestBlocks:
    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("with_zero", [False, True])
    def test_bytes(self, axis: int, with_zero: bool) -> None:
        sizes = [size // 2 if i == axis % 3 else size for i, size in enumerate(X.shape)]
        scale = rng.uniform(0.01, 0.1, sizes).astype("f4")
        parameters = [scale, bytes_of(*sizes)] if with_zero else [scale]
        model = agree("DequantizeLinear", [bytes_of(*X.shape), *parameters], (1, 2), opset=21, axis=axis, block_size=2)
        assert model.level is FeatureLevel.V2_1
        agree("QuantizeLinear", [X, *parameters], (1, 2), opset=21, axis=axis, block_size=2)

    @pytest.mark.parametrize("signed", [False, True])
    @pytest.mark.parametrize("with_zero", [False, True])
    @pytest.mark.parametrize("block", [0, 3])
    def test_nibbles(self, signed: bool, with_zero: bool, block: int) -> None:
        dtype = np.dtype(ml_dtypes.int4 if signed else ml_dtypes.uint4)
        sizes = (2, 4, 2) if block else (6,)
        given: dict[str, Any] = {"axis": 2, "opset": 21, **({"block_size": block} if block else {})}
        scale = rng.uniform(0.1, 0.5, sizes).astype("f4")
        parameters = [scale, rng.integers(0, 7, size=sizes).astype(dtype)] if with_zero else [scale]
        data = rng.integers(-8 if signed else 0, 8 if signed else 16, size=X.shape).astype(dtype)
        model = as_evaluated("DequantizeLinear", [data, *parameters], **given)
        assert types(model) == ["DEQUANTIZE"]
        if not with_zero:
            given["output_dtype"] = 22 if signed else 21
        assert types(as_evaluated("QuantizeLinear", [X, *parameters], **given)) == ["QUANTIZE"]


def test_dynamic_quantization() -> None:
    x = np.array([[-1.5, 0.25, 2.5], [0, 1, 2]], "f4")
    model = agree("DynamicQuantizeLinear", [x], opset=11, outputs=3)
    assert types(model)[-1] == "DYNAMIC_QUANTIZE_LINEAR"


def ms(operator: str, inputs: list[Any], constant: Any = None, **options: Any) -> opwire.onnx.Model:
    places = range(1, len(inputs)) if constant is None else constant
    return agree(operator, inputs, places, domain="com.microsoft", **options)


class TestOnnxRuntime:
    @pytest.mark.parametrize("signed", [False, True])
    def test_linear(self, signed: bool) -> None:
        zero = np.array([3, 4, 5, 6], "i1" if signed else "u1")
        scale = np.array([0.1, 0.2, 0.3, 0.4], "f4")
        ms("QuantizeLinear", [X, scale, zero], axis=1)
        ms("DequantizeLinear", [bytes_of(*X.shape, signed=signed), scale, zero], axis=1)

    def test_add_broadcasts(self) -> None:
        b = [bytes_of(6, signed=True), np.float32(0.2), np.int8(-3)]
        ms("QLinearAdd", [bytes_of(2, 4, 6, signed=True), HALF, np.int8(5), *b, np.float32(0.7), np.int8(9)])

    @pytest.mark.parametrize("shape", [(6,), (2, 3, 2, 2, 2)])
    def test_sigmoid(self, shape: tuple[int, ...]) -> None:
        ms("QLinearSigmoid", [bytes_of(*shape), np.float32(0.05), np.uint8(120), np.float32(0.004), np.uint8(1)])

    @pytest.mark.parametrize("axis", [1, -1])
    def test_concat(self, axis: int) -> None:
        sizes = [[2, 3, 4], [2, 3, 4]]
        sizes[1][axis] = 5
        first, second = (bytes_of(*each) for each in sizes)
        parameters = [np.float32(0.1), np.uint8(7)]
        inputs = [np.float32(0.23), np.uint8(9), first, *parameters, second, HALF, np.uint8(100)]
        ms("QLinearConcat", inputs, (0, 1, 3, 4, 6, 7), axis=axis)

    @pytest.mark.parametrize("last", [0, 1])
    @pytest.mark.parametrize("with_padding", [0, 1])
    def test_average_pool(self, last: int, with_padding: int) -> None:
        x = bytes_of(2, 5, 6, 4) if last else bytes_of(2, 4, 5, 6)
        given: dict[str, Any] = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "channels_last": last}
        parameters = [np.float32(0.1), np.uint8(7), np.float32(0.173), np.uint8(20)]
        ms("QLinearAveragePool", [x, *parameters], count_include_pad=with_padding, **given)
        ms("QLinearGlobalAveragePool", [x, *parameters], channels_last=last)

    @pytest.mark.parametrize("signed", [False, True])
    def test_matmul_to_float(self, signed: bool) -> None:
        b, zero = bytes_of(4, 3, signed=signed), bytes_of(3, signed=signed)
        b_scale, bias = np.array([0.1, 0.2, 0.3], "f4"), np.array([1, -2, 3], "f4")
        inputs = [bytes_of(2, 5, 4), b, np.float32(0.05), b_scale, np.uint8(9), zero, bias]
        ms("MatMulIntegerToFloat", inputs)

    def test_dynamically_quantized_matmul(self) -> None:
        x = (rng.integers(-127, 128, size=(2, 5, 4)) / 51).astype("f4")
        x[0, 0, 0], x[0, 0, 1] = 2.5, -2.5
        inputs = [x, bytes_of(4, 3, signed=True), np.float32(0.05), np.int8(3), np.array([1, 2, 3], "f4")]
        ms("DynamicQuantizeMatMul", inputs)

    @pytest.mark.parametrize("bits", [4, 8])
    @pytest.mark.parametrize("with_zero", [False, True])
    @pytest.mark.parametrize("blocks", [2, 3])
    def test_matmul_of_few_bits(self, bits: int, with_zero: bool, blocks: int) -> None:
        n, block = 5, 16
        k = block * blocks
        weights, scale = bytes_of(n, blocks, block * bits // 8), rng.uniform(0.01, 0.1, n * blocks).astype("f4")
        zero = [bytes_of(n * -(-blocks * bits // 8))] if with_zero else []
        inputs = [rng.normal(size=(2, 3, k)).astype("f4"), weights, scale, *zero]
        model = ms("MatMulNBits", inputs, K=k, N=n, bits=bits, block_size=block, tolerance=1e-3)
        assert types(model) == ["DEQUANTIZE", "GEMM"]


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("opset", [10, 13, 19])
def test_constant_weights(domain: str, opset: int) -> None:
    constants = {"w": bytes_of(3, 4), "scale": np.float32(0.1), "zero": np.uint8(7), "b": X[0, :3, :4]}
    nodes = [
        node("DequantizeLinear", ["w", "scale", "zero"], ["real"], domain=domain),
        node("QuantizeLinear", ["b", "scale", "zero"], ["bytes"], domain=domain),
        node("DequantizeLinear", ["bytes", "scale", "zero"], ["back"], domain=domain),
        node("Sum", ["x0", "real", "back"], ["y"]),
    ]
    source = model(nodes, [info("x0", [3, 4])], ["y"], constants, opset=opset, ir_version=9)
    x = X[1, :3, :4]
    found = opwire.onnx.load(source).run({"x0": x})["y"]
    np.testing.assert_allclose(found, by_onnx_runtime(source, [x])[0], rtol=1e-5)
