"""Rounding in exact arithmetic: every tie of FLOAT16, random FLOAT32, subnormals and overflow."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.tensor import DataType
from opwire_service.kernels import exact
from opwire_service.kernels.exact import FLOAT16, FLOAT32, ExactProduct, ProductBounds
from tests.oracles import oracle

FORMATS = [pytest.param(row, id=row.data_type.name) for row in (FLOAT16, FLOAT32)]
HALVES = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
"""Every FLOAT16 from 0 to the largest finite one, in order."""


def floats(seed: int, count: int, dtype=np.float32):
    """Returns finite floats with random bits."""
    bits = np.random.default_rng(seed).integers(0, 2 ** (dtype().itemsize * 8), count, np.uint64)
    values = bits.astype(f"u{dtype().itemsize}").view(dtype)
    return values[np.isfinite(values)]


def rounded(number: Fraction, to: exact.FloatFormat):
    return exact.round_ratio(number.numerator, number.denominator, to)


def root(number: Fraction, to: exact.FloatFormat):
    return exact.round_root(number.numerator, number.denominator, to)


def bits(value) -> int:
    return int.from_bytes(value.tobytes(), "little")


def test_format_constants_match_numpy():
    for row in (FLOAT16, FLOAT32):
        info = np.finfo(row.dtype)
        assert 2.0**row.unit == float(info.smallest_subnormal)
        assert bits(info.max) + 1 == row.infinity
        assert bits(row.of(-0.0)) == row.sign


def test_every_half_rounds_to_itself():
    for value in HALVES:
        assert bits(rounded(Fraction(float(value)), FLOAT16)) == bits(value)
        assert bits(rounded(-Fraction(float(value)), FLOAT16)) == (bits(value) | 0x8000 if value else 0)


def test_every_tie_of_halves_rounds_to_even():
    tops = [Fraction(float(value)) for value in HALVES] + [Fraction(2) ** 16]
    nudge = Fraction(1, 2**60)
    for below in range(len(HALVES)):
        middle = (tops[below] + tops[below + 1]) / 2
        even = below + below % 2
        assert bits(rounded(middle, FLOAT16)) == even
        assert bits(rounded(middle - nudge, FLOAT16)) == below
        assert bits(rounded(middle + nudge, FLOAT16)) == below + 1
        assert bits(rounded(-middle, FLOAT16)) == even | 0x8000


def test_overflow_begins_half_an_ulp_above_the_largest():
    for row, greatest, step in ((FLOAT16, 65504, 32), (FLOAT32, 2**128 - 2**104, 2**104)):
        edge = greatest + step // 2
        assert rounded(edge - Fraction(1, 3), row) == greatest
        assert math.isinf(rounded(Fraction(edge), row))
        assert rounded(Fraction(-edge), row) == -math.inf
        assert math.isinf(exact.round_scaled(1, 10**12, row))


def test_underflow_keeps_the_sign():
    for row in (FLOAT16, FLOAT32):
        least = Fraction(2) ** row.unit
        assert bits(rounded(least / 2, row)) == 0
        assert bits(rounded(-least / 2, row)) == row.sign
        assert bits(rounded(least * Fraction(501, 1000), row)) == 1
        assert bits(exact.round_scaled(-3, -(10**12), row)) == row.sign


@pytest.mark.parametrize("row", FORMATS)
def test_doubles_round_as_in_numpy(row):
    # NumPy rounds a float64 once, so it is an oracle for values that a float64 can hold.
    generator = np.random.default_rng(5)
    info = np.finfo(row.dtype)
    spread = generator.uniform(info.minexp - info.nmant - 3, info.maxexp + 1, 20_000)
    doubles = generator.choice([-1.0, 1.0], spread.size) * generator.uniform(1, 2, spread.size) * 2.0**spread
    with np.errstate(over="ignore", under="ignore"):
        right = doubles.astype(row.dtype)
    for double, value in zip(doubles.tolist(), right, strict=True):
        assert bits(rounded(Fraction(double), row)) == bits(value)


@given(st.fractions(), st.integers(-160, 130), st.sampled_from([FLOAT16, FLOAT32]))
def test_fractions_round_to_the_nearest(number, exponent, row):
    number *= Fraction(2) ** exponent
    assert bits(rounded(number, row)) == bits(oracle.rounded(number, row.dtype))


@given(st.integers(-(2**60), 2**60), st.integers(-300, 300), st.sampled_from([FLOAT16, FLOAT32]))
def test_scaled_integers_round_like_fractions(integer, exponent, row):
    right = oracle.rounded(integer * Fraction(2) ** exponent, row.dtype)
    assert bits(exact.round_scaled(integer, exponent, row)) == bits(right)


def test_roots_of_all_halves_are_correctly_rounded():
    # A float64 root has more than twice the bits of a half, so rounding it again is safe.
    for value in HALVES:
        right = np.float16(math.sqrt(value))
        assert root(Fraction(float(value)), FLOAT16) == right


def test_roots_of_random_floats_are_correctly_rounded():
    values = np.abs(floats(1, 20_000))
    for value, right in zip(values.tolist(), np.sqrt(values.astype(np.float64)).astype(np.float32), strict=True):
        assert root(Fraction(value), FLOAT32) == right


@given(st.integers(0, 2**200), st.integers(1, 2**100), st.sampled_from([FLOAT16, FLOAT32]))
def test_roots_of_fractions_are_correctly_rounded(numerator, denominator, row):
    number = Fraction(numerator, denominator)
    assert exact.round_root(numerator, denominator, row) == oracle.rounded_root(number, row.dtype)


@pytest.mark.parametrize(
    ("significand", "exponent"),
    [
        (3, -150),
        (2**23 - 1, -150),
        (2**24 + 1, -150),
        (2**24 + 1, -1),
        (2**24 + 3, 40),
        (2**25 - 1, 0),
        (2**25 - 1, 102),
    ],
)
def test_roots_that_are_ties_round_to_even(significand, exponent):
    # The root is a tie, at first between subnormal floats.
    middle = Fraction(significand) * Fraction(2) ** exponent
    nudge = middle**2 / 2**80
    below = root(middle**2 - nudge, FLOAT32)
    above = root(middle**2 + nudge, FLOAT32)
    tie = root(middle**2, FLOAT32)
    assert below < above
    assert bits(tie) in (bits(below), bits(above))
    assert bits(tie) % 2 == 0


@pytest.mark.parametrize("row", FORMATS)
def test_parts_add_up_to_the_value(row):
    values = floats(2, 2000, row.dtype.type)
    integers, shifts = row.parts(values)
    for value, integer, shift in zip(values.tolist(), integers.tolist(), shifts.tolist(), strict=True):
        assert Fraction(value) == integer * Fraction(2) ** (shift + row.unit)


def test_integer_sum_is_exact():
    generator = random.Random(3)
    integers = [generator.randrange(-(2**48) + 1, 2**48) for _ in range(5000)]
    shifts = [generator.randrange(0, 510) for _ in range(5000)]
    right = sum(integer << shift for integer, shift in zip(integers, shifts, strict=True))
    assert exact.integer_sum(np.array(integers), np.array(shifts)) == right


def test_sums_do_not_depend_on_chunks():
    values = floats(4, 3000)
    for function in (exact.exact_sum, exact.average, exact.l1, exact.l2, exact.sum_square, exact.multiply):
        whole = function([values], FLOAT32)
        assert bits(function(np.array_split(values, 17), FLOAT32)) == bits(whole)


@given(st.lists(st.integers(1, 2**24 - 1), min_size=1, max_size=40), st.integers(8, 200))
def test_intervals_contain_the_product(factors, width):
    interval = ProductBounds(width)
    for factor in factors:
        interval.multiply(factor, -7)
    product = math.prod(factors) * Fraction(2) ** (-7 * len(factors))
    scale = Fraction(2) ** interval.exponent
    assert interval.low * scale <= product <= interval.high * scale
    assert interval.low.bit_length() <= width
    odd = product.numerator >> ((product.numerator & -product.numerator).bit_length() - 1)
    if odd.bit_length() <= width:
        assert interval.low == interval.high


# 2**24 + 3 is a tie, and 2**72 - 1 tips it in its 72nd bit.
TIE = [1549, 10831]
ALMOST_POWER = [27, 5, 7, 13, 17, 19, 37, 73, 109, 241, 433, 38737]


def test_a_product_that_is_a_tie_rounds_to_even():
    assert math.prod(TIE) == 2**24 + 3
    assert exact.multiply([np.array(TIE, np.float32)], FLOAT32) == 2**24 + 4
    assert exact.multiply([np.array([-TIE[0], TIE[1]], np.float32)], FLOAT32) == -(2**24) - 4


def test_a_product_just_below_a_tie_rounds_down():
    assert math.prod(ALMOST_POWER) == 2**72 - 1
    factors = np.array([*TIE, *ALMOST_POWER, 2.0**-72], np.float32)
    narrow = ExactProduct(FLOAT32, ProductBounds(40))
    narrow.multiply(factors)
    assert narrow.rounded() is None
    assert exact.multiply([factors], FLOAT32, bits=40) == 2**24 + 2
    assert exact.multiply([factors], FLOAT32) == 2**24 + 2


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool), min_size=1, max_size=60))
def test_products_of_floats_are_correctly_rounded(values):
    right = oracle.rounded(math.prod(map(Fraction, values), start=Fraction(1)), np.dtype(np.float32))
    assert bits(exact.multiply([np.array(values, np.float32)], FLOAT32, bits=30)) == bits(right)


def test_a_long_product_is_correctly_rounded():
    factors = np.random.default_rng(6).uniform(0.5, 2, 2**15).astype(np.float32)
    inverses = (1 / factors).astype(np.float32)
    logarithm = math.fsum(math.log2(value) for value in [*factors.tolist(), *inverses.tolist()])
    product = exact.multiply([factors, inverses], FLOAT32)
    assert float(product) == pytest.approx(2**logarithm, rel=2**-23)


def test_formats_match_the_float_types():
    assert set(exact.FORMATS) == {DataType.FLOAT16, DataType.FLOAT32}
