"""Normalizations, poolings, quantizations and resamplings on a card, in sizes that span blocks and splits.

The CPU device, which other tests check against exact values, says what is right: the same bits where results are
correctly rounded, otherwise at most the adjacent value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.tensor import Array, BufferTensorDesc
from opwire_service.devices.base import Device
from opwire_service.devices.cuda.device import CudaDevice
from tests.support.devices import loaded

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


class Case(NamedTuple):
    """An operator with the sizes of its tensors.

    Attributes:
        ulps: Allowed difference from the CPU's results; 0 requires the same bits.
        desc: The desc, with sizes, or pairs of a data type and sizes, in place of tensors.
        strides: Strides of the input, unless it is packed.
    """

    operator: str
    ulps: int
    desc: dict[str, Any]
    strides: list[int] | None = None


FLOATS = ("FLOAT32", "FLOAT16")
ELU = {"FusedActivation": {"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}}}
MOMENTS = {"NormalizeVariance": True, "Epsilon": 1e-5}


def _input(*sizes: int, **others: Any) -> dict[str, Any]:
    return {"InputTensor": list(sizes), **others}


def _rows() -> Iterator[Case]:
    shapes: list[tuple[list[int], list[int]]] = [
        ([70, 40], [1]),
        ([9, 1000], [1]),
        ([5, 1001], [1]),
        ([3, 12_000], [1]),
        ([2, 150_000], [1]),
        ([600, 40], [0]),
        ([20_000, 3], [0]),
        ([3, 50, 96], [1]),
        ([6, 30, 50], [0, 2]),
        ([4, 4, 8, 8], [2, 3]),
        ([7, 3, 5, 11, 13], [1, 3]),
        ([33, 1, 8], [1]),
    ]
    for sizes, axes in shapes:
        for name in ("SOFTMAX1", "LOG_SOFTMAX1", "HARDMAX1"):
            yield Case(f"ACTIVATION_{name}", 0, _input(*sizes, Axes=axes))
        more = {"Axes": axes, **MOMENTS, **ELU}
        last = [size if i == len(sizes) - 1 else 1 for i, size in enumerate(sizes)]
        yield Case("MEAN_VARIANCE_NORMALIZATION1", 1, _input(*sizes, ScaleTensor=last, BiasTensor=sizes, **more))
        mean_square = {"UseMean": False, "UseVariance": True, "Epsilon": 0}
        yield Case("MEAN_VARIANCE_NORMALIZATION2", 1, _input(*sizes, ScaleTensor=last, Axes=axes, **mean_square))
        kept = [1 if i in axes else size for i, size in enumerate(sizes)]
        both = {"ScaleTensor": kept, "BiasTensor": kept, "FusedAddTensor": sizes, "Epsilon": 1e-5}
        yield Case("BATCH_NORMALIZATION_TRAINING", 1, _input(*sizes, **both))
        names = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
        given = dict.fromkeys(names, kept) | {"Spatial": True, "Epsilon": 1e-5}
        yield Case("BATCH_NORMALIZATION", 1, _input(*sizes, **given, **ELU))
        yield Case("LP_NORMALIZATION", 1, _input(*sizes, Axis=axes[0], Epsilon=1e-5, P=2))
    for name in ("SOFTMAX1", "LOG_SOFTMAX1", "HARDMAX1"):
        yield Case(f"ACTIVATION_{name}", 0, _input(33, 8, Axes=[]))
    yield Case("ACTIVATION_SOFTMAX1", 0, _input(40, 60, Axes=[1]), [1, 40])
    yield Case("MEAN_VARIANCE_NORMALIZATION2", 1, _input(40, 60, Axes=[1], UseMean=True, UseVariance=False, Epsilon=0))


def _windows() -> Iterator[Case]:
    def window(*size: int, stride: int = 1, pad: int = 0, **more: Any) -> dict[str, Any]:
        n = len(size)
        pads = {"StartPadding": [pad] * n, "EndPadding": [pad] * n}
        return {"DimensionCount": n, "Strides": [stride] * n, "WindowSize": list(size), **pads, **more}

    for sizes, desc in (
        ([2, 3, 33, 40], window(3, 3, stride=2, pad=1)),
        ([2, 3, 33, 40], window(2, 2)),
        ([1, 4, 30, 30], window(9, 30, pad=2)),
        ([2, 5, 40, 60], window(40, 60)),
        ([1, 2, 9, 10, 11], window(3, 2, 2, pad=1)),
    ):
        for included in (False, True):
            yield Case("AVERAGE_POOLING", 0, _input(*sizes, IncludePadding=included, **desc))
        for power in (1, 2, 3):
            yield Case("LP_POOLING", 0 if power < 3 else 1, _input(*sizes, P=power, **desc))
    apart = window(3, 3, Dilations=[2, 3], IncludePadding=False)
    yield Case("AVERAGE_POOLING1", 0, _input(2, 3, 33, 40, **apart))


def _integers() -> Iterator[Case]:
    for sizes, scales in (([3, 1000], [3, 10]), ([7, 129], [1, 129]), ([5, 16, 9], [5, 1, 1]), ([513], [1])):
        for kind in ("INT8", "UINT8", "INT4", "UINT4"):
            both = {"QuantizationType": "SCALE_ZERO_POINT", "QuantizationTensors": [scales, (kind, scales)]}
            yield Case("QUANTIZE", 0, _input(*sizes, **both))
            yield Case("DEQUANTIZE", 0, {"InputTensor": (kind, sizes), **both})
        yield Case("DYNAMIC_QUANTIZE_LINEAR", 0, _input(*sizes))
    yield Case("ELEMENT_WISE_QUANTIZE_LINEAR", 0, _input(7, 129, ScaleTensor=[7, 129]))
    for kind in ("INT32", "UINT16", "INT8"):
        whole = {"InputTensor": (kind, [7, 129]), "ZeroPointTensor": (kind, [7, 129])}
        yield Case("ELEMENT_WISE_DEQUANTIZE_LINEAR", 0, {**whole, "ScaleTensor": [7, 129]})


def _resampled() -> Iterator[Case]:
    for sizes, output in (
        ([2, 3, 20, 24], [2, 3, 40, 48]),
        ([1, 2, 33, 31], [1, 2, 20, 77]),
        ([3, 50], [6, 20]),
        ([2, 3, 4, 5], [3, 5, 9, 8]),
    ):
        scales = [new / old for old, new in zip(sizes, output, strict=True)]
        for mode in ("NEAREST_NEIGHBOR", "LINEAR"):
            more = {"OutputTensor": output, "InterpolationMode": mode, "Scales": scales}
            yield Case("RESAMPLE", int(mode == "LINEAR"), _input(*sizes, **more))
        offsets = {"InputPixelOffsets": [0.5] * len(sizes), "OutputPixelOffsets": [-0.5] * len(sizes)}
        rounded = {**more, **offsets, "RoundingDirection": "DECREASING", "Antialiased": True}
        yield Case("RESAMPLE3", 1, _input(*sizes, **rounded))
    small = {"OutputTensor": [2, 3, 5, 9], "InterpolationMode": "LINEAR", "Scales": [1, 1, 0.2, 0.3]}
    yield Case("RESAMPLE3", 1, _input(2, 3, 25, 30, **{**rounded, **small, **{key: [0.5] * 4 for key in offsets}}))


def _others() -> Iterator[Case]:
    yield Case(
        "MAX_UNPOOLING", 0, _input(2, 3, 20, 30, IndicesTensor=("UINT32", [2, 3, 20, 30]), OutputTensor=[2, 3, 9, 50])
    )
    for power in (1, 2):
        yield Case("LP_NORMALIZATION", 1, _input(40, 60, Axis=1, Epsilon=-30, P=power))
    for across in (True, False):
        for size, beta, bias in ((5, 0.75, 1.0), (40, 2.0, 0.5)):
            numbers = {"LocalSize": size, "Alpha": 0.5, "Beta": beta, "Bias": bias}
            yield Case("LOCAL_RESPONSE_NORMALIZATION", 1, _input(2, 50, 7, 30, CrossChannel=across, **numbers))
        for size, beta, bias in ((4, 3.0, -0.25), (4, 0.5, -0.25), (1, math.inf, 1.0), (2, 0.0, 0.0)):
            numbers = {"LocalSize": size, "Alpha": 0.5, "Beta": beta, "Bias": bias}
            yield Case("LOCAL_RESPONSE_NORMALIZATION", 1, _input(2, 6, 5, 4, CrossChannel=across, **numbers))
    regions = {"ROITensor": [40, 4], "BatchIndicesTensor": ("UINT32", [40]), "OutputTensor": [40, 3, 5, 6]}
    for function in ("AVERAGE", "MAX"):
        for mode in ("LINEAR", "NEAREST_NEIGHBOR"):
            samples = {"MinimumSamplesPerOutput": 1, "MaximumSamplesPerOutput": 9, "OutOfBoundsInputValue": 0.25}
            modes = {"ReductionFunction": function, "InterpolationMode": mode, "SpatialScaleX": 4, "SpatialScaleY": 7}
            yield Case("ROI_ALIGN", 1, _input(2, 3, 20, 30, **regions, **modes, **samples))
    pooled = {"ROITensor": [1, 1, 40, 5], "SpatialScale": 5, "PooledSize": {"Height": 5, "Width": 6}}
    yield Case("ROI_POOLING", 0, _input(2, 3, 20, 30, **pooled))


def _gradients() -> Iterator[Case]:
    for included in (False, True):
        pads = {"StartPadding": [1, 0], "EndPadding": [1, 2], "IncludePadding": included}
        window = {"DimensionCount": 2, "Strides": [2, 1], "WindowSize": [3, 3], **pads}
        tensors = {"InputGradientTensor": [2, 3, 10, 30], "OutputGradientTensor": [2, 3, 20, 30]}
        yield Case("AVERAGE_POOLING_GRAD", 0, {**tensors, **window})
    pads = {"StartPadding": [1, 0], "EndPadding": [1, 2], "Dilations": [2, 1]}
    window = {"DimensionCount": 2, "Strides": [2, 1], "WindowSize": [3, 3], **pads}
    tensors = {"InputTensor": [2, 3, 20, 30], "InputGradientTensor": [2, 3, 9, 30]}
    yield Case("MAX_POOLING_GRAD", 0, {**tensors, **window})
    for mode in ("LINEAR", "NEAREST_NEIGHBOR"):
        tensors = {"InputGradientTensor": [2, 3, 41, 20], "OutputGradientTensor": [2, 3, 20, 33]}
        scales = {"Scales": [1, 1, 2.05, 0.6], "InterpolationMode": mode}
        offsets = {"InputPixelOffsets": [-0.5] * 4, "OutputPixelOffsets": [0.5] * 4}
        yield Case("RESAMPLE_GRAD", 1, {**tensors, **scales, **offsets})


def _sums() -> Iterator[Case]:
    for a, b in (("UINT8", "UINT8"), ("INT8", "UINT8")):
        names = ("A", "B", "Output")
        scales = {f"{name}ScaleTensor": ("FLOAT32", [1, 1]) for name in names}
        zeros = {f"{name}ZeroPointTensor": (kind, [1, 1]) for name, kind in zip(names, (a, b, a), strict=True)}
        summands = {"ATensor": (a, [70, 129]), "BTensor": (b, [70, 129])}
        yield Case("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", 0, {**summands, **scales, **zeros})


CASES = [*_rows(), *_windows(), *_integers(), *_resampled(), *_others(), *_gradients(), *_sums()]


def plan_of(case: Case, data_type: str) -> Plan:
    """Returns the plan of a case, using a data type where the case names none."""

    def tensor(given: Any) -> dict[str, Any]:
        kind, sizes = given if isinstance(given, tuple) else (data_type, given)
        return {"DataType": kind, "Sizes": sizes}

    desc: dict[str, Any] = {}
    for name, value in case.desc.items():
        if name == "QuantizationTensors":
            desc[name] = [tensor(each) for each in value]
        else:
            desc[name] = tensor(value) if name.endswith("Tensor") else value
    if case.strides:
        desc["InputTensor"]["Strides"] = case.strides
    if case.operator == "QUANTIZE":
        kind = case.desc["QuantizationTensors"][1][0]
        desc["OutputTensor"] = {"DataType": kind, "Sizes": case.desc["InputTensor"]}
    return check({"type": case.operator, "desc": desc})


def random_elements(name: str, desc: BufferTensorDesc, seed: int) -> Array:
    """Returns elements of mixed magnitudes with duplicates, non-negative where the tensor's meaning requires it."""
    draw = np.random.default_rng(seed)
    if desc.data_type.is_packed:
        return draw.integers(0, 256, desc.data_size_in_bytes, np.uint8)
    if not desc.data_type.is_float:
        info = np.iinfo(desc.data_type.dtype)
        most = 3 if name.startswith("Batch") else 4000 if name.startswith("Indices") else int(info.max)
        flat = draw.integers(info.min, most, desc.extent, desc.data_type.dtype, endpoint=True)
    else:
        flat = draw.standard_normal(desc.extent) * 2.0 ** draw.integers(-3, 3, desc.extent)
        flat[::7] = flat[: flat[::7].size]
        flat = (np.abs(flat) + 0.01 if name.startswith(("Variance", "Quantization")) else flat).astype(
            desc.data_type.dtype
        )
    return desc.view(flat.view(np.uint8))


