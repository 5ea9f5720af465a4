"""Products on a card that take several launches, and their bounds on memory and time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.execution import Stopped
from opwire_service.kernels.cuda.products.tiles import MOST_SETTLED
from tests.support.products import LEAST, assert_convolved, assert_rounded, gemm, normal, plan_of

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


LARGE = [(9, 96, 64, 128, 3, 1, 1, 1, 1), (4, 24, 120, 48, 3, 1, 1, 1, 12), (64, 16, 28, 8, 5, 1, 1, 2, 1)]


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_convolutions_that_span_launches_are_correct(cuda, shape):
    assert_convolved(cuda, shape)


def test_products_that_span_launches_are_correct(cuda):
    a, b = normal(4500, 300), normal(300, 4400, seed=1)
    assert_rounded(gemm(cuda, a, b), a, b)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(300, 5000, 4400), (4400, 3001, 300), (260, 700, 130)])
def test_products_near_a_tie_are_settled(cuda, rows, depth, columns):
    # Sums of these integers are exact in float64 in any order, and many are close to a float32 tie.
    chosen = np.random.default_rng(2)
    a, b = (chosen.integers(-(2**19), 2**19, shape).astype(np.float64) for shape in ((rows, depth), (depth, columns)))
    found = gemm(cuda, a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_array_equal(found, (a @ b).astype(np.float32))


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)), ids=str)
def test_products_by_remainders_near_a_tie_are_settled(cuda, transposed):
    # As above; the sums of the remainders themselves leave nothing open.
    chosen = np.random.default_rng(4)
    a, b = (chosen.integers(-(2**19), 2**19, shape).astype(np.float64) for shape in ((2700, 2601), (2601, 2750)))
    given = [
        np.asfortranarray(x.astype(np.float32)) if turned else x.astype(np.float32)
        for x, turned in zip((a, b), transposed, strict=True)
    ]
    np.testing.assert_array_equal(gemm(cuda, *given), (a @ b).astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_products_by_remainders_are_correct(cuda, dtype):
    a, b, c = (
        normal(2, 2700, 2600, dtype=dtype),
        normal(2, 2600, 2702, dtype=dtype, seed=1),
        normal(2, 2700, 2702, dtype=dtype, seed=2),
    )
    found = gemm(cuda, a, b, c, Alpha=-1.5, Beta=0.25)
    for i in range(2):
        assert_rounded(found[i], a[i], b[i], -1.5, 0.25, c[i])


def test_products_by_remainders_of_lines_of_all_magnitudes_are_correct(cuda):
    spread = np.random.default_rng(5)
    a, b = (
        np.ldexp(normal(*shape, seed=shape[0]), spread.integers(-60, 60, (shape[0], 1))).astype(np.float32)
        for shape in ((2700, 2600), (2600, 2750))
    )
    a[5], b[:, 7] = 0, 0
    a[6] *= np.float32(2.0**-100)
    found = gemm(cuda, a, b)
    assert_rounded(found, a, b)
    assert_rounded(found[:8, :8], a[:8], b[:, :8])


def test_products_by_remainders_of_infinities_and_nan_follow_ieee_754(cuda):
    a, b = normal(2700, 2600), normal(2600, 2750, seed=1)
    a[3, 5], a[7, 9], a[11, 9], a[11, 10] = np.nan, np.inf, np.inf, -np.inf
    b[9, 20], b[100, 30] = 0, -np.inf
    found = gemm(cuda, a, b)
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    special = ~np.isfinite(expected)
    assert special.sum() == 3 * 2750 + 2700 - 3
    np.testing.assert_array_equal(found[special], expected[special].astype(np.float32))
    assert np.isfinite(found[~special]).all()
    assert_rounded(found[12:, :29], a[12:], b[:, :29])


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)), ids=str)
def test_batched_products_near_a_tie_are_settled(cuda, transposed):
    # Each operand is contiguous along the depth or across it, and has an infinity.
    chosen = np.random.default_rng(3)
    sizes = (1, 3, 203, 3001), (1, 3, 3001, 310), (1, 3, 203, 310)
    a, b, c = (chosen.integers(-(2**19), 2**19, shape).astype(np.float64) for shape in sizes)
    a[0, 1, 7, 2999], b[0, 2, 11, 300] = np.inf, -np.inf
    operands = [
        np.ascontiguousarray(x.swapaxes(2, 3) if turns else x, np.float32)
        for x, turns in zip((a, b), transposed, strict=True)
    ]
    names = {
        name: "TRANSPOSE" if turns else "NONE" for name, turns in zip(("TransA", "TransB"), transposed, strict=True)
    }
    found = gemm(cuda, operands[0], operands[1], c.astype(np.float32), **names)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, (a @ b + c).astype(np.float32))


def test_the_deepest_sums_are_split_between_launches(cuda):
    depth = 2 * MOST_SETTLED + 777
    chosen = np.random.default_rng(0)
    whole = [chosen.integers(-9, 10, shape) for shape in ((3, depth), (depth, 2))]
    given = gemm(cuda, *(each.astype(np.float32) for each in whole))
    np.testing.assert_array_equal(given, whole[0] @ whole[1])
    a, b = normal(3, depth), normal(depth, 2, seed=1)
    a = np.hstack([a, -a, np.full((3, 1), LEAST, np.float32)])
    b = np.vstack([b, b, np.full((1, 2), 3, np.float32)])
    np.testing.assert_array_equal(gemm(cuda, a, b), np.full((3, 2), 3 * LEAST, np.float32))


def test_a_large_product_can_be_stopped(cuda):
    asked = itertools.count()
    a: Array = np.broadcast_to(np.ones(1, np.float32), (8192, 8192))
    plan = plan_of("GEMM", {"ATensor": a, "BTensor": a}, TransA="NONE", TransB="NONE", Alpha=1, Beta=1)
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    with pytest.raises(Stopped):
        cuda.run(plan, {"ATensor": a, "BTensor": a}, outputs, lambda: next(asked) > 5)


def test_the_memory_of_a_large_product_is_bounded(cuda):
    a: Array = np.broadcast_to(np.ones(1, np.float32), (32768, 32768))
    plan = plan_of("GEMM", {"ATensor": a, "BTensor": a}, TransA="NONE", TransB="NONE", Alpha=1, Beta=1)
    assert cuda.job(plan).scratch_bytes <= 3 * 2**30
