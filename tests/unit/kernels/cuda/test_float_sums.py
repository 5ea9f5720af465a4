"""Sums of a few floats for GPUs, compiled for the host: exact where they claim it."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest

from opwire.tensor import Array
from tests.support.gpu.on_host import COMPILER, library

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

_CALLS = """
template <int COUNT> static void add(long rows, const float *from, bool halves, double *sums, unsigned char *close) {
    for (long row = 0; row < rows; ++row) {
        FloatSum sum;
        Magnitudes sizes;
        for (int k = 0; k < COUNT; ++k) sum.add(from[row * COUNT + k]), sizes.add(from[row * COUNT + k]);
        sums[row] = sum.total(), close[row] = sizes.are_close<COUNT>(halves) && sum.is_finite();
    }
}
extern "C" void add_4(long n, const float *x, bool halves, double *sums, unsigned char *close) {
    add<4>(n, x, halves, sums, close);
}
extern "C" void add_32(long n, const float *x, bool halves, double *sums, unsigned char *close) {
    add<32>(n, x, halves, sums, close);
}
extern "C" void add_squares_32(long n, const float *x, bool, double *sums, unsigned char *close) {
    for (long row = 0; row < n; ++row) {
        FloatSum sum;
        for (int k = 0; k < 32; ++k) sum.add_square(x[row * 32 + k]);
        sums[row] = sum.total(), close[row] = sum.is_finite();
    }
}
"""


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("sums"), "float_sums", _CALLS)


def run(sums: ctypes.CDLL, name: str, rows: Array, *, halves: bool = False) -> tuple[Array, Array]:
    """Returns the sums of rows, and which of them are claimed to be exact."""
    rows = np.ascontiguousarray(rows, np.float32)
    found, close = np.empty(len(rows)), np.empty(len(rows), bool)
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (rows, found, close)]
    sums[name](ctypes.c_long(len(rows)), addresses[0], ctypes.c_bool(halves), *addresses[1:])
    return found, close


def drawn(count: int, spread: int) -> Array:
    """Returns rows of either sign whose exponents spread more or less."""
    draw = np.random.default_rng(2)
    sizes = np.exp2(
        draw.integers(-30, 30, (4000, 1)) + draw.uniform(0, 1, (4000, 1)) * draw.uniform(0, spread, (4000, count))
    )
    rows: Array = (sizes * draw.choice([-1, 1], sizes.shape)).astype(np.float32)
    return rows


@pytest.mark.parametrize("count", [4, 32])
@pytest.mark.parametrize("spread", [8, 16, 20, 40])
def test_sums_of_close_floats_are_exact(sums, count, spread):
    rows = drawn(count, spread)
    found, close = run(sums, f"add_{count}", rows)
    assert close.any()
    for row, value in zip(rows[close].tolist(), found[close].tolist(), strict=True):
        assert Fraction(value) == sum(map(Fraction, row))


def test_sums_of_floats_of_any_size_are_not_claimed_to_be_exact(sums):
    rows = drawn(32, 60)
    found, close = run(sums, "add_32", rows)
    is_exact = np.array(
        [Fraction(value) == sum(map(Fraction, row)) for row, value in zip(rows.tolist(), found.tolist(), strict=True)]
    )
    assert not is_exact.all()
    assert is_exact[close].all()


def test_sums_of_halves_are_exact(sums):
    bits = np.random.default_rng(4).integers(0, 1 << 16, (4000, 32), np.uint16)
    rows = bits.view(np.float16).astype(np.float32)
    rows[:2000] = np.clip(np.nan_to_num(rows[:2000]), -16384, 16384)
    rows[1000:] = np.where(np.abs(rows[1000:]) > 4000, 1, rows[1000:])
    found, close = run(sums, "add_32", rows, halves=True)
    assert close[:2000].all()
    for row, value in zip(rows[:2000].tolist(), found[:2000].tolist(), strict=True):
        assert Fraction(value) == sum(map(Fraction, row))


def test_sums_of_squares_are_accurate(sums):
    rows = drawn(32, 60)
    found, finite = run(sums, "add_squares_32", rows)
    assert finite.mean() > 0.5
    for row, value in zip(rows[finite].tolist(), found[finite].tolist(), strict=True):
        exact = sum(Fraction(each) ** 2 for each in row)
        assert abs(Fraction(value) - exact) <= exact / 2**37 + Fraction(32, 2**148)


def test_zeros_keep_their_sign(sums):
    found, close = run(sums, "add_4", np.array([[-0.0] * 4, [0.0, -0.0, -0.0, -0.0], [1, -1, -0.0, -0.0]], np.float32))
    assert close.all()
    assert np.signbit(found).tolist() == [True, False, False]


def test_infinities_and_overflow_are_not_close(sums):
    rows = np.array([[np.inf, 1, 1, 1], [np.inf] * 4, [3e38] * 4, [1, 2, np.nan, 3]], np.float32)
    found, close = run(sums, "add_4", rows)
    assert not close[:3].any()
    assert np.isnan(found[3]) or not close[3]


def test_squares_that_overflow_are_not_finite(sums):
    _, finite = run(sums, "add_squares_32", np.full((1, 32), 1e19, np.float32))
    assert not finite.any()
