"""Convolutions on a card by remainders and in float64: both ways give the same bits, those of the exact sum."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.kernels.cuda.products.window_remainders import LEAST_CAPABILITY
from tests.oracles import oracle
from tests.support.products import FORWARD, answer, conv_fields, convolve, normal, plan_of

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def devices(cuda: CudaDevice) -> Iterator[tuple[CudaDevice, CudaDevice]]:
    """Yields a device that convolves by remainders, and one that does so in float64."""
    if cuda.card.capability < LEAST_CAPABILITY:
        pytest.skip("the card does not multiply bytes")
    first, second = cuda, CudaDevice()
    first.card, second.card = cuda.card._replace(float64_ratio=64), cuda.card._replace(float64_ratio=2, capability=80)
    yield first, second
    second.close()


def both(devices: tuple[CudaDevice, CudaDevice], inputs: dict[str, Array], fields: dict[str, Any]) -> Array:
    """Returns the results after checking that both ways give the same bits, and each was taken."""
    plan = plan_of("CONVOLUTION", inputs, **fields)
    entries = [{program.kernels for program in device.job(plan).programs} for device in devices]
    assert [any("products/window_remainders" in each for each in kernels) for kernels in entries] == [True, False]
    found, other = (answer(device, "CONVOLUTION", inputs, **fields) for device in devices)
    bits = np.uint32 if found.dtype == np.float32 else np.uint16
    np.testing.assert_array_equal(np.ascontiguousarray(found).view(bits), np.ascontiguousarray(other).view(bits))
    return found


def fields_of(
    stride: int = 1, dilation: int = 1, pad: int = 1, groups: int = 1, spatial: int = 2, **more: Any
) -> dict[str, Any]:
    arrays = conv_fields(spatial, stride, dilation, pad, groups)
    return {**FORWARD, "OutputPadding": [0] * spatial, **arrays, **more}


SHAPES = [
    # images, channels, size, filters, window, stride, dilation, padding, groups
    (8, 64, 56, 64, 3, 1, 1, 1, 1),
    (3, 200, 44, 170, 1, 1, 1, 0, 1),
    (5, 120, 61, 60, 5, 2, 2, 3, 3),
    (2, 72, 75, 100, 4, 3, 1, 1, 1),
    (1, 512, 30, 130, 3, 1, 1, 1, 1),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolutions_of_integers_are_exact(devices, shape):
    images, channels, size, filters, window, stride, dilation, pad, groups = shape
    steps = stride, dilation, pad, groups
    chosen = np.random.default_rng(1)
    source = chosen.integers(-9, 10, (images, channels, size, size))
    kernel = chosen.integers(-9, 10, (filters, channels // groups, window, window))
    inputs = {"InputTensor": source.astype(np.float32), "FilterTensor": kernel.astype(np.float32)}
    found = both(devices, inputs, fields_of(*steps))
    np.testing.assert_array_equal(found, convolve(source, kernel, *steps))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolutions_are_rounded_once(devices, dtype):
    source, kernel = normal(4, 70, 50, 50, dtype=dtype), normal(66, 70, 3, 3, dtype=dtype, seed=1)
    bias = normal(1, 66, 1, 1, dtype=dtype, seed=2)
    inputs = {"InputTensor": source, "FilterTensor": kernel, "BiasTensor": bias}
    found = both(devices, inputs, fields_of())
    padded = np.pad(source, ((0, 0), (0, 0), (1, 1), (1, 1)))
    chosen = random.Random(1)
    for _ in range(60):
        image, row, y, x = (chosen.randrange(size) for size in found.shape)
        pairs = zip(padded[image, :, y : y + 3, x : x + 3].ravel(), kernel[row].ravel(), strict=True)
        exact = sum((Fraction(float(a)) * Fraction(float(b)) for a, b in pairs), Fraction(float(bias[0, row, 0, 0])))
        assert found[image, row, y, x] == oracle.rounded(exact, np.dtype(dtype))


def test_layouts_dimensions_and_activations_do_not_matter(devices):
    images = np.ascontiguousarray(normal(4, 50, 51, 64)).transpose(0, 3, 1, 2)
    both(devices, {"InputTensor": images, "FilterTensor": normal(64, 64, 3, 3)}, fields_of())
    volume = {"InputTensor": normal(3, 32, 18, 17, 19), "FilterTensor": normal(48, 32, 3, 2, 3)}
    both(devices, volume, fields_of(spatial=3))
    plain = {"InputTensor": normal(4, 64, 50, 51), "FilterTensor": normal(64, 64, 3, 3)}
    both(devices, plain, fields_of(Mode="CONVOLUTION"))
    for name in ("RELU", "TANH"):
        both(devices, plain, fields_of(FusedActivation={"type": f"ACTIVATION_{name}", "desc": {}}))


@pytest.mark.parametrize(("stride", "groups"), list(itertools.product((1, 2), repeat=2)))
def test_transposed_convolutions_have_phases(devices, stride, groups):
    inputs = {"InputTensor": normal(4, 64, 40, 41), "FilterTensor": normal(64, 64 // groups, 4, 3, seed=1)}
    both(devices, inputs, fields_of(stride, groups=groups, Direction="BACKWARD"))


def adversarial(case: str) -> tuple[Array, Array]:
    chosen = np.random.default_rng(3)
    images, filters = normal(4, 64, 50, 50), normal(64, 64, 3, 3, seed=1)
    rest = normal(4, 64, 50, 50, seed=2) * np.float32(2.0**-40)
    match case:
        case "cancellation":
            return np.concatenate([images, images], 1), np.concatenate([filters, -filters], 1)
        case "cancellation but for a rest":
            return np.concatenate([images, images, rest], 1), np.concatenate([filters, -filters, filters], 1)
        case "near ties":
            whole = (chosen.integers(-(2**14), 2**14, each.shape) for each in (images, filters))
            return next(whole).astype(np.float32), next(whole).astype(np.float32)
        case "all magnitudes":
            images = np.ldexp(images, chosen.integers(-60, 60, images.shape))
            filters = np.ldexp(filters, chosen.integers(-30, 30, (64, 1, 1, 1)))
        case "tiny":
            return images * np.float32(2.0**-125), filters * np.float32(2.0**-18)
        case "huge":
            return images * np.float32(2.0**100), filters * np.float32(2.0**25)
        case "zeros":
            images[1], images[2, :, 10:40, 10:40], filters[5] = 0, 0, 0
        case "a bright spot":
            images[:, :, 25, 25] *= np.float32(2.0**20)
        case "infinities and NaN":
            images[0, 3, 4, 5], images[1, 7, 9, 9], images[1, 8, 9, 9] = np.nan, np.inf, -np.inf
            filters[3, 4, 1, 1], filters[9, 4, 0, 0] = np.inf, np.nan
    return images.astype(np.float32), filters.astype(np.float32)


CASES = "cancellation", "cancellation but for a rest", "near ties", "all magnitudes", "tiny", "huge", "zeros"


@pytest.mark.parametrize("case", [*CASES, "a bright spot", "infinities and NaN"])
def test_what_bounds_leave_undecided_is_settled(devices, case):
    images, filters = adversarial(case)
    found = both(devices, {"InputTensor": images, "FilterTensor": filters}, fields_of())
    if case == "cancellation":
        assert (found == 0).all()
        assert not np.signbit(found).any()
