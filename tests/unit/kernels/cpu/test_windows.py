"""Sums over windows, resampling and regions on the CPU: tiles, ties, cancellation and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.tensor import Array, DataType
from opwire_service.kernels.reference import KERNELS as REFERENCE
from tests.support.execution import never_stop


def tensor(array: Array) -> dict[str, object]:
    return {
        "DataType": DataType.of(array.dtype).name,
        "Sizes": list(array.shape),
        "Strides": [step // array.itemsize for step in array.strides],
    }


def sizes(dtype: Any, *shape: int) -> dict[str, object]:
    return {"DataType": DataType.of(np.dtype(dtype)).name, "Sizes": list(shape)}


def answers(device: Any, plan: Plan, **inputs: Array) -> dict[str, Array]:
    outputs = {name: np.full(desc.sizes, 77, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    device.run(plan, inputs, outputs, never_stop)
    return outputs


def reference(plan: Plan, **inputs: Array) -> dict[str, Array]:
    outputs = {name: np.zeros(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    REFERENCE[plan.operator.name](plan, inputs, outputs, never_stop)
    return outputs


def pooling(kind: str, source: Array, window: tuple[int, ...], **changes: Any) -> Plan:
    """Returns a forward pooling; changes are per dimension or for all of them."""
    n = len(window)
    members: dict[str, Any] = {"Strides": 1, "StartPadding": 0, "EndPadding": 0, "Dilations": 1} | changes
    desc = {name: [value] * n if type(value) is int else value for name, value in members.items()}
    if "P" in changes:
        desc["P"] = changes["P"]
    return check({"type": kind, "desc": {"InputTensor": tensor(source), "WindowSize": list(window), **desc}})


def same_bits(a: Array, b: Array) -> bool:
    return bool(((a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | (np.isnan(a) & np.isnan(b))).all())


def float_of(value: Fraction) -> float:
    """Returns the float32 nearest to a value of at least 2**24, ties to even."""
    unit = 1
    while value >= 2**24 * unit:
        unit *= 2
    return float(round(value / unit) * unit)  # rounds ties to even


def assert_nearest(result: Array, sums: Array, divisor: Array | float) -> None:
    """Checks that each float32 is the nearest to an exact sum over its divisor; products with few bits are exact."""
    error = np.abs(result.astype(np.float64) * divisor - sums)
    for other in (np.nextafter(result, np.float32(np.inf)), np.nextafter(result, np.float32(-np.inf))):
        further = np.abs(other.astype(np.float64) * divisor - sums)
        even = result.view(np.uint32) % 2 == 0
        assert ((error < further) | ((error == further) & even)).all()


def grid(shape: tuple[int, ...], seed: int = 1) -> Array:
    """Returns multiples of 2**-20 below 8: float64 sums them exactly, and many of their halves are ties."""
    return (np.random.default_rng(seed).integers(-(2**23), 2**23, shape) / 2**20).astype(np.float32)


def drawn(what: str, shape: tuple[int, ...], dtype: Any) -> Array:
    random = np.random.default_rng(len(what))
    values = random.standard_normal(shape)
    if what == "wild":
        values = values * 2.0 ** random.integers(-100 if dtype == np.float32 else -20, 16, shape)
    if what == "cancelling":
        values = random.choice([2.0**15, -(2.0**15), 2.0**-14, -(2.0**-14), 1 + 2.0**-10, -1.0], shape)
        if dtype == np.float32:
            values = random.choice([2.0**60, -(2.0**60), 2.0**-60, -(2.0**-60), 1 + 2.0**-23, -1.0], shape)
    if what == "zeros":
        values = np.where(random.random(shape) < 0.8, random.choice([0.0, -0.0], shape), values)
    if what == "specials":
        values = np.where(random.random(shape) < 0.1, random.choice([np.inf, -np.inf, np.nan], shape), values)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


KINDS = ("ordinary", "wild", "cancelling", "zeros", "specials")


def windowed(values: Array, window: int, stride: int, padding: int) -> tuple[Array, Array]:
    """Returns the exact sums of square windows, and the number of elements in each."""
    ones = np.ones(values.shape)
    padded, inside = (
        np.pad(each.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
        for each in (values, ones)
    )
    rows, columns = ((size + 2 * padding - window) // stride + 1 for size in values.shape[2:])
    sums, counts = (np.zeros((*values.shape[:2], rows, columns)) for _ in range(2))
    for i in range(window):
        for j in range(window):
            part = np.s_[..., i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
            sums += padded[part]
            counts += inside[part]
    return sums, counts


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding"),
    [
        ((1, 2, 5, 40_001), 3, 1, 1),
        ((2, 2, 500, 45), 3, 1, 1),
        ((2, 3, 300, 301), 2, 2, 0),
        ((1, 1, 64, 9_000), 3, 2, 1),
        ((3, 5, 7, 7), 7, 1, 0),
    ],
)
def test_averages_across_tiles_are_rounded_once(cpu_device, shape, window, stride, padding, include):
    values = grid(shape)
    plan = pooling(
        "AVERAGE_POOLING1", values, (window, window), Strides=stride, StartPadding=padding, EndPadding=padding,
        IncludePadding=include,
    )  # fmt: skip
    sums, counts = windowed(values, window, stride, padding)
    found = answers(cpu_device, plan, InputTensor=values)["OutputTensor"]
    assert_nearest(found, sums, float(window**2) if include else counts)


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("window", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 2, 2), (2, 11, 0, 3), (1, 40, 0, 1)],
)
@pytest.mark.parametrize("kind", ["AVERAGE_POOLING1", "LP_POOLING1 1", "LP_POOLING1 2"])
def test_difficult_sums_match_the_reference(cpu_device, kind, window, stride, padding, dilation, dtype, what):
    name, _, power = kind.partition(" ")
    values = drawn(what, (1, 1, 11, 45), dtype)[..., ::-1, ::2]
    values = np.ascontiguousarray(values) if stride == 2 else values[..., ::-1, :]
    own = {"P": int(power)} if power else {"IncludePadding": bool(stride % 2)}
    plan = pooling(
        name,
        values,
        (window, window),
        Strides=stride,
        StartPadding=padding,
        EndPadding=padding,
        Dilations=dilation,
        **own,
    )
    right = reference(plan, InputTensor=values)["OutputTensor"]
    assert same_bits(answers(cpu_device, plan, InputTensor=values)["OutputTensor"], right)


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize(
    ("shape", "window", "padding"), [((2, 1, 40, 14), 3, 1), ((2, 1, 5, 33), 2, 0), ((1, 1, 3, 700), 5, 4)]
)
def test_dense_averages_match_the_reference(cpu_device, shape, window, padding, strides, dtype, what):
    values = drawn(what, shape, dtype)
    around = {"StartPadding": padding, "EndPadding": padding, "Strides": strides}
    plan = pooling("AVERAGE_POOLING1", values, (window, window), IncludePadding=padding > 0, **around)
    right = reference(plan, InputTensor=values)["OutputTensor"]
    assert same_bits(answers(cpu_device, plan, InputTensor=values)["OutputTensor"], right)


@pytest.mark.parametrize("window", [(3, 3), (2, 2), (7, 7), (9, 13)])  # 1 / 117 is far from a float64
def test_averages_halfway_between_two_floats_or_just_beside(cpu_device, window):
    taps = window[0] * window[1]
    evens = np.random.default_rng(taps).integers(2**23, 2**24, (1, 96, 1)) * 2
    besides = np.array([-(2.0**-16), 0, 2.0**-16])  # some float64 products would be rounded away from or to the middle
    source = np.repeat(evens, 3, 2).reshape(1, -1, 1, 1).astype(np.float32) * np.ones(
        (window[0], window[1] + 1), np.float32
    )
    source[:, :, 0, 0] = (taps + np.tile(besides, 96)).reshape(1, -1)
    source[:, :, 0, 1] *= 2
    totals = [taps * (even + 1) + Fraction(beside) for even in evens.ravel().tolist() for beside in besides.tolist()]
    plan = pooling("AVERAGE_POOLING1", source, window, IncludePadding=False)
    found = answers(cpu_device, plan, InputTensor=source)["OutputTensor"]
    assert found[..., 0].ravel().tolist() == [float_of(total / taps) for total in totals]


def gradient(kind: str, shape: tuple[int, ...], dtype: Any, window: int, stride: int, padding: int, **own: Any) -> Plan:
    n = len(shape) - 2
    counts = [(size + 2 * padding - window) // stride + 1 for size in shape[2:]]
    desc = {
        "InputGradientTensor": sizes(dtype, *shape[:2], *counts),
        "OutputGradientTensor": sizes(dtype, *shape),
        **{"WindowSize": [window] * n, "Strides": [stride] * n},
        **{"StartPadding": [padding] * n, "EndPadding": [padding] * n},
    }
    return check({"type": kind, "desc": desc | own})


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 5, 1), (5, 3, 4)])
def test_difficult_average_gradients_match_the_reference(cpu_device, window, stride, padding, include, dtype, what):
    plan = gradient("AVERAGE_POOLING_GRAD", (1, 1, 9, 40), dtype, window, stride, padding, IncludePadding=include)
    values = drawn(what, plan.inputs["InputGradientTensor"].sizes, dtype)
    right = reference(plan, InputGradientTensor=values)["OutputGradientTensor"]
    assert same_bits(answers(cpu_device, plan, InputGradientTensor=values)["OutputGradientTensor"], right)


@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1)])
def test_average_gradients_across_tiles_are_rounded_once(cpu_device, window, stride, padding):
    shape = (2, 2, 40, 5_001)
    plan = gradient("AVERAGE_POOLING_GRAD", shape, np.float32, window, stride, padding, IncludePadding=True)
    values = grid(plan.inputs["InputGradientTensor"].sizes)
    sums = np.zeros((*shape[:2], shape[2] + 2 * padding, shape[3] + 2 * padding))
    rows, columns = values.shape[2:]
    for i in range(window):
        for j in range(window):
            sums[..., i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride] += values
    right = sums[..., padding : padding + shape[2], padding : padding + shape[3]]
    found = answers(cpu_device, plan, InputGradientTensor=values)["OutputGradientTensor"]
    assert_nearest(found, right, float(window**2))


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 1), (4, 3)])
def test_max_pooling_gradients_match_the_reference(cpu_device, window, stride, dtype, what):
    source = drawn("zeros", (1, 1, 10, 33), dtype)
    plan = _max_gradient(source, window, stride)
    values = drawn(what, plan.inputs["InputGradientTensor"].sizes, dtype)
    inputs = {"InputTensor": source, "InputGradientTensor": values}
    right = reference(plan, **inputs)["OutputGradientTensor"]
    assert same_bits(answers(cpu_device, plan, **inputs)["OutputGradientTensor"], right)


def _max_gradient(source: Array, window: int, stride: int) -> Plan:
    n = source.ndim - 2
    counts = [(size - window) // stride + 1 for size in source.shape[2:]]
    desc = {
        "InputTensor": tensor(source),
        "InputGradientTensor": sizes(source.dtype, *source.shape[:2], *counts),
        **{"WindowSize": [window] * n, "Strides": [stride] * n, "Dilations": [1] * n},
        **{"StartPadding": [0] * n, "EndPadding": [0] * n},
    }
    return check({"type": "MAX_POOLING_GRAD", "desc": desc})


@pytest.mark.parametrize("shape", [(2, 3, 200, 201), (1, 1, 3, 30_000)])
def test_max_pooling_gradients_across_blocks(cpu_device, shape):
    source = np.random.default_rng(3).permutation(np.prod(shape)).astype(np.float32).reshape(shape)
    plan = _max_gradient(source, 3, 1)
    values = np.random.default_rng(4).integers(-99, 99, plan.inputs["InputGradientTensor"].sizes).astype(np.float32)
    view = np.lib.stride_tricks.sliding_window_view(source, (3, 3), (2, 3)).reshape(*values.shape, 9)
    down, across = np.divmod(view.argmax(-1), 3)
    image, channel, row, column = np.indices(values.shape)
    right = np.zeros(shape, np.float32)
    np.add.at(right, (image, channel, row + down, column + across), values)
    inputs = {"InputTensor": source, "InputGradientTensor": values}
    assert (answers(cpu_device, plan, **inputs)["OutputGradientTensor"] == right).all()


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int64])
@pytest.mark.parametrize("shape", [(2, 3, 50, 60), (1, 1, 600, 1000)])
def test_unpooling_across_planes(cpu_device, shape, dtype, foreign):
    random = np.random.default_rng(5)
    height, width = 2 * shape[2], 2 * shape[3] + 1
    source = random.integers(1, 100, shape).astype(dtype)
    planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], 1, 1) * height * width
    indices = (planes + random.integers(0, height * width, shape)).astype(np.uint32)
    if foreign:
        indices[-1, -1, -1, -1] = 0
        indices[0, 0, 0, 0] = 2**32 - 1
    output = sizes(dtype, *shape[:2], height, width)
    desc = {"InputTensor": tensor(source), "IndicesTensor": tensor(indices), "OutputTensor": output}
    plan = check({"type": "MAX_UNPOOLING", "desc": desc})
    right = np.zeros(shape[0] * shape[1] * height * width, dtype)
    for index, value in zip(indices.ravel().tolist(), source.ravel(), strict=True):
        if index < right.size:
            right[index] = value
    found = answers(cpu_device, plan, InputTensor=source, IndicesTensor=indices)["OutputTensor"]
    assert (found.ravel() == right).all()


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(("window", "dilation"), [(3, 1), (11, 1), (3, 4)])
def test_quantized_averages_across_tiles(cpu_device, window, dilation, include):
    random = np.random.default_rng(6)
    source = random.integers(0, 256, (2, 5, 90, 333)).astype(np.uint8)
    scales, zeros = random.random(5).astype(np.float32) + 0.1, random.integers(0, 256, 5).astype(np.uint8)
    desc = {
        "InputTensor": tensor(source),
        "InputScaleTensor": sizes(np.float32, 1, 5, 1, 1),
        "InputZeroPointTensor": sizes(np.uint8, 1, 5, 1, 1),
        "OutputScaleTensor": sizes(np.float32, 1),
        **{"WindowSize": [window] * 2, "Strides": [2, 1], "Dilations": [dilation] * 2},
        **{"StartPadding": [2, 2], "EndPadding": [2, 2], "IncludePadding": include},
    }
    plan = check({"type": "QUANTIZED_LINEAR_AVERAGE_POOLING", "desc": desc})
    inputs = {
        "InputTensor": source,
        "InputScaleTensor": scales.reshape(1, 5, 1, 1),
        "InputZeroPointTensor": zeros.reshape(1, 5, 1, 1),
        "OutputScaleTensor": np.array([0.25], np.float32),
    }
    found = answers(cpu_device, plan, **inputs)["OutputTensor"]
    for place in zip(*(random.integers(0, size, 60) for size in found.shape), strict=True):
        image, channel, row, column = map(int, place)
        rows, columns = (
            [at for k in range(window) if 0 <= (at := begin - 2 + k * dilation) < size]
            for begin, size in ((2 * row, 90), (column, 333))
        )
        total = sum(int(source[image, channel, i, j]) - int(zeros[channel]) for i in rows for j in columns)
        count = window**2 if include else len(rows) * len(columns)
        right = min(max(round(total * float(scales[channel]) / count / 0.25), 0), 255)
        assert found[place] == right


def resampling(
    source: Array, output: tuple[int, ...], scales: list[float], kind: str = "RESAMPLE1", **own: Any
) -> Plan:
    n = source.ndim
    desc = {
        "InputTensor": tensor(source),
        "OutputTensor": sizes(source.dtype, *output),
        **{"InterpolationMode": "LINEAR", "Scales": scales},
        **{"InputPixelOffsets": [0.5] * n, "OutputPixelOffsets": [-0.5] * n},
    }
    return check({"type": kind, "desc": desc | own})


def assert_within_one_ulp(a: Array, b: Array) -> None:
    special = ~np.isfinite(a) | ~np.isfinite(b)
    assert ((a == b) | np.isnan(a) & np.isnan(b))[special].all()
    near = (a == b) | (a == np.nextafter(b, a.dtype.type(np.inf))) | (a == np.nextafter(b, a.dtype.type(-np.inf)))
    assert near[~special].all()


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("output", "scales", "own"),
    [
        ((2, 1, 10, 40), [1, 1, 2, 2], {}),
        ((2, 1, 3, 27), [1, 1, 0.7, 1.35], {}),
        ((3, 2, 3, 21), [1.5, 1.7, 0.6, 1.05], {}),
        ((2, 1, 2, 6), [1, 1, 0.37, 0.29], {"Antialiased": True, "RoundingDirection": "DECREASING"}),
    ],
)
def test_interpolation_is_within_one_ulp_of_the_reference(cpu_device, output, scales, own, dtype, what):
    values = drawn(what, (2, 1, 5, 20), dtype)
    plan = resampling(values, output, scales, "RESAMPLE3" if own else "RESAMPLE1", **own)
    right = reference(plan, InputTensor=values)["OutputTensor"]
    assert_within_one_ulp(answers(cpu_device, plan, InputTensor=values)["OutputTensor"], right)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("scale", [2.0, 0.75, 1.37])
def test_interpolation_of_bytes_matches_the_reference(cpu_device, dtype, scale):
    limits = np.iinfo(dtype)
    values = np.random.default_rng(7).integers(limits.min, limits.max + 1, (1, 2, 9, 26)).astype(dtype)[..., ::2]
    plan = resampling(values, (1, 2, int(9 * scale), int(13 * scale)), [1, 1, scale, scale])
    right = reference(plan, InputTensor=values)["OutputTensor"]
    assert (answers(cpu_device, plan, InputTensor=values)["OutputTensor"] == right).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
def test_nearest_neighbor_resampling_across_tiles(cpu_device, dtype):
    values = np.random.default_rng(8).integers(0, 200, (1, 3, 40, 9_000)).astype(dtype)
    plan = resampling(values, (1, 3, 80, 18_000), [1, 1, 2, 2], InterpolationMode="NEAREST_NEIGHBOR")
    found = answers(cpu_device, plan, InputTensor=values)["OutputTensor"]
    assert (found == values.repeat(2, 2).repeat(2, 3)).all()


def test_linear_interpolation_across_tiles(cpu_device):
    values = np.random.default_rng(9).integers(-999, 999, (1, 2, 30, 9_000)).astype(np.float32)
    plan = resampling(values, (1, 2, 60, 18_000), [1, 1, 2, 2])
    wide = values.astype(np.float64)
    for axis in (2, 3):
        low, high = (np.take(wide, np.clip(np.arange(wide.shape[axis]) + step, 0, wide.shape[axis] - 1), axis)
                     for step in (-1, 1))  # fmt: skip
        both = np.stack([0.25 * low + 0.75 * wide, 0.75 * wide + 0.25 * high], axis + 1)
        wide = both.reshape([2 * size if i == axis else size for i, size in enumerate(wide.shape)])
    assert (answers(cpu_device, plan, InputTensor=values)["OutputTensor"] == wide.astype(np.float32)).all()


@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("what", ["ordinary", "wild", "cancelling"])
@pytest.mark.parametrize("scale", [2.0, 0.6, 1.3])
def test_resampling_gradients_are_within_one_ulp_of_the_reference(cpu_device, scale, what, mode):
    values = drawn(what, (1, 2, int(9 * scale), int(14 * scale)), np.float32)
    desc = {
        "InputGradientTensor": tensor(values),
        "OutputGradientTensor": sizes(np.float32, 1, 2, 9, 14),
        **{"InterpolationMode": mode, "Scales": [1, 1, scale, scale]},
        **{"InputPixelOffsets": [-0.5] * 4, "OutputPixelOffsets": [0.5] * 4},
    }
    plan = check({"type": "RESAMPLE_GRAD", "desc": desc})
    right = reference(plan, InputGradientTensor=values)["OutputGradientTensor"]
    assert_within_one_ulp(answers(cpu_device, plan, InputGradientTensor=values)["OutputGradientTensor"], right)


@pytest.mark.parametrize("to_corners", [False, True])
@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
def test_roi_align_matches_the_reference(cpu_device, mode, to_corners):
    random = np.random.default_rng(10)
    images = random.standard_normal((2, 2, 20, 24)).astype(np.float32)
    corners = np.sort(random.uniform(-2, 26, (300, 2, 2)), 1).reshape(300, 4).astype(np.float32)
    corners[5] = corners[5, ::-1]
    batch = random.integers(0, 3, 300).astype(np.uint32)
    desc = {
        "InputTensor": tensor(images),
        "ROITensor": tensor(corners),
        "BatchIndicesTensor": tensor(batch),
        "OutputTensor": sizes(np.float32, 300, 2, 1, 2),
        **{"ReductionFunction": "AVERAGE", "InterpolationMode": mode, "SpatialScaleX": 1, "SpatialScaleY": 0.5},
        **{"InputPixelOffset": 0.5, "OutputPixelOffset": -0.5, "OutOfBoundsInputValue": 0},
        **{"MinimumSamplesPerOutput": 1, "MaximumSamplesPerOutput": 4, "AlignRegionsToCorners": to_corners},
    }
    plan = check({"type": "ROI_ALIGN1", "desc": desc})
    inputs = {"InputTensor": images, "ROITensor": corners, "BatchIndicesTensor": batch}
    found, right = (run["OutputTensor"] for run in (answers(cpu_device, plan, **inputs), reference(plan, **inputs)))
    assert_within_one_ulp(found, right)


def aligned(device, images: np.ndarray, corners: list[float], function: str, **changes: object) -> np.ndarray:
    """Returns one aligned region of an image."""
    regions, batch = np.array([corners], images.dtype), np.array([changes.pop("image", 0)], np.uint32)
    desc = {
        "InputTensor": tensor(images),
        "ROITensor": tensor(regions),
        "BatchIndicesTensor": tensor(batch),
        "OutputTensor": sizes(images.dtype.type, 1, images.shape[1], 1, 1),
        **{"ReductionFunction": function, "InterpolationMode": "LINEAR", "OutOfBoundsInputValue": 1.5},
        **{"SpatialScaleX": 1, "SpatialScaleY": 1, "MinimumSamplesPerOutput": 1, "MaximumSamplesPerOutput": 1},
        **changes,
    }
    plan = check({"type": "ROI_ALIGN", "desc": desc})
    return answers(device, plan, InputTensor=images, ROITensor=regions, BatchIndicesTensor=batch)["OutputTensor"]


@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
@pytest.mark.parametrize("scale", ["NaN", 3e38])
def test_regions_far_away_are_outside(device, function, scale):
    found = aligned(device, np.ones((1, 2, 4, 4), np.float32), [1, 1, 3, 3], function, SpatialScaleX=scale)
    assert (found == 1.5).all()


@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
@pytest.mark.parametrize(("outside", "right"), [(1e30, np.inf), (-1e30, -np.inf), (65520, np.inf), (65519, 65504)])
def test_regions_outside_of_an_image_get_the_rounded_outside_value(device, function, outside, right):
    images = np.ones((1, 1, 2, 2), np.float16)
    found = aligned(device, images, [2, 2, 3, 3], function, OutOfBoundsInputValue=outside)
    assert found.tobytes() == np.float16(right).tobytes()


@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
def test_regions_of_images_beyond_the_last_take_that(device, function):
    images = np.array([1, 2, 3], np.float32).reshape(3, 1, 1, 1)
    assert [aligned(device, images, [0, 0, 1, 1], function, image=i).item() for i in (0, 2, 3, 2**32 - 1)] == [
        1,
        3,
        3,
        3,
    ]


@pytest.mark.parametrize(
    ("offset", "right"),
    [
        # From 1.25, 1.75 and 2.25 less the offset: in 0, 1, 4, 9.
        (0.25, [1, 2.5, 4]),
        (-1, [4.75, 6.25, 10.25]),  # of 2.25, 2.75 and 3.25, on the lines through 1 and 4, and through 4 and 9
        (3, [-1.75, -1.25, -4.25]),  # of -1.75, -1.25 and -0.75, through 0 and 1, and through 1 and 4
        ("-Infinity", [np.nan] * 3),
    ],
)
def test_input_offsets_beyond_an_element_extrapolate(device, offset, right):
    source = np.array([0, 1, 4, 9], np.float32)
    desc = {
        "InputTensor": tensor(source),
        "OutputTensor": sizes(np.float32, 3),
        **{"InterpolationMode": "LINEAR", "Scales": [2]},
        **{"InputPixelOffsets": [offset], "OutputPixelOffsets": [-2.5]},
    }
    found = answers(device, check({"type": "RESAMPLE1", "desc": desc}), InputTensor=source)["OutputTensor"]
    np.testing.assert_array_equal(found, np.array(right, np.float32))


def test_resampled_integers_round_halves_down(device):
    source = np.array([1, 2, 3], np.int8)
    desc = {
        "InputTensor": tensor(source),
        "OutputTensor": sizes(np.int8, 5),
        **{"InterpolationMode": "NEAREST_NEIGHBOR", "Scales": [1.5]},
    }
    found = answers(device, check({"type": "RESAMPLE", "desc": desc}), InputTensor=source)["OutputTensor"]
    assert found.tolist() == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("operator", "more", "right"),
    [
        ("AVERAGE_POOLING1", {"IncludePadding": True}, [1.5, 2.5, 1.5, 0, 0]),
        ("AVERAGE_POOLING1", {"IncludePadding": False}, [1.5, 2.5, 3, np.nan, np.nan]),
        ("LP_POOLING1", {"P": 1}, [3, 5, 3, 0, 0]),
        ("LP_POOLING1", {"P": 2}, [5**0.5, 13**0.5, 3, 0, 0]),
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_outputs_may_have_more_windows_than_fit(device, operator, more, right, rows):
    values = np.array([[[[1, 2, 3]]]], np.float32)
    desc = {
        "InputTensor": tensor(values),
        "OutputTensor": sizes(np.float32, 1, 1, rows, 5),
        **{"Strides": [1, 1], "WindowSize": [1, 2], "StartPadding": [0, 0], "EndPadding": [0, 2**32 - 1]},
        **{"Dilations": [1, 1], **more},
    }
    found = answers(device, check({"type": operator, "desc": desc}), InputTensor=values)["OutputTensor"]
    np.testing.assert_array_equal(found[0, 0, 0], np.array(right, np.float32))
    np.testing.assert_array_equal(found[0, 0, 1:], np.full((rows - 1, 5), right[-1]))


def test_windows_may_span_all_of_the_input_more_than_once(device):
    values = np.array([[[[1, 2, 6]]]], np.float32)
    desc = {
        "InputTensor": tensor(values),
        "OutputTensor": sizes(np.float32, 1, 1, 1, 2),
        **{"Strides": [1, 1], "WindowSize": [1, 3], "StartPadding": [0, 0], "EndPadding": [0, 0]},
        "IncludePadding": False,
    }
    found = answers(device, check({"type": "AVERAGE_POOLING", "desc": desc}), InputTensor=values)["OutputTensor"]
    assert found.ravel().tolist() == [3, 4]


def test_unpooling_to_other_planes(device):
    values, indices = np.arange(1, 7, dtype=np.int16).reshape(3, 2, 1, 1), np.array([5, 0, 2, 9, 4, 1], np.uint32)
    plan = check(
        {
            "type": "MAX_UNPOOLING",
            "desc": {
                "InputTensor": tensor(values),
                "IndicesTensor": tensor(indices.reshape(values.shape)),
                "OutputTensor": sizes(np.int16, 1, 1, 2, 3),
            },
        }
    )
    found = answers(device, plan, InputTensor=values, IndicesTensor=indices.reshape(values.shape))["OutputTensor"]
    assert found.ravel().tolist() == [2, 6, 3, 0, 5, 1]
