"""Element-wise operators on a card: the same bits as the CPU device, which other tests check against exact values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.kernels.cuda.elementwise import TABLE_WORTH
from tests.support.elements import EDGES, HARD, SHRINKS, answer, drawn_floats, integers, plan_of, takes_scale, unary

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]

SHAPES = [(7, 33, 129), (4, 64, 96), (5, 6, 2), (3, 1, 8)]

RELU = {"FusedActivation": {"Type": "ACTIVATION_RELU", "Desc": {}}}
ELU = {"FusedActivation": {"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}}}


@pytest.fixture(scope="module")
def few_float64(cuda: CudaDevice) -> Iterator[CudaDevice]:
    """The same card, used as if it had few float64 units."""
    device = CudaDevice(memory_bytes=2**30)
    device.card = device.card._replace(float64_ratio=64)
    yield device
    device.close()


def assert_like_cpu(cuda: Device, cpu: Device, name: str, arrays: dict[str, Array], **attributes: Any) -> None:
    plan = plan_of(name, arrays, **attributes)
    given, right = answer(cuda, plan, arrays), answer(cpu, plan, arrays)
    unlike = given.view(f"u{given.itemsize}") != right.view(f"u{right.itemsize}")
    if given.dtype.kind == "f":
        unlike &= ~(np.isnan(given) & np.isnan(right))
    for place in np.argwhere(unlike)[:3]:
        index = tuple(place)
        elements = {key: array[index] for key, array in arrays.items()}
        pytest.fail(f"{name} of {elements} is {given[index]!r}, on the CPU {right[index]!r} ({unlike.sum()} unlike)")


@pytest.mark.parametrize("name", unary(DataType.FLOAT16))
def test_every_float16_matches_the_cpu(cuda, cpu, name):
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert_like_cpu(cuda, cpu, name, {"InputTensor": patterns})


LOOKED_UP: dict[str, dict[str, Any]] = {
    "ACTIVATION_GELU": {},
    "ACTIVATION_SOFTPLUS": {"Steepness": 3},
    "ELEMENT_WISE_CONSTANT_POW": {"Exponent": 2.5},
    "ELEMENT_WISE_ASIN": {"ScaleBias": {"Scale": 0.37, "Bias": 0.25}},
}


@pytest.mark.parametrize("name", LOOKED_UP)
def test_float16_lookup_tables_match_the_cpu(cuda, cpu, name):
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    long = np.resize(patterns, TABLE_WORTH + 3)
    assert_like_cpu(cuda, cpu, name, {"InputTensor": long}, **LOOKED_UP[name])
    turned = np.resize(patterns, (2048, 2053)).T
    assert_like_cpu(cuda, cpu, name, {"InputTensor": turned}, **LOOKED_UP[name])


SCALE = {"Scale": 0.37, "Bias": -1.5}

USUAL = ("EXP", "LOG", "SIN", "COS", "TAN", "TANH", "ERF", "ASIN", "ACOS", "ATAN", "SINH", "COSH")


@pytest.mark.parametrize("name", [*(f"ELEMENT_WISE_{name}" for name in USUAL), "ACTIVATION_SIGMOID", "ACTIVATION_GELU"])
def test_ordinary_numbers_match_the_cpu(cuda, cpu, name):
    values = np.random.default_rng(12).standard_normal(1 << 20).astype(np.float32)
    assert_like_cpu(cuda, cpu, name, {"InputTensor": abs(values) if name.endswith("LOG") else values})


IN_PAIRS: tuple[str, ...] = (
    "ELEMENT_WISE_EXP",
    "ELEMENT_WISE_LOG",
    "ELEMENT_WISE_TANH",
    "ELEMENT_WISE_ERF",
    "ELEMENT_WISE_ASIN",
)
IN_PAIRS += ("ACTIVATION_SIGMOID", "ACTIVATION_GELU", "ACTIVATION_SOFTPLUS", "ACTIVATION_CELU", "ACTIVATION_SWISH")


@pytest.mark.parametrize("name", IN_PAIRS)
def test_cards_with_few_float64_units_match_the_cpu(few_float64, cpu, name):
    usual = np.random.default_rng(9).standard_normal(1 << 18).astype(np.float32)
    values = np.concatenate([drawn_floats(50_003, seed=8), usual])
    assert_like_cpu(few_float64, cpu, name, {"InputTensor": values})
    assert_like_cpu(few_float64, cpu, name, {"InputTensor": np.arange(1 << 16, dtype=np.uint16).view(np.float16)})
    if takes_scale(name):
        assert_like_cpu(few_float64, cpu, name, {"InputTensor": values[:4003]}, ScaleBias=SCALE)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_ordinary_powers_match_the_cpu(cuda, cpu, dtype):
    draw = np.random.default_rng(13)
    bases, exponents = (draw.standard_normal(1 << 18).astype(dtype) for _ in "xy")
    assert_like_cpu(cuda, cpu, "ELEMENT_WISE_POW", {"InputTensor": abs(bases), "ExponentTensor": exponents})


@pytest.mark.parametrize("name", unary(DataType.FLOAT32))
def test_random_float32_bits_match_the_cpu(cuda, cpu, name):
    values = {"InputTensor": drawn_floats(50_003, seed=6)}
    assert_like_cpu(cuda, cpu, name, values)
    if takes_scale(name):
        few = {"InputTensor": drawn_floats(2_003, seed=7)}
        assert_like_cpu(cuda, cpu, name, few, ScaleBias=SCALE)


@pytest.mark.parametrize("alpha", ["Infinity", "-Infinity"])
def test_celu_with_infinite_alpha_matches_the_cpu(cuda, cpu, alpha):
    values = {"InputTensor": np.array((*EDGES, *HARD), np.float32)}
    assert_like_cpu(cuda, cpu, "ACTIVATION_CELU", values, Alpha=alpha)


@pytest.mark.parametrize("scale", [(1e-30, 1.0), (1.0, 3e38)])
@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if takes_scale(name)])
def test_scaled_inputs_that_round_in_float64_match_the_cpu(cuda, cpu, name, scale):
    values = {"InputTensor": drawn_floats(20_003, seed=8)}
    assert_like_cpu(cuda, cpu, name, values, ScaleBias=dict(zip(("Scale", "Bias"), scale, strict=True)))


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT8, DataType.INT32, DataType.UINT32])
@pytest.mark.parametrize(("bias", "threshold"), SHRINKS)
def test_shrunk_integers_match_the_cpu(cuda, cpu, data_type, bias, threshold):
    values = {"InputTensor": integers(data_type, 10_000)}
    assert_like_cpu(cuda, cpu, "ACTIVATION_SHRINK", values, Bias=bias, Threshold=threshold)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_clipping_to_0_and_1_keeps_nan(cuda, cpu, dtype):
    values = {"InputTensor": np.array([np.nan, -np.inf, -0.0, 0.25, 1, 7, np.inf], dtype)}
    assert_like_cpu(cuda, cpu, "ELEMENT_WISE_CLIP", values, Min=0, Max=1)
    assert_like_cpu(cuda, cpu, "ELEMENT_WISE_CLIP", values, Min=0, Max=1, ScaleBias={"Scale": 0.3, "Bias": 0.1})
    assert_like_cpu(cuda, cpu, "ACTIVATION_HARD_SIGMOID", values, Alpha=0.2, Beta=0.5)


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT32, DataType.INT64, DataType.UINT64])
@pytest.mark.parametrize("name", ["ADD", "MULTIPLY", "DIVIDE", "MODULUS_FLOOR", "MODULUS_TRUNCATE", "MAX"])
def test_integer_arithmetic_matches_the_cpu(cuda, cpu, name, data_type):
    draw, info = np.random.default_rng(8), np.iinfo(data_type.dtype)
    a, b = (draw.integers(info.min, info.max, 10_001, data_type.dtype, endpoint=True) for _ in "ab")
    b[::3] %= 5
    minus_one = data_type.dtype.type(info.max if info.min == 0 else -1)
    a[:9] = np.repeat(np.array([info.min, info.max, 0], data_type.dtype), 3)
    b[:9] = np.tile(np.array([minus_one, 0, 1], data_type.dtype), 3)
    assert_like_cpu(cuda, cpu, f"ELEMENT_WISE_{name}", {"ATensor": a, "BTensor": b})


def layouts(shape: tuple[int, ...], dtype: Any) -> Iterator[Array]:
    """Yields arrays of a shape: packed, permuted, and broadcast along each axis or along all but one."""
    draw = np.random.default_rng(9)

    def made(sizes: Any) -> Array:
        return np.asarray(draw.integers(-100, 100, sizes).astype(dtype))

    yield made(shape)
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        yield made([shape[axis] for axis in order]).transpose(np.argsort(order))
    for axis in range(3):
        yield np.broadcast_to(made([1 if i == axis else size for i, size in enumerate(shape)]), shape)
        yield np.broadcast_to(made([size if i == axis else 1 for i, size in enumerate(shape)]), shape)
    yield np.broadcast_to(made([1, 1, 1]), shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64])
def test_sums_of_every_layout(cuda, shape, dtype):
    for a in layouts(shape, dtype):
        for b in layouts(shape, dtype):
            arrays = {"ATensor": a, "BTensor": b}
            given = answer(cuda, plan_of("ELEMENT_WISE_ADD", arrays), arrays)
            np.testing.assert_array_equal(given, a + b)


@pytest.mark.parametrize("shape", SHAPES[:2])
@pytest.mark.parametrize("fused", [RELU, ELU])
def test_fused_activations_of_every_layout_match_the_cpu(cuda, cpu, shape, fused):
    packed = next(layouts(shape, np.float16))
    for b in layouts(shape, np.float16):
        assert_like_cpu(cuda, cpu, "ELEMENT_WISE_ADD1", {"ATensor": packed, "BTensor": b}, **fused)


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT16, DataType.INT32])
def test_integers_raised_to_floats_match_the_cpu(cuda, cpu, data_type):
    base = np.arange(-20, 21).astype(data_type.dtype)
    exponents = np.array([-2, -1, 0, 0.5, 1, 1.5, 2, 3, 5, np.inf, np.nan], np.float16)
    arrays = {"InputTensor": np.repeat(base, exponents.size), "ExponentTensor": np.tile(exponents, base.size)}
    assert_like_cpu(cuda, cpu, "ELEMENT_WISE_POW", arrays)


def test_elements_the_card_cannot_round_are_computed_exactly(cuda, cpu):
    # 1.5 times a small odd multiple of the least subnormal is a tie, and the exact result is just above it.
    ties = np.arange(-2001, 2001, 2, dtype=np.float32) * np.float32(2.0**-149)
    assert_like_cpu(cuda, cpu, "ACTIVATION_ELU", {"InputTensor": ties}, Alpha=1.5)
