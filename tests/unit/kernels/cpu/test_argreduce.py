"""Maxima and minima on the CPU device: winners at every position of vectors, blocks and segments, and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice
from tests.oracles.oracle import pooled_maxima
from tests.support.execution import never_stop

FLOATS = (np.float32, np.float16)
TYPES = (*FLOATS, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64)

COUNTS = (1, 7, 16, 33, 130, 300, 1100)
"""Less than a vector, a vector and a remainder, and more than a block or than an index byte counts."""


def outputs(device: CpuDevice, operator: str, values: Array, **fields: object) -> tuple[Array, ...]:
    tensor = {"DataType": DataType.of(values.dtype).name, "Sizes": list(values.shape)}
    plan = check({"type": operator, "desc": {"InputTensor": tensor, **fields}})
    results = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    device.run(plan, {"InputTensor": values}, results, never_stop)
    return tuple(results.values())


def winners(device: CpuDevice, values: Array, axis: int, *, least: bool = False, last: bool = False) -> list[int]:
    direction = "DECREASING" if last else "INCREASING"
    (found,) = outputs(device, "ARGMIN" if least else "ARGMAX", values, Axes=[axis], AxisDirection=direction)
    return found.ravel().tolist()


def extremes(device: CpuDevice, values: Array, axis: int, *, least: bool = False) -> Array:
    (found,) = outputs(device, "REDUCE", values, Function="MIN" if least else "MAX", Axes=[axis])
    return found.ravel()


def limits(dtype: type) -> tuple[object, object]:
    info = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else np.finfo(dtype)
    return info.min, info.max


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_winner_is_found_wherever_it_is(cpu_device, dtype, least, axis):
    worst, best = limits(dtype)[:: -1 if least else 1]
    for count in COUNTS:
        values = np.full((count, count), worst, dtype)
        np.fill_diagonal(values, best)
        right = list(range(count))
        for last in (False, True):
            assert winners(cpu_device, values, axis, least=least, last=last) == right
        assert (extremes(cpu_device, values, axis, least=least) == best).all()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_first_or_last_of_equal_elements_wins(cpu_device, dtype, axis):
    for count in COUNTS:
        for value in limits(dtype):
            values = np.full((count, 9) if axis == 0 else (9, count), value, dtype)
            assert winners(cpu_device, values, axis) == [0] * 9
            assert winners(cpu_device, values, axis, last=True) == [count - 1] * 9
        triangle = np.tri(count, dtype=dtype)
        triangle = triangle.T.copy() if axis else triangle
        assert winners(cpu_device, triangle, axis) == list(range(count))
        assert winners(cpu_device, triangle[::-1, ::-1].copy(), axis, last=True) == list(range(count))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_win_over_nan(cpu_device, dtype, least, axis):
    worst = dtype(np.inf if least else -np.inf)
    for count in COUNTS:
        values = np.full((count, count), np.nan, dtype)
        np.fill_diagonal(values, worst)
        for last in (False, True):
            assert winners(cpu_device, values, axis, least=least, last=last) == list(range(count))
        assert (extremes(cpu_device, values, axis, least=least) == worst).all()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_all_nan_yields_the_first_or_last_index(cpu_device, dtype, axis):
    for count in COUNTS:
        values = np.full((count, 9) if axis == 0 else (9, count), np.nan, dtype)
        bits = values.view(f"u{values.itemsize}")
        first = (slice(0, 1), slice(None)) if axis == 0 else (slice(None), slice(0, 1))
        bits[first] ^= 1  # a different payload
        assert winners(cpu_device, values, axis) == [0] * 9
        assert winners(cpu_device, values, axis, last=True) == [count - 1] * 9
        assert extremes(cpu_device, values, axis).tobytes() == values[first].tobytes()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_signed_zeros_are_equal_and_the_first_one_wins(cpu_device, dtype, least, axis):
    for count in COUNTS:
        rows, columns = np.indices((count, count))
        values = np.full((count, count), 1 if least else -1, dtype)
        values[columns >= rows] = 0.0
        np.fill_diagonal(values, np.where(np.arange(count) % 2, 0.0, -0.0))
        values = values if axis else values.T.copy()
        assert winners(cpu_device, values, axis, least=least) == list(range(count))
        signs = np.signbit(extremes(cpu_device, values, axis, least=least))
        assert signs.tolist() == [i % 2 == 0 for i in range(count)]


BITS = {"any": range(1 << 16), "zeros": (0, 0x8000), "nan": (0x7C01, 0x7FFF, 0xFC01, 0xFFFF)}
BITS["no positive"] = (*BITS["nan"], 0xFC00, 0xC000, 0x8001, 0x8000)
BITS["no finite"] = (*BITS["nan"], 0xFC00)
BITS["no nan"] = (0, 0x8000, 0xBC00, 0x8001)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("pool", BITS)
def test_all_halves_compare_correctly(cpu_device, pool, least, axis):
    random = np.random.default_rng(11)
    for shape in ((300, 200), (5, 33), (7000, 70), (70, 7000)):
        bits = random.choice(np.array(BITS[pool], np.uint16), shape)
        if least:
            bits ^= 0x8000
        values = bits.view(np.float16)
        nan = np.isnan(values)
        scores = np.where(nan, 0, values).astype(np.float64) * (-1 if least else 1)
        # float64 leaves room for NaN below the lowest half
        scores = np.where(nan, -np.inf, np.maximum(scores, -1e300))
        first, mirrored = scores.argmax(axis), np.flip(scores, axis).argmax(axis)
        right = np.take_along_axis(bits, np.expand_dims(first, axis), axis).ravel()
        assert winners(cpu_device, values, axis, least=least) == first.tolist()
        assert winners(cpu_device, values, axis, least=least, last=True) == (shape[axis] - 1 - mirrored).tolist()
        assert (extremes(cpu_device, values, axis, least=least).view(np.uint16) == right).all()


@pytest.mark.parametrize("shape", [(1, 200_001), (70_001, 12), (140_001, 3)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_segments_of_nan_lose_to_one_with_an_element(cpu_device, dtype, shape):
    axis = int(np.argmax(shape))
    for place in (0, shape[axis] // 2, shape[axis] - 1):
        values = np.full(shape, np.nan, dtype)
        np.moveaxis(values, axis, 0)[place] = -np.inf
        others = shape[1 - axis]
        assert winners(cpu_device, values, axis) == [place] * others
        assert winners(cpu_device, values, axis, last=True) == [place] * others
        assert (extremes(cpu_device, values, axis) == -np.inf).all()


def scores(values: Array, *, least: bool) -> Array:
    """Maps values to numbers that argmax compares as the contract requires: NaN lowest, zeros equal."""
    if values.dtype.kind != "f":
        # Not for 64-bit types, which do not fit int64 or have nothing below.
        return values.astype(np.int64) * (-1 if least else 1)
    nan = np.isnan(values)
    wide = np.where(nan, 0, values).astype(np.float64) * (-1 if least else 1)
    # float64 leaves room for NaN below the lowest float
    return np.where(nan, -np.inf, np.maximum(wide, -1e300))


LONG = {
    "units": ((9, 2053, 70), 1),
    "few columns": ((9, 2053, 11), 1),
    "segments": ((8203, 150), 0),
    "no 16 bits": ((541_001, 8), 0),
    "runs": ((301, 2, 1000, 8), (0, 2)),
}
"""Columns so long that winners are searched in groups of rows, and rows that 16-bit indices cannot count."""


SIGNED = [np.int8, np.int16, np.int32]
WINNERS = [
    pytest.param(dtype, least, layout, marks=[pytest.mark.thorough] if least and dtype in SIGNED else [])
    for dtype in (*FLOATS, np.uint8, *SIGNED)
    for least in (False, True)
    for layout in LONG
]
"""Each type with maxima, and those of each comparison with minima."""


@pytest.mark.parametrize(("dtype", "least", "layout"), WINNERS)
def test_winners_of_long_columns(cpu_device, dtype, least, layout):
    shape, axes = LONG[layout]
    axes = axes if isinstance(axes, tuple) else (axes,)
    random = np.random.default_rng(3)
    is_float = np.issubdtype(dtype, np.floating)
    pools: list[Any] = [(0, 1, 2), limits(dtype)]
    pools += [(np.nan, -np.inf, np.inf), (0.0, -0.0, -1.0, np.nan), (np.nan,), (-1.0, -2.0)] if is_float else []
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    count = int(np.prod(kept))
    for pool in [np.array(each, dtype) for each in pools]:
        # The index of each element in the pool; NumPy compares ranks, which take one byte.
        chosen = random.integers(len(pool), size=(int(np.prod(shape)) // count, count), dtype=np.uint8)
        _, ranks = np.unique(scores(pool, least=least), return_inverse=True)
        # In some columns the winner is in one of the last rows, or ties with an earlier one.
        chosen[:, ::3] = ranks.argmin()
        chosen[-5::2, ::3] = ranks.argmax()
        chosen[3, ::6] = ranks.argmax()
        placed = chosen.reshape([*(shape[axis] for axis in axes), *kept])
        values = np.ascontiguousarray(pool[np.moveaxis(placed, range(len(axes)), axes)])
        columns = np.ascontiguousarray(ranks.astype(np.int8)[chosen].T)
        for last in (False, True):
            right = len(chosen) - 1 - columns[:, ::-1].argmax(1) if last else columns.argmax(1)
            direction = "DECREASING" if last else "INCREASING"
            name = "ARGMIN" if least else "ARGMAX"
            (found,) = outputs(cpu_device, name, values, Axes=list(axes), AxisDirection=direction)
            assert (found.ravel() == right).all()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 2, 0, 3), (3, 0, 2, 1)])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_segments_of_columns_reach_strided_outputs(cpu_device, dtype, least, order):
    random = np.random.default_rng(5)
    stored = random.permutation(2 * 3 * 300 * 40).reshape([(2, 3, 300, 40)[axis] for axis in order]) % 250
    values = stored.astype(dtype).transpose(np.argsort(order))
    data_type = DataType.of(values.dtype).name
    steps = [step // values.itemsize for step in values.strides]
    fields = {"InputTensor": {"DataType": data_type, "Sizes": values.shape, "Strides": steps}, "Axes": [2]}
    name = "ARGMIN" if least else "ARGMAX"
    places, best = (values.argmin(2), values.min(2)) if least else (values.argmax(2), values.max(2))
    for operator, own, of_output, right in (
        (name, {"AxisDirection": "INCREASING"}, "UINT32", places),
        ("REDUCE", {"Function": name[3:]}, data_type, best),
    ):
        output = {"DataType": of_output, "Sizes": [2, 3, 1, 40], "Strides": [83, 200, 1, 2]}
        plan = check({"type": operator, "desc": {**own, **fields, "OutputTensor": output}})
        desc = plan.outputs["OutputTensor"]
        result = desc.view(bytearray(desc.total_size_in_bytes))
        cpu_device.run(plan, {"InputTensor": values}, {"OutputTensor": result}, never_stop)
        assert (result.squeeze(2) == right).all()


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pooling_of_values_that_are_hard_to_compare(cpu_device, dtype, window, stride):
    random = np.random.default_rng(10 * window + stride)
    for pool in ([np.nan, -np.inf], [0.0, -0.0, -1.0], [np.nan, -np.inf, -0.0, 0.0, np.inf], [np.nan]):
        values = random.choice(np.array(pool, dtype), (1, 2, 23, 70))
        views = sliding_window_view(values, (window, window), (2, 3))[:, :, ::stride, ::stride]
        candidates = views.reshape(*views.shape[:4], -1)
        # float64 leaves room for NaN below the lowest float
        scores = np.maximum(candidates.astype(np.float64), -1e300)
        first = np.where(np.isnan(scores), -np.inf, scores).argmax(-1)
        right = pooled_maxima(np.take_along_axis(candidates, first[..., None], -1)[..., 0])
        fields = {"WindowSize": [window] * 2, "Strides": [stride] * 2, "Dilations": [1, 1]}
        fields |= {"StartPadding": [0, 0], "EndPadding": [0, 0]}
        (alone,) = outputs(cpu_device, "MAX_POOLING2", values, **fields)
        assert alone.tobytes() == right.tobytes()
        sizes = list(right.shape)
        indices = {"OutputIndicesTensor": {"DataType": "UINT32", "Sizes": sizes}}
        both, found = outputs(cpu_device, "MAX_POOLING2", values, **fields, **indices)
        _, plane, down, across = np.indices(right.shape)
        place = (plane * 23 + down * stride + first // window) * 70 + across * stride + first % window
        assert both.tobytes() == right.tobytes()
        assert (found == place).all()
