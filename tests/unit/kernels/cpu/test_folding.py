"""Folding and unfolding of large images: columns against NumPy, sums against integers and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.kernels.cpu.folding.unfold import BATCH
from tests.oracles import oracle
from tests.support.moving import counted, moved, same_bits, tensor

RANDOM = np.random.default_rng(3)


def columns_of(image: Array, window: list[int], stride: list[int], dilation: list[int], pads: list[int]) -> Array:
    """Returns the columns of a padded image."""
    unsigned = image.view(f"u{image.itemsize}")
    padded = np.pad(unsigned, [(0, 0), (0, 0), *((pad, pad) for pad in pads)])
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    moved_axes = windows.transpose(0, 1, 4, 5, 2, 3)
    batch, channels, *sizes = moved_axes.shape
    shape = batch, channels * sizes[0] * sizes[1], sizes[2] * sizes[3]
    return np.ascontiguousarray(moved_axes).reshape(shape).view(image.dtype)


def fields_of(window: list[int], stride: list[int], dilation: list[int], pads: list[int]) -> dict[str, list[int]]:
    names = ("WindowSizes", "Strides", "Dilations", "StartPadding", "EndPadding")
    return dict(zip(names, (window, stride, dilation, pads, pads), strict=True))


SHAPES = [
    ([3, 3], [1, 1], [1, 1], [1, 1]),
    ([3, 3], [1, 1], [1, 1], [0, 0]),
    ([2, 5], [2, 3], [3, 1], [0, 4]),
    ([50, 2], [40, 1], [1, 2], [30, 0]),
    ([17, 18], [3, 3], [1, 1], [9, 9]),
    ([1, 1], [2, 2], [1, 1], [0, 0]),
]


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unfolding_matches_numpy(cpu_device, dtype, shape):
    image = counted(dtype, 2, 3, 61, 58)
    result = moved(cpu_device, "UNFOLD", {"InputTensor": image}, **fields_of(*shape))["OutputTensor"]
    assert same_bits(result, columns_of(image, *shape))


def test_unfolding_more_shapes_than_are_cached(cpu_device):
    image = counted(np.float32, 1, 1, 40, 40)
    shape = [20, 20], [1, 1], [1, 1], [10, 10]
    assert shape[0][0] * shape[0][1] > BATCH
    result = moved(cpu_device, "UNFOLD", {"InputTensor": image}, **fields_of(*shape))["OutputTensor"]
    assert same_bits(result, columns_of(image, *shape))


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_folding_sums_integers(cpu_device, dtype, shape):
    """Each element of the image is summed as often as it occurs in blocks."""
    image = RANDOM.integers(-9, 9, (2, 2, 61, 150)).astype(dtype)
    columns = columns_of(image, *shape)
    output = {"OutputTensor": tensor(image)}
    result = moved(cpu_device, "FOLD", {"InputTensor": columns}, **output, **fields_of(*shape))["OutputTensor"]
    ones = np.ones(image.shape, np.int64)
    times = columns_of(ones, *shape)
    counts = moved(cpu_device, "FOLD", {"InputTensor": times}, OutputTensor=tensor(ones), **fields_of(*shape))
    right = image * counts["OutputTensor"].astype(dtype) + dtype(0)  # a sum of nothing is positive zero
    assert same_bits(result, right)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_folding_rounds_cancelling_sums_once(cpu_device, dtype):
    """Terms of very different magnitude and both signs, so that many sums are far smaller than their terms."""
    shape = [3, 3], [1, 1], [1, 1], [1, 1]
    columns = RANDOM.standard_normal((1, 9, 40 * 50))
    columns *= 2.0 ** RANDOM.integers(-12, 8 if dtype is np.float16 else 40, columns.shape)
    columns = columns.astype(dtype)
    columns[:, 1] = -columns[:, 0]
    columns[:, 8] = RANDOM.choice([0, 1, 2.0**-14], columns.shape[2])
    image = np.zeros((1, 1, 40, 50), dtype)
    output = {"OutputTensor": tensor(image)}
    result = moved(cpu_device, "FOLD", {"InputTensor": columns}, **output, **fields_of(*shape))["OutputTensor"]
    blocks = columns.reshape(3, 3, 40, 50)
    for y, x in [*np.ndindex(6, 6), *RANDOM.integers(0, (40, 50), (200, 2))]:
        terms = [
            Fraction(float(blocks[i, j, y + 1 - i, x + 1 - j]))
            for i in range(3)
            for j in range(3)
            if 0 <= y + 1 - i < 40 and 0 <= x + 1 - j < 50
        ]
        assert result[0, 0, y, x] == oracle.rounded(sum(terms, Fraction(0)), np.dtype(dtype))