def answers(device: Device, plan: Plan, inputs: dict[str, Array]) -> dict[str, Array]:
    """Runs a plan and returns the logical elements of all outputs."""
    views = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.run(plan, inputs, views, lambda: False)
    return {name: plan.outputs[name].elements(view) for name, view in views.items()}


def assert_like(given: Array, right: Array, ulps: int) -> None:
    """Checks for the same bits, apart from NaN payloads, or for results within ``ulps``."""
    if given.dtype.kind != "f":
        np.testing.assert_array_equal(given, right)
        return
    with np.errstate(invalid="ignore", over="ignore"):
        unit = np.spacing(np.maximum(np.abs(given), np.abs(right))).astype(np.float64)
        near = np.abs(given.astype(np.float64) - right) <= ulps * unit
    same = given.view(f"u{given.itemsize}") == right.view(f"u{right.itemsize}")
    unlike = ~(same | (np.isnan(given) & np.isnan(right)) | (near if ulps else False))
    for place in map(tuple, np.argwhere(unlike)[:1]):
        pytest.fail(f"{place}: {given[place]!r}, on the CPU {right[place]!r}; {unlike.sum()} of {unlike.size} unlike")


def assert_matches_cpu(device: Device, cpu: Device, case: Case, data_type: str) -> None:
    """Checks that a device gives the same results as the CPU."""
    plan = plan_of(case, data_type)
    inputs = {name: random_elements(name, desc, seed) for seed, (name, desc) in enumerate(plan.inputs.items())}
    found, right = answers(device, plan, inputs), answers(cpu, plan, inputs)
    for name in right:
        assert_like(found[name], right[name], case.ulps)


