"""Tiled operators on tensors of several tiles, against NumPy in float64 on the whole tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.kernels.cpu.run.tiles import TILE
from tests.oracles import random
from tests.support.execution import never_stop
from tests.support.moving import tensor

LONG = 2 * TILE + 5
SHAPES = [((3, LONG), (1,)), ((LONG, 3), (0,)), ((300, 257), (1,)), ((2, 65, 7, 113), (1,)), ((5, 6, 70, 71), (0, 3))]


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuDevice]:
    device = CpuDevice(2)
    yield device
    device.close()


def run(device: Device, operator: str, arrays: dict[str, Array], **fields: object) -> dict[str, Array]:
    """Runs an operator and returns its packed outputs."""
    tensors = {name: tensor(array) for name, array in arrays.items()}
    plan = check({"type": operator, "desc": {**tensors, **fields}})
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.run(plan, arrays, outputs, never_stop)
    return outputs


def random_array(*shape: int, dtype: Any = np.float32, seed: int = 1) -> Array:
    array: Array = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return array


def across(array: Array) -> Array:
    """Returns the same array with its last two dimensions swapped in memory."""
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def assert_within(actual: Array, right: Array, ulps: float) -> None:
    """Checks an error bound; float64 errs far less than one ULP of a narrower type."""
    spacing = np.spacing(np.abs(right).astype(actual.dtype)).astype(np.float64)
    off = np.abs(actual.astype(np.float64) - right) / spacing
    assert off.max() <= ulps + 1e-3, f"{off.max()} units at {np.unravel_index(off.argmax(), off.shape)}"


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_softmax_and_log_softmax(cpu, shape, axes, dtype):
    x = random_array(*shape, dtype=dtype)
    wide = x.astype(np.longdouble)
    shifted = wide - wide.max(axes, keepdims=True)
    total = np.exp(shifted).sum(axes, keepdims=True)
    for name, right in (("SOFTMAX1", np.exp(shifted) / total), ("LOG_SOFTMAX1", shifted - np.log(total))):
        found = run(cpu, f"ACTIVATION_{name}", {"InputTensor": x}, Axes=list(axes))["OutputTensor"]
        assert_within(found, right.astype(np.float64), 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 50])
def test_softmax_of_unusual_rows_is_the_exact_one(cpu, reference, length, dtype):
    """Among them rows apart, of infinities, NaN, -infinity for masked elements, and results of every magnitude."""
    rows = 16 + 2048 // length
    x = random_array(rows, length + 3, dtype=dtype, seed=length)[:, :length]
    x *= np.geomspace(1, 60, rows, dtype=dtype)[:, np.newaxis]
    x[0], x[1, 0], x[2, -1], x[3, 0] = -math.inf, math.inf, math.nan, -math.inf
    x[4], x[5, ::2], x[6, length // 2 :] = 2.5, -math.inf, -math.inf
    x[7:9] = np.linspace(-110, 0, length)
    found, right = (
        run(device, "ACTIVATION_SOFTMAX1", {"InputTensor": x}, Axes=[1])["OutputTensor"] for device in (cpu, reference)
    )
    np.testing.assert_array_equal(found, right)


def test_softmax_of_many_rows_of_nan(cpu):
    x = random_array(200, 40)
    x[::2, 7] = math.nan
    alone = run(cpu, "ACTIVATION_SOFTMAX1", {"InputTensor": x[1::2]}, Axes=[1])["OutputTensor"]
    found = run(cpu, "ACTIVATION_SOFTMAX1", {"InputTensor": x}, Axes=[1])["OutputTensor"]
    np.testing.assert_array_equal(found[1::2], alone)
    assert np.isnan(found[::2]).all()


def test_log_softmax_next_to_a_row_of_nan(cpu):
    """If one element dominates, its log-softmax is close to 0: minus the sum of the others' exponentials."""
    x = np.zeros((2, 7), np.float32)
    x[0], x[0, :2] = -300, (5, -20)
    x[1] = math.nan
    found = run(cpu, "ACTIVATION_LOG_SOFTMAX1", {"InputTensor": x}, Axes=[1])["OutputTensor"]
    assert found[0, 0] == np.float32(-math.log1p(math.exp(-25)))
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_hardmax_matches_numpy(cpu, shape, axes):
    x = np.round(random_array(*shape) * 2)
    x.reshape(-1)[::7] = math.nan
    found = run(cpu, "ACTIVATION_HARDMAX1", {"InputTensor": x}, Axes=list(axes))["OutputTensor"]
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[i] for i in kept), -1)
    begins_with_nan = np.isnan(rows[..., 0])
    rows = np.nan_to_num(rows, nan=-np.inf)
    rows[..., 0][begins_with_nan] = np.inf
    right = np.arange(rows.shape[-1]) == rows.argmax(-1)[..., None]
    assert (found.transpose(*kept, *axes).reshape(right.shape) == right).all()


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("laid", [np.ascontiguousarray, across])
def test_mean_variance_normalization(cpu, shape, axes, offset, laid):
    x = random_array(*shape) + np.float32(offset)
    parameter = [size if i == len(shape) - 1 else 1 for i, size in enumerate(shape)]
    scale, bias = random_array(*parameter, seed=2), random_array(*parameter, seed=3)
    wide = x.astype(np.longdouble)
    mean = wide.mean(axes, keepdims=True)
    spread = np.sqrt(((wide - mean) ** 2).mean(axes, keepdims=True) + np.float32(1e-5))
    right = (scale * (wide - mean) / spread + bias).astype(np.float64)
    arrays = {"InputTensor": laid(x), "ScaleTensor": scale, "BiasTensor": bias}
    fields = {"Axes": list(axes), "UseMean": True, "UseVariance": True, "Epsilon": 1e-5}
    assert_within(run(cpu, "MEAN_VARIANCE_NORMALIZATION2", arrays, **fields)["OutputTensor"], right, 1)


