"""Operators that move and select elements, in sizes that take many blocks, tiles and launches."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from opwire.tensor import Array
from tests.support.moving import counted, moved, same_bits

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]

ITEMS = [np.uint8, np.float16, np.float32, np.int64]


SHAPES = [(3, 70, 129), (64, 32, 96), (2, 1000, 3), (5, 2, 700), (3, 68, 132), (130, 2, 66)]


@pytest.mark.parametrize("dtype", ITEMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_transposed_tensors_are_copied(cuda, shape, dtype):
    for order in permutations(range(3)):
        array = counted(dtype, *shape).transpose(order)
        (copied,) = moved(cuda, "ELEMENT_WISE_IDENTITY" if dtype == np.float32 else "TILE", {"InputTensor": array},
                          **({} if dtype == np.float32 else {"Repeats": [1, 1, 1]})).values()  # fmt: skip
        assert same_bits(copied, np.ascontiguousarray(array))


@pytest.mark.parametrize("dtype", ITEMS)
def test_slices_and_tiles_match_numpy(cuda, dtype):
    array = counted(dtype, 40, 300)
    for offset, size, stride in ((0, 300, 1), (1, 298, 1), (4, 256, 1), (3, 290, -1), (2, 297, 3), (1, 299, -2)):
        fields = {"InputWindowOffsets": [3, offset], "InputWindowSizes": [30, size], "InputWindowStrides": [-1, stride]}
        found = moved(cuda, "SLICE1", {"InputTensor": array}, **fields)["OutputTensor"]
        assert same_bits(found, array[3:33, offset : offset + size][::-1, ::stride])
    tiled = moved(cuda, "TILE", {"InputTensor": array}, Repeats=[3, 2])["OutputTensor"]
    assert same_bits(tiled, np.tile(array, (3, 2)))


@pytest.mark.parametrize("dtype", ITEMS)
@pytest.mark.parametrize("sizes", [(2, 3, 16, 258), (1, 5, 130, 14), (3, 2, 6, 10)])
@pytest.mark.parametrize("side", [2, 3])
def test_depth_to_space_and_back(cuda, sizes, side, dtype):
    batch, channels, height, width = sizes
    array = counted(dtype, batch, channels, height * side, width * side)
    blocks = array.reshape(batch, channels, height, side, width, side)
    deep = blocks.transpose(0, 1, 3, 5, 2, 4).reshape(batch, -1, height, width)
    fields = {"BlockSize": side, "Order": "COLUMN_ROW_DEPTH"}
    assert same_bits(moved(cuda, "SPACE_TO_DEPTH1", {"InputTensor": array}, **fields)["OutputTensor"], deep)
    assert same_bits(moved(cuda, "DEPTH_TO_SPACE1", {"InputTensor": deep}, **fields)["OutputTensor"], array)


UNFOLDED = [
    ((2, 3, 40, 61), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 3, 40, 64), (5, 7), (1, 1), (1, 2), (2, 6)),
    ((1, 3, 224, 224), (16, 16), (16, 16), (1, 1), (0, 0)),
    ((1, 2, 9, 200), (9, 50), (1, 2), (1, 3), (0, 49)),
    ((2, 3, 7, 9), (7, 9), (1, 1), (1, 1), (0, 0)),
    ((1, 1, 300, 300), (2, 1), (1, 3), (250, 1), (3, 5)),
]
"""Images, windows, strides, dilations and paddings."""


@pytest.mark.parametrize("dtype", ITEMS)
@pytest.mark.parametrize(("sizes", "windows", "strides", "dilations", "pads"), UNFOLDED)
def test_unfolding_matches_numpy(cuda, sizes, windows, strides, dilations, pads, dtype):
    array = counted(dtype, *sizes)
    padded = np.pad(array, ((0, 0), (0, 0), *((pad, pad) for pad in pads)))
    spans = [dilation * (window - 1) + 1 for window, dilation in zip(windows, dilations, strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(padded, spans, (2, 3))
    found = found[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    right = found.transpose(0, 1, 4, 5, 2, 3).reshape(sizes[0], sizes[1] * windows[0] * windows[1], -1)
    fields = {"WindowSizes": windows, "Strides": strides, "Dilations": dilations}
    ends = {"StartPadding": pads, "EndPadding": pads}
    output = moved(cuda, "UNFOLD", {"InputTensor": array}, **fields, **ends)["OutputTensor"]
    assert same_bits(output.reshape(right.shape), right)


MODES: dict[str, Any] = {
    "CONSTANT": "constant",
    "EDGE": "edge",
    "REFLECTION": "reflect",
    "SYMMETRIC": "symmetric",
    "WRAP": "wrap",
}


@pytest.mark.parametrize("width", [1, 2, 90])
@pytest.mark.parametrize("mode", MODES)
def test_padding_wider_than_the_tensor_folds_repeatedly(cuda, mode, width):
    array = counted(np.int16, 7, width)
    value = {"PaddingValueDataType": "INT16"} if mode == "WRAP" else {}
    for before, after in ((3, 1000), (700, 2), (0, 64)):
        fields = {"PaddingMode": mode, "PaddingValue": 0, "StartPadding": [20, before], "EndPadding": [5, after]}
        operator = "PADDING1" if mode == "WRAP" else "PADDING"
        found = moved(cuda, operator, {"InputTensor": array}, **fields, **value)["OutputTensor"]
        assert same_bits(found, np.pad(array, ((20, 5), (before, after)), MODES[mode]))


def test_bands_of_diagonals_are_filled(cuda):
    for begin, end in ((-3, 4), (0, 1), (-500, 30), (2, -40)):
        fields = {"DiagonalFillBegin": begin, "DiagonalFillEnd": end, "ValueDataType": "INT32", "Value": 7}
        shape = {"DataType": "INT32", "Sizes": [2, 90, 130]}
        found = moved(cuda, "DIAGONAL_MATRIX1", {}, OutputTensor=shape, **fields)["OutputTensor"]
        diagonals = np.arange(130) - np.arange(90)[:, None]
        inside = (begin <= diagonals) & (diagonals < end) if begin <= end else (diagonals < end) | (begin <= diagonals)
        assert np.array_equal(found, np.broadcast_to(np.where(inside, 7, 0), (2, 90, 130)))


@pytest.mark.parametrize("width", [1, 3, 64])
@pytest.mark.parametrize("dtype", ITEMS)
def test_gathering_clamps_indices(cuda, dtype, width):
    table, draw = counted(dtype, 500, width), np.random.default_rng(1)
    indices = draw.integers(-600, 600, (1, 3000)).astype(np.int64)
    fields = {"Axis": 0, "IndexDimensions": 1}
    found = moved(cuda, "GATHER", {"InputTensor": table, "IndicesTensor": indices}, **fields)["OutputTensor"]
    at = np.clip(np.where(indices[0] < 0, indices[0] + 500, indices[0]), 0, 499)
    assert same_bits(found.reshape(3000, width), table[at])


@pytest.mark.parametrize("dtype", ITEMS)
def test_scatter_nd_keeps_the_last_of_duplicate_indices(cuda, dtype):
    table, updates, draw = counted(dtype, 50, 70), counted(dtype, 4000, 70)[::-1], np.random.default_rng(2)
    updates = np.ascontiguousarray(updates)
    indices = draw.integers(-60, 60, (4000, 1)).astype(np.int64)
    given = {"InputTensor": table, "IndicesTensor": indices, "UpdatesTensor": updates}
    fields = {"InputDimensionCount": 2, "IndicesDimensionCount": 2}
    found = moved(cuda, "SCATTER_ND", given, **fields)["OutputTensor"]
    right = table.copy()
    for i, index in enumerate(indices[:, 0]):
        if -50 <= index < 50:
            right.view(f"u{right.itemsize}")[index] = updates.view(f"u{right.itemsize}")[i]
    assert same_bits(found, right)


def test_scatter_elements_keeps_the_last_of_duplicate_indices(cuda):
    table, updates, draw = counted(np.int32, 900, 70), counted(np.int32, 900, 70), np.random.default_rng(3)
    indices = np.where(draw.random(updates.shape) < 0.9, draw.integers(-50, 50, updates.shape), 901).astype(np.int32)
    given = {"InputTensor": table, "IndicesTensor": indices, "UpdatesTensor": updates}
    found = moved(cuda, "SCATTER_ELEMENTS", given, Axis=0)["OutputTensor"]
    right = table.copy()
    for (row, column), index in np.ndenumerate(indices):
        if -900 <= index < 900:
            right[index, column] = updates[row, column]
    assert np.array_equal(found, right)


@pytest.mark.parametrize("length", [2**23, 2**23 + 1, 5 * 2**23 + 3, 9 * 2**23 + 5])
def test_scatter_elements_reaches_every_part_of_many_slots(cuda, length):
    table, draw = counted(np.uint8, length), np.random.default_rng(5)
    edges = np.arange(0, length + 1, 2**20)
    indices = np.concatenate([edges - 1, edges[:-1], draw.integers(-length, length, 100_000), edges[1:] - 1])
    updates = draw.integers(0, 256, indices.size, np.uint8)
    given = {"InputTensor": table, "IndicesTensor": indices, "UpdatesTensor": updates}
    found = moved(cuda, "SCATTER_ELEMENTS", given, Axis=0)["OutputTensor"]
    right = dict(zip((indices % length).tolist(), updates.tolist(), strict=True))
    table[list(right)] = list(right.values())
    assert np.array_equal(found, table)


def top_indices(array: Array, count: int, axis: int, *, greatest: bool) -> Array:
    """Returns the indices of the top elements, the first of equals first and NaN last."""
    keys = np.where(array == array, array, 0).astype(object)
    order = -keys if greatest else keys
    return np.lexsort((order, array != array), axis=axis).take(range(count), axis)


def mixed_elements(dtype: Any, *sizes: int) -> Array:
    """Returns random elements with many duplicates, zeros, infinities and NaN."""
    draw = np.random.default_rng(4)
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        wide = draw.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
        return np.where(draw.random(sizes) < 0.3, limits.max, wide)
    values = (draw.standard_normal(sizes) * 10).astype(dtype)
    values[draw.random(sizes) < 0.1] = 0
    values[draw.random(sizes) < 0.1] *= -0.0
    values[draw.random(sizes) < 0.02] = np.nan
    values[draw.random(sizes) < 0.02] = np.inf
    return values


LONG = [
    ((3, 9000), 1, 9000),
    ((1, 1_200_000), 1, 1_200_000),
    ((2, 40_000), 1, 3),
    ((2, 30_000), 1, 5000),
    ((20_000, 2), 0, 40),
    ((700, 33), 1, 5),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
@pytest.mark.parametrize(("sizes", "axis", "count"), LONG)
def test_top_k_of_long_lines(cuda, sizes, axis, count, dtype):
    array = mixed_elements(dtype, *sizes)
    for direction in ("DECREASING", "INCREASING"):
        fields = {"Axis": axis, "K": count, "AxisDirection": direction}
        found = moved(cuda, "TOP_K1", {"InputTensor": array}, **fields)
        right = top_indices(array, count, axis, greatest=direction == "DECREASING")
        assert np.array_equal(found["OutputIndexTensor"], right)
        assert same_bits(found["OutputValueTensor"], np.take_along_axis(array, right, axis))


def test_top_k_writes_64_bit_indices(cuda):
    array = mixed_elements(np.float32, 6, 5000)
    for count in (4, 5000):
        places = {"DataType": "UINT64", "Sizes": [6, count]}
        found = moved(cuda, "TOP_K", {"InputTensor": array}, Axis=1, K=count, OutputIndexTensor=places)
        assert np.array_equal(found["OutputIndexTensor"], top_indices(array, count, 1, greatest=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_nonzero_coordinates_across_many_tiles(cuda, dtype):
    array = mixed_elements(dtype, 30, 100, 17)
    array[np.random.default_rng(5).random(array.shape) < 0.5] = 0
    array = array.transpose(1, 0, 2)
    found = moved(cuda, "NONZERO_COORDINATES", {"InputTensor": array})
    right = np.argwhere(array != 0)
    rows = found["OutputCoordinatesTensor"][0]
    assert found["OutputCountTensor"].ravel().tolist() == [len(right)]
    assert np.array_equal(rows[: len(right)], right)
    assert not rows[len(right) :].any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_fill_value_sequence_spans_blocks(cuda, dtype):
    name = {np.float16: "FLOAT16", np.float32: "FLOAT32", np.int32: "INT32"}[dtype]
    fields = {"ValueDataType": name, "ValueStart": -3, "ValueDelta": 2}
    shape = {"DataType": name, "Sizes": [70, 11]}
    found = moved(cuda, "FILL_VALUE_SEQUENCE", {}, OutputTensor=shape, **fields)["OutputTensor"]
    assert np.array_equal(found.ravel(), (2 * np.arange(770) - 3).astype(dtype))
