"""Fourier transforms of ONNX as products with constant matrices, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import opwire.onnx
from tests.onnx_models.single import lowered, single, types

rng = np.random.default_rng(10)
SIGNAL = rng.normal(size=(2, 6, 3, 2)).astype("f4")
COMPLEX = SIGNAL[..., 0] + 1j * SIGNAL[..., 1]


def run(inputs: list[Any], **options: Any) -> Any:
    _, (found,) = lowered(single("DFT", inputs, (1, 2), **options), inputs)
    return found if found.shape[-1] == 1 else found[..., 0] + 1j * found[..., 1]


@pytest.mark.parametrize("axis", [1, 2, -2])
@pytest.mark.parametrize("length", [None, 4, 9])
def test_complex_numbers(axis: int, length: int | None) -> None:
    place = axis if axis > 0 else axis + 1
    given = None if length is None else np.array(length)
    inputs = [SIGNAL, given, np.array(axis)]
    np.testing.assert_allclose(run(inputs, opset=20), np.fft.fft(COMPLEX, length, place), rtol=1e-4, atol=1e-5)
    found = run(inputs[:2], opset=17, axis=axis, inverse=1)
    np.testing.assert_allclose(found, np.fft.ifft(COMPLEX, length, place), rtol=1e-4, atol=1e-5)


def test_real_numbers_on_one_side() -> None:
    found = run([SIGNAL[..., :1]], opset=17, onesided=1)
    np.testing.assert_allclose(found, np.fft.rfft(SIGNAL[..., 0], axis=1), rtol=1e-4, atol=1e-5)


def test_back_to_real_numbers() -> None:
    found = run([SIGNAL], opset=20, onesided=1, inverse=1)
    np.testing.assert_allclose(found[..., 0], np.fft.irfft(COMPLEX, axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("with_window", [False, True])
@pytest.mark.parametrize("onesided", [0, 1])
def test_frames(with_window: bool, onesided: int) -> None:
    x, window = rng.normal(size=(2, 20, 1)).astype("f4"), np.hanning(8).astype("f4")
    inputs = [x, np.array(3), window if with_window else None, np.array(8)]
    model, (found,) = lowered(single("STFT", inputs, (1, 2, 3), opset=17, onesided=onesided), inputs)
    frames = np.stack([x[:, at : at + 8, 0] for at in range(0, 13, 3)], 1) * (window if with_window else 1)
    expected = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-5)
    assert types(model)[-1] == "GEMM"


def test_long_transforms_stay_on_the_cpu() -> None:
    (node,) = opwire.onnx.load(single("DFT", [np.zeros((1, 5000, 1), "f4")], opset=17)).nodes
    assert "elements" in node.reason
