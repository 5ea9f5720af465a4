"""ONNX operators that compute each element by itself, as DirectML operators, against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single, types

rng = np.random.default_rng(7)
X = rng.normal(size=(2, 3)).astype("f4")
Y = rng.normal(size=(2, 3)).astype("f4")
I32 = np.array([[-7, 3, 0], [5, -2, 9]], "i4")


@pytest.mark.parametrize(
    ("operator", "opset", "inputs", "attributes"),
    [
        ("Add", 7, [X, Y[0]], {}),
        ("Add", 14, [I32, I32[:, :1]], {}),
        ("Div", 14, [I32, np.array([2, -3, 4], "i4")], {}),
        ("Sum", 8, [X, Y[0], Y], {}),
        ("Mean", 13, [X, Y, Y[0], X * 2], {}),
        ("Mean", 8, [X, Y], {}),
        ("Max", 12, [I32.astype("i8"), I32[0].astype("i8")], {}),
        ("Min", 8, [X], {}),
        ("Mod", 13, [I32, np.array([3, -4, 5], "i4")], {}),
        ("Mod", 13, [I32, np.array([3, -4, 5], "i4")], {"fmod": 1}),
        ("Pow", 7, [np.abs(X), Y[0]], {}),
        ("Pow", 15, [np.abs(X), I32], {}),
        ("Equal", 11, [I32, np.array(3, "i4")], {}),
        ("Less", 9, [X, Y[0]], {}),
        ("GreaterOrEqual", 16, [X, X], {}),
        ("Xor", 7, [X > 0, Y[0] > 0], {}),
        ("Not", 1, [X > 0], {}),
        ("Where", 16, [X[:, :1] > 0, I32.astype("i8"), np.array(4, "i8")], {}),
        ("Abs", 13, [I32.astype("u1")], {}),
        ("Neg", 13, [np.array([0.0, -0.0, 1.5], "f4")], {}),
        ("Neg", 13, [I32], {}),
        ("Sign", 13, [I32], {}),
        ("Round", 11, [np.array([0.5, 1.5, -2.5, 2.4], "f4")], {}),
        ("IsInf", 20, [np.array([np.inf, -np.inf, np.nan, 0], "f4")], {"detect_negative": 0}),
        ("IsInf", 10, [np.array([np.inf, -np.inf, 0], "f4")], {"detect_positive": 0, "detect_negative": 0}),
        ("IsNaN", 20, [np.array([np.inf, np.nan, 0], "f2")], {}),
        ("BitShift", 11, [np.array([1, 200], "u1"), np.array([3, 1], "u1")], {"direction": "RIGHT"}),
        ("BitwiseXor", 18, [I32, np.array(12, "i4")], {}),
        ("BitwiseNot", 18, [I32.astype("i2")], {}),
        ("Relu", 14, [X], {}),
        ("Relu", 14, [I32], {}),
        ("Celu", 12, [X], {"alpha": 2.0}),
        ("Selu", 6, [X], {}),
        ("Shrink", 9, [X], {"bias": 0.1, "lambd": 0.6}),
        ("ThresholdedRelu", 10, [X], {}),
        ("HardSwish", 14, [X * 5], {}),
        ("Mish", 18, [X], {}),
        ("Gelu", 20, [X], {}),
        ("PRelu", 16, [X, np.array([0.5, 0.25, 2], "f4")], {}),
        ("Softplus", 1, [X], {}),
    ],
)  # fmt: skip
def test_results_are_those_of_onnx_runtime(
    operator: str, opset: int, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    agree(operator, inputs, opset=opset, **attributes)


def test_a_constant_exponent_is_an_attribute() -> None:
    model = agree("Pow", [np.abs(X), np.array([0.5], "f4")], (1,), opset=15)
    assert types(model) == ["ELEMENT_WISE_CONSTANT_POW"]
    assert model.level is FeatureLevel.V2_1  # that of graphs


def test_constant_integer_exponents_fit_32_bits() -> None:
    agree("Pow", [X, np.array([2, -1, 3], "i8")], (1,), opset=15)


def test_the_remainder_of_floats_needs_finite_divisors() -> None:
    divisor = np.array([2.5, -1.5, 3], "f4")
    source = single("Mod", [X, divisor], (1,), opset=28)
    require_same(lowered(source, [X])[1], [np.mod(X, divisor)])
    (node,) = opwire.onnx.load(single("Mod", [X, divisor], opset=28)).nodes
    assert node.reason == "its divisor may be infinite, for which DirectML has no remainder"


def test_functions_of_float64_stay_on_the_cpu() -> None:
    (node,) = opwire.onnx.load(single("Exp", [X.astype("f8")], opset=13)).nodes
    assert not node.is_lowered
    assert node.reason.startswith("FLOAT64 given for InputTensor")


def test_broadcasting_along_an_axis_is_older_than_what_is_lowered() -> None:
    source = single("Add", [X, np.ones(2, "f4")], opset=6, broadcast=1, axis=0)
    (node,) = opwire.onnx.load(source).nodes
    assert node.reason == "it is broadcast along an axis, as before opset 7"


class TestClip:
    @pytest.mark.parametrize(
        ("least", "greatest"), [(-0.5, 0.5), (None, 0.25), (-0.25, None), (None, None), (0.5, -0.5)]
    )
    def test_constant_limits(self, least: float | None, greatest: float | None) -> None:
        limits = [None if each is None else np.array(each, "f4") for each in (least, greatest)]
        model = agree("Clip", [X, *limits], (1, 2), opset=13)
        assert set(types(model)) <= {"ELEMENT_WISE_CLIP", "ELEMENT_WISE_IDENTITY"}

    def test_limits_of_attributes(self) -> None:
        agree("Clip", [X], opset=6, max=0.5)

    @pytest.mark.parametrize("dtype", ["i4", "i8", "u1"])
    def test_constant_limits_of_integers(self, dtype: str) -> None:
        x = np.array([0, 1, 5, 100], dtype)
        agree("Clip", [x, np.array(1, dtype), None], (1,), opset=13)
        agree("Clip", [x, None, np.array(7, dtype)], (2,), opset=13)

    def test_integers_beyond_float32_are_exact(self) -> None:
        x = np.array([2**24, 2**24 + 1, 2**24 + 3], "i4")
        model = agree("Clip", [x, np.array(2**24 + 1, "i4"), None], (1,), opset=13)
        assert types(model) == ["ELEMENT_WISE_CLIP1"]

    def test_limits_that_are_not_constant(self) -> None:
        inputs = [X, np.array(-0.5, "f4"), np.array(0.5, "f4")]
        assert types(agree("Clip", inputs, opset=13)) == ["ELEMENT_WISE_MAX", "ELEMENT_WISE_MIN"]


class TestCast:
    VALUES = np.array([-300, -129, -1, 0, 1, 127, 128, 255, 256, 70000], "i4")

    @pytest.mark.parametrize("to", ["i1", "u1", "i2", "u2", "u4", "i8", "u8", "f4", "f2", "?"])
    @pytest.mark.parametrize("given", ["i1", "u1", "i4", "i8"])
    def test_integers_keep_their_low_bits(self, given: str, to: str) -> None:
        with np.errstate(over="ignore"):
            x = self.VALUES.astype(given)
            expected = x.astype(to)
        source = single("Cast", [x], opset=13, to=_element_type(to))
        require_same(lowered(source, [x])[1], [expected])

    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
    def test_what_is_not_zero_is_true(self, dtype: str) -> None:
        x = np.array([0.5, -0.25, 0, -0.0, np.nan, 3], dtype)
        source = single("Cast", [x], opset=13, to=TensorProto.BOOL)
        require_same(lowered(source, [x])[1], [np.array([1, 1, 0, 0, 1, 1], bool)])

    def test_the_sign_of_integers_changes_without_an_operator(self) -> None:
        source = single("CastLike", [self.VALUES, np.zeros(1, "u4")], opset=15)
        model, found = lowered(source, [self.VALUES, np.zeros(1, "u4")])
        require_same(found, [self.VALUES.astype("u4")])
        assert model.level <= FeatureLevel.V3_0

    def test_bits_are_views(self) -> None:
        source = single("BitCast", [self.VALUES], opset=26, to=TensorProto.FLOAT)
        require_same(lowered(source, [self.VALUES])[1], [self.VALUES.view("f4")])

    def test_types_that_directml_lacks(self) -> None:
        (node,) = opwire.onnx.load(single("Cast", [X], opset=13, to=TensorProto.BFLOAT16)).nodes
        assert node.reason == "it casts to bfloat16, which DirectML lacks"


def _element_type(dtype: str) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class TestSoftmax:
    X3 = rng.normal(size=(2, 3, 4)).astype("f4")

    @pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
    @pytest.mark.parametrize("opset", [7, 11, 13])
    @pytest.mark.parametrize("axis", [None, 0, 1, -1])
    def test_axes(self, operator: str, opset: int, axis: int | None) -> None:
        if axis is not None and axis < 0 and opset < 11:
            return  # not allowed yet
        given: dict[str, Any] = {} if axis is None else {"axis": axis}
        model = agree(operator, [self.X3], opset=opset, **given)
        assert model.level is FeatureLevel.V2_1  # that of graphs


class TestEarlyOperators:
    def test_affine(self) -> None:
        source = single("Affine", [X], opset=7, alpha=2.0, beta=0.5)
        require_same(lowered(source, [X])[1], [X * 2 + np.float32(0.5)])

    def test_scaled_tanh(self) -> None:
        source = single("ScaledTanh", [X], opset=7, alpha=2.0, beta=0.5)
        require_same(lowered(source, [X])[1], [2 * np.tanh(X / 2)])

    def test_parametric_softplus(self) -> None:
        source = single("ParametricSoftplus", [X], opset=7, alpha=2.0, beta=0.5)
        require_same(lowered(source, [X])[1], [2 * np.log1p(np.exp(X / 2))])

    def test_image_scaler(self) -> None:
        image = rng.normal(size=(1, 3, 2, 2)).astype("f4")
        source = single("ImageScaler", [image], opset=7, scale=2.0, bias=[1.0, -1.0, 0.5])
        expected = image * 2 + np.array([1, -1, 0.5], "f4").reshape(1, 3, 1, 1)
        require_same(lowered(source, [image])[1], [expected])

    def test_crop(self) -> None:
        image = rng.normal(size=(1, 2, 5, 6)).astype("f4")
        source = single("Crop", [image], opset=7, border=[1, 2, 3, 1])
        require_same(lowered(source, [image])[1], [image[:, :, 2:4, 1:3]])
        scaled = single("Crop", [image], opset=7, border=[1, 2, 0, 0], scale=[3, 2])
        require_same(lowered(scaled, [image])[1], [image[:, :, 2:5, 1:3]])
