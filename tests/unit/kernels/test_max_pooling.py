"""Max pooling on every device: ties, NaN, padding and indices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.oracles import oracle
from tests.support.execution import run


def pool(device, array: np.ndarray, window: list[int], **fields: object) -> dict[str, np.ndarray]:
    spatial = len(window)
    desc: dict[str, object] = {
        "Strides": [1] * spatial,
        "WindowSize": window,
        "StartPadding": [0] * spatial,
        "EndPadding": [0] * spatial,
        "Dilations": [1] * spatial,
        **fields,
    }
    return run(device, "MAX_POOLING2", array, **desc)


LOWEST = np.finfo(np.float32).min
POOLED = np.array([[[[1, 2, 2], [math.nan, math.nan, 0], [math.nan, math.nan, -math.inf]]]], np.float32)


def test_pooling_finds_maxima_and_indices(device):
    result = pool(device, POOLED, [2, 2], OutputIndicesTensor={"DataType": "UINT64", "Sizes": [1, 1, 2, 2]})
    assert result["OutputTensor"][0, 0, 0, 0] == 2
    assert result["OutputTensor"][0, 0, 1, 0] == LOWEST
    assert oracle.same(result["OutputTensor"][0, 0, 1, 1], np.float32(0))
    assert result["OutputIndicesTensor"].ravel().tolist() == [1, 1, 3, 5]


def test_pooling_returns_no_indices_unless_requested(device):
    assert set(pool(device, POOLED, [2, 2])) == {"OutputTensor"}


def test_pooling_indices_count_over_the_whole_tensor(device):
    array = np.arange(2 * 3 * 2 * 2 * 2, dtype=np.uint16).reshape(2, 3, 2, 2, 2)
    sizes = [2, 3, 1, 1, 1]
    result = pool(device, array, [2, 2, 2], OutputIndicesTensor={"DataType": "UINT32", "Sizes": sizes})
    assert result["OutputIndicesTensor"].ravel().tolist() == [7, 15, 23, 31, 39, 47]
    assert result["OutputTensor"].ravel().tolist() == [7, 15, 23, 31, 39, 47]


def test_the_lowest_value_has_an_index(device):
    for lowest in (np.float32(-math.inf), np.int8(-128)):
        array = np.full((1, 1, 2, 2), lowest)
        indices = {"DataType": "UINT32", "Sizes": [1, 1, 3, 3]}
        result = pool(device, array, [2, 2], StartPadding=[1, 1], EndPadding=[1, 1], OutputIndicesTensor=indices)
        assert (result["OutputTensor"] == max(lowest, LOWEST)).all()
        assert result["OutputIndicesTensor"].ravel().tolist() == [0, 0, 1, 0, 0, 1, 2, 2, 3]


def test_windows_mostly_of_padding_cost_only_their_elements(device):
    array = np.array([[[[3, 1, 4, 1, 5]]]], np.uint8)
    wide = 2**31
    result = pool(
        device,
        array,
        [1, wide],
        StartPadding=[0, wide - 1],
        EndPadding=[0, wide - 1],
        Strides=[1, wide // 2],
        OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 1, 1, 3]},
    )
    # The first window ends at the first element, the second covers all, the third starts at the second.
    assert result["OutputTensor"].ravel().tolist() == [3, 5, 5]
    assert result["OutputIndicesTensor"].ravel().tolist() == [0, 4, 4]


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float16, -math.inf), (np.float32, LOWEST)])
@pytest.mark.parametrize("values", [[math.nan, math.nan], [math.nan, -math.inf], [-math.inf, -math.inf]], ids=str)
def test_windows_of_nan_and_negative_infinity_yield_the_lowest_number(device, dtype, lowest, values):
    result = pool(device, np.array(values, dtype).reshape(1, 1, 1, 2), [1, 2])["OutputTensor"]
    assert result.ravel().tolist() == [lowest]
