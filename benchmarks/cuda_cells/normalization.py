"""Softmax, normalizations, poolings, quantization and resampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .cell import Cell, Tensors

F = torch.nn.functional

TYPES = {"FLOAT32": (torch.float32, 1), "FLOAT16": (torch.float16, 2)}
"""Data types, with the number of elements in 256 MB relative to FLOAT32."""

TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2}
"""Tolerances for PyTorch's results, relative to ``1 + abs(result)``."""


def is_near(outputs: Tensors, result: Any) -> bool:
    """Returns whether the first output equals the peer's up to rounding."""
    ours, theirs = outputs[0].float(), result.float()
    tolerance = TOLERANCES.get(outputs[0].dtype, 1.0)
    return bool(((ours - theirs).abs() <= tolerance * (1 + theirs.abs())).all())


@dataclass(frozen=True)
class Drawn:
    """A factory of named tensors with normal random numbers; scales and variances are positive.

    Attributes:
        dtype: the default type.
        tensors: sizes by name, or pairs of sizes and another type.
    """

    dtype: torch.dtype
    tensors: dict[str, Any]

    def __call__(self) -> dict[str, torch.Tensor]:
        return {name: self._drawn(name, given) for name, given in self.tensors.items()}

    def _drawn(self, name: str, given: Any) -> torch.Tensor:
        sizes, dtype = given if isinstance(given, tuple) else (given, self.dtype)
        if not dtype.is_floating_point:
            return torch.randint(0, 256, sizes, device="cuda").to(dtype)
        values = torch.randn(sizes, device="cuda").to(dtype)
        return values.abs_().add_(0.01) if name.startswith(("Variance", "Quantization")) else values


def _cell(family: str, name: str, operator: str, inputs: Drawn, peer: Callable[..., Any], **fields: Any) -> Cell:
    kind = "" if inputs.dtype is torch.float32 else " of float16"
    return Cell(family, name + kind, operator, inputs, peer, fields, compares=is_near)


def softmax() -> Iterator[Cell]:
    for dtype, scale in TYPES.values():
        shapes = {
            "rows of 1024": ([64 * 1024 * scale, 1024], 1),
            "rows of 128": ([512 * 1024 * scale, 128], 1),
            "rows of 50000": ([1342 * scale, 50_000], 1),
            "channels": ([16 * scale, 64, 256, 256], 1),
        }
        for name, (sizes, axis) in shapes.items():
            inputs = Drawn(dtype, {"InputTensor": sizes})
            yield _cell("softmax", name, "ACTIVATION_SOFTMAX1", inputs, partial(torch.softmax, dim=axis), Axes=[axis])
        sizes, axis = shapes["rows of 1024"]
        inputs = Drawn(dtype, {"InputTensor": sizes})
        peer = partial(torch.log_softmax, dim=axis)
        yield _cell("softmax", "logarithms of 1024", "ACTIVATION_LOG_SOFTMAX1", inputs, peer, Axes=[axis])


