"""Cells of softmax, normalizations, poolings, quantizations and resamplings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

F = torch.nn.functional
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Cell:
    """An operator with what it is given, and the same in PyTorch.

    Attributes:
        name: what is special about it.
        operator: its name.
        desc: attributes, with sizes in place of tensors, or pairs of a data type and sizes.
        peer: of the inputs by name, None where PyTorch has nothing of the kind.
        data_type: of all tensors that name none.
        is_bound_by_memory: whether it computes so little that only the memory counts.
        tolerance: how far PyTorch's results may lie.
    """

    name: str
    operator: str
    desc: Mapping[str, Any]
    peer: Callable[[Tensors], torch.Tensor] | None
    data_type: str = "FLOAT32"
    is_bound_by_memory: bool = True
    tolerance: float = field(default=1e-4)


def _x(tensors: Tensors) -> torch.Tensor:
    return tensors["InputTensor"]


def _softmax(scale: int, data_type: str) -> Iterator[Cell]:
    for name, sizes, axis in (
        ("rows of 1024", [64 * 1024 * scale, 1024], 1),
        ("rows of 128", [512 * 1024 * scale, 128], 1),
        ("rows of 50000", [1342 * scale, 50_000], 1),
        ("channels", [16 * scale, 64, 256, 256], 1),
    ):
        for operator, peer in (
            ("SOFTMAX1", lambda t, axis=axis: _x(t).softmax(axis)),
            ("LOG_SOFTMAX1", lambda t, axis=axis: _x(t).log_softmax(axis)),
        ):
            if operator == "SOFTMAX1" or name == "rows of 1024":
                desc = {"InputTensor": sizes, "Axes": [axis]}
                yield Cell(name, f"ACTIVATION_{operator}", desc, peer, data_type)


def _normalized(scale: int, data_type: str) -> Iterator[Cell]:
    rows, image = [64 * 1024 * scale, 1024], [16 * scale, 64, 256, 256]
    own = {"InputTensor": rows, "ScaleTensor": [1, 1024], "BiasTensor": [1, 1024], "Axes": [1], "Epsilon": 1e-5}

    def layer(t: Tensors) -> torch.Tensor:
        return F.layer_norm(_x(t), (1024,), t["ScaleTensor"][0], t["BiasTensor"][0])

    moments = {"NormalizeVariance": True}
    yield Cell("layers", "MEAN_VARIANCE_NORMALIZATION1", {**own, **moments}, layer, data_type)
    squares = {key: value for key, value in own.items() if key != "BiasTensor"} | {
        "UseMean": False,
        "UseVariance": True,
    }

    def root_mean_square(t: Tensors) -> torch.Tensor:
        return F.rms_norm(_x(t), (1024,), t["ScaleTensor"][0], 1e-5)

    yield Cell("mean squares", "MEAN_VARIANCE_NORMALIZATION2", squares, root_mean_square, data_type)
    instances = {"InputTensor": image, "CrossChannel": False, "Epsilon": 1e-5, **moments}
    yield Cell("instances", "MEAN_VARIANCE_NORMALIZATION", instances, lambda t: F.instance_norm(_x(t)), data_type)
    names = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    given = {"InputTensor": image, **{name: [1, 64, 1, 1] for name in names}, "Spatial": True, "Epsilon": 1e-5}

    def batch(t: Tensors) -> torch.Tensor:
        return F.batch_norm(_x(t), *(t[name].flatten() for name in names))

    yield Cell("given", "BATCH_NORMALIZATION", given, batch, data_type)
    training = {"InputTensor": image, **{name: [1, 64, 1, 1] for name in names[2:]}, "Epsilon": 1e-5}

    def trained(t: Tensors) -> torch.Tensor:
        return F.batch_norm(_x(t), None, None, *(t[name].flatten() for name in names[2:]), training=True)

    yield Cell("training", "BATCH_NORMALIZATION_TRAINING", training, trained, data_type)
    length = {"InputTensor": rows, "Axis": 1, "Epsilon": 1e-12, "P": 2}
    yield Cell("lengths", "LP_NORMALIZATION", length, lambda t: F.normalize(_x(t), dim=1), data_type)


def _pooled(scale: int, data_type: str) -> Iterator[Cell]:
    image = [16 * scale, 64, 256, 256]
    for window, stride, pad in ((3, 2, 1), (2, 2, 0), (3, 1, 1)):
        desc = {
            "InputTensor": image,
            "DimensionCount": 2,
            "Strides": [stride] * 2,
            "WindowSize": [window] * 2,
            "StartPadding": [pad] * 2,
            "EndPadding": [pad] * 2,
        }

        def average(t: Tensors, window: int = window, stride: int = stride, pad: int = pad) -> torch.Tensor:
            return F.avg_pool2d(_x(t), window, stride, pad)

        name = f"{window}x{window}/{stride}"
        yield Cell(name, "AVERAGE_POOLING", {**desc, "IncludePadding": True}, average, data_type)
        if not pad:

            def norm(t: Tensors, window: int = window, stride: int = stride) -> torch.Tensor:
                return F.lp_pool2d(_x(t), 2.0, window, stride)

            yield Cell(name, "LP_POOLING", {**desc, "P": 2}, norm, data_type)


def _quantized(scale: int, data_type: str) -> Iterator[Cell]:
    sizes = [64 * scale, 1024, 1024]
    for name, scales in (("one scale", [1, 1, 1]), ("a scale for each row", [64 * scale, 1024, 1])):
        both = {"QuantizationType": "SCALE_ZERO_POINT", "QuantizationTensors": [scales, ("UINT8", scales)]}
        yield Cell(name, "QUANTIZE", {"InputTensor": sizes, **both}, None, data_type)
        yield Cell(name, "DEQUANTIZE", {"InputTensor": ("UINT8", sizes), **both}, None, data_type)
    yield Cell("from extremes", "DYNAMIC_QUANTIZE_LINEAR", {"InputTensor": sizes}, None, data_type)


def _resampled(scale: int, data_type: str) -> Iterator[Cell]:
    for name, sizes, factor in (("twice", [16 * scale, 64, 128, 128], 2), ("half", [16 * scale, 64, 256, 256], 0.5)):
        output = [*sizes[:2], *(int(size * factor) for size in sizes[2:])]
        for mode, other in (("LINEAR", "bilinear"), ("NEAREST_NEIGHBOR", "nearest")):
            desc = {
                "InputTensor": sizes,
                "OutputTensor": output,
                "InterpolationMode": mode,
                "Scales": [1, 1, factor, factor],
            }

            def resized(t: Tensors, other: str = other, factor: float = factor) -> torch.Tensor:
                return F.interpolate(_x(t), scale_factor=factor, mode=other)

            peer = resized if mode == "LINEAR" or factor > 1 else None
            yield Cell(f"{name} {other}", "RESAMPLE", desc, peer, data_type)


def cells() -> Iterator[Cell]:
    """What is measured: 256 MB of input each, but where the output is larger."""
    for data_type, scale in (("FLOAT32", 1), ("FLOAT16", 2)):
        for make in (_softmax, _normalized, _pooled, _quantized, _resampled):
            yield from make(scale, data_type)
