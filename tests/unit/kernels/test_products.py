"""Products large enough to span tiles, threads and launches, and cases that error bounds cannot decide."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.devices import load
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from tests.oracles import oracle
from tests.support.devices import loaded
from tests.support.products import (
    FORWARD,
    LEAST,
    SHAPES,
    answer,
    assert_convolved,
    assert_rounded,
    assert_summed,
    cancelling,
    conv_fields,
    convolve,
    gemm,
    normal,
)

TYPES = [np.float32, np.float16]

DEVICES = ["1-thread", "3-threads", pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.timeout(600)])]


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    opened = loaded("cuda") if request.param == "cuda" else closing(CpuDevice(threads=int(request.param[0])))
    with opened as made:
        yield made


@pytest.mark.parametrize("dtype", TYPES)
def test_tiles_are_correctly_rounded(device, dtype):
    a, b, c = (normal(*shape, dtype=dtype, seed=i) for i, shape in enumerate(((530, 700), (700, 610), (530, 610))))
    plain = gemm(device, a, b)
    assert_rounded(plain, a, b)
    assert_summed(plain, a, b)
    fields = {"Alpha": 0.3, "Beta": -1.7}
    alpha, beta = (float(np.float32(value)) for value in fields.values())
    assert_rounded(gemm(device, a, b, c, **fields), a, b, alpha, beta, c)
    for turned_a, turned_b in itertools.product((False, True), repeat=2):
        left, right = np.ascontiguousarray(a.T) if turned_a else a, np.ascontiguousarray(b.T) if turned_b else b
        names = {False: "NONE", True: "TRANSPOSE"}
        given = gemm(device, left, right, TransA=names[turned_a], TransB=names[turned_b])
        np.testing.assert_array_equal(given, plain)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(3, 4001, 5000), (20_000, 33, 1), (257, 9001, 129), (300, 20_000, 130), (1, 1, 1)]
)
def test_products_of_every_shape_are_correct(device, rows, depth, columns):
    a, b = normal(rows, depth), normal(depth, columns, seed=1)
    assert_rounded(gemm(device, a, b), a, b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("depth", "columns"), [(1500, 4200), (5000, 30), (7, 300), (1, 40)])
def test_a_row_times_contiguous_columns_is_correctly_rounded(device, depth, columns, dtype):
    a, b, c = (
        normal(1, depth, dtype=dtype),
        normal(columns, depth, dtype=dtype, seed=1),
        normal(1, columns, dtype=dtype),
    )
    assert_rounded(gemm(device, a, b, c, TransB="TRANSPOSE"), a, b.T, 1, 1, c)
    turned = gemm(device, b, np.ascontiguousarray(a.T), c.T)
    assert_rounded(turned, b, a.T, 1, 1, c.T)


def test_rows_that_cancel_are_summed_exactly(device):
    a, b = cancelling(0, 70, 90)
    right = np.ascontiguousarray(b.T)
    for row in range(0, 70, 9):
        assert_rounded(gemm(device, a[row : row + 1], right, TransB="TRANSPOSE"), a[row : row + 1], b)


def test_rows_of_a_batch_match_their_matrices(device):
    a, b = normal(2, 30, 1, 50), normal(2, 30, 20, 50, seed=1)
    b[1, 3, 4, 5] = np.inf
    together = gemm(device, a, b, TransB="TRANSPOSE")
    for first, second in itertools.product(range(2), range(0, 30, 3)):
        turned = gemm(device, b[first, second], np.ascontiguousarray(a[first, second].T))
        np.testing.assert_array_equal(together[first, second], turned.T)
        other = gemm(device, a[first, second], np.ascontiguousarray(b[first, second].T))
        np.testing.assert_array_equal(together[first, second], other)


def test_a_batch_matches_its_matrices(device):
    a, b = normal(3, 40, 9, 17), normal(3, 40, 17, 5, seed=1)
    together = gemm(device, a, b)
    for first, second in itertools.product(range(3), range(0, 40, 7)):
        np.testing.assert_array_equal(together[first, second], gemm(device, a[first, second], b[first, second]))
    swapped = gemm(device, a.swapaxes(0, 1), b.swapaxes(0, 1))
    np.testing.assert_array_equal(swapped, together.swapaxes(0, 1))
    large = normal(700, 2, 70, 80), normal(700, 2, 80, 90, seed=1)
    product = gemm(device, *large)
    for first in (0, 333, 699):
        assert_rounded(product[first, 1], large[0][first, 1], large[1][first, 1])


@pytest.mark.parametrize("alpha", [1.0, 0.7, -1.5e38, 2.0**-140, 3e-40])
def test_cancellation_is_summed_exactly(device, alpha):
    a, b = cancelling(0, 70, 90)
    c = normal(70, 70, seed=5)
    for beta in (0.0, 3e-20, -2.5e-38):
        given = gemm(device, a, b, c, Alpha=alpha, Beta=beta)
        assert_rounded(given, a, b, float(np.float32(alpha)), float(np.float32(beta)), c)


def test_complete_cancellation_gives_positive_zero(device):
    a, b = normal(300, 400), normal(400, 200, seed=1)
    found = gemm(device, np.hstack([a, -a]), np.vstack([b, b]), Alpha=-1)
    assert not found.any()
    assert not np.signbit(found).any()
    assert not np.signbit(gemm(device, np.zeros_like(a), b, Alpha=-1)).any()


@pytest.mark.parametrize("dtype", TYPES)
def test_ties_round_to_even(device, dtype):
    """Odd numbers above the largest power of two with unit spacing are ties, which tiny terms decide."""
    top, least = (2**24, LEAST) if dtype is np.float32 else (2**11, 2.0**-24)
    a = np.array([[top, 1, 0], [top, 3, 0], [top, 1, least], [top, 3, -least]], dtype)
    right = np.array([top, top + 4, top + 2, top + 2], dtype)
    found = gemm(device, np.tile(a, (100, 1)), np.ones((3, 300), dtype))
    np.testing.assert_array_equal(found, np.tile(right, 100)[:, None].repeat(300, 1))


def test_infinities_and_nan_stay_in_their_rows_and_columns(device):
    a, b = normal(300, 201), normal(201, 281, seed=1)
    clean = gemm(device, a, b)
    a[5, 7], a[9, 3], b[11, 20] = np.inf, np.nan, -np.inf
    b[7, 40] = 0
    found = gemm(device, a, b)
    others = np.ones(found.shape, bool)
    others[[5, 9]] = others[:, [20, 40]] = False
    np.testing.assert_array_equal(found[others], clean[others])
    assert np.isnan(found[9]).all()
    assert np.isnan(found[5, 40])
    assert found[5, 0] == np.sign(b[7, 0]) * np.inf
    assert found[0, 20] == -np.sign(a[0, 11]) * np.inf


def test_an_infinite_alpha_takes_the_sign_of_the_exact_sum(device):
    a, b = np.array([[1, 1e20, -1e20, 0], [1, 1e20, -1e20, -1]], np.float32), np.ones((4, 1), np.float32)
    found = gemm(device, a, b, Alpha="inf")
    assert found[0, 0] == np.inf
    assert np.isnan(found[1, 0])


def test_huge_and_tiny_numbers_are_multiplied(device):
    greatest = float(np.finfo(np.float32).max)
    a = np.array([[greatest, greatest], [greatest, -greatest], [LEAST, LEAST], [LEAST, 0.5]], np.float32)
    b = np.array([[greatest, 1, 0.5, LEAST], [greatest, 2.0**-30, 0.5, LEAST]], np.float32)
    given = gemm(device, a, b)
    with np.errstate(over="ignore"):
        assert_rounded(given, a, b)


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
def test_fused_softmax_across_tiles(device, axes):
    a, b = normal(700, 40), normal(40, 900, seed=1)
    found = gemm(device, a, b, FusedActivation={"Type": "ACTIVATION_SOFTMAX1", "Axes": axes})
    scores = a.astype(np.float64) @ b.astype(np.float64)
    powers = np.exp(scores - scores.max(tuple(axes), keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(tuple(axes), keepdims=True), rtol=2**-23, atol=2.0**-149)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolutions_across_tiles(device, shape):
    assert_convolved(device, shape)


@pytest.mark.parametrize("filters", [5, 200])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_convolution_matches_the_equivalent_product(device, dtype, filters):
    source, kernel = normal(1, 300, 20, 30, dtype=dtype), normal(filters, 300, 1, 1, dtype=dtype, seed=1)
    inputs = {"InputTensor": source, "FilterTensor": kernel}
    found = answer(device, "CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, 0, 1))
    product = gemm(device, kernel.reshape(filters, 300), source.reshape(300, 600))
    np.testing.assert_array_equal(found.reshape(filters, 600), product)
    assert_rounded(product, kernel.reshape(filters, 300), source.reshape(300, 600))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("groups", [1, 5])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_convolution_of_single_elements_matches_products(device, dtype, groups, images):
    source, kernel = normal(images, 300, 1, 1, dtype=dtype), normal(200, 300 // groups, 1, 1, dtype=dtype, seed=1)
    bias = normal(1, 200, 1, 1, dtype=dtype, seed=2)
    inputs = {"InputTensor": source, "FilterTensor": kernel, "BiasTensor": bias}
    found = answer(device, "CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, 0, groups))
    left, right = source.reshape(images, groups, -1), kernel.reshape(groups, 200 // groups, -1)
    for group in range(groups):
        part = slice(group * 200 // groups, (group + 1) * 200 // groups)
        operands = np.ascontiguousarray(left[:, group]), np.ascontiguousarray(right[group].T)
        addend = np.broadcast_to(bias[0, part, 0, 0], (images, 200 // groups))
        assert_rounded(found[:, part, 0, 0], *operands, 1, 1, addend)


@pytest.mark.parametrize("padding", [0, 2])
def test_a_single_output_may_meet_only_padding(device, padding):
    source, kernel, bias = normal(1, 30, 1, 1), normal(40, 30, 1, 1, seed=1), normal(1, 40, 1, 1, seed=2)
    fields = conv_fields(2, 3, 1, 0, 1) | {"StartPadding": [0, padding]}
    inputs = {"InputTensor": source, "FilterTensor": kernel, "BiasTensor": bias}
    found = answer(device, "CONVOLUTION", inputs, **FORWARD, **fields)
    assert found.shape == (1, 40, 1, 1)
    if padding:
        np.testing.assert_array_equal(found, bias)
    else:
        assert_rounded(found[:, :, 0, 0], source[:, :, 0, 0], kernel[:, :, 0, 0].T, 1, 1, bias[:, :, 0, 0])


@pytest.mark.parametrize("filters", [3, 40])
def test_convolutions_that_cancel_are_summed_exactly(device, filters):
    a, b = cancelling(0, 70, 90)
    b = b[:, :filters]
    inputs = {"InputTensor": a[:, :, None, None], "FilterTensor": np.ascontiguousarray(b.T)[:, :, None, None]}
    found = answer(device, "CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, 0, 1))
    assert_rounded(found[:, :, 0, 0], a, b)


@pytest.mark.parametrize("filters", [4, 80])
@pytest.mark.parametrize("size", [3, 7, 20])
def test_each_position_of_short_lines_has_its_own_bound(device, size, filters):
    """Two huge elements cancel, so only exact sums give correct results where they meet."""
    chosen = np.random.default_rng(size)
    source = chosen.integers(-(2**11), 2**11, (2, 40, size, size))
    kernel = chosen.integers(-(2**11), 2**11, (filters, 40, 3, 3))
    kernel[:, 1] = -kernel[:, 0]
    source[1, :2, 1, 2] = 0
    right = convolve(source, kernel, 1, 1, 1, 1).astype(np.float32)
    given = source.astype(np.float32)
    given[1, :2, 1, 2] = 2.0**60
    inputs = {"InputTensor": given, "FilterTensor": kernel.astype(np.float32)}
    np.testing.assert_array_equal(answer(device, "CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, 1, 1)), right)


@pytest.mark.parametrize("filters", [1, 9, 70])
@pytest.mark.parametrize("dtype", TYPES)
def test_an_infinite_weight_times_the_0_of_padding_is_nan(device, filters, dtype):
    source, kernel = np.ones((1, 1, 1, 40), dtype), np.ones((filters, 1, 1, 3), dtype)
    kernel[-1, 0, 0, 0] = np.inf
    fields = conv_fields(2, 1, 1, 1, 1) | {"StartPadding": [0, 1], "EndPadding": [0, 1]}
    found = answer(device, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **FORWARD, **fields)[0, :, 0]
    right = np.full((filters, 40), 3, dtype)
    right[:, [0, -1]] = 2
    right[-1] = [np.nan, *[np.inf] * 39]
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("filters", [1, 9, 70])
@pytest.mark.parametrize("dtype", TYPES)
def test_an_infinite_weight_times_the_0_of_a_gap_is_nan(device, filters, dtype):
    source, kernel = np.ones((1, 1, 1, 20), dtype), np.ones((1, filters, 1, 2), dtype)
    kernel[0, -1, 0, 1] = np.inf
    fields = conv_fields(2, 1, 1, 0, 1) | {"Strides": [1, 2], "Direction": "BACKWARD"}
    found = answer(device, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **(FORWARD | fields))[
        0, :, 0
    ]
    right = np.ones((filters, 40), dtype)
    right[-1] = [np.nan, np.inf] * 20
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_fused_relu_multiplies_what_is_below_0_by_0(device, dtype):
    source, kernel = np.array([[[[-np.inf, -2, -0.0, np.nan, 3]]]], dtype), np.ones((9, 1, 1, 1), dtype)
    fields = {**FORWARD, **conv_fields(2, 1, 1, 0, 1), "FusedActivation": {"Type": "ACTIVATION_RELU"}}
    found = answer(device, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **fields)[0, :, 0]
    np.testing.assert_array_equal(found, np.tile(np.array([np.nan, 0, 0, np.nan, 3], dtype), (9, 1)))
    assert np.signbit(found[:, 1]).all()


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
def test_convolution_mode_mirrors_the_filter(device, direction, groups):
    source, kernel = normal(2, 8, 11, 12), normal(8, 8 // groups, 3, 4, seed=1)
    fields: dict[str, Any] = {**FORWARD, "Direction": direction, **conv_fields(2, 2, 1, 1, groups)}
    turned = np.ascontiguousarray(kernel[:, :, ::-1, ::-1])
    found = answer(device, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **fields)
    mirrored = answer(
        device, "CONVOLUTION", {"InputTensor": source, "FilterTensor": turned}, **(fields | {"Mode": "CONVOLUTION"})
    )
    np.testing.assert_array_equal(found, mirrored)


LONG: dict[str, Any] = {
    "Strides": [1, 2],
    "Dilations": [1, 3],
    "StartPadding": [0, 9],
    "EndPadding": [0, 9],
    "GroupCount": 1,
}

UNUSUAL: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 12, 9, 14), (12, 1, 3, 3), conv_fields(2, 1, 1, 1, 12)),
    ((2, 6, 5, 6), (70, 6, 3, 3), conv_fields(2, 1, 7, 8, 1)),
    ((2, 6, 5, 6), (6, 1, 5, 3), conv_fields(2, 1, 4, 8, 6)),
    ((1, 6, 14, 17), (12, 2, 5, 3), conv_fields(2, 2, 1, 2, 3)),
    ((1, 5, 11, 10), (70, 5, 3, 3), conv_fields(2, 1, 2, 2, 1)),
    ((2, 4, 6, 7), (10, 4, 4, 2), conv_fields(2, 3, 1, 1, 1)),
    ((2, 4, 1, 50), (70, 4, 1, 7), LONG),
    ((1, 4, 3, 8, 5), (70, 4, 2, 3, 3), conv_fields(3, 1, 1, 1, 1)),
    ((1, 4, 3, 6, 7), (4, 1, 3, 2, 3), conv_fields(3, 2, 1, 1, 4)),
]


@cache
def unusual(case: int, direction: str) -> list[tuple[dict[str, Array], dict[str, Any], Array]]:
    """Inputs, fields and reference results, shared by all devices: with and without infinities and NaN."""
    input_sizes, filter_sizes, fields = UNUSUAL[case]
    chosen = np.random.default_rng(0)
    groups, spatial = fields["GroupCount"], len(input_sizes) - 2
    if direction == "BACKWARD":
        filter_sizes = (input_sizes[1], filter_sizes[0] // groups, *filter_sizes[2:])
    source, kernel = (
        (chosen.integers(-2, 3, sizes) * 2.0 ** chosen.integers(-40, 40, sizes)).astype(np.float32)
        for sizes in (input_sizes, filter_sizes)
    )
    source.flat[[5, 77, 150]] = np.inf, np.nan, -np.inf
    kernel.flat[[0, len(kernel.flat) // 2]] = np.inf, -np.inf
    finite = np.nan_to_num(source, posinf=1, neginf=3), np.nan_to_num(kernel, posinf=1)
    given = {**FORWARD, **fields, "Direction": direction, "OutputPadding": [0] * spatial}
    with closing(load("reference")) as reference:
        return [
            (inputs, given, answer(reference, "CONVOLUTION", inputs, **given))
            for inputs in ({"InputTensor": x, "FilterTensor": w} for x, w in ((source, kernel), finite))
        ]


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize("case", range(len(UNUSUAL)))
def test_convolutions_of_unusual_numbers_match_the_reference(device, case, direction):
    """Infinities and NaN in both operands, cancellation, and numbers of all magnitudes."""
    for inputs, given, right in unusual(case, direction):
        np.testing.assert_array_equal(answer(device, "CONVOLUTION", inputs, **given), right)


@pytest.mark.parametrize("fused", [None, {"Type": "ACTIVATION_SIGMOID"}])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize(("filters", "padding"), [(4, [2, 0]), (70, [0, 3]), (70, [1, 2])])
def test_the_padding_of_the_output_is_the_activation_of_0(device, direction, filters, padding, fused):
    channels = (8, filters)
    source, kernel = normal(2, channels[direction == "BACKWARD"], 9, 10), normal(filters, 8, 2, 1, seed=1)
    inputs = {"InputTensor": source, "FilterTensor": kernel, "BiasTensor": normal(1, filters, 1, 1, seed=2)}
    if direction == "BACKWARD":
        inputs["BiasTensor"] = normal(1, 8, 1, 1, seed=2)
    fields: dict[str, Any] = {**FORWARD, "Direction": direction, **conv_fields(2, 3, 1, 0, 1), "FusedActivation": fused}
    whole = answer(device, "CONVOLUTION", inputs, **fields)
    found = answer(device, "CONVOLUTION", inputs, **(fields | {"OutputPadding": padding}))
    high, wide = (size - pad for size, pad in zip(whole.shape[2:], padding, strict=True))
    right = np.full(whole.shape, 0 if fused is None else 0.5, np.float32)
    right[:, :, :high, :wide] = whole[:, :, :high, :wide]
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("groups", [2, 12])
def test_a_transposed_convolution_is_the_adjoint(device, groups):
    """The inner products <x, F y> and <F' x, y> agree, exactly for integers."""
    chosen = np.random.default_rng(0)
    kernel = chosen.integers(-5, 6, (24, 20 // groups if groups == 2 else 1, 4, 3)).astype(np.float32)
    source = chosen.integers(-5, 6, (2, 24, 33, 40)).astype(np.float32)
    fields: dict[str, Any] = {**FORWARD, "Direction": "BACKWARD", **conv_fields(2, 3, 2, 1, groups)}
    found = answer(device, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **fields)
    other = chosen.integers(-5, 6, found.shape).astype(np.float32)
    fields = fields | {"Direction": "FORWARD"}
    forward = answer(device, "CONVOLUTION", {"InputTensor": other, "FilterTensor": kernel}, **fields)
    totals = [(x.astype(np.int64) * y.astype(np.int64)).sum() for x, y in ((found, other), (forward, source))]
    assert totals[0] == totals[1]


def test_integer_products_across_tiles(device):
    chosen = np.random.default_rng(0)
    a, b = chosen.integers(0, 256, (530, 4700), np.uint8), chosen.integers(-128, 128, (4700, 600), np.int8)
    zero_a, zero_b = chosen.integers(0, 256, (530, 1), np.uint8), chosen.integers(-128, 128, (1, 600), np.int8)
    inputs = {"ATensor": a, "AZeroPointTensor": zero_a, "BTensor": b, "BZeroPointTensor": zero_b}
    # Sums below 2**53 are exact in float64, whose products are faster.
    right = ((a.astype(np.float64) - zero_a) @ (b.astype(np.float64) - zero_b)).astype(np.int64)
    np.testing.assert_array_equal(answer(device, "MATRIX_MULTIPLY_INTEGER", inputs), right)


def test_sums_of_bytes_wrap_around(device):
    a, b = np.full((2, 40_000), 255, np.uint8), np.full((40_000, 3), -128, np.int8)
    zeros = {"AZeroPointTensor": np.zeros((1, 1), np.uint8), "BZeroPointTensor": np.full((1, 1), 127, np.int8)}
    right = (255 * -255 * 40_000 + 2**31) % 2**32 - 2**31
    found = answer(device, "MATRIX_MULTIPLY_INTEGER", {"ATensor": a, "BTensor": b, **zeros})
    np.testing.assert_array_equal(found, np.full((2, 3), right))


@pytest.mark.parametrize("cancels", [False, True])
def test_wide_integers_are_rounded_once(device, cancels):
    chosen = np.random.default_rng(0)
    a, b = (chosen.integers(-(2**31), 2**31, shape, np.int32) for shape in ((300, 1200), (1200, 200)))
    if cancels:
        b[600:], a[:, 600:] = b[:600], -a[:, :600]
        a[:, 0] += 1
    scale = np.array([[2.0**-20]], np.float32)
    inputs = {"ATensor": a, "AScaleTensor": scale, "BTensor": b, "BScaleTensor": scale}
    exact = a[:30].astype(object) @ b[:, :20].astype(object)
    right = np.vectorize(lambda n: oracle.rounded(Fraction(n) / 2**40, np.dtype(np.float32)))(exact)
    found = answer(device, "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", inputs)
    np.testing.assert_array_equal(found[:30, :20], right)


def test_requantization_rounds_ties_to_even(device):
    chosen = np.random.default_rng(0)
    a, b = chosen.integers(-4, 5, (300, 60)).astype(np.int8), chosen.integers(-4, 5, (60, 300)).astype(np.int8)
    names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    for scales in ((0.3, 0.7, 0.42), (0.5, 3, 3), (0.5, 3, -3)):
        given = [np.array([value], np.float32) for value in scales]
        inputs: dict[str, Array] = {"ATensor": a, "BTensor": b, **dict(zip(names, given, strict=True))}
        x, y, z = (Fraction(float(scale[0])) for scale in given)
        sums = a.astype(int) @ b.astype(int)
        table = {n: max(-128, min(127, round(n * x * y / z))) for n in set(sums.reshape(-1).tolist())}
        right = np.vectorize(table.__getitem__)(sums)
        np.testing.assert_array_equal(answer(device, "QUANTIZED_LINEAR_MATRIX_MULTIPLY", inputs), right)