@pytest.mark.parametrize("channels", [8, 1])
@pytest.mark.parametrize("laid", [np.ascontiguousarray, across])
def test_batch_normalization(cpu, laid, channels):
    x, one = laid(random_array(3, channels, 75, 76)), [1, channels, 1, 1]
    scale, bias, mean = random_array(*one, seed=2), random_array(*one, seed=3), random_array(*one, seed=4)
    variance = np.abs(random_array(*one, seed=5))
    arrays = {
        "InputTensor": x,
        "MeanTensor": mean,
        "VarianceTensor": variance,
        "ScaleTensor": scale,
        "BiasTensor": bias,
    }
    wide = {name: array.astype(np.longdouble) for name, array in arrays.items()}
    root = np.sqrt(wide["VarianceTensor"] + np.float32(0.1))
    right = wide["ScaleTensor"] * (wide["InputTensor"] - wide["MeanTensor"]) / root + wide["BiasTensor"]
    found = run(cpu, "BATCH_NORMALIZATION", arrays, Spatial=True, Epsilon=0.1)["OutputTensor"]
    assert_within(found, right.astype(np.float64), 1)
    arrays = {"InputTensor": x, "ScaleTensor": scale, "BiasTensor": bias}
    outputs = run(cpu, "BATCH_NORMALIZATION_TRAINING", arrays, Epsilon=0.1)
    assert_within(outputs["OutputMeanTensor"], x.astype(np.float64).mean((0, 2, 3), keepdims=True), 1)
    assert_within(outputs["OutputVarianceTensor"], x.astype(np.float64).var((0, 2, 3), keepdims=True), 1)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((3, LONG), 1), ((LONG, 3), 0), ((2, 65, 7, 113), 1)])
