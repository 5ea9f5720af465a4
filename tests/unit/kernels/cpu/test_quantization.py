"""Quantization and dequantization large enough for compiled kernels: ties, odd scales, blocks and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.tensor import Array, DataType
from tests.support.moving import moved

ROWS, COLUMNS = 130, 384
"""More elements than NumPy handles while a caller waits."""

SCALES = [0.05, 2.0, -0.25, 1 / 3, 1e-40, 3e38, 0.0, np.inf, np.nan, 2.0**-140]


def floats(dtype: Any) -> Array:
    """Returns numbers of all magnitudes, ties and their neighbors, infinities and NaN."""
    draw = np.random.default_rng(5)
    halves = draw.integers(-700, 700, ROWS * COLUMNS // 2) / 2
    with np.errstate(over="ignore"):
        near = np.nextafter(halves.astype(dtype), dtype(draw.choice([-np.inf, np.inf])))
        wide = (draw.standard_normal(halves.size) * np.exp2(draw.integers(-12, 20, halves.size))).astype(dtype)
    found = np.concatenate([np.where(draw.random(halves.size) < 0.5, halves.astype(dtype), near), wide])
    found[::501] = np.resize(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 65504, 6e-8], dtype), found[::501].size)
    return draw.permutation(found).reshape(ROWS, COLUMNS)


def nearest(x: Array, scale: Array, zero_point: Array, limits: tuple[int, int]) -> Array:
    """Quantizes in float64, which holds ties exactly and keeps other quotients on their side."""
    with np.errstate(all="ignore"):
        whole = np.rint(x.astype(np.longdouble) / scale.astype(np.longdouble)) + zero_point
    whole[np.isnan(whole)] = 0
    found: Array = np.clip(whole, *limits)
    return found


@pytest.mark.parametrize("to", [DataType.INT8, DataType.UINT8], ids=lambda each: each.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_every_scale_and_zero_point_rounds_correctly(cpu_device, dtype, to, is_transposed):
    x = floats(dtype)
    with np.errstate(over="ignore"):
        scales = np.resize(np.array(SCALES, dtype), ROWS)[:, None]
    draw = np.random.default_rng(6)
    least, greatest = to.limits
    zero_points = draw.integers(least, greatest, (ROWS, 1), endpoint=True).astype(to.dtype)
    given = x.T.copy().T if is_transposed else x
    parameters = {"ScaleTensor": scales, "ZeroPointTensor": zero_points}
    inputs = {name: np.broadcast_to(array, x.shape) for name, array in parameters.items()}
    found = moved(cpu_device, "ELEMENT_WISE_QUANTIZE_LINEAR", {"InputTensor": given, **inputs})["OutputTensor"]
    right = nearest(x, scales, zero_points, to.limits)
    wrong = found != right
    assert not wrong.any(), (x[wrong][:3], np.broadcast_to(scales, x.shape)[wrong][:3], found[wrong][:3])


@pytest.mark.parametrize("to", ["INT8", "UINT8", "INT4", "UINT4"])
@pytest.mark.parametrize("block", [(1, 32), (ROWS, 1), (5, COLUMNS)], ids=str)
def test_blocks_round_trip(cpu_device, to, block):
    x, kind = np.nan_to_num(floats(np.float32), nan=0, posinf=9, neginf=-9), DataType[to]
    counts = ROWS // block[0], COLUMNS // block[1]
    scales = np.random.default_rng(7).uniform(0.01, 3, counts).astype(np.float32)
    whole = np.repeat(np.repeat(scales, block[0], 0), block[1], 1)
    zero_point = 0 if kind.is_signed else 1 << (kind.bits - 1)
    fields = {"QuantizationType": "SCALE", "OutputTensor": {"DataType": to, "Sizes": list(x.shape)}}
    tensors = {"InputTensor": x, "QuantizationTensors[0]": scales}
    found = moved(cpu_device, "QUANTIZE", tensors, **fields)["OutputTensor"]
    right = nearest(x, whole, np.array(zero_point), kind.limits)
    codes = found
    if kind.is_packed:
        codes = np.stack([found & 15, found >> 4], -1).reshape(x.shape).astype(np.int64)
        codes = (codes ^ 8) - 8 if kind.is_signed else codes
    assert (codes == right).all()
    if not kind.is_packed:
        back = moved(cpu_device, "DEQUANTIZE", {**tensors, "InputTensor": found}, QuantizationType="SCALE")
        products = (right - zero_point) * whole.astype(np.longdouble)
        assert (back["OutputTensor"] == products.astype(np.float32)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("of", [np.int8, np.uint8, np.int16, np.uint16])
def test_dequantized_products_are_rounded_once(cpu_device, of, dtype):
    draw, limits = np.random.default_rng(8), np.iinfo(of)
    codes = draw.integers(limits.min, limits.max, (ROWS, COLUMNS), of, endpoint=True)
    zero_points = draw.integers(limits.min, limits.max, (1, COLUMNS), of, endpoint=True)
    scales = draw.standard_normal((1, COLUMNS)).astype(dtype)
    inputs = {
        name: np.broadcast_to(each, codes.shape) for name, each in (("Scale", scales), ("ZeroPoint", zero_points))
    }
    tensors = {"InputTensor": codes, **{f"{name}Tensor": each for name, each in inputs.items()}}
    found = moved(cpu_device, "ELEMENT_WISE_DEQUANTIZE_LINEAR", tensors)["OutputTensor"]
    products = (codes.astype(np.float64) - zero_points) * scales.astype(np.float64)  # exact
    with np.errstate(over="ignore"):
        assert (found == products.astype(dtype)).all()


@pytest.mark.parametrize("of", [np.int8, np.uint16])
def test_products_with_scales_at_the_limits_of_floats(cpu_device, of):
    limits, draw = np.iinfo(of), np.random.default_rng(10)
    codes = draw.integers(limits.min, limits.max, (ROWS, COLUMNS), of, endpoint=True)
    scales = np.resize(np.array([1e-45, 3e-41, -1.2e-38, 3.4e38, np.inf, np.nan, -0.0], np.float32), (1, COLUMNS))
    tensors = {"InputTensor": codes, "ScaleTensor": np.broadcast_to(scales, codes.shape)}
    found = moved(cpu_device, "ELEMENT_WISE_DEQUANTIZE_LINEAR", tensors)["OutputTensor"]
    with np.errstate(all="ignore"):
        products = (codes * scales.astype(np.float64)).astype(np.float32)  # exact, then rounded once
    assert np.array_equal(found, products, equal_nan=True)
    assert (np.signbit(found) == np.signbit(products))[~np.isnan(products)].all()


def test_dynamic_quantization_derives_the_scale_from_extremes(cpu_device):
    x = (np.random.default_rng(9).standard_normal((ROWS, COLUMNS)) * 7).astype(np.float32)
    outputs = moved(cpu_device, "DYNAMIC_QUANTIZE_LINEAR", {"InputTensor": x})
    scale, zero_point = outputs["OutputScaleTensor"].reshape(-1), outputs["OutputZeroPointTensor"].reshape(-1)
    kind = DataType.of(outputs["OutputTensor"].dtype)
    right = nearest(x, scale, zero_point.astype(np.int64), kind.limits)
    assert (outputs["OutputTensor"] == right).all()
    assert {int(outputs["OutputTensor"].min()), int(outputs["OutputTensor"].max())} == set(kind.limits)
