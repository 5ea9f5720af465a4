"""Cumulative operators on a card: lines of many chunks, many lines, and sums that need exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.devices.base import Device
from opwire_service.devices.cuda.device import CudaDevice
from tests.oracles import oracle
from tests.support.devices import loaded
from tests.support.gpu.coverage import FEW_FLOAT64
from tests.support.moving import moved

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=[None, FEW_FLOAT64.float64_ratio], ids=["as it is", "few float64 units"])
def cuda(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A GPU, as it is and as one with few float64 units."""
    with loaded("cuda") as device:
        assert isinstance(device, CudaDevice)
        if request.param is not None:
            device.card = device.card._replace(float64_ratio=request.param)
        yield device


def running(
    cuda: Device, array: Array, axis: int, *, exclusive: bool = False, backwards: bool = False, sums: bool = True
) -> Array:
    fields = {
        "Axis": axis,
        "AxisDirection": "DECREASING" if backwards else "INCREASING",
        "HasExclusiveSum" if sums else "HasExclusiveProduct": exclusive,
    }
    name = "CUMULATIVE_SUMMATION" if sums else "CUMULATIVE_PRODUCT"
    return moved(cuda, name, {"InputTensor": array}, **fields)["OutputTensor"]


SIZES = [((3, 9000), 1), ((9000, 3), 0), ((40, 50), 1), ((2, 5, 20_000), 1), ((1, 5_000_000), 1), ((30, 7), 1)]


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize(("sizes", "axis"), SIZES)
@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_cumulative_integers_wrap_around(cuda, dtype, sizes, axis, sums):
    array = np.random.default_rng(1).integers(0, 2**31 - 1, sizes).astype(dtype) | dtype(1)
    right = (np.cumsum if sums else np.cumprod)(array, axis, dtype)
    assert np.array_equal(running(cuda, array, axis, sums=sums), right)
    turned = (np.cumsum if sums else np.cumprod)(np.flip(array, axis), axis, dtype)
    assert np.array_equal(running(cuda, array, axis, sums=sums, backwards=True), np.flip(turned, axis))


@pytest.mark.parametrize(("sizes", "axis"), SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_exclusive_sums_leave_out_the_element_itself(cuda, dtype, sizes, axis):
    array = np.random.default_rng(2).integers(-3, 4, sizes).astype(dtype)
    whole = np.cumsum(array, axis, np.float64)
    assert np.array_equal(running(cuda, array, axis, exclusive=True), (whole - array).astype(dtype))


@pytest.mark.parametrize(("sizes", "axis"), SIZES)
def test_sums_of_any_floats_are_rounded_once(cuda, sizes, axis):
    draw = np.random.default_rng(3)
    array = (draw.standard_normal(sizes) * 2.0 ** draw.integers(-40, 40, sizes)).astype(np.float32)
    found = np.moveaxis(running(cuda, array, axis), axis, -1)
    lines = np.moveaxis(array, axis, -1)
    for _ in range(30):
        at = tuple(int(draw.integers(size)) for size in found.shape)
        right = math.fsum(lines[at[:-1]][: at[-1] + 1].tolist())
        assert found[at] == np.float32(right) or abs(found[at] - right) <= abs(right) * 2.0**-24 * (1 + 2.0**-20)


def test_sums_the_card_cannot_round_are_computed_exactly(cuda):
    # Halfway between two floats but for a term that two doubles cannot hold beside the largest one.
    line = np.array([2.0**100, 1.0, 2.0**-24, 2.0**-149, -(2.0**100), 0, 0, 0], np.float32)
    found = running(cuda, np.tile(line, (700, 1)), 1)
    assert set(found[:, 3].tolist()) == {2.0**100}
    assert set(found[:, 4].tolist()) == {float(np.nextafter(np.float32(1), np.float32(2)))}
    assert set(found[:, 7].tolist()) == {float(np.nextafter(np.float32(1), np.float32(2)))}


def test_products_of_powers_of_two(cuda):
    powers = np.random.default_rng(4).integers(-1, 2, (4, 5000))
    array = np.ldexp(1.0, powers).astype(np.float32)
    right = np.ldexp(1.0, np.cumsum(powers, 1)).astype(np.float32)
    assert np.array_equal(running(cuda, array, 1, sums=False), right)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("sizes", "axis"), [((3, 4000), 1), ((3, 9000), 1), ((9000, 3), 0), ((40, 50), 1), ((40, 9000), 0)]
)
def test_products_of_any_floats_are_rounded_once(cuda, sizes, axis, dtype, exclusive):
    draw = np.random.default_rng(10)
    # The products swing through the range of the format, and beyond both of its ends.
    most = 140 if dtype is np.float32 else 20
    exponents = most * np.sin(np.cumsum(draw.uniform(0, 0.4, sizes), axis))
    array = (np.exp2(np.diff(exponents, axis=axis, prepend=0)) * draw.choice([-1, 1], sizes)).astype(dtype)
    found = np.moveaxis(running(cuda, array, axis, exclusive=exclusive, sums=False), axis, -1)
    lines = np.moveaxis(array, axis, -1).reshape(-1, sizes[axis])
    found = found.reshape(lines.shape)
    for line in draw.choice(len(lines), 3):
        places = sorted(draw.choice(sizes[axis], 12).tolist())
        product, end = Fraction(1), 0
        for place in places:
            last = place + 1 - exclusive
            for each in lines[line, end:last].tolist():
                product *= Fraction(each)
            end = last
            assert found[line, place].tobytes() == oracle.rounded(product, array.dtype).tobytes()


