"""Quantization in floats for GPUs, compiled for the host: as in fractions."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest

from opwire.tensor import Array
from tests.support.gpu.on_host import COMPILER, library

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

_BEFORE = """
static float __fmul_rz(float a, float b) {
    float found = a * b;
    if (isinf(found) && !isinf(a) && !isinf(b)) return copysignf(3.402823466e+38f, found);
    double exact = (double)a * b;
    return fabs((double)found) > fabs(exact) ? nextafterf(found, 0) : found;
}
"""

_CALLS = """
extern "C" void quantize(long count, const float *x, const float *scale, int zero, int least, int greatest, int *to) {
    for (long i = 0; i < count; ++i) to[i] = quantized(x[i], scale[i], (float)zero, least, greatest);
}
extern "C" void multiply(long count, const float *a, const float *b, u16 *to) {
    for (long i = 0; i < count; ++i) to[i] = half_bits(odd_product(a[i], b[i]));
}
"""

ZERO, LEAST, GREATEST = 3, -128, 127


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("quantizing"), "quantization/rounded", _CALLS, _BEFORE)


def quantized(functions: ctypes.CDLL, x: Array, scale: Array) -> list[int]:
    x, scale = (np.ascontiguousarray(each, np.float32) for each in (x, scale))
    found = np.empty(x.size, np.int32)
    arrays = [ctypes.c_void_p(each.ctypes.data) for each in (x, scale, found)]
    bounds = [ctypes.c_int(each) for each in (ZERO, LEAST, GREATEST)]
    functions.quantize(ctypes.c_long(x.size), *arrays[:2], *bounds, arrays[2])
    listed: list[int] = found.tolist()
    return listed


def exactly(x: float, scale: float) -> int:
    return max(LEAST, min(GREATEST, round(Fraction(x) / Fraction(scale)) + ZERO))


@pytest.mark.parametrize("size", [1.0, 2.0**-100, 2.0**-130, 2.0**-148, 2.0**100])
def test_quotients_near_halves_are_rounded_as_real_numbers(functions, size):
    draw = np.random.default_rng(1)
    scale = (draw.uniform(0.5, 2, 20_000) * draw.choice([-1, 1], 20_000) * size).astype(np.float32)
    halves = draw.integers(-300, 300, 20_000) + 0.5
    x = (halves * scale.astype(np.float64)).astype(np.float32)
    for _ in range(2):
        assert quantized(functions, x, scale) == [
            exactly(*each) for each in zip(x.tolist(), scale.tolist(), strict=True)
        ]
        x = np.nextafter(x, draw.choice([-np.inf, np.inf], x.size).astype(np.float32))


def test_whole_steps_have_many_halves(functions):
    x = np.arange(-600, 600, dtype=np.float32)
    assert quantized(functions, x, np.full_like(x, 2)) == [exactly(each, 2) for each in x.tolist()]


def test_any_quotients_are_rounded_as_real_numbers(functions):
    draw = np.random.default_rng(2)
    bits = draw.integers(0, 1 << 32, (2, 20_000), np.uint32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        bits[1, :5000] = np.abs(bits[0, :5000]) * draw.uniform(0.001, 3, 5000).astype(np.float32)
    x, scale = bits[:, np.isfinite(bits).all(0) & (bits[1] != 0)]
    assert quantized(functions, x, scale) == [exactly(*each) for each in zip(x.tolist(), scale.tolist(), strict=True)]


def test_nan_gives_zero_and_infinity_the_end(functions):
    x = np.array([np.nan, 0, 1, 5, -5, np.inf, -np.inf, np.inf, 1, 3e38])
    scale = np.array([1, 0, np.nan, 0, 0, 1, 1, np.inf, np.inf, 1e-38])
    assert quantized(functions, x, scale) == [0, 0, 0, GREATEST, LEAST, GREATEST, LEAST, 0, ZERO, GREATEST]


def test_products_with_halves_are_rounded_once(functions):
    draw = np.random.default_rng(3)
    integers = draw.integers(-131_070, 131_071, 200_000).astype(np.float32)
    scales = draw.integers(0, 1 << 16, 200_000, np.uint16).view(np.float16)
    integers, scales = integers[np.isfinite(scales)], scales[np.isfinite(scales)].astype(np.float32)
    found = np.empty(integers.size, np.uint16)
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (integers, scales, found)]
    functions.multiply(ctypes.c_long(integers.size), *addresses)
    with np.errstate(over="ignore"):
        right = (integers.astype(np.float64) * scales).astype(np.float16)  # a double holds 28 bits
    assert np.array_equal(found.view(np.float16), right)
    assert np.array_equal(np.signbit(found.view(np.float16)), np.signbit(right))


def test_products_with_infinity_and_nan_stay_so(functions):
    a, b = np.array([2, 0, 1, -3], np.float32), np.array([np.inf, np.inf, np.nan, np.inf], np.float32)
    found = np.empty(4, np.uint16)
    functions.multiply(ctypes.c_long(4), *(ctypes.c_void_p(each.ctypes.data) for each in (a, b, found)))
    assert np.array_equal(
        found.view(np.float16), np.array([np.inf, np.nan, np.nan, -np.inf], np.float16), equal_nan=True
    )
