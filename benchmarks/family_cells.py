"""What ``benchmarks.families`` measures: for each family some requests, and what its peers do for the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np

from opwire.tensor import Array

Function = Callable[..., Any]

MOVEMENT = "movement"
"""The family that is compared with a copy."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A request, and its peers.

    Attributes:
        family, name: of the cell.
        operator, inputs, fields: the request; members of an array of tensors are ``Name[0]``, ``Name[1]``.
        numpy, torch, jax: functions of the inputs, or None.
    """

    family: str
    name: str
    operator: str
    inputs: Mapping[str, Array]
    fields: Mapping[str, Any] = field(default_factory=dict)
    numpy: Function | None = None
    torch: Function | None = None
    jax: Function | None = None


Drawn = Callable[..., Array]
"""Makes an input of some sizes, packed or strided."""


def _images(n: int, side: int = 56, channels: int = 64) -> tuple[int, int, int, int]:
    """Sizes of about so many elements."""
    channels = min(channels, max(1, n // side**2))
    return max(1, n // (channels * side**2)), channels, side, side


def _rows(n: int, width: int) -> tuple[int, int]:
    return max(1, n // width), width


def _as_peers_leave(x: Array, data_type: str) -> dict[str, Any]:
    """An output like an input, whose elements peers leave in the order of memory that they have."""
    strides = [step // x.itemsize for step in x.strides]
    return {"OutputTensor": {"DataType": data_type, "Sizes": list(x.shape), "Strides": strides}}


def _joined(a: Array, b: Array) -> Array:
    """Rows joined in the order of the dimensions; by itself NumPy leaves them in that of the inputs' memory."""
    whole = np.empty((len(a), a.shape[1] + b.shape[1]), a.dtype)
    return np.concatenate([a, b], 1, out=whole)


def _padded(a: Array, before: int, after: int) -> Array:
    """Rows with zeros around them, in the order of the dimensions, faster than by ``numpy.pad``."""
    whole = np.zeros((len(a), before + a.shape[1] + after), a.dtype)
    whole[:, before:-after] = a
    return whole


