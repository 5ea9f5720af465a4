"""Correctly rounded sums on the CPU device for data that plain summation gets wrong, in every code path."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import DataType
from tests.oracles import oracle
from tests.support.execution import execute, run

COUNTS = (2, 31, 33, 500, 2048, 5001, 40_000, 2**17 + 3)
"""Numbers of terms below, at and above the thresholds between loops, up to several segments."""

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE_HALVES = HALVES[np.isfinite(HALVES)]


def normals(random, shape, dtype):
    return random.standard_normal(shape).astype(dtype)


def integers(random, shape, dtype):
    """Integers whose sums are exact and often ties."""
    most = 3_000_000 if dtype == np.float32 else 2000
    return random.integers(-most // 2, most, shape).astype(dtype)


def cancelling(random, shape, dtype):
    """Terms over three orders of magnitude, of which the large ones cancel in pairs."""
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
    """Terms of similar magnitude whose sums are near the largest float."""
    greatest = np.finfo(dtype).max
    return random.choice(np.array([greatest, -greatest, greatest / 2], dtype), shape)


def any_finite(random, shape, dtype):
    if dtype == np.float16:
        return random.choice(FINITE_HALVES, shape)
    bits = random.integers(0, 2**32, shape, np.uint32).view(np.float32)
    return np.where(np.isfinite(bits), bits, np.float32(1))


def around_128(random, shape, dtype):
    """Values on both sides of 128, below which FLOAT16 is summed as 32-bit integers."""
    most = np.array([127.9375, 127.9375, -127.9375, -0.0, 6e-8, 128.0 if shape[1] % 2 else 1.0])
    return random.choice(most, shape).astype(dtype)


KINDS = (normals, integers, cancelling, subnormals, near_the_edge, any_finite, around_128)


def exact_sum(values: np.ndarray, power: int) -> Fraction:
    """Returns the exact sum of values or squares, computed in integers with a common exponent."""
    significands, exponents = np.frexp(values.astype(np.float64))
    total, least = 0, int(exponents.min())
    for exponent in np.unique(exponents).tolist():
        terms = np.ldexp(significands[exponents == exponent], 24).astype(np.int64) ** power
        # Halves of 48 bits, so that int64 can sum 2**38 of them.
        low, high = int((terms & 0xFFFFFF).sum()), int((terms >> 24).sum())
        total += ((high << 24) + low) << ((exponent - least) * power)
    return total * Fraction(2) ** ((least - 24) * power)


def exact_product(values: np.ndarray) -> Fraction:
    """Returns the exact product; Fraction would reduce after every factor."""
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    return Fraction(math.prod(top for top, _ in ratios), math.prod(bottom for _, bottom in ratios))


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
def test_a_million_terms_are_summed_with_one_rounding(cpu_device, kind):
    values = kind(np.random.default_rng(1), (1, 2**20), np.float32)
    result = run(cpu_device, "REDUCE", values, Function="SUM", Axes=[0, 1])["OutputTensor"][0, 0]
    assert oracle.same(result, right("SUM", values[0]))


@pytest.mark.parametrize("count", [3, 40, 2049, 2**17 + 5])
def test_a_tie_is_broken_by_the_last_bit_of_the_last_term(cpu_device, count):
    """A tie rounds to even, unless the least subnormal tips it."""
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
    # (2**24 + 1)**2 is a sum of two squares whose root is a tie.
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


FLOAT_FUNCTIONS = ("SUM", "AVERAGE", "L1", "L2", "SUM_SQUARE", "MULTIPLY", "LOG_SUM", "LOG_SUM_EXP")


def special_rows(random: np.random.Generator, dtype: Any) -> np.ndarray:
    """Returns rows of 40 elements with special values in all or only one of them."""
    rows: np.ndarray = np.abs(random.standard_normal((21, 40))).astype(dtype) + dtype(0.5)
    for row, value in zip(rows[:12:2], (np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max), strict=True):
        row[17] = value
    rows[12, [3, 33]] = np.inf, -np.inf
    rows[13, [3, 33]] = 0.0, np.inf
    rows[14], rows[15], rows[16], rows[17] = 0.0, -0.0, -1.0, np.finfo(dtype).max
    return rows


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("function", FLOAT_FUNCTIONS)
def test_special_values_affect_only_their_own_result(cpu_device, reference, function, dtype):
    """21 columns are more than one vector and less than two; each is next to ordinary ones."""
    rows = special_rows(np.random.default_rng(0), dtype)
    answers = run(reference, "REDUCE", rows, Function=function, Axes=[1])["OutputTensor"][:, 0]
    by_rows = run(cpu_device, "REDUCE", rows, Function=function, Axes=[1])["OutputTensor"][:, 0]
    agree = oracle.close if function.startswith("LOG") else oracle.same
    columns = np.ascontiguousarray(rows.T)
    by_columns = run(cpu_device, "REDUCE", columns, Function=function, Axes=[0])["OutputTensor"][0]
    for results in (by_rows, by_columns):
        assert [agree(mine, other) for mine, other in zip(results, answers, strict=True)] == [True] * 21


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("function", ["MULTIPLY", "LOG_SUM_EXP"])
@pytest.mark.parametrize(("count", "axis"), [(2**17 + 900, 1), (2500, 0)])
def test_special_values_count_in_any_segment(cpu_device, function, dtype, count, axis):
    """One row in three segments, or 21 columns in several."""
    values = np.ones((7, count), dtype)
    for row, value in zip(values, (np.nan, np.inf, -np.inf, 0.0, -0.0), strict=False):
        row[count // 2] = value
    values[5, :10], values[6, -10:] = np.inf, -np.inf
    values[5, -1] = values[6, 0] = 0.0
    with np.errstate(all="ignore"):
        product = values.astype(np.float64).prod(1)
        answers = product if function == "MULTIPLY" else np.log(np.exp(values.astype(np.float64)).sum(1))
    if axis == 1:
        results = [run(cpu_device, "REDUCE", row[None], Function=function, Axes=[1]) for row in values]
        found = np.concatenate([result["OutputTensor"].ravel() for result in results])
    else:
        columns = np.ascontiguousarray(np.repeat(values.T, 3, axis=1))
        found = run(cpu_device, "REDUCE", columns, Function=function, Axes=[0])["OutputTensor"].ravel()[::3]
    agree = oracle.close if function.startswith("LOG") else oracle.same
    assert [agree(mine, dtype(answer)) for mine, answer in zip(found, answers, strict=True)] == [True] * 7


@pytest.mark.parametrize("count", [130, 2500])
def test_segments_of_infinities_are_handled(cpu_device, count):
    """Sums of exponentials to which most rows contribute nothing, next to columns to which all do."""
    values = np.full((count, 20), -np.inf, np.float32)
    values[-1] = np.linspace(-1000, 1000, 20)
    values[:, 7] = 0.5
    results = run(cpu_device, "REDUCE", values, Function="LOG_SUM_EXP", Axes=[0])["OutputTensor"][0]
    values[-1, 7] = 0.5 + math.log(count)
    assert all(map(oracle.close, results, values[-1]))


@pytest.mark.parametrize("scale", [-140, -110, -80, -62, 0, 62, 66, 100])
def test_squares_that_overflow_stay_within_the_bound(cpu_device, scale):
    """Terms of one magnitude, plus others that cancel except for their last bits."""
    random = np.random.default_rng(scale + 200)
    values = np.ldexp(random.standard_normal((20, 300)), scale).astype(np.float32)
    values[:, 150:] = -values[:, :150] * np.float32(1 + 2**-22)
    values[::2, 7] = np.ldexp(np.float32(1), -120)
    for shaped, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        results = run(cpu_device, "REDUCE", shaped, Function="SUM", Axes=[axis])["OutputTensor"].ravel()
        for row, result in zip(values, results, strict=True):
            assert oracle.same(result, right("SUM", row))


@pytest.mark.parametrize(("rows", "columns"), [(5000, 21), (3000, 200), (40_000, 12)])
@pytest.mark.parametrize("kind", [integers, cancelling], ids=lambda kind: kind.__name__)
def test_columns_that_plain_sums_cannot_round(cpu_device, kind, rows, columns):
    """In one and in several segments; whole vectors of columns and a remainder."""
    values = kind(np.random.default_rng(rows), (columns, rows), np.float32)
    for function in ("SUM", "AVERAGE", "SUM_SQUARE"):
        results = run(cpu_device, "REDUCE", np.ascontiguousarray(values.T), Function=function, Axes=[0])
        for column, result in zip(values, results["OutputTensor"][0], strict=True):
            assert oracle.same(result, right(function, column))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("function", FLOAT_FUNCTIONS)
def test_strided_inputs_match_packed_ones(cpu_device, function, dtype):
    values = np.exp2(np.random.default_rng(1).standard_normal((37, 53)) * 0.1).astype(dtype)
    spread = np.zeros((37, 53, 3), dtype)
    spread[:, :, 0] = values
    for axis in (0, 1):
        packed = run(cpu_device, "REDUCE", values, Function=function, Axes=[axis])["OutputTensor"]
        tensor = {"DataType": DataType.of(values.dtype).name, "Sizes": [37, 53], "Strides": [159, 3]}
        plan = check({"type": "REDUCE", "desc": {"InputTensor": tensor, "Function": function, "Axes": [axis]}})
        strided = execute(cpu_device, plan, {"InputTensor": spread.tobytes()})["OutputTensor"]
        agree = oracle.close if function.startswith("LOG") else oracle.same
        assert all(map(agree, strided.ravel(), packed.ravel()))


@pytest.mark.parametrize("power", [40, 61, 100, 126])
def test_partial_products_can_overflow_and_return(cpu_device, power):
    """At least sixteen factors with exponents of one sign, then as many of the other."""
    random = np.random.default_rng(power)
    factors = np.ldexp(1 + random.integers(0, 2**13, (19, 600)) * 2.0**-23, power * np.repeat([1, -1], 300))
    values = (factors * random.choice([1, -1], factors.shape)).astype(np.float32)
    values[:, 299] = np.ldexp(values[:, 299], -8)
    answers = [oracle.rounded(exact_product(row), values.dtype) for row in values]
    for shaped, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        results = run(cpu_device, "REDUCE", shaped, Function="MULTIPLY", Axes=[axis])["OutputTensor"].ravel()
        assert all(map(oracle.same, results, answers))


@pytest.mark.parametrize("rows", [64, 601])
def test_products_of_subnormals_can_return_into_range(cpu_device, rows):
    random = np.random.default_rng(rows)
    small = random.integers(1, 2**12, (19, rows)) * 2.0**-149
    large = 1 + random.integers(0, 2**23, (19, 2 * rows)) * 2.0**-23
    missing = -(np.log2(small).sum(1) + np.log2(large).sum(1)).round().astype(int)
    exponents = (missing[:, None] + np.arange(2 * rows)) // (2 * rows)
    values = np.concatenate([small, np.ldexp(large, exponents)], axis=1).astype(np.float32)
    answers = [exact_product(row) for row in values]
    assert all(0.1 < answer < 10 for answer in answers)
    for shaped, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        results = run(cpu_device, "REDUCE", shaped, Function="MULTIPLY", Axes=[axis])["OutputTensor"].ravel()
        for answer, result in zip(answers, results, strict=True):
            assert oracle.same(result, oracle.rounded(answer, values.dtype))


@pytest.mark.parametrize("around", [-70.0, -4.0, 0.0, 1e-3, 0.01, 3.99, 4.01, 20.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_log_sum_exp_around_precision_thresholds(cpu_device, dtype, around):
    random = np.random.default_rng(7)
    rows = (around - math.log(200) + 1e-3 * random.standard_normal((4, 200))).astype(dtype)
    right = [oracle.FLOATS["LOG_SUM_EXP"]([float(x) for x in row], row.dtype) for row in rows]
    values, answers = np.tile(rows, (5, 1))[:19], (right * 5)[:19]  # a vector of lines, and some more
    for shaped, axis in ((values, 1), (np.ascontiguousarray(values.T), 0)):
        results = run(cpu_device, "REDUCE", shaped, Function="LOG_SUM_EXP", Axes=[axis])["OutputTensor"].ravel()
        for answer, result in zip(answers, results, strict=True):
            assert oracle.close(result, answer)


@pytest.mark.parametrize("around", [1e-3, 0.02, 1.0, 1.005, 1.02, 54.0, 75.5, 77.0, 1e4, 1e37])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [64, 2080])
def test_log_sum_around_precision_thresholds(cpu_device, dtype, around, count):
    random = np.random.default_rng(8)
    of_all = min(around, 60_000.0) if dtype == np.float16 else around
    values = np.repeat(of_all / count * (1 + 0.3 * random.random((4, count))), 4, axis=0)
    values[1::4] *= random.choice([1, -0.999], count)  # makes terms cancel
    values[2::4, count // 2 :] *= 30  # makes segments differ
    values[3::4, -1] *= -1
    values = values.astype(dtype)
    rows = run(cpu_device, "REDUCE", values, Function="LOG_SUM", Axes=[1])["OutputTensor"].ravel()
    transposed = np.ascontiguousarray(values.T)
    columns = run(cpu_device, "REDUCE", transposed, Function="LOG_SUM", Axes=[0])["OutputTensor"].ravel()
    for i in range(4 if count > 64 else len(values)):
        answer = oracle.FLOATS["LOG_SUM"]([float(x) for x in values[i]], values.dtype)
        assert oracle.close(rows[i], answer), i
        assert oracle.close(columns[i], answer), i


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_segments_can_cancel_in_a_logarithm(cpu_device, dtype):
    values = np.full((1, 2**17 + 64), 0.1, dtype)
    values[0, 2**16 : 2**17] = -values[0, 0]
    result = run(cpu_device, "REDUCE", values, Function="LOG_SUM", Axes=[1])["OutputTensor"].ravel()[0]
    assert oracle.close(result, oracle.FLOATS["LOG_SUM"]([float(values[0, 0])] * 64, values.dtype))


def test_log_sum_does_not_overflow_near_the_largest_float(cpu_device):
    values = np.full((16, 64), 3e38, np.float32)
    for axis in (0, 1):
        results = run(cpu_device, "REDUCE", values, Function="LOG_SUM", Axes=[axis])["OutputTensor"].ravel()
        assert np.allclose(results, math.log(3e38) + math.log(64 if axis else 16), rtol=1e-6)
