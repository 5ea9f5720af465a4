"""Rows whose results are close to ties of floats."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tests.oracles.oracle import rounded
from tests.support.elements import answer, plan_of


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("greatest", [30, 50, 100])
def test_logarithms_that_barely_move_ties_are_rounded_down(cpu, dtype, greatest):
    """Many differences of floats are ties, and the logarithm of the sum is only just positive."""
    row = np.append(np.random.default_rng(8).standard_normal(1999), greatest).astype(dtype)
    inputs = {"InputTensor": row.reshape(1, -1)}
    found = answer(cpu, plan_of("ACTIVATION_LOG_SOFTMAX", inputs), inputs).reshape(-1)
    with mpmath.workprec(400):
        logarithm = mpmath.log1p(mpmath.fsum(mpmath.exp(mpmath.mpf(float(x)) - greatest) for x in row[:-1]))
        moved = Fraction(int(mpmath.floor(logarithm * 2**300)), 2**300)
    right = np.array([rounded(Fraction(float(x)) - greatest - moved, np.dtype(dtype)) for x in row], dtype)
    np.testing.assert_array_equal(found, right)
