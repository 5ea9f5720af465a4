"""The cells of ``benchmarks.families``: requests of each family, and their equivalents in the peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np

from opwire.tensor import Array

from .onnx_model import ELEMENT_TYPES

Function = Callable[..., Any]

MOVEMENT = "movement"
"""The family that is compared with a copy."""


@dataclass(frozen=True, slots=True)
class Onnx:
    """An ONNX Runtime operator.

    Attributes:
        operator, attributes: the operator, of the default domain.
        constants: inputs that follow those of the cell, by name.
        takes: number of the cell's inputs that it takes; None for all.
        outputs: data types of its outputs by name.
    """

    operator: str
    attributes: Mapping[str, float | str | Sequence[int]] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    takes: int | None = None
    outputs: Mapping[str, str] = field(default_factory=lambda: {"y": "float32"})


@dataclass(frozen=True, slots=True)
class Cell:
    """A request and its peers.

    Attributes:
        family, name: identify the cell.
        operator, inputs, fields: the request; members of a tensor array are named ``Name[0]``, ``Name[1]``.
        numpy, torch: functions of the inputs, or None.
        jax: likewise, of the inputs that do not repeat a single element.
        onnx: the ONNX Runtime operator, or None.
        is_by_element: whether element order is irrelevant, so that peers may keep the elements in memory order.
    """

    family: str
    name: str
    operator: str
    inputs: Mapping[str, Array]
    fields: Mapping[str, Any] = field(default_factory=dict)
    numpy: Function | None = None
    torch: Function | None = None
    jax: Function | None = None
    onnx: Onnx | None = None
    is_by_element: bool = False


Drawn = Callable[..., Array]
"""Makes an input of the given sizes, packed or strided."""


def _images(n: int, side: int = 56, channels: int = 64) -> tuple[int, int, int, int]:
    """Returns sizes with about ``n`` elements."""
    channels = min(channels, max(1, n // side**2))
    return max(1, n // (channels * side**2)), channels, side, side


def _rows(n: int, width: int) -> tuple[int, int]:
    return max(1, n // width), width


def _integers(*values: int) -> Array:
    return np.array(values, np.int64)


def _as_peers_leave(x: Array, data_type: str) -> dict[str, Any]:
    """Returns an output like the input, in whose memory order peers leave the elements."""
    strides = [step // x.itemsize for step in x.strides]
    return {"OutputTensor": {"DataType": data_type, "Sizes": list(x.shape), "Strides": strides}}


def _joined(a: Array, b: Array) -> Array:
    """Joins rows in dimension order; by default NumPy would keep the memory order of the inputs."""
    whole = np.empty((len(a), a.shape[1] + b.shape[1]), a.dtype)
    return np.concatenate([a, b], 1, out=whole)


def _padded(a: Array, before: int, after: int) -> Array:
    """Pads rows with zeros, in dimension order; faster than ``numpy.pad``."""
    whole = np.zeros((len(a), before + a.shape[1] + after), a.dtype)
    whole[:, before:-after] = a
    return whole


def _shuffled(a: Any) -> Any:
    """Moves depth into 2x2 blocks, with JAX."""
    n, channels, height, width = a.shape
    parts = a.reshape(n, channels // 4, 2, 2, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, channels // 4, 2 * height, 2 * width)


def _movement(n: int, drawn: Drawn) -> Iterator[Cell]:
    import jax.numpy as jnp
    import torch

    x = drawn(*_rows(n, 1024))
    rows = len(x)
    window = {"InputWindowOffsets": [0, 17], "InputWindowSizes": [rows, 990], "InputWindowStrides": [1, 1]}
    yield Cell(MOVEMENT, "slice", "SLICE1", {"InputTensor": x}, window,
               lambda a: np.ascontiguousarray(a[:, 17:1007]), lambda a: a[:, 17:1007].contiguous(),
               lambda a: a[:, 17:1007],
               Onnx("Slice", {}, {"starts": _integers(17), "ends": _integers(1007), "axes": _integers(1)}))  # fmt: skip
    yield Cell(MOVEMENT, "join", "JOIN", {"InputTensors[0]": x, "InputTensors[1]": x}, {"Axis": 1},
               _joined, lambda a, b: torch.cat([a, b], 1), lambda a, b: jnp.concatenate([a, b], 1),
               Onnx("Concat", {"axis": 1}))  # fmt: skip
    yield Cell(MOVEMENT, "tile", "TILE", {"InputTensor": x}, {"Repeats": [1, 2]},
               lambda a: np.tile(a, (1, 2)), lambda a: a.tile(1, 2), lambda a: jnp.tile(a, (1, 2)),
               Onnx("Tile", {}, {"repeats": _integers(1, 2)}))  # fmt: skip
    pads = {"PaddingMode": "CONSTANT", "PaddingValue": 0, "StartPadding": [0, 3], "EndPadding": [0, 5]}
    yield Cell(MOVEMENT, "pad", "PADDING", {"InputTensor": x}, pads,
               lambda a: _padded(a, 3, 5), lambda a: torch.nn.functional.pad(a, (3, 5)),
               lambda a: jnp.pad(a, ((0, 0), (3, 5))), Onnx("Pad", {}, {"pads": _integers(0, 3, 0, 5)}))  # fmt: skip
    yield Cell(MOVEMENT, "transposed copy", "ELEMENT_WISE_IDENTITY", {"InputTensor": x.T}, {},
               lambda a: np.array(a, order="C"), lambda a: a.clone(memory_format=torch.contiguous_format),
               lambda a: a.copy(), Onnx("Identity"))  # fmt: skip
    image = drawn(*_images(n))
    if image.shape[1] % 4 == 0:
        fields = {"BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"}
        yield Cell(MOVEMENT, "depth to space", "DEPTH_TO_SPACE1", {"InputTensor": image}, fields,
                   None, lambda a: torch.nn.functional.pixel_shuffle(a, 2), lambda a: _shuffled(a),
                   Onnx("DepthToSpace", {"blocksize": 2, "mode": "CRD"}))  # fmt: skip


def _gathering(n: int, drawn: Drawn) -> Iterator[Cell]:
    import jax.numpy as jnp

    chosen = np.random.default_rng(1)
    table = drawn(*_rows(n, 64))
    rows = len(table)
    which = chosen.integers(0, rows, rows, np.int64)
    fields = {"Axis": 0, "IndexDimensions": 1}
    given = {"InputTensor": table, "IndicesTensor": which[None]}
    yield Cell("gathers and scatters", "gather rows", "GATHER", given, fields, lambda a, i: np.take(a, i[0], 0),
               lambda a, i: a.index_select(0, i[0]), lambda a, i: a[i[0]], Onnx("Gather", {"axis": 0}))  # fmt: skip
    each = chosen.integers(0, rows, table.shape, np.int64)
    given = {"InputTensor": table, "IndicesTensor": each}
    yield Cell("gathers and scatters", "gather elements", "GATHER_ELEMENTS", given, {"Axis": 0},
               lambda a, i: np.take_along_axis(a, i, 0), lambda a, i: a.gather(0, i),
               lambda a, i: jnp.take_along_axis(a, i, 0), Onnx("GatherElements", {"axis": 0}))  # fmt: skip
    order = np.stack([chosen.permutation(rows) for _ in range(64)], 1)
    given = {"InputTensor": table, "IndicesTensor": order, "UpdatesTensor": table}
    yield Cell("gathers and scatters", "scatter elements", "SCATTER_ELEMENTS", given, {"Axis": 0},
               torch=lambda a, i, u: a.scatter(0, i, u), onnx=Onnx("ScatterElements", {"axis": 0}))  # fmt: skip


def _pooling(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch
    from jax import lax

    pool = torch.nn.functional.avg_pool2d

    def fields(window: int, stride: int, pad: int) -> dict[str, Any]:
        arrays = {"Strides": stride, "WindowSize": window, "StartPadding": pad, "EndPadding": pad}
        return {name: [value] * 2 for name, value in arrays.items()}

    def attributes(window: int, stride: int, pad: int) -> dict[str, Any]:
        return {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [pad] * 4}

    def sums(a: Any, window: int, stride: int, pad: int) -> Any:
        places = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        return lax.reduce_window(a, 0.0, lax.add, (1, 1, window, window), (1, 1, stride, stride), places)

    for side, window, stride, pad in ((56, 2, 2, 0), (56, 3, 1, 1), (14, 3, 1, 1)):
        x = drawn(*_images(n, side))
        yield Cell("pooling", f"average {window}x{window}/{stride} of {side}", "AVERAGE_POOLING", {"InputTensor": x},
                   fields(window, stride, pad) | {"IncludePadding": True},
                   None, lambda a, w=window, s=stride, p=pad: pool(a, w, s, p),
                   lambda a, w=window, s=stride, p=pad: sums(a, w, s, p) / (w * w),
                   Onnx("AveragePool", attributes(window, stride, pad) | {"count_include_pad": 1}))  # fmt: skip
    x = drawn(*_images(n))
    yield Cell("pooling", "norm 2x2/2", "LP_POOLING", {"InputTensor": x}, fields(2, 2, 0) | {"P": 2},
               None, lambda a: torch.nn.functional.lp_pool2d(a, 2, 2, 2), lambda a: sums(a * a, 2, 2, 0) ** 0.5,
               Onnx("LpPool", attributes(2, 2, 0) | {"p": 2}))  # fmt: skip


def _cumulative(n: int, drawn: Drawn) -> Iterator[Cell]:
    import jax.numpy as jnp

    for width in (1024, 16):
        x = drawn(*_rows(n, width))
        for axis in (1, 0):
            fields = {"Axis": axis, "AxisDirection": "INCREASING", "HasExclusiveSum": False}
            name = f"sums of {width} along {axis}"
            yield Cell("cumulative", name, "CUMULATIVE_SUMMATION", {"InputTensor": x}, fields,
                       lambda a, i=axis: np.cumsum(a, i), lambda a, i=axis: a.cumsum(i),
                       lambda a, i=axis: jnp.cumsum(a, i), Onnx("CumSum", {}, {"axis": np.array(axis)}))  # fmt: skip


def _selecting(n: int, drawn: Drawn) -> Iterator[Cell]:
    from jax import lax

    x = drawn(*_rows(n, 1024))
    for k in (10, 1024):
        fields = {"Axis": 1, "K": k, "AxisDirection": "DECREASING"}
        yield Cell("top-k", f"{k} of 1024", "TOP_K1", {"InputTensor": x}, fields,
                   None, lambda a, k=k: a.topk(k, 1), lambda a, k=k: lax.top_k(a, k),
                   Onnx("TopK", {"axis": 1}, {"k": _integers(k)}, None, {"y": "float32", "i": "int64"}))  # fmt: skip


def _normalizing(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    functions = torch.nn.functional

    def scaled(a: Any) -> Any:
        shifted = a - a.mean(1, keepdims=True)
        return shifted * ((shifted * shifted).mean(1, keepdims=True) + 1e-5) ** -0.5

    x = drawn(*_rows(n, 768))
    yield Cell("normalizations", "layer", "MEAN_VARIANCE_NORMALIZATION1", {"InputTensor": x},
               {"Axes": [1], "NormalizeVariance": True, "Epsilon": 1e-5},
               None, lambda a: functions.layer_norm(a, (768,)), scaled,
               Onnx("LayerNormalization", {"axis": 1}, {"scale": np.ones(768, np.float32)}))  # fmt: skip
    yield Cell("normalizations", "length", "LP_NORMALIZATION", {"InputTensor": x},
               {"Axis": 1, "Epsilon": 1e-5, "P": 2}, None, lambda a: functions.normalize(a),
               lambda a: a * ((a * a).sum(1, keepdims=True) + 1e-5) ** -0.5,
               Onnx("LpNormalization", {"axis": 1, "p": 2}))  # fmt: skip
    image = drawn(*_images(n))
    channels = image.shape[1]
    names = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    given = {name: np.linspace(0.5, 2, channels, dtype=np.float32).reshape(1, -1, 1, 1) for name in names}
    yield Cell("normalizations", "batch", "BATCH_NORMALIZATION", {"InputTensor": image, **given},
               {"Spatial": True, "Epsilon": 1e-5},
               None, lambda a, *rest: functions.batch_norm(a, *(each.ravel() for each in rest)),
               lambda a, mean, variance, scale, bias: (a - mean) * (scale * (variance + 1e-5) ** -0.5) + bias,
               Onnx("BatchNormalization", {}, {name: given[name].ravel() for name in ("ScaleTensor", "BiasTensor",
                                               "MeanTensor", "VarianceTensor")}, 1))  # fmt: skip
    yield Cell("normalizations", "response", "LOCAL_RESPONSE_NORMALIZATION", {"InputTensor": image},
               {"CrossChannel": True, "LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1},
               torch=lambda a: functions.local_response_norm(a, 5),
               onnx=Onnx("LRN", {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}))  # fmt: skip


def _resampling(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch
    from jax import image

    x = drawn(*_images(n // 4))
    sizes = [*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]]
    fields = {"Scales": [1, 1, 2, 2], "InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [-0.5] * 4}
    fields |= {"OutputTensor": {"DataType": "FLOAT32", "Sizes": sizes}}
    places = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    floors = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    twice = {"roi": np.empty(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    for mode, peer, settings in (("NEAREST_NEIGHBOR", "nearest", floors), ("LINEAR", "bilinear", places)):
        yield Cell("resampling", f"{peer} to twice the size", "RESAMPLE1", {"InputTensor": x},
                   fields | {"InterpolationMode": mode},
                   None, lambda a, m=peer: torch.nn.functional.interpolate(a, scale_factor=2, mode=m),
                   lambda a, m=peer: image.resize(a, sizes, m), Onnx("Resize", settings, twice))  # fmt: skip


def _reducing(n: int, drawn: Drawn) -> Iterator[Cell]:
    side = isqrt(n)
    x = drawn(side, side)
    for axis in (0, 1):
        yield Cell("reductions", f"sum along {axis}", "REDUCE", {"InputTensor": x}, {"Function": "SUM", "Axes": [axis]},
                   lambda a, i=axis: a.sum(i), lambda a, i=axis: a.sum(i), lambda a, i=axis: a.sum(i),
                   Onnx("ReduceSum", {"keepdims": 0}, {"axes": _integers(axis)}))  # fmt: skip


def _casting(n: int, drawn: Drawn) -> Iterator[Cell]:
    import torch

    chosen = (100 * drawn(*_rows(n, 1024))).astype
    pairs = (("float32", "float16"), ("float16", "float32"), ("float32", "int32"), ("int32", "float32"),
             ("int64", "int8"), ("int8", "float32"), ("int32", "int16"))  # fmt: skip
    for source, target in pairs:
        x = chosen(source)
        yield Cell("casts", f"{source} to {target}", "CAST", {"InputTensor": x}, _as_peers_leave(x, target.upper()),
                   lambda a, t=target: a.astype(t), lambda a, t=target: a.to(getattr(torch, t)),
                   None if source == "int64" else lambda a, t=target: a.astype(t),  # JAX has no int64
                   Onnx("Cast", {"to": ELEMENT_TYPES[target]}, outputs={"y": target}), is_by_element=True)  # fmt: skip


def _quantizing(n: int, drawn: Drawn) -> Iterator[Cell]:
    import jax.numpy as jnp
    import torch

    x = drawn(*_rows(n, 1024))
    scale, zero = np.full((1, 1), 0.05, np.float32), np.full((1, 1), 3, np.int8)
    parameters = {"ScaleTensor": np.broadcast_to(scale, x.shape), "ZeroPointTensor": np.broadcast_to(zero, x.shape)}
    given, constants = {"InputTensor": x, **parameters}, {"scale": scale.reshape(()), "zero": zero.reshape(())}
    yield Cell("quantization", "quantize", "ELEMENT_WISE_QUANTIZE_LINEAR", given, _as_peers_leave(x, "INT8"),
               None, lambda a, s, z: torch.quantize_per_tensor(a, 0.05, 3, torch.qint8),
               lambda a: jnp.clip(jnp.round(a / 0.05) + 3, -128, 127).astype(jnp.int8),
               Onnx("QuantizeLinear", {}, constants, 1, {"y": "int8"}), is_by_element=True)  # fmt: skip
    codes = (x * 20).astype(np.int8)
    given = {"InputTensor": codes, **parameters}
    yield Cell("quantization", "dequantize", "ELEMENT_WISE_DEQUANTIZE_LINEAR", given, _as_peers_leave(x, "FLOAT32"),
               lambda a, s, z: (a.astype(np.float32) - np.float32(3)) * np.float32(0.05),
               lambda a, s, z: (a.to(torch.float32) - 3) * 0.05,
               lambda a: (a.astype(jnp.float32) - 3) * 0.05, Onnx("DequantizeLinear", {}, constants, 1),
               is_by_element=True)  # fmt: skip


FAMILIES: tuple[Callable[[int, Drawn], Iterator[Cell]], ...] = (
    *(_movement, _gathering, _pooling, _cumulative, _selecting),
    *(_normalizing, _resampling, _reducing, _casting, _quantizing),
)