def _movement(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    x = drawn(*_rows(n, 1024))
    rows = len(x)
    window = {"InputWindowOffsets": [0, 17], "InputWindowSizes": [rows, 990], "InputWindowStrides": [1, 1]}
    yield Cell(MOVEMENT, "slice", "SLICE1", {"InputTensor": x}, window,
               lambda a: np.ascontiguousarray(a[:, 17:1007]), lambda a: a[:, 17:1007].contiguous())  # fmt: skip
    yield Cell(MOVEMENT, "join", "JOIN", {"InputTensors[0]": x, "InputTensors[1]": x}, {"Axis": 1},
               _joined, lambda a, b: torch.cat([a, b], 1))  # fmt: skip
    yield Cell(MOVEMENT, "tile", "TILE", {"InputTensor": x}, {"Repeats": [1, 2]},
               lambda a: np.tile(a, (1, 2)), lambda a: a.tile(1, 2))  # fmt: skip
    pads = {"PaddingMode": "CONSTANT", "PaddingValue": 0, "StartPadding": [0, 3], "EndPadding": [0, 5]}
    yield Cell(MOVEMENT, "pad", "PADDING", {"InputTensor": x}, pads,
               lambda a: _padded(a, 3, 5), lambda a: torch.nn.functional.pad(a, (3, 5)))  # fmt: skip
    yield Cell(MOVEMENT, "transposed copy", "ELEMENT_WISE_IDENTITY", {"InputTensor": x.T}, {},
               lambda a: np.array(a, order="C"), lambda a: a.clone(memory_format=torch.contiguous_format))  # fmt: skip
    image = drawn(*_images(n))
    if image.shape[1] % 4 == 0:
        fields = {"BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"}
        yield Cell(MOVEMENT, "depth to space", "DEPTH_TO_SPACE1", {"InputTensor": image}, fields,
                   torch=lambda a: torch.nn.functional.pixel_shuffle(a, 2))  # fmt: skip


def _gathering(n: int, drawn: Drawn) -> Iterator[Cell]:

    chosen = np.random.default_rng(1)
    table = drawn(*_rows(n, 64))
    rows = len(table)
    which = chosen.integers(0, rows, rows, np.int64)
    fields = {"Axis": 0, "IndexDimensions": 1}
    given = {"InputTensor": table, "IndicesTensor": which[None]}
    yield Cell("gathers and scatters", "gather rows", "GATHER", given, fields, lambda a, i: np.take(a, i[0], 0),
               lambda a, i: a.index_select(0, i[0]), lambda a, i: a[i[0]])  # fmt: skip
    each = chosen.integers(0, rows, table.shape, np.int64)
    given = {"InputTensor": table, "IndicesTensor": each}
    yield Cell("gathers and scatters", "gather elements", "GATHER_ELEMENTS", given, {"Axis": 0},
               lambda a, i: np.take_along_axis(a, i, 0), lambda a, i: a.gather(0, i))  # fmt: skip
    order = np.stack([chosen.permutation(rows) for _ in range(64)], 1)
    given = {"InputTensor": table, "IndicesTensor": order, "UpdatesTensor": table}
    yield Cell("gathers and scatters", "scatter elements", "SCATTER_ELEMENTS", given, {"Axis": 0},
               torch=lambda a, i, u: a.scatter(0, i, u))  # fmt: skip


def _pooling(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    pool = torch.nn.functional.avg_pool2d

    def fields(window: int, stride: int, pad: int) -> dict[str, Any]:
        arrays = {"Strides": stride, "WindowSize": window, "StartPadding": pad, "EndPadding": pad}
        return {name: [value] * 2 for name, value in arrays.items()}

    for side, window, stride, pad in ((56, 2, 2, 0), (56, 3, 1, 1), (14, 3, 1, 1)):
        x = drawn(*_images(n, side))
        yield Cell("pooling", f"average {window}x{window}/{stride} of {side}", "AVERAGE_POOLING", {"InputTensor": x},
                   fields(window, stride, pad) | {"IncludePadding": True},
                   torch=lambda a, w=window, s=stride, p=pad: pool(a, w, s, p))  # fmt: skip
    x = drawn(*_images(n))
    yield Cell("pooling", "norm 2x2/2", "LP_POOLING", {"InputTensor": x}, fields(2, 2, 0) | {"P": 2},
               torch=lambda a: torch.nn.functional.lp_pool2d(a, 2, 2, 2))  # fmt: skip


def _cumulative(n: int, drawn: Drawn) -> Iterator[Cell]:
    for width in (1024, 16):
        x = drawn(*_rows(n, width))
        for axis in (1, 0):
            fields = {"Axis": axis, "AxisDirection": "INCREASING", "HasExclusiveSum": False}
            name = f"sums of {width} along {axis}"
            yield Cell("cumulative", name, "CUMULATIVE_SUMMATION", {"InputTensor": x}, fields,
                       lambda a, i=axis: np.cumsum(a, i), lambda a, i=axis: a.cumsum(i))  # fmt: skip


def _selecting(n: int, drawn: Drawn) -> Iterator[Cell]:
    x = drawn(*_rows(n, 1024))
    for k in (10, 1024):
        fields = {"Axis": 1, "K": k, "AxisDirection": "DECREASING"}
        yield Cell("top-k", f"{k} of 1024", "TOP_K1", {"InputTensor": x}, fields, torch=lambda a, k=k: a.topk(k, 1))


def _normalizing(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    functions = torch.nn.functional
    x = drawn(*_rows(n, 768))
    yield Cell("normalizations", "layer", "MEAN_VARIANCE_NORMALIZATION1", {"InputTensor": x},
               {"Axes": [1], "NormalizeVariance": True, "Epsilon": 1e-5},
               torch=lambda a: functions.layer_norm(a, (768,)))  # fmt: skip
    yield Cell("normalizations", "length", "LP_NORMALIZATION", {"InputTensor": x},
               {"Axis": 1, "Epsilon": 1e-5, "P": 2}, torch=lambda a: functions.normalize(a))  # fmt: skip
    image = drawn(*_images(n))
    channels = image.shape[1]
    names = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    given = {name: np.linspace(0.5, 2, channels, dtype=np.float32).reshape(1, -1, 1, 1) for name in names}
    yield Cell("normalizations", "batch", "BATCH_NORMALIZATION", {"InputTensor": image, **given},
               {"Spatial": True, "Epsilon": 1e-5},
               torch=lambda a, *rest: functions.batch_norm(a, *(each.ravel() for each in rest)))  # fmt: skip
    yield Cell("normalizations", "response", "LOCAL_RESPONSE_NORMALIZATION", {"InputTensor": image},
               {"CrossChannel": True, "LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1},
               torch=lambda a: functions.local_response_norm(a, 5))  # fmt: skip


def _resampling(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    x = drawn(*_images(n // 4))
    sizes = [*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]]
    fields = {"Scales": [1, 1, 2, 2], "InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [-0.5] * 4}
    fields |= {"OutputTensor": {"DataType": "FLOAT32", "Sizes": sizes}}
    for mode, peer in (("NEAREST_NEIGHBOR", "nearest"), ("LINEAR", "bilinear")):
        yield Cell("resampling", f"{peer} to twice the size", "RESAMPLE1", {"InputTensor": x},
                   fields | {"InterpolationMode": mode},
                   torch=lambda a, m=peer: torch.nn.functional.interpolate(a, scale_factor=2, mode=m))  # fmt: skip


def _reducing(n: int, drawn: Drawn) -> Iterator[Cell]:
    side = isqrt(n)
    x = drawn(side, side)
    for axis in (0, 1):
        yield Cell("reductions", f"sum along {axis}", "REDUCE", {"InputTensor": x}, {"Function": "SUM", "Axes": [axis]},
                   lambda a, i=axis: a.sum(i), lambda a, i=axis: a.sum(i), lambda a, i=axis: a.sum(i))  # fmt: skip


def _casting(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    chosen = (100 * drawn(*_rows(n, 1024))).astype
    pairs = (("float32", "float16"), ("float16", "float32"), ("float32", "int32"), ("int32", "float32"),
             ("int64", "int8"), ("int8", "float32"), ("int32", "int16"))  # fmt: skip
    for source, target in pairs:
        x = chosen(source)
        yield Cell("casts", f"{source} to {target}", "CAST", {"InputTensor": x}, _as_peers_leave(x, target.upper()),
                   lambda a, t=target: a.astype(t), lambda a, t=target: a.to(getattr(torch, t)))  # fmt: skip


def _quantizing(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    x = drawn(*_rows(n, 1024))
    scale, zero = np.full((1, 1), 0.05, np.float32), np.full((1, 1), 3, np.int8)
    parameters = {"ScaleTensor": np.broadcast_to(scale, x.shape), "ZeroPointTensor": np.broadcast_to(zero, x.shape)}
    given = {"InputTensor": x, **parameters}
    yield Cell("quantization", "quantize", "ELEMENT_WISE_QUANTIZE_LINEAR", given, _as_peers_leave(x, "INT8"),
               torch=lambda a, s, z: torch.quantize_per_tensor(a, 0.05, 3, torch.qint8))  # fmt: skip
    codes = (x * 20).astype(np.int8)
    given = {"InputTensor": codes, **parameters}
    yield Cell("quantization", "dequantize", "ELEMENT_WISE_DEQUANTIZE_LINEAR", given, _as_peers_leave(x, "FLOAT32"),
               lambda a, s, z: (a.astype(np.float32) - np.float32(3)) * np.float32(0.05),
               lambda a, s, z: (a.to(torch.float32) - 3) * 0.05)  # fmt: skip


FAMILIES: tuple[Callable[[int, Drawn], Iterator[Cell]], ...] = (
    *(_movement, _gathering, _pooling, _cumulative, _selecting),
    *(_normalizing, _resampling, _reducing, _casting, _quantizing),
)
