"""Max pooling of rows that are split into tiles: consistent across boundaries, in time linear in the size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.tensor import DataType
from opwire_service.kernels.cpu.max_pooling import row_tiling as tiles
from opwire_service.kernels.cpu.max_pooling.row_tiling import cut_rows
from tests.oracles.oracle import pooled_maxima
from tests.support.execution import never_stop

BESIDE = 1.3
"""Allowed ratio of visits in a long row's tiles to its elements and outputs."""


def row(size: int, window: int, dtype: Any = np.float32, *, indices: bool = False, **members: int) -> Plan:
    """Returns the plan of a pooling over one row."""
    data_type = DataType.of(np.dtype(dtype)).name
    desc: dict[str, object] = {"InputTensor": {"DataType": data_type, "Sizes": [1, 1, 1, size]}}
    for name, usual in {"Strides": 1, "StartPadding": 0, "EndPadding": 0, "Dilations": 1}.items():
        desc[name] = [usual, members.get(name, usual)]
    desc["WindowSize"] = [1, window]
    operator = {"type": "MAX_POOLING2", "desc": desc}
    if indices:
        sizes = list(check(operator).outputs["OutputTensor"].sizes)
        desc["OutputIndicesTensor"] = {"DataType": "UINT64", "Sizes": sizes}
    return check(operator)


