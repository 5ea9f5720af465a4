"""Products for a card, as far as can be checked without one: tiles, memory, and launches."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opwire.check import Plan, check
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch, Launch, MatrixProduct
from opwire_service.kernels.cuda.products.activation import activated_source
from opwire_service.kernels.cuda.products.tiles import NOWHERE, BatchedProduct, ProductTiling, Scratch, Strides
from tests.support.products import convolution_of

CARD = Card(132)
MEMORY = CudaMemory({"ATensor": 2**40, "BTensor": 2**41}, {"OutputTensor": 2**42}, 2**43, 0, 0)


def products(matrices: int, rows: int, columns: int, depth: int, **changes: Any) -> BatchedProduct:
    return BatchedProduct(1, matrices, rows, columns, depth, NOWHERE, NOWHERE, NOWHERE, NOWHERE, **changes)


SIZES = st.sampled_from([1, 2, 63, 64, 700, 4096, 4097, 8192, 10_000, 2**18, 2**22])


ACROSS = Strides(0, 0, 1, 2)
"""Of an operand that is not contiguous along its depth, and may be copied twice."""


@given(st.sampled_from([1, 3, 900]), SIZES, SIZES, SIZES, *[st.sampled_from([NOWHERE, ACROSS])] * 2)
@example(1, 8192, 8192, 8192, ACROSS, ACROSS)
def test_tiles_cover_all_sums_once_in_bounded_memory(matrices, rows, columns, depth, left, right):
    whole = replace(products(matrices, rows, columns, depth), left=left, right=right)
    tiling = ProductTiling.of(whole)
    assert Scratch.of(whole, tiling, is_direct=False).size <= 400 * 2**20
    if matrices * -(-rows // tiling.rows) * -(-columns // tiling.columns) > 10_000:
        return
    tiles = list(tiling.tiles(whole))
    assert sum(tile.sums for tile in tiles) == matrices * rows * columns
    corners = Counter((tile.matrix, tile.row, tile.column) for tile in tiles)
    assert max(corners.values()) == 1
    for tile in tiles:
        assert tile.sums < 2**25
        assert tile.row + tile.rows <= rows
        assert tile.column + tile.columns <= columns
        assert tile.matrix + tile.matrices <= matrices


@given(st.integers(1, 2**32 - 1), st.integers(1, 2**24), st.sampled_from([1.0, -0.3, 1e-40, 3e38]))
def test_the_error_bound_covers_every_order_of_additions(depth, several, alpha):
    several = min(several, depth)
    bound = Fraction(products(1, 1, 1, depth, alpha=alpha).error(several))
    unit, additions = Fraction(1, 2**53), several - 1 + -(-depth // several) - 1
    # Magnitudes of sums grow by (1 + unit) with every addition, and norms have errors of their own.
    assert bound >= abs(Fraction(alpha)) * additions * unit * (1 + 2 * depth * unit)


def gemm(a: list[int], b: list[int], **changes: Any) -> Plan:
    tensors = {"ATensor": {"DataType": "FLOAT32", "Sizes": a}, "BTensor": {"DataType": "FLOAT32", "Sizes": b}}
    plain = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
    return check({"type": "GEMM", "desc": {**tensors, **plain, **changes}})


def launches(plan: Plan, memory: CudaMemory = MEMORY) -> list[Launch]:
    return list(JOBS[plan.operator.name](plan, CARD).launches(memory))


def tasks(every: Iterable[Launch]) -> list[Any]:
    return [launch.parameter[0] for launch in every if isinstance(launch, KernelLaunch)]


@pytest.mark.parametrize("depth", [5, 2048, 300_001])
def test_chunks_of_the_depth_are_contiguous(depth):
    pieces = [each for each in launches(gemm([3000, depth], [depth, 1000])) if isinstance(each, MatrixProduct)]
    tiles = Counter(itertools.accumulate(not each.adds for each in pieces))
    summed: Counter[int] = Counter()
    for tile, each in zip(itertools.accumulate(not each.adds for each in pieces), pieces, strict=True):
        summed[tile] += each.depth
    assert set(summed.values()) == {depth}
    assert len(pieces) == sum(tiles.values())


def test_a_second_run_uses_its_own_addresses():
    job = JOBS["GEMM"](gemm([64, 40], [40, 50]), CARD)
    other = CudaMemory({"ATensor": 2**20, "BTensor": 2**21}, {"OutputTensor": 2**22}, 2**23, 0, 0)
    first, second = list(job.launches(MEMORY)), list(job.launches(other))
    for one, two in zip(tasks(first), tasks(second), strict=True):
        assert (one["left"], one["right"], one["target"]) == (2**40, 2**41, 2**42)
        assert (two["left"], two["right"], two["target"]) == (2**20, 2**21, 2**22)
        assert one["addend"] == two["addend"] == 0
        assert one["sums"] - 2**43 == two["sums"] - 2**23
    assert tasks(first)[-1]["limbs"] == 0
    (one,), (two,) = ([each for each in every if isinstance(each, MatrixProduct)] for every in (first, second))
    assert one.target.address - 2**43 == two.target.address - 2**23


@pytest.mark.parametrize("depth", [300, 3000], ids=["float64", "remainders"])
def test_tiles_stay_within_their_memory(depth):
    plan = gemm([5000, depth], [depth, 4500])
    job = JOBS["GEMM"](plan, CARD)
    end = 2**43 + job.scratch_bytes
    for launch in job.launches(MEMORY):
        if isinstance(launch, MatrixProduct):
            assert launch.is_of_bytes == (depth == 3000)
            for each, lines, length, size in (
                (launch.left, launch.rows, launch.depth, 1 if launch.is_of_bytes else 8),
                (launch.right, launch.depth, launch.columns, 1 if launch.is_of_bytes else 8),
                (launch.target, launch.rows, launch.columns, 4 if launch.is_of_bytes else 8),
            ):
                lines, length = (length, lines) if each.is_transposed else (lines, length)
                last = each.address + size * ((launch.count - 1) * each.step + (lines - 1) * each.pitch + length)
                assert 2**43 <= each.address < last <= end
        else:
            (task,) = launch.parameter
            assert task["undecided"] + 8 + 4 * int(task["matrices"]) * int(task["rows"]) * int(task["columns"]) <= end
            for line, side in (("row", "left"), ("column", "right")):
                count = int(task["matrices"]) * int(task[f"{line}s"])
                assert task[f"{line}_bounds"] + 8 * count * int(task[f"{line}_slices"]) <= end
                turned = int(task[f"{side}_turned"])
                assert not turned or turned + 4 * count * int(task["depth"]) <= end


def test_phases_are_not_enumerated_in_advance():
    """A transposed convolution with large strides has many phases; its memory is known without visiting each."""
    plan = convolution_of([1, 1, 2, 2], [1, 1, 3000, 3000], Direction="BACKWARD", Strides=[3000, 3000])
    memory = CudaMemory({"InputTensor": 0, "FilterTensor": 2**41}, {"OutputTensor": 2**42}, 2**43, 0, 0)
    job = JOBS["CONVOLUTION"](plan, CARD)
    assert len(list(itertools.islice(job.launches(memory), 30))) == 30
    assert job.scratch_bytes < 2**20


def test_convolutions_are_unfolded_in_bounded_chunks():
    plan = convolution_of([64, 256, 56, 56], [256, 256, 3, 3], padding=1)
    unfolded = 8 * prod((64, 56, 56)) * 256 * 9
    assert JOBS["CONVOLUTION"](plan, CARD).scratch_bytes < 400 * 2**20 < unfolded


def test_sums_without_an_activation_are_unchanged():
    assert activated_source(None).splitlines()[1:] == ["    return x;", "}"]
