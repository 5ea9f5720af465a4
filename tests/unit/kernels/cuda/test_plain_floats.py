"""Running sums in floats for GPUs, compiled for the host: within their bound, and rounded as the exact sum."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from opwire.tensor import Array
from tests.support.gpu.on_host import COMPILER, library

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

COUNT = 16

_BEFORE = """
#define EXCLUSIVE 0
#define HALF 0
typedef INPUT Input;
typedef INPUT Output;
static u32 greatest_of_warp(u32 x) { return x; }
static void atomicMax(u32 *to, u32 x) { *to = max(*to, x); }
template <class T> static T two_sum(T a, T b, T &error) {
    T sum = a + b, other = sum - a;
    error = (a - (sum - other)) + (b - other);
    return sum;
}
// Rounds a sum towards an infinity, with the sign of zero that this direction has.
static float towards(float a, float b, float end) {
    float error, sum = two_sum(a, b, error);
    if (a == -b) return signbit(a) == signbit(b) ? a : end > 0 ? 0.0f : -0.0f;
    return error != 0 && (error > 0) == (end > 0) ? nextafterf(sum, end) : sum;
}
static float __fadd_ru(float a, float b) { return towards(a, b, INFINITY); }
static float __fadd_rd(float a, float b) { return towards(a, b, -INFINITY); }
static float __double2float_ru(double x) { return (float)x < x ? nextafterf((float)x, INFINITY) : (float)x; }
struct Extent;
struct Plain;
struct Running {
    double high, low;
    float greatest;
    u32 inexact;
    void clear() { high = -0.0, low = 0, greatest = 0, inexact = 0; }
    template <u32 COUNT> bool results(const Plain &, const Extent &, const Input (&)[COUNT], Output *) const;
    template <u32 COUNT> bool exact_results(const Plain &, const Input (&)[COUNT], Output *) const;
};
"""

_CALLS = """
// The running sums of 16 elements after `threads` times as many, merged as by the threads of a warp.
extern "C" void run(
    long rows, u32 threads, const Input *from, Output *to, unsigned char *settled, float *parts, double *wide
) {
    for (long row = 0; row < rows; ++row, from += 16 * (threads + 1)) {
        Plain sums[64];
        Extent extent;
        extent.clear();
        for (u32 i = 0; i < threads; ++i) {
            const Input(&own)[16] = *(const Input(*)[16])(from + 16 * i);
            sums[i].clear(), sums[i].take_all(own);
            for (u32 k = 0; k < 16; ++k) extent.cover(own[k]);
        }
        for (u32 apart = 1; apart < threads; apart *= 2)
            for (u32 i = threads - 1; i >= apart; --i) sums[i].merge(sums[i - apart]);
        Plain before;
        before.clear();
        if (threads) before = sums[threads - 1];
        const Input(&own)[16] = *(const Input(*)[16])(from + 16 * threads);
        settled[row] = before.results(own, to + 16 * row);
        parts[3 * row] = before.high, parts[3 * row + 1] = before.low, parts[3 * row + 2] = before.lost;
        Running exact = before.running(extent);
        wide[2 * row] = exact.high, wide[2 * row + 1] = exact.low;
    }
}
extern "C" void go_on(long rows, const double *before, const Input *from, Output *to, unsigned char *settled) {
    for (long row = 0; row < rows; ++row) {
        Running running;
        Plain none;
        Extent extent;
        running.clear(), none.clear(), extent.clear();
        running.high = before[2 * row], running.low = before[2 * row + 1];
        settled[row] = running.results(none, extent, *(const Input(*)[16])(from + 16 * row), to + 16 * row);
    }
}
"""


class Found(NamedTuple):
    """What a compiled run returns: running sums, whether a row is settled, and the sum before it in two ways."""

    sums: Array
    settled: Array
    parts: Array
    wide: Array


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[type, ctypes.CDLL]:
    return {
        dtype: library(tmp_path_factory.mktemp(name), "cumulative/plain_floats", _CALLS, _BEFORE.replace("INPUT", name))
        for dtype, name in ((np.float32, "f32"), (np.float16, "f16"))
    }


def run(libraries: dict[type, ctypes.CDLL], elements: Array) -> Found:
    """Returns the last 16 running sums of each row."""
    rows, count = elements.shape
    found = Found(
        np.empty((rows, COUNT), elements.dtype),
        np.empty(rows, bool),
        np.empty((rows, 3), np.float32),
        np.empty((rows, 2)),
    )
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (elements, *found)]
    libraries[elements.dtype.type].run(ctypes.c_long(rows), ctypes.c_uint32(count // COUNT - 1), *addresses)
    return found


def drawn(dtype: type, threads: int, spread: int) -> Array:
    """Returns rows of either sign whose exponents spread more or less."""
    draw = np.random.default_rng([threads, spread])
    shape = 100, COUNT * (threads + 1)
    base = draw.integers(-30, 30, (100, 1)) if dtype is np.float32 else draw.integers(-10, 5, (100, 1))
    sizes = np.exp2(base - draw.uniform(0, 1, (100, 1)) * draw.uniform(0, spread, shape))
    rows: Array = (sizes * draw.choice([-1, 1], shape)).astype(dtype)
    return rows


def nearest(number: Fraction, dtype: type) -> float:
    """Returns the float nearest to a number, ties to even; there is no overflow and no zero."""
    bits, least = (24, -149) if dtype is np.float32 else (11, -24)
    exponent = max(_exponent(number) - bits + 1, least)
    unit = Fraction(2) ** exponent
    return float(round(number / unit) * unit)


def _exponent(number: Fraction) -> int:
    found = abs(number).numerator.bit_length() - abs(number).denominator.bit_length()
    return found if Fraction(2) ** found <= abs(number) else found - 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("threads", [0, 1, 16])
@pytest.mark.parametrize("spread", [6, 20, 60])
def test_settled_sums_are_rounded_once(libraries, dtype, threads, spread):
    elements = drawn(dtype, threads, spread)
    found = run(libraries, elements)
    assert found.settled.mean() > 0.5
    for row, parts, wide in zip(elements, found.parts, found.wide, strict=True):
        exact = [Fraction(float(each)) for each in row]
        before = sum(exact[:-COUNT], Fraction(0))
        high, low, lost = (Fraction(float(each)) for each in parts)
        assert abs(high + low - before) <= lost * Fraction(1001, 1000)
        if lost == 0:
            assert sum(map(Fraction, wide.tolist())) == before
    for row, sums in zip(elements[found.settled], found.sums[found.settled], strict=True):
        exact = [Fraction(float(each)) for each in row]
        total = sum(exact[:-COUNT], Fraction(0))
        for element, result in zip(exact[-COUNT:], sums.tolist(), strict=True):
            total += element
            assert result == nearest(total, dtype) if total else result == 0


def test_whole_numbers_are_settled_in_the_middle_of_two_floats(libraries):
    elements = np.random.default_rng(5).integers(0, 1 << 24, (200, 17 * COUNT)).astype(np.float32)
    found = run(libraries, elements)
    assert found.settled.all()
    assert np.array_equal(found.sums, np.cumsum(elements, 1, np.float64)[:, -COUNT:].astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_zeros_keep_their_sign(libraries, dtype):
    elements = np.full((3, 2 * COUNT), -0.0, dtype)
    elements[1, 0] = 0
    elements[2, :2] = 1, -1
    found = run(libraries, elements)
    assert found.settled.all()
    assert np.array_equal(np.signbit(found.sums), np.array([[True] * COUNT, [False] * COUNT, [False] * COUNT]))


def test_overflow_is_left_to_doubles(libraries):
    elements = np.full((2, 2 * COUNT), 3e38, np.float32)
    elements[1, 1::2] = -3e38
    assert run(libraries, elements).settled.tolist() == [False, True]


def test_sums_go_on_from_doubles(libraries):
    draw = np.random.default_rng(6)
    before = draw.normal(size=(500, 2)) * [1e6, 1e-12]
    elements = draw.normal(size=(500, COUNT)).astype(np.float32)
    sums, settled = np.empty_like(elements), np.empty(500, bool)
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (before, elements, sums, settled)]
    libraries[np.float32].go_on(ctypes.c_long(500), *addresses)
    assert settled.mean() > 0.9
    for row in np.flatnonzero(settled):
        total = sum(map(Fraction, before[row].tolist()))
        for element, result in zip(elements[row].tolist(), sums[row].tolist(), strict=True):
            total += Fraction(element)
            assert result == nearest(total, np.float32)
