"""Data movement across many tiles and threads, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.enums import PaddingMode
from opwire.tensor import Array
from opwire_service.kernels.cpu.views.geometry import PAST_CACHE, SIDE, TILE_BYTES, TILE_ITEMS
from opwire_service.kernels.views.folding import parts_of
from tests.support.moving import counted, moved, same_bits, tensor

TYPES = [np.uint8, np.float16, np.float32, np.int64]


def packed(array: Array) -> dict[str, Any]:
    """Returns the desc of a packed tensor like an array."""
    return {"DataType": tensor(array)["DataType"], "Sizes": list(array.shape)}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", [1, 31, 33, 600, TILE_BYTES - 1, TILE_BYTES + 1, 3 * TILE_BYTES + 5])
def test_contiguous_runs_of_any_length_are_copied(cpu_device, dtype, length):
    source = counted(dtype, length + 3)
    result = moved(cpu_device, "SLICE", {"InputTensor": source}, Offsets=[2], Sizes=[length], Strides=[1])
    assert same_bits(result["OutputTensor"], source[2 : length + 2])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "sizes",
    [
        *((2, 2), (16, 16), (17, 65), (129, 255), (3, 700), (700, 3), (SIDE + 9, 300), (SIDE - 1, 3000)),
        *((2, 77), (2, TILE_ITEMS + 5), (77, 2)),
    ],
)
def test_transposed_matrices_are_copied(cpu_device, dtype, sizes):
    source = counted(dtype, 3, *sizes).transpose(0, 2, 1)
    fields = {"Offsets": [0, 0, 0], "Sizes": list(source.shape), "Strides": [1, 1, 1]}
    assert same_bits(moved(cpu_device, "SLICE", {"InputTensor": source}, **fields)["OutputTensor"], source)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("beside", [0, 9], ids=["whole lines", "parts of lines"])
@pytest.mark.parametrize("first", [0, 3])
def test_large_transposed_matrices_are_copied(cpu_device, dtype, beside, first):
    width = 1024 + beside
    source = counted(dtype, PAST_CACHE // (width * np.dtype(dtype).itemsize) // 16 * 16 + 16 + beside, width + first)
    source = source[:, first:].T
    result = moved(cpu_device, "ELEMENT_WISE_IDENTITY", {"InputTensor": source}, OutputTensor=packed(source))
    assert same_bits(result["OutputTensor"], source)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(9, 14), (16, 64), (29, 31), (1030, 17), (2051, 8), (3000, 24), (130, 126)])
@pytest.mark.parametrize("first", [0, 1])
def test_many_matrices_are_transposed(cpu_device, dtype, sizes, first):
    number = PAST_CACHE // (sizes[0] * sizes[1] * np.dtype(dtype).itemsize) + 2
    source = counted(dtype, number, *sizes)[first:].transpose(0, 2, 1)
    result = moved(cpu_device, "ELEMENT_WISE_IDENTITY", {"InputTensor": source}, OutputTensor=packed(source))
    assert same_bits(result["OutputTensor"], source)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [0, PAST_CACHE], ids=["small", "large"])
@pytest.mark.parametrize("sizes", [(2, 3), (7, 18), (40, 56), (68, 140)])
@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
def test_depth_to_space_of_transposed_images(cpu_device, dtype, size, sizes, order):
    number = size // (16 * sizes[0] * sizes[1] * np.dtype(dtype).itemsize) + 2
    depth = counted(dtype, number, 16, *sizes).swapaxes(2, 3)
    fields = {"BlockSize": 2, "Order": order}
    result = moved(cpu_device, "DEPTH_TO_SPACE1", {"InputTensor": depth}, **fields)["OutputTensor"]
    blocks = (number, 4, 2, 2) if order == "COLUMN_ROW_DEPTH" else (number, 2, 2, 4)
    parts = depth.reshape(*blocks, *depth.shape[2:])
    axes = (0, 1, 4, 2, 5, 3) if order == "COLUMN_ROW_DEPTH" else (0, 3, 4, 1, 5, 2)
    assert same_bits(result, np.ascontiguousarray(parts.transpose(axes)).reshape(result.shape))


@pytest.mark.parametrize("dtype", TYPES)
def test_space_to_depth_of_many_small_images(cpu_device, dtype):
    space = counted(dtype, 500, 3, 14, 10)
    depth = moved(cpu_device, "SPACE_TO_DEPTH1", {"InputTensor": space}, BlockSize=2, Order="COLUMN_ROW_DEPTH")
    blocks = space.reshape(500, 3, 7, 2, 5, 2).transpose(0, 1, 3, 5, 2, 4)
    assert same_bits(depth["OutputTensor"], np.ascontiguousarray(blocks).reshape(500, 12, 7, 5))


@pytest.mark.parametrize("dtype", TYPES)
def test_identity_copies_transposed_tensors(cpu_device, dtype):
    source = counted(dtype, 3, 700, 300).transpose(0, 2, 1)
    for operator in ("ELEMENT_WISE_IDENTITY", "ACTIVATION_IDENTITY"):
        if operator == "ELEMENT_WISE_IDENTITY" or dtype in (np.float16, np.float32):
            result = moved(cpu_device, operator, {"InputTensor": source}, OutputTensor=packed(source))["OutputTensor"]
            assert same_bits(result, source)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("stride", [2, 3, -1, -2, -5])
def test_slices_with_strides_of_long_rows(cpu_device, dtype, stride):
    source = counted(dtype, 5, 40_000)
    fields = {"InputWindowOffsets": [1, 3], "InputWindowSizes": [3, 39_990], "InputWindowStrides": [1, stride]}
    result = moved(cpu_device, "SLICE1", {"InputTensor": source}, **fields)["OutputTensor"]
    assert same_bits(result, source[1:4, 3:39_993][:, ::stride])


def test_slice_gradients_are_zero_elsewhere(cpu_device):
    gradient = counted(np.float32, 300, 200)
    fields = {"InputWindowOffsets": [5, 7], "InputWindowSizes": [900, 400], "InputWindowStrides": [-3, 2]}
    output = {"DataType": "FLOAT32", "Sizes": [1000, 500]}
    source = {"InputGradientTensor": gradient}
    result = moved(cpu_device, "SLICE_GRAD", source, OutputGradientTensor=output, **fields)["OutputGradientTensor"]
    right = np.zeros((1000, 500), np.float32)
    right[5:905, 7:407][::-3, ::2] = gradient
    assert same_bits(result, right)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_splitting_and_joining_round_trips(cpu_device, axis):
    whole = counted(np.float32, 60, 50, 70)
    ends = [0, 1, 4, 20, whole.shape[axis]]
    parts = np.split(whole, ends[1:-1], axis)
    joined = moved(cpu_device, "JOIN", {f"InputTensors[{i}]": part for i, part in enumerate(parts)}, Axis=axis)
    assert same_bits(joined["OutputTensor"], whole)
    outputs = [tensor(np.ascontiguousarray(part)) for part in parts]
    split = moved(cpu_device, "SPLIT", {"InputTensor": whole}, OutputTensors=outputs, Axis=axis)
    for i, part in enumerate(parts):
        assert same_bits(split[f"OutputTensors[{i}]"], part)


def test_many_tensors_are_joined(cpu_device):
    parts = [counted(np.uint8, 1 + i % 7) for i in range(700)]
    joined = moved(cpu_device, "JOIN", {f"InputTensors[{i}]": part for i, part in enumerate(parts)}, Axis=0)
    assert same_bits(joined["OutputTensor"], np.concatenate(parts))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
def test_depth_to_space_inverts_space_to_depth(cpu_device, dtype, block, order):
    space = counted(dtype, 2, 5, 60, 66)
    fields = {"BlockSize": block, "Order": order}
    depth = moved(cpu_device, "SPACE_TO_DEPTH1", {"InputTensor": space}, **fields)["OutputTensor"]
    blocks = space.reshape(2, 5, 60 // block, block, 66 // block, block)
    axes = (0, 3, 5, 1, 2, 4) if order == "DEPTH_COLUMN_ROW" else (0, 1, 3, 5, 2, 4)
    assert same_bits(depth, np.ascontiguousarray(blocks.transpose(axes)).reshape(depth.shape))
    assert same_bits(moved(cpu_device, "DEPTH_TO_SPACE1", {"InputTensor": depth}, **fields)["OutputTensor"], space)


def test_tiling_in_all_dimensions(cpu_device):
    source = counted(np.uint16, 3, 2, 5, 2, 3)
    repeats = [2, 3, 7, 5, 11]
    result = moved(cpu_device, "TILE", {"InputTensor": source}, Repeats=repeats)["OutputTensor"]
    assert same_bits(result, np.tile(source, repeats))


@pytest.mark.parametrize("repeats", [[1, 1, 2], [1, 3, 1], [2, 2, 3]])
@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_tiling_of_a_large_transposed_tensor(cpu_device, dtype, repeats):
    source = counted(dtype, 2, 1100, 1030).transpose(0, 2, 1)
    result = moved(cpu_device, "TILE", {"InputTensor": source}, Repeats=repeats)["OutputTensor"]
    assert same_bits(result, np.tile(source, repeats))


MODES = {"EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(2, 1), (3, 2), (7, 301), (100, 5)])
def test_padding_wider_than_the_tensor_folds_repeatedly(cpu_device, mode, sizes):
    source = counted(np.float16, 2, *sizes)
    widths = [(1, 2), (301, 40), (13, 1001)]
    start, end = map(list, zip(*widths, strict=True))
    fields = {"PaddingMode": mode, "PaddingValue": 0, "StartPadding": start, "EndPadding": end}
    result = moved(cpu_device, "PADDING", {"InputTensor": source}, **fields)["OutputTensor"]
    right = source.view(np.uint16)
    for axis, width in enumerate(widths):
        right = np.pad(right, [width if i == axis else (0, 0) for i in range(3)], MODES[mode])  # type: ignore[call-overload]
    assert same_bits(result, right.view(np.float16))


def test_constant_padding_of_images_matches_numpy(cpu_device):
    source = counted(np.float32, 4, 3, 100, 101)
    fields = {
        "PaddingMode": "CONSTANT",
        "PaddingValue": -2.5,
        "StartPadding": [0, 1, 3, 2],
        "EndPadding": [0, 0, 1, 70],
    }
    result = moved(cpu_device, "PADDING", {"InputTensor": source}, **fields)["OutputTensor"]
    right = np.pad(source, [(0, 0), (1, 0), (3, 1), (2, 70)], constant_values=-2.5)
    assert same_bits(result, right)


@pytest.mark.parametrize("mode", [PaddingMode.REFLECTION, PaddingMode.SYMMETRIC, PaddingMode.WRAP, PaddingMode.EDGE])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_padding_is_split_into_few_disjoint_parts(mode, size):
    for begin, length in ((-37, 37), (-1, 1), (size, 41), (size, 0)):
        places = [
            part.target + repeat * part.period + i
            for part in parts_of(mode, size, begin, length)
            for repeat in range(part.repeats)
            for i in range(part.size)
        ]
        assert sorted(places) == list(range(begin, begin + length))
        assert len(list(parts_of(mode, size, begin, length))) <= 6


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (-5, 40), (40, -5), (-(2**31), 1), (2**31 - 1, -(2**31)), (3, 3)])
def test_bands_of_large_matrices_match_numpy(cpu_device, begin, end):
    source = counted(np.int32, 2, 300, 211)
    fields = {"ValueDataType": "INT32", "Value": -7, "DiagonalFillBegin": begin, "DiagonalFillEnd": end}
    result = moved(cpu_device, "DIAGONAL_MATRIX1", {"InputTensor": source}, **fields)["OutputTensor"]
    diagonals = np.arange(211) - np.arange(300)[:, None]
    inside = (begin <= diagonals) & (diagonals < end)
    if begin > end:
        inside = ~((end <= diagonals) & (diagonals < begin))
    assert same_bits(result, np.where(inside, np.int32(-7), source))
