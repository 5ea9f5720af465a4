"""Top-k of long and of many short lines, coordinates across tiles, and generated sequences."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.base import Device
from opwire_service.kernels.cpu.selecting.nonzero import TILE
from opwire_service.kernels.cpu.selecting.top import CHUNK
from tests.oracles import oracle
from tests.support.execution import never_stop
from tests.support.moving import moved, same_bits

RANDOM = np.random.default_rng(11)
TYPES = [np.uint8, np.int16, np.float16, np.float32, np.uint32, np.int64]


def values_of(dtype: type, *sizes: int) -> Array:
    """Returns values with ties; floats include both zeros, infinities, and NaN with different payloads."""
    if np.issubdtype(dtype, np.floating):
        values: Array = (RANDOM.standard_normal(sizes) * 30).astype(dtype)
        values.flat[::7] = np.round(values.flat[::7])
        special: Array = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype)
        values.flat[3::11] = RANDOM.choice(special, values.flat[3::11].size)
        return values
    limits = np.iinfo(dtype)
    values = RANDOM.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
    values.flat[::5] = RANDOM.choice(np.array([limits.min, limits.max, 1], dtype), values.flat[::5].size)
    return values


def top_indices(values: Array, count: int, direction: str) -> Array:
    """Returns the top indices along the last axis, by a stable sort with NaN last."""
    missing = values != values
    if values.dtype.kind == "f":
        keys = np.where(missing, 0, values.astype(np.float64))
        keys = -keys if direction == "DECREASING" else keys
    else:
        keys = values.astype(object)
        keys = -keys if direction == "DECREASING" else keys
    ascending = np.argsort(keys, axis=-1, kind="stable")
    last = np.take_along_axis(missing, ascending, -1)
    return np.take_along_axis(ascending, np.argsort(last, axis=-1, kind="stable"), -1)[..., :count]


def assert_top_k(
    device: Device, values: Array, axis: int, count: int, direction: str, index_type: str = "UINT32"
) -> None:
    sizes = [count if i == axis else size for i, size in enumerate(values.shape)]
    fields: dict[str, Any] = {"Axis": axis, "K": count, "AxisDirection": direction}
    fields["OutputIndexTensor"] = {"DataType": index_type, "Sizes": sizes}
    result = moved(device, "TOP_K1", {"InputTensor": values}, **fields)
    right = np.moveaxis(top_indices(np.moveaxis(values, axis, -1), count, direction), -1, axis)
    assert (result["OutputIndexTensor"] == right).all()
    assert same_bits(result["OutputValueTensor"], np.take_along_axis(values, right, axis))


@pytest.mark.parametrize("direction", ["INCREASING", "DECREASING"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_top_k_of_many_short_lines(cpu_device, dtype, direction, axis):
    values = values_of(dtype, 23, 45, 67)
    for count in (1, 5, values.shape[axis]):
        assert_top_k(cpu_device, values, axis, count, direction, "UINT64")


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("count", [1, 1000, CHUNK + 5, 2 * CHUNK + 77])
def test_top_k_of_long_lines(cpu_device, dtype, count):
    values = (
        values_of(np.int32, 2 * CHUNK + 77).astype(dtype) if dtype is np.int64 else values_of(dtype, 2 * CHUNK + 77)
    )
    assert_top_k(cpu_device, values, 0, count, "DECREASING")


def test_top_k_is_stable_with_many_ties(cpu_device):
    for dtype in (np.float32, np.int64):
        values = np.zeros(3 * CHUNK, dtype)
        values[CHUNK + 5] = 1
        result = moved(cpu_device, "TOP_K", {"InputTensor": values}, Axis=0, K=CHUNK + 9)["OutputIndexTensor"]
        assert result.tolist() == [CHUNK + 5, *range(CHUNK + 5), *range(CHUNK + 6, CHUNK + 9)]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
@pytest.mark.parametrize("density", [0, 0.01, 1])
def test_nonzero_coordinates_across_tiles(cpu_device, dtype, density):
    values = (RANDOM.random((3, 5, 7, TILE // 50)) < density).astype(dtype)
    for given in (values, values.transpose(3, 0, 2, 1)):
        result = moved(cpu_device, "NONZERO_COORDINATES", {"InputTensor": given})
        right = np.argwhere(given)
        assert result["OutputCountTensor"].item() == len(right)
        rows = result["OutputCoordinatesTensor"].reshape(-1, 4)
        assert (rows[: len(right)] == right).all()
        assert not rows[len(right) :].any()


def sequence(device: Device, data_type: str, count: int, start: float, delta: float) -> tuple[Any, Array]:
    output = {"DataType": data_type, "Sizes": [count]}
    desc = {"OutputTensor": output, "ValueDataType": data_type, "ValueStart": start, "ValueDelta": delta}
    plan = check({"type": "FILL_VALUE_SEQUENCE", "desc": desc})
    result = plan.outputs["OutputTensor"].allocate()[1]
    device.run(plan, {}, {"OutputTensor": result}, never_stop)
    return plan.attributes, result


@pytest.mark.parametrize("start", [0.1, -0.0, 1e30, -3.3e-20, 16777216.5])
@pytest.mark.parametrize("delta", [0.1, -1e-10, 3.0000001e10, 0.0, 5.96e-8])
def test_late_terms_of_a_sequence_are_rounded_once(cpu_device, start, delta):
    attributes, result = sequence(cpu_device, "FLOAT32", 100_000, start, delta)
    for k in [*range(5), *range(16_380, 16_390), *range(99_000, 99_050)]:
        exact = Fraction(attributes.ValueStart) + k * Fraction(attributes.ValueDelta)
        assert result[k] == oracle.rounded(exact, np.dtype(np.float32))


def test_late_integers_of_a_sequence_wrap_around(cpu_device):
    for data_type, bits in (("UINT8", 8), ("INT16", 16), ("INT32", 32), ("UINT64", 64)):
        _, result = sequence(cpu_device, data_type, 70_000, 5, -3)
        right = [(5 - 3 * k) % 2**bits for k in range(70_000)]
        assert result.view(f"u{bits // 8}").tolist() == right


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 3, 1)])
def test_value_scale_2d_across_rows(cpu_device, dtype, order):
    values = values_of(dtype, 2, 3, 130, 301)
    values[~np.isfinite(values)] = 0.25
    values = values.transpose(np.argsort(order)).copy().transpose(order)
    biases = [0.3, -7, 1e-20]
    result = moved(cpu_device, "VALUE_SCALE_2D", {"InputTensor": values}, Scale=1.1, Bias=biases)["OutputTensor"]
    scale = Fraction(float(np.float32(1.1)))
    for image, channel, row, column in RANDOM.integers(0, values.shape, (300, 4)):
        bias = Fraction(float(np.float32(biases[channel])))
        exact = Fraction(float(values[image, channel, row, column])) * scale + bias
        assert result[image, channel, row, column] == oracle.rounded(exact, values.dtype)
