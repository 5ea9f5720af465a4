"""Running products in floats for GPUs, compiled for the host: what they settle is the exact product, rounded once."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from itertools import accumulate, permutations
from operator import mul
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from opwire.tensor import Array
from tests.oracles import oracle
from tests.support.gpu.on_host import COMPILER, compiled, kernel_text

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

COUNT = 16

TOTAL = np.dtype([("parts", np.float32, 3), ("exponent", np.int32), ("kinds", np.uint32)])

INEXACT = 8

NEAR_THE_MIDDLE = (
    ("0x1.b0ddf40000000p+0", "0x1.e01e920000000p+0", "0x1.0d3a2c0000000p+1"),
    ("0x1.8887240000000p+0", "0x1.6a83d80000000p+0", "0x1.31bdba0000000p+1"),
)
"""Factors whose product is that close to the middle of two floats that three floats are needed to tell the side."""

_SOURCES = "types", "rounding", "product", "cumulative/always", "cumulative/product_floats"

_CALLS = """
// The running products of 16 elements after `threads` times as many, merged as by the threads of a warp.
extern "C" void run(
    long rows, u32 threads, const Input *from, Output *to, bool *quickly, bool *settled, Running *totals
) {
    const Terms terms = {0, 16 * (threads + 1), 0};
    for (long row = 0; row < rows; ++row, from += 16 * (threads + 1), to += 16) {
        Running products[64];
        for (u32 i = 0; i < threads; ++i) {
            products[i].clear(), products[i].take_all(*(const Input(*)[16])(from + 16 * i));
        }
        for (u32 apart = 1; apart < threads; apart *= 2)
            for (u32 i = threads - 1; i >= apart; --i) products[i].merge(products[i - apart]);
        Running before;
        before.clear();
        if (threads) before = products[threads - 1];
        const Input(&own)[16] = *(const Input(*)[16])(from + 16 * threads);
        quickly[row] = before.results(own, *(Output(*)[16])to);
        for (u32 k = 0; k < 16; ++k) {
            Output result;
            if (EXCLUSIVE) settled[16 * row + k] = before.result(result, terms);
            before.take(own[k]);
            if (!EXCLUSIVE) settled[16 * row + k] = before.result(result, terms);
            if (!quickly[row]) to[k] = result;
        }
        totals[row] = before;
    }
}
"""


class Found(NamedTuple):
    """What a compiled run returns.

    Attributes:
        products: running products.
        quickly: which rows are settled in floats alone.
        settled: which products are settled.
        totals: the product of each row.
    """

    products: Array
    quickly: Array
    settled: Array
    totals: Array


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[type, bool], ctypes.CDLL]:
    return {
        (dtype, exclusive): _library(tmp_path_factory.mktemp(name), name, exclusive)
        for dtype, name in ((np.float32, "f32"), (np.float16, "f16"))
        for exclusive in (False, True)
    }


def _library(folder: Path, name: str, exclusive: bool) -> ctypes.CDLL:
    macros = {"INPUT": name, "OUTPUT": name, "PASS": "ONLY", "HALF": int(name == "f16"), "EXCLUSIVE": int(exclusive)}
    defined = "".join(f"#define {macro} {value}\n" for macro, value in macros.items())
    return compiled(folder, "products", "\n".join((defined, *map(kernel_text, _SOURCES), _CALLS)))


def run(libraries: dict[tuple[type, bool], ctypes.CDLL], elements: Array, *, exclusive: bool = False) -> Found:
    """Returns the last 16 running products of each row."""
    rows, count = elements.shape
    products, settled = np.empty((rows, COUNT), elements.dtype), np.empty((rows, COUNT), bool)
    found = Found(products, np.empty(rows, bool), settled, np.empty(rows, TOTAL))
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (elements, *found)]
    library = libraries[elements.dtype.type, exclusive]
    library.run(ctypes.c_long(rows), ctypes.c_uint32(count // COUNT - 1), *addresses)
    return found


def assert_rounded(found: Found, elements: Array, *, exclusive: bool = False) -> None:
    """Asserts that all products are settled, and the exact ones of elements other than 0, rounded once."""
    assert found.settled.all()
    for row, products in zip(elements, found.products, strict=True):
        exact = list(accumulate((Fraction(float(each)) for each in row), mul, initial=Fraction(1)))
        kept = exact[-COUNT - 1 : -1] if exclusive else exact[-COUNT:]
        right = np.array([oracle.rounded(each, row.dtype) for each in kept], row.dtype)
        assert products.tobytes() == right.tobytes()


def drawn(dtype: type, threads: int, spread: float) -> Array:
    """Returns rows of either sign whose products stay near 1, or leave the range of their format."""
    draw = np.random.default_rng([threads, int(100 * spread)])
    shape = 30, COUNT * (threads + 1)
    rows: Array = (np.exp2(draw.uniform(-spread, spread, shape)) * draw.choice([-1, 1], shape)).astype(dtype)
    return rows


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("threads", [0, 1, 16])
@pytest.mark.parametrize("spread", [0.4, 3, 12])
def test_settled_products_are_rounded_once(libraries, dtype, threads, spread, exclusive):
    elements = drawn(dtype, threads, spread)
    found = run(libraries, elements, exclusive=exclusive)
    assert found.quickly.mean() > 0.8
    assert_rounded(found, elements, exclusive=exclusive)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("threads", [0, 1, 2, 16, 40])
def test_errors_of_products_are_within_their_bound(libraries, dtype, threads):
    elements = drawn(dtype, threads, 3)
    elements[::2] = np.exp2(np.round(np.log2(np.abs(elements[::2]))))
    elements[::2, ::40] *= dtype(1.25)
    totals = run(libraries, elements).totals
    is_exact = totals["kinds"] & INEXACT == 0
    assert is_exact[::2].any()
    for row, total, exact in zip(elements, totals, is_exact, strict=True):
        product = Fraction(1)
        for each in row:
            product *= Fraction(float(each))
        parts = sum(Fraction(float(part)) for part in total["parts"]) * Fraction(2) ** int(total["exponent"])
        bound = 0 if exact else row.size * Fraction(2) ** -69 + threads * Fraction(2) ** -67
        assert abs(parts / product - 1) <= bound


@pytest.mark.parametrize("factors", NEAR_THE_MIDDLE)
def test_products_near_the_middle_of_two_floats_are_on_their_side_of_it(libraries, factors):
    elements = np.ones((6, COUNT), np.float32)
    elements[:, 5:8] = [[float.fromhex(each) for each in order] for order in permutations(factors)]
    found = run(libraries, elements)
    assert not found.quickly.any()
    assert_rounded(found, elements)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_small_products_are_rounded_once(libraries, dtype):
    # The running products of a row end among the subnormal numbers of the format.
    draw = np.random.default_rng(1)
    least = -149 if dtype is np.float32 else -24
    elements = draw.uniform(1, 2, (200, COUNT))
    elements[:, 0] *= np.exp2(draw.integers(least, least + 30, 200).astype(float))
    elements[:, 1:] *= np.exp2(draw.integers(-1, 1, (200, COUNT - 1)).astype(float))
    elements = elements.astype(dtype)
    assert_rounded(run(libraries, elements), elements)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_products_in_the_middle_of_two_floats_go_to_the_even_one(libraries, dtype):
    digits = np.finfo(dtype).nmant + 1
    draw = np.random.default_rng(2)
    elements = np.ones((300, COUNT), dtype)
    few = digits // 2
    elements[:, 3] = 2 * draw.integers(1 << few - 1, 1 << few, 300) + 1
    elements[:, 7] = 2 * draw.integers(1 << digits - few - 2, 1 << digits - few - 1, 300) + 1
    product = elements[:, 3].astype(np.int64) * elements[:, 7].astype(np.int64)
    are_halfway = (product >> digits == 1) & (product & 1 == 1)
    assert are_halfway.any()
    assert_rounded(run(libraries, elements), elements)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_product_just_beside_the_middle_is_not_taken_for_it(libraries, dtype):
    # (1 + u)(1 - u) times what lies halfway: by a relative u^2, the product is below the middle.
    digits = np.finfo(dtype).nmant + 1
    unit = 2.0 ** -(digits - 1)
    half = dtype(1 + 2.0 ** -(digits // 2))
    other = dtype(1 + 2.0 ** -(digits - digits // 2))
    elements = np.ones((4, COUNT), dtype)
    elements[0, :2] = half, other
    elements[1, :4] = half, other, 1 + unit, 1 - unit
    elements[2, :4] = 1 - unit, half, other, 1 + unit
    elements[3, :6] = 1 + unit, half, 1 - unit, other, 1 + 4 * unit, 1 - 4 * unit
    assert_rounded(run(libraries, elements), elements)


@pytest.mark.parametrize(
    ("dtype", "factors"), [(np.float32, (18631 * 2.0**60, 1801 * 2.0**43)), (np.float16, (65 * 4, 63 * 4))]
)
def test_products_in_the_middle_of_the_largest_float_and_the_next_power_of_two_are_infinite(libraries, dtype, factors):
    elements = np.ones((2, COUNT), dtype)
    elements[:, :2] = factors
    elements[1, 2] = 1 - np.finfo(dtype).epsneg
    found = run(libraries, elements)
    assert np.isinf(found.products[0, 1:]).all()
    assert np.array_equal(found.products[1, 2:], np.full(COUNT - 2, np.finfo(dtype).max))
    assert_rounded(found, elements)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_zeros_infinities_and_nan_multiply_like_the_first_elements(libraries, dtype):
    draw = np.random.default_rng(3)
    elements = draw.choice([1, -1, 2, 0.5], (500, 2 * COUNT)).astype(dtype)
    for special in (0.0, -0.0, np.inf, -np.inf, np.nan):
        elements[draw.random(elements.shape) < 0.02] = special
    found = run(libraries, elements)
    assert found.quickly.all()
    with np.errstate(invalid="ignore"):
        right = np.cumprod(elements.astype(np.float64), 1)[:, -COUNT:].astype(dtype)
    np.testing.assert_array_equal(found.products, right)
    numbers = ~np.isnan(right)
    assert np.array_equal(np.signbit(found.products)[numbers], np.signbit(right)[numbers])


def test_long_products_of_powers_of_two_leave_the_range_and_come_back(libraries):
    elements = np.full((2, 20 * COUNT), 2.0**120, np.float32)
    elements[1] = 2.0**-149
    half = elements.shape[1] // 2
    elements[0, half:], elements[1, half:] = 2.0**-120, 2.0**100
    elements[1, half : half + COUNT * 5] = 2.0**127
    assert_rounded(run(libraries, elements), elements)
