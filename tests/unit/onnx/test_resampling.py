"""Resize and Upsample of ONNX as DirectML operators, against the evaluator of the onnx package and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx.reference import ReferenceEvaluator

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single, types

rng = np.random.default_rng(8)
IMAGE = rng.normal(size=(1, 2, 4, 6)).astype("f4")
MODES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def as_evaluated(inputs: list[Any], *, opset: int = 19, **attributes: Any) -> opwire.onnx.Model:
    """Compares a Resize with constant scales, sizes and region with the evaluator, and returns the model."""
    source = single("Resize", inputs, (1, 2, 3), opset=opset, **attributes)
    model, found = lowered(source, inputs)
    expected: Any = ReferenceEvaluator(source).run(None, {"x0": inputs[0]})
    require_same(found, expected, 1e-4, 1e-5)
    return model


def scaled(*scales: float, x: Any = IMAGE) -> list[Any]:
    return [x, None, np.array(scales, "f4")]


def sized(*sizes: int, x: Any = IMAGE) -> list[Any]:
    return [x, None, None, np.array(sizes)]


@pytest.mark.parametrize("mode", MODES)
class TestTransformations:
    @pytest.mark.parametrize("scales", [(2, 2), (0.5, 1.5), (0.6, 3), (0.25, 0.2)])
    def test_linear(self, mode: str, scales: tuple[float, float]) -> None:
        given: dict[str, Any] = {"coordinate_transformation_mode": mode, "mode": "linear"}
        model = as_evaluated(scaled(1, 1, *scales), **given)
        assert model.level is FeatureLevel.V2_1

    @pytest.mark.parametrize("sizes", [(8, 3), (1, 1), (3, 12)])
    @pytest.mark.parametrize("rounding", ROUNDINGS)
    def test_nearest(self, mode: str, rounding: str, sizes: tuple[int, int]) -> None:
        given: dict[str, Any] = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
        as_evaluated(sized(1, 2, *sizes), **given)

    def test_cubic(self, mode: str) -> None:
        as_evaluated(scaled(1, 1, 1.5, 0.7), coordinate_transformation_mode=mode, mode="cubic", cubic_coeff_a=-0.5)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(0.6, 0.4), (0.5, 2)])
def test_antialias(mode: str, scales: tuple[float, float]) -> None:
    model = as_evaluated(scaled(1, 1, *scales), mode=mode, antialias=1)
    assert types(model) == ["GEMM", "GEMM"]


def test_weights_outside_do_not_count() -> None:
    as_evaluated(scaled(1, 1, 2, 1.5), mode="cubic", exclude_outside=1)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("region", [(0.2, 0.4, 0.7, 0.9), (-0.3, 0.13, 0.8, 1.4)])
def test_regions_of_some_axes(mode: str, region: tuple[float, ...]) -> None:
    inputs = [IMAGE, np.array(region, "f4"), None, np.array([5, 7])]
    given: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    as_evaluated(inputs, mode=mode, axes=[2, 3], **given)


def test_axes_count_from_the_end() -> None:
    inputs = [IMAGE, None, np.array([3, 0.5], "f4")]
    one, other = (
        lowered(single("Resize", inputs, (2,), opset=19, axes=axes), inputs)[1] for axes in ([-1, -2], [3, 2])
    )
    require_same(one, other)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratios(policy: str) -> None:
    as_evaluated([IMAGE, None, None, np.array([9, 7])], axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_ranks(mode: str) -> None:
    for rank in (1, 2, 3, 5):
        x = rng.normal(size=(2, 1, 3, 4, 3)[-rank:]).astype("f4")
        scales = (1, 1, 2, 1.5, 0.5)[-rank:]
        as_evaluated(scaled(*scales, x=x), mode=mode, coordinate_transformation_mode="asymmetric")


def test_bytes_need_a_higher_level() -> None:
    model = as_evaluated(scaled(1, 1, 2, 2, x=rng.integers(255, size=(1, 1, 2, 3)).astype("u1")))
    assert model.level is FeatureLevel.V6_2


@pytest.mark.parametrize("rounding", ["floor", "round_prefer_ceil"])
def test_neighbours_that_halves_up_finds_take_the_lowest_level(rounding: str) -> None:
    model = as_evaluated(scaled(1, 1, 0.5, 0.5), nearest_mode=rounding)
    assert model.level is FeatureLevel.V2_1


def test_halves_down_take_the_lowest_level_without_ties() -> None:
    assert as_evaluated(scaled(1, 1, 2, 2)).level is FeatureLevel.V2_1
    assert as_evaluated(scaled(1, 1, 0.5, 0.5)).level is FeatureLevel.V5_1


@pytest.mark.parametrize("mode", ["nearest", "linear"])
class TestOlderVersions:
    def test_upsample_with_an_attribute(self, mode: str) -> None:
        agree("Upsample", [IMAGE], opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])

    def test_upsample_with_an_input(self, mode: str) -> None:
        agree("Upsample", [IMAGE, np.array([1, 1, 3, 2], "f4")], (1,), opset=9, mode=mode)

    def test_resize_without_a_transformation(self, mode: str) -> None:
        agree("Resize", [IMAGE, np.array([1, 1, 1.5, 2], "f4")], (1,), opset=10, mode=mode)

    def test_resize_with_empty_inputs(self, mode: str) -> None:
        empty = np.zeros(0, "f4")
        agree("Resize", [IMAGE, empty, empty, np.array([1, 2, 8, 9])], (1, 2, 3), opset=11, mode=mode, tolerance=1e-4)


def test_what_changes_nothing_needs_no_operator() -> None:
    source = single("Resize", scaled(1, 1, 1, 1), (2,), opset=19)
    (node,) = opwire.onnx.load(source).nodes
    assert {use.type for use in node.uses} <= {"ELEMENT_WISE_IDENTITY"}


def test_scales_that_are_not_constant_stay_on_the_cpu() -> None:
    (node,) = opwire.onnx.load(single("Resize", scaled(1, 1, 2, 2), opset=19)).nodes
    assert "not constant" in node.reason


def test_four_resized_axes_beside_others_stay_on_the_cpu() -> None:
    x = np.zeros((2, 2, 2, 2, 2), "f4")
    (node,) = opwire.onnx.load(single("Resize", scaled(2, 2, 2, 2, 2, x=x), (2,), opset=19)).nodes
    assert "rank 4" in node.reason
