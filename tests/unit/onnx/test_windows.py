"""Convolutions, pooling and regions of ONNX as DirectML operators, against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single, types

rng = np.random.default_rng(5)
IMAGE = rng.normal(size=(2, 4, 7, 6)).astype("f4")
LINE = rng.normal(size=(2, 4, 9)).astype("f4")
VOLUME = rng.normal(size=(1, 2, 4, 5, 3)).astype("f4")
BYTES = rng.integers(0, 255, size=(1, 4, 6, 5)).astype("u1")


def filters(*sizes: int) -> Any:
    return rng.normal(size=sizes).astype("f4")


class TestConv:
    @pytest.mark.parametrize("opset", [7, 11, 22])
    @pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    def test_planes(self, opset: int, auto_pad: str) -> None:
        pads = {"pads": [1, 0, 2, 1]} if auto_pad == "NOTSET" else {}
        given: dict[str, Any] = {"auto_pad": auto_pad, "strides": [2, 3], "group": 2, **pads}
        agree("Conv", [IMAGE, filters(6, 2, 3, 2), filters(6)], (1, 2), opset=opset, tolerance=1e-4, **given)

    def test_dilations(self) -> None:
        agree("Conv", [IMAGE, filters(3, 4, 2, 3)], (1,), dilations=[3, 2], tolerance=1e-4)

    def test_lines_take_the_lowest_level(self) -> None:
        model = agree("Conv", [LINE, filters(5, 4, 3), filters(5)], (1, 2), pads=[2, 0], strides=[2], tolerance=1e-4)
        assert model.level is FeatureLevel.V2_1  # that of graphs

    def test_volumes(self) -> None:
        agree("Conv", [VOLUME, filters(3, 2, 2, 3, 2)], (1,), pads=[1, 0, 1, 0, 1, 0], tolerance=1e-4)

    def test_four_spatial_dimensions_stay_on_the_cpu(self) -> None:
        x = filters(1, 1, 2, 2, 2, 2)
        model = opwire.onnx.load(single("Conv", [x, x], (1,)))
        assert not model.nodes[0].is_lowered


class TestConvTranspose:
    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"pads": [1, 0, 0, 1], "strides": [2, 3], "output_padding": [1, 2]},
            {"dilations": [2, 1], "group": 2, "pads": [1, 1, 1, 1]},
            {"output_shape": [15, 14], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
            {"output_shape": [14, 13], "strides": [2, 2]},
            {"auto_pad": "VALID", "strides": [1, 2]},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2], "output_padding": [1, 1]},
            {"auto_pad": "SAME_LOWER", "strides": [4, 2], "output_padding": [3, 0]},
        ],
        ids=str,
    )
    def test_planes(self, given: dict[str, Any]) -> None:
        agree("ConvTranspose", [IMAGE, filters(4, 3, 3, 3)], (1,), opset=11, tolerance=1e-4, **given)

    def test_padding_that_is_found_keeps_sizes_times_strides(self) -> None:
        w = filters(4, 3, 3, 3)
        source = single("ConvTranspose", [IMAGE, w], (1,), opset=11, auto_pad="SAME_LOWER", strides=[2, 2])
        _, (found,) = lowered(source, [IMAGE, w])
        assert found.shape == (2, 3, 14, 12)

    def test_lines(self) -> None:
        given: dict[str, Any] = {"strides": [3], "pads": [1, 1], "output_padding": [2]}
        agree("ConvTranspose", [LINE, filters(4, 2, 4), filters(2)], (1, 2), opset=11, tolerance=1e-4, **given)


class TestIntegers:
    def test_conv_integer_with_zero_points_of_filters(self) -> None:
        w = rng.integers(0, 255, size=(3, 2, 3, 2)).astype("u1")
        x_zero, w_zero = np.array(120, "u1"), np.array([7], "u1")
        given: dict[str, Any] = {"pads": [1, 1, 0, 1], "strides": [2, 1]}
        x = BYTES[:, :2]
        agree("ConvInteger", [x, w, x_zero, w_zero], (1, 2, 3), opset=10, **given)

    @pytest.mark.parametrize("per_filter", [False, True])
    def test_qlinear_conv(self, per_filter: bool) -> None:
        w = rng.integers(-127, 127, size=(3, 4, 3, 3)).astype("i1")
        scale = np.array([0.01, 0.02, 0.015] if per_filter else 0.02, "f4")
        w_zero, bias = np.zeros(scale.shape, "i1"), np.array([5, -900, 33], "i4")
        parameters = [np.float32(0.03), np.uint8(128), w, scale, w_zero, np.float32(0.05), np.uint8(7), bias]
        inputs = [BYTES, *parameters]
        agree("QLinearConv", inputs, range(1, 9), opset=10, pads=[1, 1, 1, 1], strides=[2, 2])


@pytest.mark.parametrize("x", [LINE, IMAGE, VOLUME], ids=["line", "image", "volume"])
class TestPooling:
    @pytest.mark.parametrize("opset", [7, 10, 22])
    @pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
    def test_windows(self, x: Any, operator: str, opset: int) -> None:
        count = x.ndim - 2
        given: dict[str, Any] = {"kernel_shape": [3] * count, "pads": [1] * 2 * count, "strides": [2] * count}
        if opset > 7:
            given["ceil_mode"] = 1
        agree(operator, [x], opset=opset, **given)

    @pytest.mark.parametrize("opset", [7, 18])
    @pytest.mark.parametrize("p", [1, 2, 3])
    def test_norms(self, x: Any, opset: int, p: int) -> None:
        agree("LpPool", [x], opset=opset, kernel_shape=[2] * (x.ndim - 2), p=p, tolerance=1e-4)

    def test_whole_channels(self, x: Any) -> None:
        for operator in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
            agree(operator, [x], opset=7, tolerance=1e-4)

    def test_positions_count_over_the_whole_input(self, x: Any) -> None:
        agree("MaxPool", [x], opset=12, outputs=2, kernel_shape=[2] * (x.ndim - 2))

    def test_positions_along_columns(self, x: Any) -> None:
        given: dict[str, Any] = {"kernel_shape": [2] * (x.ndim - 2), "storage_order": 1}
        _, (values, places) = lowered(source := single("MaxPool", [x], opset=12, outputs=2, **given), [x])
        assert source.graph.node[0].op_type == "MaxPool"
        axes = (0, 1, *range(x.ndim - 1, 1, -1))
        assert (np.transpose(x, axes).reshape(-1)[places] == values).all()


class TestPoolingOfPlanes:
    @pytest.mark.parametrize("ceil", [0, 1])
    @pytest.mark.parametrize("with_padding", [0, 1])
    def test_what_is_beyond_the_padding_does_not_count(self, ceil: int, with_padding: int) -> None:
        given: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 3]}
        agree("AveragePool", [IMAGE], opset=19, count_include_pad=with_padding, ceil_mode=ceil, **given)

    @pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
    @pytest.mark.parametrize("opset", [18, 22])
    def test_windows_that_start_beyond_the_input_are_left_out(self, operator: str, opset: int) -> None:
        given: dict[str, Any] = {"kernel_shape": [1, 2], "strides": [3, 2], "pads": [0, 0, 0, 1], "ceil_mode": 1}
        agree(operator, [IMAGE], opset=opset, **given)
        agree(operator, [IMAGE], opset=opset, kernel_shape=[1, 2], strides=[3, 2], auto_pad="VALID", ceil_mode=1)

    def test_dilations(self) -> None:
        given: dict[str, Any] = {"kernel_shape": [2, 2], "dilations": [2, 3], "ceil_mode": 1}
        model = agree("MaxPool", [IMAGE], opset=10, **given)
        assert types(model) == ["MAX_POOLING2"]
        agree("AveragePool", [IMAGE], opset=19, **given)

    def test_bytes(self) -> None:
        agree("MaxPool", [BYTES], opset=12, kernel_shape=[2, 3])

    def test_positions_take_the_lowest_level(self) -> None:
        model = agree("MaxPool", [IMAGE], opset=12, outputs=2, kernel_shape=[2, 2])
        assert model.level is FeatureLevel.V3_0

    def test_unpooling(self) -> None:
        x = np.array([[[[5.0, 6], [7, 8]]]], "f4")
        places = np.array([[[[5, 7], [13, 15]]]])
        agree("MaxUnpool", [x, places], opset=11, kernel_shape=[2, 2], strides=[2, 2])

    def test_unpooling_of_lines_to_a_larger_output(self) -> None:
        inputs = [np.array([[[5.0, 6]]], "f4"), np.array([[[1, 2]]]), np.array([1, 1, 6])]
        source = single("MaxUnpool", inputs, (2,), opset=11, kernel_shape=[2], strides=[2])
        _, (found,) = lowered(source, inputs)
        require_same([found], [np.array([[[0, 5, 6, 0, 0, 0]]], "f4")])


class TestRegions:
    ROIS = np.array([[0, 0, 4, 3], [1, 2, 5, 6], [2, 2, 2.2, 2.1]], "f4")
    BATCH = np.array([0, 1, 1])

    @pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
    @pytest.mark.parametrize("ratio", [0, 2])
    def test_roi_align(self, mode: str, ratio: int) -> None:
        given: dict[str, Any] = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "spatial_scale": 0.5}
        inputs = [IMAGE, self.ROIS, self.BATCH]
        model = agree("RoiAlign", inputs, opset=16, coordinate_transformation_mode=mode, tolerance=1e-4, **given)
        assert model.level is (FeatureLevel.V3_0 if mode == "half_pixel" else FeatureLevel.V4_0)

    def test_roi_align_before_it_had_a_mode(self) -> None:
        agree("RoiAlign", [IMAGE, self.ROIS, self.BATCH], opset=10, output_height=2, tolerance=1e-4)

    def test_max_roi_pool(self) -> None:
        regions = np.array([[0, 0, 0, 4, 3], [1, 2, 1, 5, 6]], "f4")
        agree("MaxRoiPool", [IMAGE, regions], opset=7, pooled_shape=[2, 3])