def pooled(device: Any, plan: Plan, values: np.ndarray) -> dict[str, np.ndarray]:
    outputs = {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    device.run(plan, {"InputTensor": values.reshape(1, 1, 1, -1)}, outputs, never_stop)
    return {name: array.ravel() for name, array in outputs.items()}


def winners(values: np.ndarray, window: int, stride: int, padding: int, dilation: int) -> np.ndarray:
    """Returns each window's winner: the index of its first maximum."""
    outputs = (values.size + 2 * padding - 1 - (window - 1) * dilation) // stride + 1
    begin = np.arange(outputs) * stride - padding
    if window > outputs:
        return np.array([winner(values, first + np.arange(window) * dilation) for first in begin])
    best = np.full(outputs, -1)
    for tap in range(window):
        at = begin + tap * dilation
        inside = (at >= 0) & (at < values.size)
        value = values[np.clip(at, 0, values.size - 1)]
        now = values[np.clip(best, 0, None)]
        better = inside & ((best < 0) | (value > now) | (np.isnan(now) & ~np.isnan(value)))
        best = np.where(better, at, best)
    return best


def winner(values: np.ndarray, at: np.ndarray) -> int:
    """Returns the position of the first maximum among some positions."""
    at = at[(at >= 0) & (at < values.size)]
    numbers = at[~np.isnan(values[at])]
    return int(numbers[values[numbers].argmax()] if numbers.size else at[0])


def tied_values(size: int, dtype: Any, seed: int) -> np.ndarray:
    """Returns values with many ties; floats include both zeros, infinities and runs of NaN."""
    random = np.random.default_rng(seed)
    if not np.issubdtype(dtype, np.floating):
        return random.integers(0, 7, size).astype(dtype)
    values = random.choice(np.array([-2, -1, -0.0, 0.0, -np.inf], dtype), size)
    values[:: size // 5 + 1] = 3
    for start in range(0, size, size // 3 + 1):
        values[start : start + 40] = np.nan
    return values


USUAL_WIDTH = tiles.USUAL_BYTES // 4 // 4
"""Roughly the number of outputs per tile for windows of three."""

SHAPES = [
    *((size, 3, 1, 1, 1) for size in (USUAL_WIDTH - 2, USUAL_WIDTH, USUAL_WIDTH + 1, 4 * USUAL_WIDTH + 3)),
    *((size, 3, 2, 1, 1) for size in (3 * USUAL_WIDTH, 50_001)),
    (60_000, 300, 1, 150, 1),
    (60_001, 5, 3, 2, 7_000),
    (40_000, 9, 7, 30, 11),
    (70_000, 1, 600, 0, 1),
    (tiles.LONGEST_LINE + 5, 3, 50, 0, tiles.LONGEST_LINE // 2),
    (90_000, tiles.LARGEST_WINDOW - 1, 4_000, 0, 1),
    (90_000, tiles.LARGEST_WINDOW + 1, 4_000, 9, 1),
]
"""Row size, window, stride, padding and dilation."""


@pytest.mark.parametrize("indices", [False, True], ids=["values", "places"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_match_whole_rows(cpu_device, shape, dtype, indices):
    size, window, stride, padding, dilation = shape
    members = {"Strides": stride, "StartPadding": padding, "EndPadding": padding, "Dilations": dilation}
    plan = row(size, window, dtype, indices=indices, **members)
    values = tied_values(size, dtype, window)
    right = winners(values, window, stride, padding, dilation)
    found = pooled(cpu_device, plan, values)
    assert found["OutputTensor"].tobytes() == pooled_maxima(values[right]).tobytes()
    if indices:
        assert (found["OutputIndicesTensor"] == right).all()


@pytest.mark.parametrize("window", [1, 2, 3, 64, 1000, 5000])
def test_visits_grow_linearly_with_rows(window):
    for power in range(13, 28):
        for size in (2**power - 1, 2**power, 2**power + 1):
            cut = cut_rows(row(size, window), lines=True)
            assert cut is not None
            assert cut.by_line
            assert cut.elements <= tiles.MOST_READ + tiles.UNIT
            assert cut.elements * cut.number <= BESIDE * size * (1 + window)


@pytest.mark.parametrize("size", [1_040_000, 1_323_000, 3_000_000])
def test_long_rows_are_split_among_threads(size):
    cut = cut_rows(row(size, 3), lines=True)
    assert cut is not None
    assert cut.number >= 64
    assert cut.number * cut.width >= size - 2


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("stride", [2**12, 2**16, 2**20])
def test_few_windows_of_a_wide_row_visit_only_their_elements(stride, lines):
    plan = row(2**28 - 1, 1, np.uint8, Strides=stride)
    cut = cut_rows(plan, lines=lines)
    assert cut is not None
    assert cut.elements * cut.number <= (2 + tiles.UNIT) * plan.work


def test_windows_of_padding_only_are_not_visited():
    wide = 2**31
    plan = row(5, wide, np.uint8, StartPadding=wide - 1, EndPadding=wide - 1, Strides=wide // 2)
    cut = cut_rows(plan, lines=True)
    assert cut is not None
    assert cut.elements * cut.number <= 3 * 5 + tiles.UNIT


@pytest.mark.parametrize("special", [np.nan, -np.inf, -0.0])
def test_ambiguous_ranks_are_resolved_along_a_line(cpu_device, special):
    values = np.full((1, 1, 96, 700), special, np.float32)
    values[..., 300:310] = np.nan
    values[0, 0, 50, 600] = 0
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": list(values.shape)}, "WindowSize": [31, 33]}
    desc |= {"Strides": [3, 1], "StartPadding": [4, 5], "EndPadding": [4, 5]}
    plan = check({"type": "MAX_POOLING", "desc": desc})
    sizes = plan.outputs["OutputTensor"].sizes
    result = np.empty(sizes, np.float32)
    cpu_device.run(plan, {"InputTensor": values}, {"OutputTensor": result}, never_stop)
    for down, across in np.ndindex(sizes[2:]):
        top, left = max(0, 3 * down - 4), max(0, across - 5)
        window = values[0, 0, top : 3 * down - 4 + 31, left : across - 5 + 33].ravel()
        numbers = window[~np.isnan(window)]
        expected = pooled_maxima(numbers[numbers == numbers.max()][0] if numbers.size else window[0])
        assert result[0, 0, down, across].tobytes() == expected.tobytes()
