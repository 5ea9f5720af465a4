"""Kernels of averages, norms and interpolation for GPUs with few float64 units, run on the host: the CPU's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import Plan
from opwire.tensor import Array
from opwire_service.kernels.cuda.job import Card
from tests.support.elements import answer, plan_of
from tests.support.gpu.launched import Launched
from tests.support.gpu.on_host import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

CARD = Card(40, 32)


def _window(size: int, stride: int, padding: int, **more: Any) -> dict[str, Any]:
    sides = {"StartPadding": [padding] * 2, "EndPadding": [padding] * 2}
    return {"WindowSize": [size] * 2, "Strides": [stride] * 2, **sides, **more}


def _resampling(scale: float) -> dict[str, Any]:
    offsets = {"InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [-0.5] * 4}
    return {"InterpolationMode": "LINEAR", "Scales": [1, 1, scale, scale], **offsets}


CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "3x3": ("AVERAGE_POOLING", _window(3, 1, 1, IncludePadding=False), "sum_strips", "Pooling"),
    "2x2": ("AVERAGE_POOLING", _window(2, 2, 0, IncludePadding=True), "sum_strips", "Pooling"),
    "magnitudes": ("LP_POOLING", _window(3, 1, 1, P=1), "sum_strips", "Pooling"),
    "norms": ("LP_POOLING", _window(2, 2, 0, P=2), "sum_small_windows", "Pooling"),
    "twice": ("RESAMPLE1", _resampling(2), "resample", "Task"),
    "thrice": ("RESAMPLE1", _resampling(3), "resample", "Task"),
}
TYPES = np.float32, np.float16
SIZES = (2, 3, 16, 32)


def outputs_of(name: str, attributes: dict[str, Any]) -> list[int]:
    if "Scales" in attributes:
        return [int(size * scale) for size, scale in zip(SIZES, attributes["Scales"], strict=True)]
    (size, _), (stride, _), (padding, _) = (attributes[each] for each in ("WindowSize", "Strides", "StartPadding"))
    return [*SIZES[:2], *((each + 2 * padding - size) // stride + 1 for each in SIZES[2:])]


def plan(case: str, dtype: type) -> Plan:
    name, attributes, *_ = CASES[case]
    target = {"DataType": np.dtype(dtype).name.upper(), "Sizes": outputs_of(name, attributes)}
    return plan_of(name, {"InputTensor": np.zeros(SIZES, dtype)}, OutputTensor=target, **attributes)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, type], Launched]:
    folder = tmp_path_factory.mktemp("launched")
    return {
        (case, dtype): Launched(folder, f"{case}_{np.dtype(dtype)}", plan(case, dtype), CARD, *CASES[case][2:])
        for case in CASES
        for dtype in TYPES
    }


def images(dtype: type) -> dict[str, Array]:
    draw = np.random.default_rng(8)
    usual = draw.standard_normal(SIZES)
    special = usual.copy().reshape(-1)
    special[[5, 900, 2000]] = np.nan, np.inf, -np.inf
    special[300:700] = -0.0
    special[700:800] = draw.choice([6e-8, -6e-8], 100)
    found = {
        "usual": usual,
        "rectified": np.maximum(usual, 0),
        "integers": draw.integers(0, 255, SIZES),
        "spread": usual * np.exp2(draw.integers(-14, 4, SIZES)),
        "small": usual * np.exp2(draw.integers(-140, -100, SIZES)),
        "special": special.reshape(SIZES),
    }
    return {name: each.astype(dtype) for name, each in found.items()}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_cpu(launched, cpu, case, dtype):
    for kind, image in images(dtype).items():
        wanted = plan(case, dtype)
        right = answer(cpu, wanted, {"InputTensor": image})
        found = np.empty_like(right)
        undecided = launched[case, dtype].run({"InputTensor": image}, {"OutputTensor": found})
        decided = np.ones(right.size, bool)
        decided[undecided[:, 0]] = False
        same = (found.view(f"u{found.itemsize}") == right.view(f"u{found.itemsize}")) | (
            np.isnan(found) & np.isnan(right)
        )
        wrong = decided.reshape(right.shape) & ~same
        assert not wrong.any(), (kind, found[wrong][:5], right[wrong][:5], wrong.sum())
        assert decided.mean() > 0.99, (kind, decided.mean())


@pytest.mark.parametrize("card", [CARD, Card(132, 2)], ids=lambda card: f"float64 ratio {card.float64_ratio}")
def test_interpolated_zeros_are_positive(tmp_path, cpu, card):
    zeros = np.full(SIZES, -0.0, np.float32)
    wanted = plan("twice", np.float32)
    right = answer(cpu, wanted, {"InputTensor": zeros})
    found = np.empty_like(right)
    undecided = Launched(tmp_path, "zeros", wanted, card, "resample", "Task").run(
        {"InputTensor": zeros}, {"OutputTensor": found}
    )
    assert not undecided.size
    assert not np.signbit(found).any()
    assert not np.signbit(right).any()
