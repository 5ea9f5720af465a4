"""Logarithms of exact sums are correctly rounded, including those of sums close to 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire_service.kernels.exact import FLOAT16, FLOAT32
from opwire_service.kernels.logarithm import log_sum, log_sum_exp
from tests.oracles import oracle

FUNCTIONS = {"LOG_SUM": log_sum, "LOG_SUM_EXP": log_sum_exp}
LEAST = 2.0**-149


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_near_zero_are_exact(count):
    assert log_sum([np.array([1, *[LEAST] * count], np.float32)], FLOAT32) == count * LEAST
    assert log_sum([np.array([1, *[-LEAST] * count], np.float32)], FLOAT32) == -count * LEAST
    # exp(-103.2789) is 2**-149 to four digits, and so is its contribution to the logarithm.
    assert log_sum_exp([np.array([0, *[-103.2789] * count], np.float32)], FLOAT32) == count * LEAST


@given(
    st.sampled_from(list(FUNCTIONS)),
    st.sampled_from([FLOAT16, FLOAT32]),
    st.lists(
        st.floats(-20, 20) | st.floats(0.5, 1) | st.sampled_from([0.0, 1.0, -103.0, -17.0]), min_size=1, max_size=8
    ),
)
def test_results_are_correctly_rounded(function, row, numbers):
    values = np.array(numbers, row.dtype)
    right = oracle.FLOATS[function](values.tolist(), row.dtype)
    assert oracle.same(FUNCTIONS[function]([values], row), right)