def normalizations() -> Iterator[Cell]:
    for dtype, scale in TYPES.values():
        rows, image = [64 * 1024 * scale, 1024], [16 * scale, 64, 256, 256]
        cell = partial(_cell, "normalizations")
        named = Drawn(dtype, {"InputTensor": rows, "ScaleTensor": [1, 1024], "BiasTensor": [1, 1024]})
        moments: dict[str, Any] = {"NormalizeVariance": True, "Epsilon": 1e-5}
        yield cell("layers", "MEAN_VARIANCE_NORMALIZATION1", named, _layers, Axes=[1], **moments)
        named = Drawn(dtype, {"InputTensor": rows, "ScaleTensor": [1, 1024]})
        squares: dict[str, Any] = {"UseMean": False, "UseVariance": True, "Epsilon": 1e-5}
        yield cell("mean squares", "MEAN_VARIANCE_NORMALIZATION2", named, _mean_squares, Axes=[1], **squares)
        images = Drawn(dtype, {"InputTensor": image})
        yield cell("instances", "MEAN_VARIANCE_NORMALIZATION", images, F.instance_norm, CrossChannel=False, **moments)
        names = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
        named = Drawn(dtype, {"InputTensor": image, **{name: [1, 64, 1, 1] for name in names}})
        yield cell("batches", "BATCH_NORMALIZATION", named, _batches, Spatial=True, Epsilon=1e-5)
        named = Drawn(dtype, {"InputTensor": image, **{name: [1, 64, 1, 1] for name in names[2:]}})
        yield cell("training", "BATCH_NORMALIZATION_TRAINING", named, _training, Epsilon=1e-5)
        lengths = Drawn(dtype, {"InputTensor": rows})
        yield cell("lengths", "LP_NORMALIZATION", lengths, F.normalize, Axis=1, Epsilon=1e-12, P=2)
        numbers = {"LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1}
        peer = partial(F.local_response_norm, size=5)
        yield cell("responses", "LOCAL_RESPONSE_NORMALIZATION", images, peer, CrossChannel=True, **numbers)


def _layers(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (1024,), scale[0], bias[0])


def _mean_squares(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (1024,), scale[0], 1e-5)


def _batches(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, *(each.flatten() for each in parameters))


def _training(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, scale.flatten(), bias.flatten(), training=True)


def poolings() -> Iterator[Cell]:
    for dtype, scale in TYPES.values():
        inputs = Drawn(dtype, {"InputTensor": [16 * scale, 64, 256, 256]})
        for size, stride, pad in ((3, 2, 1), (2, 2, 0), (3, 1, 1)):
            name = f"{size}x{size}/{stride}"
            fields = {
                "DimensionCount": 2,
                "Strides": [stride] * 2,
                "WindowSize": [size] * 2,
                "StartPadding": [pad] * 2,
                "EndPadding": [pad] * 2,
            }
            peer = partial(F.avg_pool2d, kernel_size=size, stride=stride, padding=pad)
            yield _cell("averages", name, "AVERAGE_POOLING", inputs, peer, IncludePadding=True, **fields)
            if not pad:
                norm = partial(F.lp_pool2d, norm_type=2.0, kernel_size=size, stride=stride)
                yield _cell("averages", f"norms of {name}", "LP_POOLING", inputs, norm, P=2, **fields)


def quantizations() -> Iterator[Cell]:
    for dtype, scale in TYPES.values():
        sizes = [64 * scale, 1024, 1024]
        for name, scales in (("one scale", [1, 1, 1]), ("a scale for each row", [*sizes[:2], 1])):
            names = {"QuantizationTensors[0]": scales, "QuantizationTensors[1]": (scales, torch.uint8)}
            fields = {"QuantizationType": "SCALE_ZERO_POINT"}
            inputs = Drawn(dtype, {"InputTensor": sizes, **names})
            yield _cell("quantizations", name, "QUANTIZE", inputs, _quantized, **fields)
            inputs = Drawn(dtype, {"InputTensor": (sizes, torch.uint8), **names})
            yield _cell("quantizations", f"{name}, back", "DEQUANTIZE", inputs, _dequantized, **fields)


def _quantized(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    return (x / scale).round_().add_(zero_point).clamp_(0, 255).to(torch.uint8)


def _dequantized(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    return (x.to(scale.dtype) - zero_point) * scale


def resamplings() -> Iterator[Cell]:
    for dtype, scale in TYPES.values():
        for name, sizes, factor in (
            ("twice", [16 * scale, 64, 128, 128], 2),
            ("half", [16 * scale, 64, 256, 256], 0.5),
        ):
            output = [*sizes[:2], *(int(size * factor) for size in sizes[2:])]
            inputs = Drawn(dtype, {"InputTensor": sizes})
            kind = "FLOAT32" if dtype is torch.float32 else "FLOAT16"
            fields = {"OutputTensor": {"DataType": kind, "Sizes": output}, "Scales": [1, 1, factor, factor]}
            peer = partial(F.interpolate, scale_factor=factor, mode="bilinear")
            yield _cell("resamplings", name, "RESAMPLE", inputs, peer, InterpolationMode="LINEAR", **fields)
            if factor > 1:  # PyTorch breaks ties between two neighbors differently
                nearest = partial(F.interpolate, scale_factor=factor)
                mode = {"InterpolationMode": "NEAREST_NEIGHBOR"}
                yield _cell("resamplings", f"{name}, nearest", "RESAMPLE", inputs, nearest, **mode, **fields)


FAMILIES = (softmax, normalizations, poolings, quantizations, resamplings)
