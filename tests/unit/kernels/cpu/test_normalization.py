"""Rows normalized by their own moments on the CPU, against exact fractions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from opwire.tensor import Array
from tests.support.execution import run


def distances(answers: Array, row: Array) -> Iterator[float]:
    """Yields the distances, in ULP of the result, from the normalized row."""
    exact = [Fraction(float(x)) for x in row]
    mean = sum(exact, Fraction()) / len(exact)
    variance = sum(((x - mean) ** 2 for x in exact), Fraction()) / len(exact)
    with mp.workprec(200):
        deviation = mp.sqrt(mpf(variance.numerator) / variance.denominator)
        for x, answer in zip(exact, answers, strict=True):
            off = x - mean
            right = mpf(off.numerator) / off.denominator / deviation
            yield float(abs(mpf(float(answer)) - right)) / float(np.spacing(np.abs(np.float32(right))))


@pytest.mark.parametrize("length", [16, 100, 3000])
@pytest.mark.parametrize("mean", [0.0, 1.0, 1.7, 1.74, 3.0, 1000.0])
def test_results_next_to_the_mean_are_within_one_ulp(cpu_device, mean, length):
    random = np.random.default_rng(length)
    rows = (random.standard_normal((3, length)) + mean).astype(np.float32)
    near = rows.mean(1, keepdims=True)
    rows[:, 1:4] = near * np.array([1, 1 + 2.0**-23, 1 - 2.0**-22], np.float32)
    # The first element brings the mean back to the others.
    rows[:, :1] += length * (near - rows.astype(np.float64).mean(1, keepdims=True))
    fields = {"Axes": [1], "NormalizeVariance": True, "Epsilon": 0}
    results = run(cpu_device, "MEAN_VARIANCE_NORMALIZATION1", rows, **fields)["OutputTensor"]
    for answers, row in zip(results, rows, strict=True):
        assert max(distances(answers, row)) <= 1