@pytest.mark.parametrize("laid", [np.ascontiguousarray, across])
def test_lp_normalization(cpu, shape, axis, power, laid):
    x = laid(random_array(*shape))
    wide = x.astype(np.longdouble)
    squares = (np.abs(wide) ** power).sum(axis, keepdims=True) ** (2 // power)
    found = run(cpu, "LP_NORMALIZATION", {"InputTensor": x}, Axis=axis, Epsilon=0.5, P=power)["OutputTensor"]
    assert_within(found, (wide / np.sqrt(squares + 0.5)).astype(np.float64), 1)


@pytest.mark.parametrize(("shape", "axis"), [((3, LONG), 1), ((LONG, 3), 0), ((2, 65, 7, 113), 1), ((100, 1000), 1)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("direction", ["INCREASING", "DECREASING"])
def test_cumulative_summation(cpu, shape, axis, exclusive, direction):
    fields = {"Axis": axis, "AxisDirection": direction, "HasExclusiveSum": exclusive}
    for x in (random_array(*shape) * 10, (random_array(*shape) * 1e9).astype(np.int64)):
        wide = x.astype(np.longdouble if x.dtype == np.float32 else x.dtype)
        lines = np.flip(wide, axis) if direction == "DECREASING" else wide
        sums = np.cumsum(lines, axis)
        if exclusive:
            sums = np.roll(sums, 1, axis)
            sums[(slice(None),) * axis + (0,)] = 0
        right = np.flip(sums, axis) if direction == "DECREASING" else sums
        found = run(cpu, "CUMULATIVE_SUMMATION", {"InputTensor": x}, **fields)["OutputTensor"]
        if x.dtype == np.float32:
            assert (found == right.astype(np.float32)).all()
        else:
            assert (found == right).all()


def test_cumulative_product(cpu):
    x = np.exp2(np.round(random_array(40, 5000) * 3)).astype(np.float32)
    fields = {"Axis": 1, "AxisDirection": "INCREASING", "HasExclusiveProduct": False}
    found = run(cpu, "CUMULATIVE_PRODUCT", {"InputTensor": x}, **fields)["OutputTensor"]
    with np.errstate(over="ignore", under="ignore"):
        right = np.exp2(np.cumsum(np.log2(x.astype(np.float64)), 1)).astype(np.float32)
    assert (found == right).all()


def test_quantization_round_trips(cpu):
    x = random_array(70, 1001) * 100
    scale, zero_point = np.full((70, 1001), 0.75, np.float32), np.full((70, 1001), -3, np.int8)
    arrays = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero_point}
    found = run(cpu, "ELEMENT_WISE_QUANTIZE_LINEAR", arrays)["OutputTensor"]
    right = np.clip(np.rint(x.astype(np.float64) / 0.75) - 3, -128, 127)
    assert (found == right).all()
    back = run(cpu, "ELEMENT_WISE_DEQUANTIZE_LINEAR", {**arrays, "InputTensor": found})["OutputTensor"]
    assert (back == (right + 3) * 0.75).all()


def test_quantized_sums_with_and_without_a_lookup_table(cpu):
    generator = np.random.default_rng(3)
    a, b = (generator.integers(0, 256, 1 << 18, np.uint8) for _ in range(2))
    one = {name: np.array([value], np.float32) for name, value in (("AScaleTensor", 0.1), ("BScaleTensor", 0.3))}
    scales = {**one, "OutputScaleTensor": np.array([0.2], np.float32)}
    many = run(cpu, "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", {"ATensor": a, "BTensor": b, **scales})["OutputTensor"]
    few = run(cpu, "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", {"ATensor": a[:999], "BTensor": b[:999], **scales})
    assert (many[:999] == few["OutputTensor"]).all()
    real = a * np.longdouble(np.float32(0.1)) + b * np.longdouble(np.float32(0.3))
    assert (many == np.clip(np.rint(real / np.longdouble(np.float32(0.2))), 0, 255)).all()


@pytest.mark.parametrize("data_type", [DataType.INT4, DataType.UINT4])
@pytest.mark.parametrize("strides", [None, (1, 300)])
def test_block_quantization_to_4_bits_round_trips(cpu, data_type, strides):
    x = random_array(300, 999, seed=7) * 3
    scale = np.abs(random_array(3, 9, seed=8)) + np.float32(0.25)
    target = BufferTensorDesc(data_type, x.shape, strides)
    tensors = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [300, 999]},
        "QuantizationTensors": [{"DataType": "FLOAT32", "Sizes": [3, 9]}],
        "OutputTensor": target.to_json(),
    }
    plan = check({"type": "QUANTIZE", "desc": {**tensors, "QuantizationType": "SCALE"}})
    packed, _ = target.allocate()
    cpu.run(plan, {"InputTensor": x, "QuantizationTensors[0]": scale}, {"OutputTensor": packed}, never_stop)
    wide = np.repeat(np.repeat(scale, 100, 0), 111, 1).astype(np.float64)
    middle = 8 if data_type is DataType.UINT4 else 0
    right = np.clip(np.rint(x / wide) + middle, *data_type.limits)
    assert (target.elements(packed) == right).all()
    tensors["InputTensor"], tensors["OutputTensor"] = tensors["OutputTensor"], tensors["InputTensor"]
    plan = check({"type": "DEQUANTIZE", "desc": {**tensors, "QuantizationType": "SCALE"}})
    back = np.empty(x.shape, np.float32)
    cpu.run(plan, {"InputTensor": packed, "QuantizationTensors[0]": scale}, {"OutputTensor": back}, never_stop)
    assert (back == ((right - middle) * wide).astype(np.float32)).all()


