"""The CPU device rounds sums correctly on data that plain summation gets wrong, whichever loops it takes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests import oracle
from tests.execution import run

COUNTS = (2, 31, 33, 500, 2048, 5001, 40_000, 2**17 + 3)
"""Terms: below, at and above what changes the loops, up to several segments."""

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE_HALVES = HALVES[np.isfinite(HALVES)]


def normals(random, shape, dtype):
    return random.standard_normal(shape).astype(dtype)


def integers(random, shape, dtype):
    """Their sums are exact and often half-way between two floats."""
    most = 3_000_000 if dtype == np.float32 else 2000
    return random.integers(-most // 2, most, shape).astype(dtype)


def cancelling(random, shape, dtype):
    """Terms over three magnitudes of which the large ones cancel in pairs."""
    terms = random.standard_normal(shape) * 10.0 ** random.integers(-4, 4, shape)
    half = shape[1] // 2
    terms[:, half : 2 * half] = -terms[:, :half] * (1 + (random.random((shape[0], half)) < 0.01) * 2.0**-20)
    return random.permuted(terms, axis=1).astype(dtype)


def subnormals(random, shape, dtype):
    bits = {np.float32: np.uint32, np.float16: np.uint16}[dtype]
    top = {np.float32: 0x00800000, np.float16: 0x0400}[dtype]
    values = random.integers(0, top, shape).astype(bits).view(dtype)
    return np.where(random.random(shape) < 0.5, values, -values)


def near_the_edge(random, shape, dtype):
    """Sums near the greatest float, from terms of the same magnitude."""
    greatest = np.finfo(dtype).max
    return random.choice(np.array([greatest, -greatest, greatest / 2], dtype), shape)


def any_finite(random, shape, dtype):
    if dtype == np.float16:
        return random.choice(FINITE_HALVES, shape)
    bits = random.integers(0, 2**32, shape, np.uint32).view(np.float32)
    return np.where(np.isfinite(bits), bits, np.float32(1))


KINDS = (normals, integers, cancelling, subnormals, near_the_edge, any_finite)


def exact_sum(values: np.ndarray, power: int) -> Fraction:
    """The exact sum of values or of their squares, by integers of one exponent each."""
    significands, exponents = np.frexp(values.astype(np.float64))
    total = Fraction(0)
    for exponent in np.unique(exponents):
        terms = np.ldexp(significands[exponents == exponent], 24).astype(np.int64) ** power
        # Halves of 48 bits, so that int64 adds up 2**38 of them.
        low, high = int((terms & 0xFFFFFF).sum()), int((terms >> 24).sum())
        total += ((high << 24) + low) * Fraction(2) ** ((int(exponent) - 24) * power)
    return total


def right(function: str, values: np.ndarray) -> object:
    dtype = values.dtype
    with np.errstate(over="ignore"):
        if function in ("SUM_SQUARE", "L2"):
            total = exact_sum(values, 2)
            if function == "SUM_SQUARE":
                return oracle.rounded(total, dtype)
            return oracle.FLOATS["L2"]([float(value) for value in values], dtype)
        total = exact_sum(np.abs(values) if function == "L1" else values, 1)
        return oracle.rounded(total / (values.size if function == "AVERAGE" else 1), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", COUNTS)
def test_rows_and_columns_are_rounded_once(cpu_device, count, kind, dtype):
    random = np.random.default_rng(count)
    values = kind(random, (8 if count < 10_000 else 1, count), dtype)
    functions = ("SUM", "AVERAGE", "L1", "SUM_SQUARE") if count > 5001 else ("SUM", "AVERAGE", "L1", "SUM_SQUARE", "L2")
    for function in functions:
        by_rows = run(cpu_device, "REDUCE", values, Function=function, Axes=[1])["OutputTensor"][:, 0]
        transposed = np.ascontiguousarray(np.repeat(values.T, 2, axis=1))
        by_columns = run(cpu_device, "REDUCE", transposed, Function=function, Axes=[0])["OutputTensor"][0, ::2]
        for i, row in enumerate(values):
            answer = right(function, row)
            assert oracle.same(by_rows[i], answer), (function, i)
            assert oracle.same(by_columns[i], answer), (function, i)


@pytest.mark.parametrize("kind", [normals, integers, cancelling], ids=lambda kind: kind.__name__)
def test_a_million_terms_are_rounded_once(cpu_device, kind):
    values = kind(np.random.default_rng(1), (1, 2**20), np.float32)
    result = run(cpu_device, "REDUCE", values, Function="SUM", Axes=[0, 1])["OutputTensor"][0, 0]
    assert oracle.same(result, right("SUM", values[0]))


@pytest.mark.parametrize("count", [3, 40, 2049, 2**17 + 5])
def test_a_tie_is_broken_by_the_last_bit_of_the_last_term(cpu_device, count):
    """A sum half-way between two floats goes to the even one; the least subnormal decides otherwise."""
    values = np.zeros(count, np.float32)
    values[[0, count // 2]] = 2**24, 1
    for last, answer in ((0.0, 2**24), (1e-45, 2**24 + 2), (-1e-45, 2**24)):
        values[-1] = last
        for shaped, axis in ((values[None, :], 1), (np.repeat(values[:, None], 9, axis=1), 0)):
            result = run(cpu_device, "REDUCE", np.ascontiguousarray(shaped), Function="SUM", Axes=[axis])
            assert (result["OutputTensor"] == answer).all()


def test_averages_and_roots_break_exact_ties_to_even(cpu_device):
    ulp = 2.0**-23
    means = np.array([[1, 1 + ulp], [1 + ulp, 1 + 2 * ulp]], np.float32)
    averages = run(cpu_device, "REDUCE", means, Function="AVERAGE", Axes=[1])["OutputTensor"][:, 0]
    assert averages.tolist() == [1, 1 + 2 * ulp]
    # (2**24 + 1)**2 is a sum of two squares, and its root lies half-way between two floats.
    hypotenuse = 2**24 + 1
    leg = next(a for a in range(1, hypotenuse) if math.isqrt(hypotenuse**2 - a * a) ** 2 == hypotenuse**2 - a * a)
    legs = leg, math.isqrt(hypotenuse**2 - leg**2)
    roots = run(cpu_device, "REDUCE", np.array([legs], np.float32), Function="L2", Axes=[1])["OutputTensor"]
    assert roots.tolist() == [[2.0**24]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [2, 33, 3000, 2**17 + 9])
def test_products_are_rounded_once(cpu_device, count, dtype):
    random = np.random.default_rng(count)
    factors = np.exp2(random.integers(-1, 2, (3, count))) * random.choice([1, -1], (3, count))
    factors[:, :20] *= random.choice([1, 3, 5, 1.5], (3, min(count, 20)))
    values = factors.astype(dtype)
    by_rows = run(cpu_device, "REDUCE", values, Function="MULTIPLY", Axes=[1])["OutputTensor"][:, 0]
    columns = np.ascontiguousarray(np.repeat(values.T, 4, axis=1))
    by_columns = run(cpu_device, "REDUCE", columns, Function="MULTIPLY", Axes=[0])["OutputTensor"][0, ::4]
    for i, row in enumerate(values):
        significands, exponents = np.frexp(row.astype(np.float64))
        odd, shift = 1, int(exponents.sum())
        for significand in significands.tolist():
            top, bottom = significand.as_integer_ratio()
            odd *= top
            shift -= bottom.bit_length() - 1
        answer = oracle.rounded(odd * Fraction(2) ** max(min(shift, 2000), -2000), values.dtype)
        assert oracle.same(by_rows[i], answer)
        assert oracle.same(by_columns[i], answer)
