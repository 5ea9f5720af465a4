"""The arithmetic of convolutions by remainders as the kernels do it, in exact numbers, and their memory."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.tensor import DataType
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch
from opwire_service.kernels.cuda.products.remainders import MODULI, source
from opwire_service.kernels.cuda.products.window_remainders import (
    BITS,
    DEEPEST,
    GROUPED,
    LEAST_CAPABILITY,
    count_of,
    fractions,
)
from tests.support.products import convolution_of

MOST = DEEPEST << 14
"""The greatest sum of products of bytes."""

COUNTS = sorted({count_of(depth, data_type) for data_type in BITS for depth in range(1, DEEPEST + 1)})


def constants(name: str, count: int) -> list[int]:
    (found,) = re.findall(rf"{name}\[MODULI\] = {{(.*)}};", fractions(count))
    return [int(number.removesuffix("ull")) for number in found.split(", ")]


def largest_norm(count: int) -> Fraction:
    return Fraction(float.fromhex(re.findall(r"LARGEST_NORM = (0x[0-9a-f.p+-]+)", source(count))[0]))


def fraction_of(sums: list[int], count: int) -> int:
    """Returns the fraction that the kernel makes of the sums of each modulus."""
    total = 0
    arrays = (constants(name, count) for name in ("BIAS", "QUOTIENT", "FRACTION"))
    for sum_, modulus, bias, quotient, part in zip(sums, MODULI, *arrays, strict=False):
        biased = sum_ + bias
        assert 0 <= biased < 2**31
        remainder = biased - (biased * quotient >> 32) * modulus
        assert 0 <= remainder < 2 * modulus
        total += remainder * part
    total %= 2**64
    return total - 2**64 if total >= 2**63 else total


@pytest.mark.parametrize("count", COUNTS)
def test_fractions_are_those_of_the_sum_by_the_product_of_the_moduli(count):
    chosen, product = random.Random(count), prod(MODULI[:count])
    (error,) = map(int, re.findall(r"FRACTION_ERROR = (\d+)", fractions(count)))
    for x in (product // 4, -product // 4, 1, *(chosen.randint(-product, product) // 4 for _ in range(300))):
        sums = []
        for modulus in MODULI[:count]:
            wanted = x * pow(product // modulus, -1, modulus)
            near = chosen.choice([-MOST, 0, MOST - modulus])
            sums.append(near + (wanted - near) % modulus)
        assert abs(Fraction(fraction_of(sums, count)) - Fraction(x << 64, product)) <= error
    assert error < 2**12
    assert abs(fraction_of([0] * count, count)) <= error


@pytest.mark.parametrize("count", COUNTS)
def test_norms_leave_room_for_rounding(count):
    # As for matrices: rounding to integers adds at most half the root of the depth to a norm.
    assert (largest_norm(count) + Fraction(int(DEEPEST**0.5) + 1, 2)) ** 2 < Fraction(prod(MODULI[:count]), 4)


def test_deeper_sums_take_more_moduli():
    for data_type, bits in BITS.items():
        counts = [count_of(depth, data_type) for depth in (1, 27, 64, 576, 4608, DEEPEST)]
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]
        assert all(
            count == len(MODULI) or largest_norm(count) ** 2 >= Fraction(0.99) * depth * 4 ** int(bits)
            for count, depth in zip(counts, (1, 27, 64, 576, 4608, DEEPEST), strict=True)
        )


MEMORY = CudaMemory({"InputTensor": 2**40, "FilterTensor": 2**41}, {"OutputTensor": 2**42}, 2**43, 0, 0)


def launches(plan: Any, card: Card) -> list[KernelLaunch]:
    return [each for each in JOBS["CONVOLUTION"](plan, card).launches(MEMORY) if isinstance(each, KernelLaunch)]


def uses_remainders(plan: Any, card: Card) -> bool:
    return any(launch.entry == "convolve_bytes" for launch in launches(plan, card))


def test_remainders_need_a_card_with_their_instructions_and_few_float64_units():
    plan = convolution_of([8, 64, 56, 56], [64, 64, 3, 3], padding=1)
    assert uses_remainders(plan, Card(40, 32, LEAST_CAPABILITY))
    assert not uses_remainders(plan, Card(40, 32, LEAST_CAPABILITY - 5))
    assert not uses_remainders(plan, Card(132, 2, 80))


@pytest.mark.parametrize(
    ("sizes", "kernel", "is_suitable"),
    [
        ([8, 64, 56, 56], [64, 64, 3, 3], True),
        ([1, 64, 56, 56], [64, 64, 3, 3], False),
        ([32, 64, 56, 56], [256, 64, 1, 1], False),
        ([32, 256, 14, 14], [256, 256, 3, 3], True),
    ],
)
def test_deep_convolutions_of_many_tiles_use_remainders_on_cards_that_multiply_in_groups(sizes, kernel, is_suitable):
    plan = convolution_of(sizes, kernel, padding=kernel[-1] // 2)
    assert uses_remainders(plan, Card(132, 2, GROUPED)) == is_suitable
    assert not uses_remainders(plan, Card(132, 2, GROUPED + 10))


@pytest.mark.parametrize(("filters", "images", "rows"), [(20, 32, 32), (64, 32, 64), (128, 32, 128), (128, 1, 64)])
def test_tiles_are_as_tall_as_filters_and_outputs_suffice_for(filters, images, rows):
    plan = convolution_of([images, 128, 28, 28], [filters, 128, 3, 3], padding=1)
    (launch,) = (each for each in launches(plan, Card(132, 64, GROUPED)) if each.entry == "convolve_bytes")
    assert launch.grid[1] == -(-filters // rows)
    assert launch.grid[0] == -(-images * 28 * 28 // (128 if rows == 32 else 64))


@given(
    st.integers(1, 70),
    st.sampled_from([16, 64, 100]),
    st.sampled_from([16, 40, 64]),
    st.tuples(*[st.integers(1, 5)] * 2),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["FORWARD", "BACKWARD"]),
)
def test_tiles_cover_all_images_once_within_their_memory(images, filters, channels, window, stride, direction):
    kernel = [channels, filters, *window] if direction == "BACKWARD" else [filters, channels, *window]
    plan = convolution_of([images, channels, 30, 31], kernel, padding=1, Strides=[stride, stride], Direction=direction)
    job = JOBS["CONVOLUTION"](plan, Card(132, 64))
    end = 2**43 + job.scratch_bytes
    covered = 0
    for launch in job.launches(MEMORY):
        if not isinstance(launch, KernelLaunch) or launch.entry != "convolve_bytes":
            continue
        (task,) = launch.parameter
        columns, rows = int(task["columns"]), int(task["rows"])
        covered += rows * columns
        places = prod(map(int, task["window"]["places"]))
        assert columns % places == int(task["column"]) % places == 0
        assert task["undecided"] + 8 + 8 * rows * columns <= end
        assert task["column_bounds"] + 8 * columns <= end
        assert task["row_bounds"] + 32 * rows <= end
    if covered and (direction == "FORWARD" or min(window) >= stride):
        assert covered == plan.outputs["OutputTensor"].element_count


def test_images_are_split_in_bounded_tiles():
    plan = convolution_of([64, 256, 56, 56], [256, 256, 3, 3], padding=1)
    assert uses_remainders(plan, Card(132, 64))
    assert JOBS["CONVOLUTION"](plan, Card(132, 64)).scratch_bytes < 400 * 2**20


def test_data_types_with_fewer_digits_take_fewer_moduli():
    assert count_of(576, DataType.FLOAT16) < count_of(576, DataType.FLOAT32) <= 10
