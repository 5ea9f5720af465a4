"""Samples of ONNX at the places of a grid, against ONNX Runtime and the evaluator of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx.reference import ReferenceEvaluator

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single

rng = np.random.default_rng(12)
IMAGE = rng.normal(size=(2, 3, 4, 5)).astype("f4")
GRID = rng.uniform(-1.7, 1.7, size=(2, 3, 6, 2)).astype("f4")
EDGES = np.array([-1, -0.95, 0, 0.9, 1, 3.1], "f4")
GRID[0, 0, :, 0], GRID[0, 1, :, 1] = EDGES, EDGES


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
class TestPadding:
    @pytest.mark.parametrize("mode", ["bilinear", "nearest"])
    def test_planes(self, padding: str, aligned: int, mode: str) -> None:
        given: dict[str, Any] = {"mode": mode, "padding_mode": padding}
        model = agree("GridSample", [IMAGE, GRID], opset=16, align_corners=aligned, tolerance=1e-3, **given)
        assert model.level is FeatureLevel.V3_0

    def test_cubic(self, padding: str, aligned: int) -> None:
        """ONNX Runtime leaves places beyond the border where they are."""
        given: dict[str, Any] = {"mode": "cubic", "padding_mode": padding}
        source = single("GridSample", [IMAGE, GRID], opset=20, align_corners=aligned, **given)
        expected: Any = ReferenceEvaluator(source).run(None, {"x0": IMAGE, "x1": GRID})
        require_same(lowered(source, [IMAGE, GRID])[1], expected, 1e-3, 1e-5)

    @pytest.mark.parametrize("mode", ["linear", "nearest"])
    def test_volumes(self, padding: str, aligned: int, mode: str) -> None:
        x, grid = rng.normal(size=(1, 2, 3, 4, 2)).astype("f4"), rng.uniform(-1.5, 1.5, (1, 2, 3, 2, 3)).astype("f4")
        given: dict[str, Any] = {"mode": mode, "padding_mode": padding}
        agree("GridSample", [x, grid], opset=20, align_corners=aligned, tolerance=1e-3, **given)


def test_a_single_element_along_an_axis() -> None:
    given: dict[str, Any] = {"padding_mode": "border", "mode": "linear"}
    agree("GridSample", [IMAGE[:, :, :1], GRID], opset=20, align_corners=1, tolerance=1e-3, **given)


def test_integers_stay_on_the_cpu() -> None:
    (node,) = opwire.onnx.load(single("GridSample", [IMAGE.astype("i4"), GRID], opset=20)).nodes
    assert "FLOAT32" in node.reason