@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_carry_over_from_chunk_to_chunk(cuda, exclusive):
    draw = np.random.default_rng(5)
    array = draw.integers(-(2**20), 2**20, (3, 700_001)).astype(np.float32)
    whole = np.cumsum(array, 1, np.float64)
    right = whole - array if exclusive else whole
    assert np.array_equal(running(cuda, array, 1, exclusive=exclusive), right.astype(np.float32))
    counts = np.ones((1, 2**24 + 50_000), np.float32)
    assert np.array_equal(running(cuda, counts, 1), np.arange(1, counts.size + 1)[None].astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_keep_signed_zeros_infinities_and_nan(cuda, dtype):
    line = np.full(40_000, -0.0, dtype)
    line[9_000], line[9_100], line[20_000], line[30_000] = 1, -1, np.inf, -np.inf
    found = running(cuda, line[None], 1)[0]
    right = np.zeros(line.size, dtype)
    right[:9_000], right[9_000:9_100], right[20_000:30_000], right[30_000:] = -0.0, 1, np.inf, np.nan
    assert np.array_equal(found, right, equal_nan=True)
    assert np.array_equal(np.signbit(found[:30_000]), np.signbit(right[:30_000]))
    assert not np.signbit(running(cuda, line[None], 1, exclusive=True)[0, :9_001]).any()


def test_sums_of_whole_numbers_lie_in_the_middle_of_two_floats(cuda):
    whole = np.random.default_rng(6).integers(0, 2**12, (2, 600_000)).astype(np.float32)
    right = np.cumsum(whole, 1, np.float64).astype(np.float32)  # float64 holds them
    assert np.array_equal(running(cuda, whole, 1), right)
    assert np.array_equal(running(cuda, whole.T, 0), right.T)


@pytest.mark.parametrize("tiny", [2.0**-60, -(2.0**-60)])
@pytest.mark.parametrize("place", [0, 5_000])
def test_a_number_that_no_double_holds_beside_the_others_decides_in_the_middle(cuda, tiny, place):
    line = np.random.default_rng(7).integers(-(2**12), 2**12, 400_000) * 2.0**-10
    line[place] = 0
    sums = np.cumsum(line)
    # float64 holds the sums of all others with bits to spare, so that its next number lies on the same side.
    beside = np.where(sums == 0, tiny, np.nextafter(sums, math.copysign(math.inf, tiny)))
    right = np.where(np.arange(line.size) < place, sums, beside).astype(np.float32)
    line[place] = tiny
    assert np.array_equal(running(cuda, line.astype(np.float32)[None], 1)[0], right)


@pytest.mark.parametrize("small", [2.0**-20, 2.0**-26])
def test_few_small_numbers_among_others_count_as_well(cuda, small):
    draw = np.random.default_rng(9)
    line = draw.integers(-(2**12), 2**12, 600_000) * 2.0**-10
    line[::5_003] = small * draw.integers(1, 8, line[::5_003].size)
    right = np.cumsum(line).astype(np.float32)  # float64 holds the sums
    assert np.array_equal(running(cuda, line.astype(np.float32)[None], 1)[0], right)


def test_sums_of_far_exponents_cancel(cuda):
    # Of a huge number, small ones and what takes the huge one back only the small ones are left.
    line = np.random.default_rng(8).integers(-(2**12), 2**12, 100_000).astype(np.float64)
    line[[30_000, 60_000]] = 0
    right = np.cumsum(line).astype(np.float32)
    right[30_000:60_000] = 2.0**90
    line[30_000], line[60_000] = 2.0**90, -(2.0**90)
    assert np.array_equal(running(cuda, line.astype(np.float32)[None], 1)[0], right)
