"""Gathers and scatters across many tiles and threads, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.kernels.cpu.indexing.geometry import FAR_BYTES
from opwire_service.kernels.cpu.indexing.job import MOST_POINTS
from tests.support.moving import counted, moved, same_bits

RANDOM = np.random.default_rng(5)
INDEX_TYPES = [np.int32, np.uint32, np.int64, np.uint64]


def random_indices(size: int, dtype: type, *sizes: int) -> Array:
    """Draws indices: in range, counted from the end if the type is signed, and out of range."""
    least = -size - 3 if np.issubdtype(dtype, np.signedinteger) else 0
    indices: Array = RANDOM.integers(least, size + 3, sizes).astype(dtype)
    indices.flat[::97] = np.iinfo(dtype).max
    indices.flat[1::97] = np.iinfo(dtype).min
    return indices


def read(indices: Array, size: int) -> Array:
    wide = np.where(indices > size, size, indices).astype(np.int64)
    return np.clip(np.where(wide < 0, wide + size, wide), 0, size - 1)


def written(indices: Array, size: int) -> Array:
    """Returns the written positions, -1 for none."""
    wide = np.where(indices > size, size, indices).astype(np.int64)
    wide = np.where(wide < 0, wide + size, wide)
    return np.where((wide >= 0) & (wide < size), wide, -1)


@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize("width", [1, 3, 64, 1000])
@pytest.mark.parametrize(("order", "number"), [("C", 3_000), ("F", 3_000), ("F", 30)])
def test_rows_are_gathered(cpu_device, index_type, width, order, number):
    source, indices = (
        np.asarray(counted(np.float32, 500, width), order=order),
        random_indices(500, index_type, 1, number),
    )
    result = moved(cpu_device, "GATHER", {"InputTensor": source, "IndicesTensor": indices}, Axis=0, IndexDimensions=1)
    assert same_bits(result["OutputTensor"], source[read(indices[0], 500)])


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_are_gathered_and_scattered_back(cpu_device, dtype, axis):
    source = counted(dtype, 30, 40, 50)
    sizes = [30, 40, 50]
    sizes[axis] = 120
    indices = random_indices(source.shape[axis], np.int64, *sizes)
    result = moved(cpu_device, "GATHER_ELEMENTS", {"InputTensor": source, "IndicesTensor": indices}, Axis=axis)
    at = read(indices, source.shape[axis])
    assert same_bits(result["OutputTensor"], np.take_along_axis(source, at, axis))
    indices = np.ascontiguousarray(np.take(indices, range(source.shape[axis]), axis))
    tensors = {"InputTensor": source, "IndicesTensor": indices, "UpdatesTensor": counted(dtype, *indices.shape)}
    result = moved(cpu_device, "SCATTER_ELEMENTS", tensors, Axis=axis)
    assert same_bits(result["OutputTensor"], scattered(source, indices, tensors["UpdatesTensor"], axis))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "index_type"), [*((np.float32, each) for each in INDEX_TYPES), (np.int64, np.int64)])
def test_elements_are_gathered_beyond_the_cache(cpu_device, dtype, index_type, order):
    """They are gathered in chunks, the last of which is shorter."""
    source = np.asarray(counted(dtype, 20_003, 71), order=order)
    assert source.nbytes > FAR_BYTES
    indices = random_indices(20_003, index_type, 15_001, 71)
    result = moved(cpu_device, "GATHER_ELEMENTS", {"InputTensor": source, "IndicesTensor": indices}, Axis=0)
    assert same_bits(result["OutputTensor"], np.take_along_axis(source, read(indices, 20_003), 0))


def scattered(source: Array, indices: Array, updates: Array, axis: int) -> Array:
    """Scatters the updates slice by slice, so that the last one wins."""
    right = np.moveaxis(source.copy(), axis, 0)
    places, slices = (np.moveaxis(array, axis, 0) for array in (written(indices, source.shape[axis]), updates))
    others: Any = np.indices(places.shape[1:])
    pairs: Any = zip(places, slices, strict=True)
    for place, values in pairs:
        inside = place >= 0
        right[(place[inside], *(other[inside] for other in others))] = values[inside]
    return np.moveaxis(right, 0, axis)


def test_gather_nd_reads_slices_of_batches(cpu_device):
    source, indices = counted(np.int16, 1, 7, 20, 30, 9), np.zeros((1, 1, 7, 400, 2), np.int64)
    indices[..., 0], indices[..., 1] = (
        random_indices(20, np.int64, 1, 1, 7, 400),
        random_indices(30, np.int64, 1, 1, 7, 400),
    )
    counts = {"InputDimensionCount": 4, "IndicesDimensionCount": 3, "BatchDimensionCount": 1}
    tensors = {"InputTensor": source, "IndicesTensor": indices}
    result = moved(cpu_device, "GATHER_ND1", tensors, **counts)["OutputTensor"]
    batch = np.arange(7)[:, None]
    right = source[0][batch, read(indices[0, 0, ..., 0], 20), read(indices[0, 0, ..., 1], 30)]
    assert same_bits(result, right.reshape(result.shape))


@pytest.mark.parametrize("width", [1, 5])
def test_the_last_of_duplicate_updates_wins(cpu_device, width):
    count = 2 * MOST_POINTS + 7 if width == 1 else 9_000
    source, updates = counted(np.float32, 1000, width), counted(np.float32, count, width)
    indices = random_indices(1000, np.int32, count, 1)
    tensors = {"InputTensor": source, "IndicesTensor": indices, "UpdatesTensor": updates}
    result = moved(cpu_device, "SCATTER_ND", tensors, InputDimensionCount=2, IndicesDimensionCount=2)["OutputTensor"]
    right = source.copy()
    places = written(indices.reshape(-1), 1000)
    for place in range(1000):
        found = np.flatnonzero(places == place)
        if found.size:
            right[place] = updates[found[-1]]
    assert same_bits(result, right)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_hot_matches_numpy(cpu_device, axis):
    sizes = [40, 50, 60]
    output = {"DataType": "UINT16", "Sizes": sizes}
    kept = [1 if i == axis else size for i, size in enumerate(sizes)]
    indices = random_indices(sizes[axis], np.int32, *kept)
    values = np.array([[[3], [9]]], np.uint16)
    tensors = {"IndicesTensor": indices, "ValuesTensor": values}
    result = moved(cpu_device, "ONE_HOT", tensors, OutputTensor=output, Axis=axis)["OutputTensor"]
    along = np.arange(sizes[axis]).reshape([-1 if i == axis else 1 for i in range(3)])
    assert same_bits(result, np.where(along == written(indices, sizes[axis]), values[0, 1], values[0, 0]))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length_type", [np.uint32, np.uint64])
def test_reverse_subsequences_matches_numpy(cpu_device, axis, length_type):
    source = counted(np.float32, 30, 41, 52)
    sizes = [1 if i == axis else size for i, size in enumerate(source.shape)]
    lengths = RANDOM.integers(0, source.shape[axis] + 3, sizes).astype(length_type)
    lengths.flat[7] = np.iinfo(length_type).max
    tensors = {"InputTensor": source, "SequenceLengthsTensor": lengths}
    result = moved(cpu_device, "REVERSE_SUBSEQUENCES", tensors, Axis=axis)["OutputTensor"]
    at = np.arange(source.shape[axis]).reshape([-1 if i == axis else 1 for i in range(3)])
    ends = np.minimum(lengths, source.shape[axis]).astype(np.int64)
    assert same_bits(result, np.take_along_axis(source, np.where(at < ends, ends - 1 - at, at), axis))
