"""Cumulative sums on the CPU device whose exact values need more bits than a float64."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from tests.oracles import oracle
from tests.support.execution import never_stop


@pytest.fixture(scope="module")
def cpu():
    device = CpuDevice(threads=2)
    yield device
    device.close()


def running(device: CpuDevice, values: Array, axis: int, *, backwards: bool, exclusive: bool) -> Array:
    strides = [step // values.itemsize for step in values.strides]
    source = {"DataType": values.dtype.name.upper(), "Sizes": list(values.shape), "Strides": strides}
    desc = {"InputTensor": source, "Axis": axis, "HasExclusiveSum": exclusive}
    desc["AxisDirection"] = "DECREASING" if backwards else "INCREASING"
    plan = check({"type": "CUMULATIVE_SUMMATION", "desc": desc})
    outputs = {name: each.allocate()[1] for name, each in plan.outputs.items()}
    device.run(plan, {"InputTensor": values}, outputs, never_stop)
    return outputs["OutputTensor"]


def right(line: list[float], dtype: np.dtype[np.float32], *, backwards: bool, exclusive: bool) -> list[float]:
    """Computes the expected line in fractions."""
    numbers = [Fraction(x) for x in (line[::-1] if backwards else line)]
    sums = [oracle.rounded(each, dtype) for each in accumulate(numbers, initial=Fraction(0))]
    found = sums[:-1] if exclusive else sums[1:]
    return found[::-1] if backwards else found


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("backwards", "exclusive"), [(False, False), (True, False), (False, True), (True, True)])
def test_sums_of_all_magnitudes_are_rounded_once(cpu, dtype, axis, backwards, exclusive):
    chosen = np.random.default_rng(0)
    reach = 60 if dtype == np.float32 else 12
    values = chosen.standard_normal((70, 40)) * 2.0 ** chosen.integers(-reach, reach // 4, (70, 40))
    values[35:] = -values[:35]  # the second half cancels the first
    given = values.astype(dtype)
    found = running(cpu, given, axis, backwards=backwards, exclusive=exclusive)
    for i in (0, 1, 17, 33, 39):
        line, mine = (given[:, i], found[:, i]) if axis == 0 else (given[i], found[i])
        assert mine.tolist() == right(line.tolist(), mine.dtype, backwards=backwards, exclusive=exclusive)


@pytest.mark.parametrize(("backwards", "exclusive"), [(False, False), (True, False), (False, True), (True, True)])
def test_adjacent_lines_whose_sums_need_two_floats(cpu, backwards, exclusive):
    """They include ties but for something far smaller, zeros, and negative zeros."""
    chosen = np.random.default_rng(3)
    given = (chosen.standard_normal((70, 40)) * 2.0 ** chosen.integers(-30, 8, (70, 40))).astype(np.float32)
    given[:, 3] = np.tile([2.0**24, 1, 2.0**-80, -1, -(2.0**-80)], 14)
    given[:, 5] = np.tile([2.0**24, 1, -(2.0**-80), 2, 2.0**-81, -(2.0**24), -3], 10)
    given[:, 8] = -0.0
    given[:, 9] = 1
    for some in (range(40), range(30, 9, -1), [*range(40)] * 6):  # the last ones span several slices of strips
        found = running(cpu, np.ascontiguousarray(given[:, some]), 0, backwards=backwards, exclusive=exclusive)
        expected = [right(line.tolist(), line.dtype, backwards=backwards, exclusive=exclusive) for line in given.T]
        assert found.T.tolist() == [expected[i] for i in some]
    found = running(cpu, given, 0, backwards=backwards, exclusive=exclusive)
    assert np.signbit(found[:, 8]).all() == (not exclusive)


@pytest.mark.parametrize("smallest", range(-55, -49))
def test_sums_that_just_fit_a_float64_or_do_not(cpu, smallest):
    """Every second sum lies beside the middle of two results, so that each lost bit shows."""
    chosen = np.random.default_rng(-smallest)
    large, small = chosen.integers(2**23 + 9, 2**24 - 9, (75, 32)), chosen.integers(-3, 4, (75, 32))
    steps = np.stack((large, small - large), axis=1).reshape(150, 32) * 2.0**smallest
    rows = [[1], [2.0**-24], *steps[:70], [-1], *steps[70:100], [1], *steps[100:]]
    rows += [[0]] * 40 + [[1023], [2.0**-14 - 2.0**-24]]  # their last bits are larger than those of the sums
    given = np.array([np.broadcast_to(row, 32) for row in rows], np.float32)
    found = running(cpu, given, 0, backwards=False, exclusive=False)
    for line, mine in zip(given.T, found.T, strict=True):
        assert mine.tolist() == right(line.tolist(), line.dtype, backwards=False, exclusive=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("sizes", [(37, 53), (16, 16), (3, 40), (19, 5)])
@pytest.mark.parametrize(("backwards", "exclusive"), [(False, False), (True, False), (False, True), (True, True)])
def test_adjacent_lines_in_any_memory_order(cpu, dtype, order, sizes, backwards, exclusive):
    """Sums that float64 holds exactly, from inputs in either memory order to packed outputs."""
    given = np.asarray(np.random.default_rng(1).standard_normal((2, *sizes)).astype(dtype), order=order)
    for axis in range(3):
        found = running(cpu, given, axis, backwards=backwards, exclusive=exclusive)
        lines, mine = (np.moveaxis(each, axis, -1).reshape(-1, each.shape[axis]) for each in (given, found))
        for i in {0, 1, 15, 16, len(lines) // 2, len(lines) - 1} & set(range(len(lines))):
            expected = right(lines[i].tolist(), mine.dtype, backwards=backwards, exclusive=exclusive)
            assert mine[i].tolist() == expected


def test_infinities_and_negative_zeros_carry_over(cpu):
    line = np.array([[-0.0, -0.0, 1e30, 1, np.inf, 1, -np.inf, 1]], np.float32)
    found = running(cpu, line, 1, backwards=False, exclusive=False)[0]
    assert np.signbit(found[:2]).all()
    np.testing.assert_array_equal(found, np.array([0, 0, 1e30, 1e30, np.inf, np.inf, np.nan, np.nan], np.float32))
    assert not np.signbit(running(cpu, line, 1, backwards=False, exclusive=True)[0, :3]).any()


@pytest.mark.parametrize(("backwards", "exclusive"), [(False, False), (True, True)])
def test_a_long_line_is_summed_in_parts(cpu, backwards, exclusive):
    """Two lines, of which one needs more than a float64, and their sums at the places where parts meet."""
    chosen = np.random.default_rng(5)
    large, small = (chosen.integers(-(2**23), 2**23, (2, 2**20 + 70)) for _ in range(2))
    units = np.where(chosen.random(large.shape) < 0.5, large << 30, small)
    units[1] = small[1]
    given = (units * 2.0**-30).astype(np.float32)
    found = running(cpu, given, 1, backwards=backwards, exclusive=exclusive)
    for line, mine in zip(units.tolist(), found, strict=True):
        sums = [0, *accumulate(line[::-1] if backwards else line)]
        sums = sums[:-1] if exclusive else sums[1:]
        placed = mine[::-1] if backwards else mine
        for i in (*range(5), *range(0, len(line), 4099), *range(2**20 - 3, len(line))):
            assert placed[i] == oracle.rounded(Fraction(sums[i], 2**30), mine.dtype)
