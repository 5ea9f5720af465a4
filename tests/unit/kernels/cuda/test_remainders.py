"""The arithmetic of products by remainders, which bounds make exact: with exact numbers, and as the kernels do it."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace
from fractions import Fraction
from math import gcd, prod

import numpy as np
import pytest

from opwire.tensor import DataType
from opwire_service.kernels.cuda.job import Card, Program
from opwire_service.kernels.cuda.products.remainders import (
    COUNTS,
    DEEPEST,
    LIMB_BITS,
    LIMBS,
    MODULI,
    RemainderLaunching,
    source,
    suits,
    tiling_of,
)
from opwire_service.kernels.cuda.products.tiles import NOWHERE, BatchedProduct, Strides

ROUNDING = np.float32(1.5 * 2**23)
"""As in the kernels: adding it rounds a float to an integer."""


def constants(name: str, count: int) -> np.ndarray:
    """Returns an array of the generated source, in its own shape."""
    (found,) = re.findall(rf"\w+ {name}(?:\[\w+\])+ = (.*);", source(count))
    return np.array(eval(found.translate({ord("{"): "[", ord("}"): "]"})))


def scalar(name: str, count: int) -> float:
    return float.fromhex(re.findall(rf"{name} = (0x[0-9a-f.p+-]+)", source(count))[0])


@pytest.fixture(params=sorted(COUNTS.values()), scope="module")
def count(request):
    return request.param


def test_moduli_are_coprime_and_fit_bytes():
    assert MODULI[0] == 256
    assert all(gcd(one, other) == 1 for one, other in itertools.combinations(MODULI, 2))
    # A quotient may be rounded to the wrong neighbor near a tie, so that a remainder is (modulus + 1) / 2.
    assert all(modulus % 2 and (modulus + 1) // 2 <= 127 for modulus in MODULI[1:])


def digits_of(number: int) -> list[int]:
    low = (number + 2**15) % 2**16 - 2**15
    middle = ((number - low >> 16) + 2**15) % 2**16 - 2**15
    return [low, middle, (number - low - (middle << 16)) >> 32]


def bytes_of(number: int, by: np.ndarray, count: int) -> list[int]:
    """Returns the remainders of a number times ``by``, computed in FLOAT32 step by step as in the kernels."""
    digit = np.array(digits_of(number), np.float32)
    found = []
    for m in range(count):
        exact = sum(int(x) * int(y) for x, y in zip(digit, by[m], strict=True))
        if m == 0:
            total = digit[0] * np.float32(by[m][0])
            assert abs(total) <= 2**22
        else:
            assert abs(exact) < 2**24  # so sums are exact in any order
            total = np.float32(exact)
            inverse = np.float32(1 / MODULI[m])
            # One rounding, as by fma: the product is exact in float64.
            times = np.float32(np.float64(total) * np.float64(inverse) + np.float64(ROUNDING)) - ROUNDING
            total = np.float32(float(total) - MODULI[m] * float(times))
        low = (total + ROUNDING).view(np.uint32) & 0xFF
        found.append(int(low) - 256 if low > 127 else int(low))
        assert (found[-1] - number * round(float(by[m][0]))) % MODULI[m] == 0
    return found


def combined(sums: list[int], count: int) -> int:
    """Returns the integer of given remainders, with 64-bit limbs and a rounded quotient as in the kernels."""
    weights, product = constants("WEIGHT", count), prod(MODULI[:count])
    limbs = [sum(s * int(weight[i]) for s, weight in zip(sums, weights, strict=True)) for i in range(LIMBS)]
    assert all(abs(limb) < 2**63 for limb in limbs)
    about = 0.0
    for limb in reversed(limbs):
        about = about * 2.0**LIMB_BITS + float(limb)
    total = sum(limb << LIMB_BITS * i for i, limb in enumerate(limbs))
    return total - round(about * scalar("INVERSE_PRODUCT", count)) * product


def test_remainders_give_sums_of_products(count):
    chosen = random.Random(count)
    largest = scalar("LARGEST_NORM", count)
    left, right = constants("LEFT_BY", count), constants("RIGHT_BY", count)
    for _ in range(200):
        depth = chosen.choice([1, 2, 7])
        most = int(largest / depth**0.5)
        ends = [most, -most, 0, 1, -1]
        a, b = (
            [chosen.choice([chosen.randint(-most, most), chosen.choice(ends)]) for _ in range(depth)] for _ in range(2)
        )
        lefts, rights = ([bytes_of(x, by, count) for x in numbers] for numbers, by in ((a, left), (b, right)))
        planes = zip(zip(*lefts, strict=True), zip(*rights, strict=True), strict=True)
        sums = [sum(x * y for x, y in zip(one, other, strict=True)) for one, other in planes]
        assert combined(sums, count) == sum(x * y for x, y in zip(a, b, strict=True))


def test_sums_of_the_greatest_depth_stay_within_their_words(count):
    weights = constants("WEIGHT", count)
    most = DEEPEST * 128 * 128
    assert most <= 2**29
    assert all(sum(most * abs(int(weight[i])) for weight in weights) < 2**63 for i in range(LIMBS))
    assert [sum(int(limb) << LIMB_BITS * i for i, limb in enumerate(weight)) for weight in weights] == [
        prod(MODULI[:count]) // modulus for modulus in MODULI[:count]
    ]


def test_norms_leave_room_for_rounding(count):
    # Rounding to integers adds at most half the root of the depth to a norm. The product of two norms, which bounds a
    # sum, must stay so far below half the product of the moduli that a rounded quotient is the right one.
    largest = Fraction(scalar("LARGEST_NORM", count)) + Fraction(int(DEEPEST**0.5) + 1, 2)
    assert largest**2 < Fraction(prod(MODULI[:count]), 4)


def test_data_types_have_as_many_digits_as_their_integers_need():
    for data_type, count in COUNTS.items():
        assert scalar("LARGEST_NORM", count) < 2.0**47
        assert scalar("LARGEST_NORM", count) > 2.0 ** {DataType.FLOAT32: 46, DataType.FLOAT16: 29}[data_type]


@pytest.mark.parametrize(
    ("size", "float64_ratio", "is_suitable"), [(2048, 2, False), (3072, 2, True), (256, 64, False), (512, 64, True)]
)
def test_remainders_are_used_where_they_are_faster(size, float64_ratio, is_suitable):
    products = BatchedProduct(1, 1, size, size, size, NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    assert suits(products, DataType.FLOAT32, Card(132, float64_ratio)) == is_suitable
    assert not suits(replace(products, depth=DEEPEST + 1), DataType.FLOAT32, Card(132, float64_ratio))


@pytest.mark.parametrize("depth", [DEEPEST // 2, DEEPEST // 2 + 1, DEEPEST])
def test_a_tile_takes_at_most_3_gib(depth):
    across = Strides(0, 0, 1, 2**15)  # copied a second time
    products = BatchedProduct(1, 1, 2**15, 2**15, depth, across, across, NOWHERE, NOWHERE)
    program = Program((), ())
    launching = RemainderLaunching(program, {}, 132, DataType.FLOAT32)
    assert launching.scratch(products, tiling_of(products)).size <= 3 * 2**30