def test_random_numbers_across_tiles(cpu):
    state = np.array([2**32 - 3, 2**32 - 1, 2**32 - 1, 5, 7, 11], np.uint32)
    output = {"DataType": "UINT32", "Sizes": [3, 21847]}
    fields = {"OutputTensor": output, "OutputStateTensor": {"DataType": "UINT32", "Sizes": [6]}, "Type": 0}
    found = run(cpu, "RANDOM_GENERATOR", {"InputStateTensor": state}, **fields)
    words = found["OutputTensor"].reshape(-1)
    last = 3 * 21847 // 4
    for block in (0, 1, 2, 3, 4, TILE // 4 - 1, TILE // 4, 21847 // 4, last - 1, last):
        assert words[4 * block : 4 * block + 4].tolist() == philox(state, block)[: words.size - 4 * block]
    assert found["OutputStateTensor"].tolist() == [3 * 21847 // 4 + 1 - 3, 0, 0, 6, 7, 11]


def philox(state: Array, block: int) -> list[int]:
    """Returns the four words of a block after a state."""
    counter = sum(int(word) << 32 * i for i, word in enumerate(state[:4]))
    return random.philox((counter + block) % 2**128, [int(word) for word in state[4:]])


def test_adam_matches_its_formula(cpu):
    names = ("InputParametersTensor", "InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")
    arrays = {name: random_array(300, 301, seed=i) for i, name in enumerate(names)}
    arrays["InputSecondMomentTensor"] = np.abs(arrays["InputSecondMomentTensor"])
    fields = {"LearningRate": 0.01, "Beta1": 0.9, "Beta2": 0.999, "Epsilon": 1e-8}
    found = run(cpu, "ADAM_OPTIMIZER", {**arrays, "TrainingStepTensor": np.array([3], np.uint32)}, **fields)
    x, m, v, g = (array.astype(np.longdouble) for array in arrays.values())
    rate, beta1, beta2, epsilon = (np.longdouble(np.float32(value)) for value in fields.values())
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    x = x - rate * np.sqrt(1 - beta2**3) / (1 - beta1**3) * m / (np.sqrt(v) + epsilon)
    for name, right in (("Parameters", x), ("FirstMoment", m), ("SecondMoment", v)):
        assert_within(found[f"Output{name}Tensor"], right.astype(np.float64), 1)


@pytest.mark.parametrize(("across", "sizes"), [(True, (2, 40, 60, 61)), (False, (3, 20, 60, 61))])
def test_local_response_normalization(cpu, across, sizes):
    x, g = random_array(*sizes), random_array(*sizes, seed=2)
    fields = {"CrossChannel": across, "LocalSize": 4, "Alpha": 0.5, "Beta": 0.75, "Bias": 1}
    wide, gradient = x.astype(np.longdouble), g.astype(np.longdouble)

    def regions(terms: Array, before: int, after: int) -> Array:
        for axis in (1,) if across else (2, 3):
            padding = [(before, after) if i == axis else (0, 0) for i in range(4)]
            windows = np.lib.stride_tricks.sliding_window_view(np.pad(terms, padding), 4, axis)
            terms = windows.sum(-1)
        return terms

    response = 1 + regions(wide * wide, 1, 2) / 8
    right = wide / response ** np.longdouble(0.75)
    found = run(cpu, "LOCAL_RESPONSE_NORMALIZATION", {"InputTensor": x}, **fields)["OutputTensor"]
    assert_within(found, right.astype(np.float64), 1)
    passed = regions(gradient * wide * response ** np.longdouble(-1.75), 1, 2)
    right = gradient * response ** np.longdouble(-0.75) - wide * passed * np.longdouble(0.1875)
    arrays = {"InputTensor": x, "InputGradientTensor": g}
    found = run(cpu, "LOCAL_RESPONSE_NORMALIZATION_GRAD", arrays, **fields)["OutputGradientTensor"]
    assert_within(found, right.astype(np.float64), 1)


@pytest.mark.parametrize(("sizes", "channels"), [((3, 8, 75, 76), [1, 8, 1, 1]), ((2, 5, 3, 7), [1, 5, 1, 1])])
def test_batch_normalization_gradients(cpu, sizes, channels):
    x, g = random_array(*sizes), random_array(*sizes, seed=2)
    mean, scale, variance = (
        random_array(*channels, seed=3),
        random_array(*channels, seed=4),
        np.abs(random_array(*channels, seed=5)),
    )
    statistics = {"MeanTensor": mean, "VarianceTensor": variance, "ScaleTensor": scale}
    arrays = {"InputTensor": x, "InputGradientTensor": g, **statistics}
    wide, gradient = x.astype(np.longdouble), g.astype(np.longdouble)
    axes = tuple(i for i, size in enumerate(channels) if size == 1)
    v = variance.astype(np.longdouble) + np.float32(0.5)
    deviation = wide - mean
    slope = (gradient * deviation).mean(axes, keepdims=True) / v
    right = {
        "": gradient * scale / np.sqrt(v),
        "_TRAINING": scale / np.sqrt(v) * (gradient - gradient.mean(axes, keepdims=True) - deviation * slope),
    }
    for kind, expected in right.items():
        found = run(cpu, f"BATCH_NORMALIZATION{kind}_GRAD", arrays, Epsilon=0.5)
        assert_within(found["OutputGradientTensor"], expected.astype(np.float64), 1)
        sums = (gradient * (wide - mean)).sum(axes, keepdims=True) / np.sqrt(v)
        assert_within(found["OutputScaleGradientTensor"], sums.astype(np.float64), 1)
        assert_within(found["OutputBiasGradientTensor"], gradient.sum(axes, keepdims=True).astype(np.float64), 1)