@pytest.fixture(scope="module", params=[None, 64], ids=["as it is", "with few float64 units"])
def cuda(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device, and one that uses the same card as if it had few float64 units."""
    with loaded("cuda") as device:
        assert isinstance(device, CudaDevice)
        if request.param is not None:
            device.card = device.card._replace(float64_ratio=request.param)
        yield device


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operator}-{next(iter(case.desc.values()))}")
def test_results_match_the_cpu(cuda, cpu, case, data_type):
    assert_matches_cpu(cuda, cpu, case, data_type)


@pytest.mark.parametrize("data_type", FLOATS)
def test_rows_with_a_mean_far_above_their_deviation(cuda, cpu, data_type):
    sizes = [60, 700]
    tensors = _input(*sizes, ScaleTensor=[1, 700], BiasTensor=[1, 700], Axes=[1], **MOMENTS)
    plan = plan_of(Case("MEAN_VARIANCE_NORMALIZATION1", 1, tensors), data_type)
    inputs = {name: random_elements(name, desc, seed) for seed, (name, desc) in enumerate(plan.inputs.items())}
    rows = inputs["InputTensor"]
    rows[::4] = 1000
    rows[1::4] = 30_000
    rows[1::4, 5] = 30_016
    rows[2::4, 1:] = 0
    for name, right in answers(cpu, plan, inputs).items():
        assert_like(answers(cuda, plan, inputs)[name], right, 1)


def extreme_rows(size: int, data_type: str) -> Array:
    """Returns extreme rows: overflowing squares, subnormals, tiny variances, infinities and NaN."""
    draw = np.random.default_rng(size)
    dtype = np.dtype(data_type.lower())
    info = np.finfo(dtype)
    normal = draw.standard_normal((10, size))
    rows = normal.astype(dtype)
    rows[0] = np.where(normal[0] > 0, info.max, -info.max)
    rows[1] = (normal[1] * 3).astype(int) * float(info.smallest_subnormal)
    rows[2] = float(info.max) / 4
    rows[2, 0] = np.nextafter(rows[2, 0], dtype.type(0))
    rows[3] = 1000 + (normal[3] * 4).astype(int) * float(info.eps) * 512
    rows[4] = -(2.0 ** draw.integers(-12, 13, size))
    rows[5] = 0
    rows[6, ::2], rows[6, 1::2] = info.max, 1
    rows[7] = dtype.type(0.1)
    rows[8, size // 2] = np.inf
    rows[9, size // 3] = np.nan
    return rows


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("size", [1, 7, 40, 128, 1000, 1024, 20_000])
def test_extreme_rows_match_the_cpu(cuda, cpu, size, data_type):
    rows, one = [10, size], [1, size]
    beside = {"ScaleTensor": one, "BiasTensor": one}
    mean_square = {"UseMean": False, "UseVariance": True, "Epsilon": 1e-5}
    mean_alone = {"UseMean": True, "UseVariance": False, "Epsilon": 0}
    for name, ulps, fields in (
        ("ACTIVATION_SOFTMAX1", 0, {}),
        ("ACTIVATION_LOG_SOFTMAX1", 0, {}),
        ("MEAN_VARIANCE_NORMALIZATION1", 1, {**beside, **MOMENTS}),
        ("MEAN_VARIANCE_NORMALIZATION2", 1, {"ScaleTensor": one, **mean_square}),
        ("MEAN_VARIANCE_NORMALIZATION2", 1, {**beside, **mean_square}),
        ("MEAN_VARIANCE_NORMALIZATION2", 1, {**beside, **mean_alone}),
    ):
        plan = plan_of(Case(name, ulps, _input(*rows, Axes=[1], **fields)), data_type)
        inputs = {name: random_elements(name, desc, seed) for seed, (name, desc) in enumerate(plan.inputs.items())}
        inputs["InputTensor"] = plan.inputs["InputTensor"].view(extreme_rows(size, data_type).ravel().view(np.uint8))
        assert_like(answers(cuda, plan, inputs)["OutputTensor"], answers(cpu, plan, inputs)["OutputTensor"], ulps)


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("size", [7, 1000, 1024, 20_000])
def test_softmax_of_masked_rows_matches_the_cpu(cuda, cpu, size, data_type):
    dtype = np.dtype(data_type.lower())
    least, beneath = np.finfo(dtype).min, -np.inf
    rows = np.random.default_rng(size).standard_normal((7, size)).astype(dtype)
    rows[0, 1::2] = beneath
    rows[1, size // 2 :] = least
    rows[2] = least
    rows[3], rows[3, -2:] = beneath, 1
    rows[4], rows[4, -1] = beneath, least
    rows[5] = beneath
    rows[6], rows[6, 0] = -300, 5  # the log-softmax of the 5 underflows, but is not 0
    for name in ("ACTIVATION_SOFTMAX1", "ACTIVATION_LOG_SOFTMAX1"):
        plan = plan_of(Case(name, 0, _input(*rows.shape, Axes=[1])), data_type)
        inputs = {"InputTensor": plan.inputs["InputTensor"].view(rows.ravel().view(np.uint8))}
        assert_like(answers(cuda, plan, inputs)["OutputTensor"], answers(cpu, plan, inputs)["OutputTensor"], 0)


@pytest.mark.parametrize("data_type", FLOATS)
def test_bias_that_cancels_the_scaled_deviation(cuda, cpu, data_type):
    """What remains after the cancellation is far smaller than either term, so their last bits decide it."""
    sizes = [64, 1024]
    tensors = _input(*sizes, ScaleTensor=[1, 1024], BiasTensor=sizes, Axes=[1], **MOMENTS)
    plan = plan_of(Case("MEAN_VARIANCE_NORMALIZATION1", 1, tensors), data_type)
    inputs = {name: random_elements(name, desc, seed) for seed, (name, desc) in enumerate(plan.inputs.items())}
    inputs["BiasTensor"][:] = 0
    inputs["BiasTensor"][:] = -answers(cpu, plan, inputs)["OutputTensor"]
    assert_like(answers(cuda, plan, inputs)["OutputTensor"], answers(cpu, plan, inputs)["OutputTensor"], 1)
