"""Max pooling on every device: ties, NaN, padding and indices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import oracle
from tests.execution import run


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


POOLED = np.array([[[[1, 2, 2], [math.nan, math.nan, 0], [math.nan, math.nan, -math.inf]]]], np.float32)


def test_pooling_finds_maxima_and_indices(device):
    result = pool(device, POOLED, [2, 2], OutputIndicesTensor={"DataType": "UINT64", "Sizes": [1, 1, 2, 2]})
    assert result["OutputTensor"][0, 0, 0, 0] == 2
    assert math.isnan(result["OutputTensor"][0, 0, 1, 0])
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
    for array in (np.full((1, 1, 2, 2), -math.inf, np.float32), np.full((1, 1, 2, 2), -128, np.int8)):
        indices = {"DataType": "UINT32", "Sizes": [1, 1, 3, 3]}
        result = pool(device, array, [2, 2], StartPadding=[1, 1], EndPadding=[1, 1], OutputIndicesTensor=indices)
        assert set(result["OutputTensor"].ravel().tolist()) == {array.ravel()[0].item()}
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


@pytest.mark.parametrize(
    ("dtype", "payloads"), [(np.float16, [0x7C05, 0x7E09]), (np.float32, [0x7F800005, 0x7FC00009])]
)
def test_all_nan_windows_yield_the_first_with_its_bits(device, dtype, payloads):
    bits = np.array(payloads, f"u{dtype().itemsize}")
    result = pool(device, bits.view(dtype).reshape(1, 1, 1, 2), [1, 2])["OutputTensor"]
    assert int(result.view(bits.dtype)[0, 0, 0, 0]) == payloads[0]
