"""The operator families other than products, of packed and of strided tensors on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import isqrt
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Draw, Library, Onnx, Tensor, always, below, functional, hundreds, jnp, lax, normal, shuffled
from ..cell import torch as torch_

SIZES = {"16KB": 1 << 12, "16MB": 1 << 22, "64MB": 1 << 24}
"""Number of 4-byte elements."""

MOVEMENT = "movement"

_image = Library("jax.image")

Make = Callable[..., Tensor]
"""Makes an input of the given sizes: packed, or with the last two dimensions swapped in memory."""


def _packed(*sizes: int, dtype: str = "float32", draw: Draw = normal) -> Tensor:
    return Tensor(sizes, dtype, draw)


def _strided(*sizes: int, dtype: str = "float32", draw: Draw = normal) -> Tensor:
    *outer, row, column = range(len(sizes))
    return Tensor(sizes, dtype, draw, (*outer, column, row))


def _images(n: int, side: int = 56) -> tuple[int, int, int, int]:
    """Returns sizes with about ``n`` elements."""
    channels = min(64, max(1, n // side**2))
    return max(1, n // (channels * side**2)), channels, side, side


def _rows(n: int, width: int) -> tuple[int, int]:
    return max(1, n // width), width


def _integers(*values: int) -> Array:
    return np.array(values, np.int64)


def _as_peers_leave(x: Tensor, data_type: str) -> dict[str, Any]:
    """Returns an output like the input, in whose memory order peers leave the elements."""
    return {"OutputTensor": {**x.desc, "DataType": data_type}}


def _joined(a: Array, b: Array) -> Array:
    """Joins rows in dimension order; by default NumPy would keep the memory order of the inputs."""
    whole = np.empty((len(a), a.shape[1] + b.shape[1]), a.dtype)
    return np.concatenate([a, b], 1, out=whole)


def _padded(a: Array) -> Array:
    """Pads rows with zeros, in dimension order; faster than ``numpy.pad``."""
    whole = np.zeros((len(a), 3 + a.shape[1] + 5), a.dtype)
    whole[:, 3:-5] = a
    return whole


def _shuffled(a: Any) -> Any:
    """Moves depth into 2x2 blocks, with JAX."""
    n, channels, height, width = a.shape
    parts = a.reshape(n, channels // 4, 2, 2, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, channels // 4, 2 * height, 2 * width)


def _movement(n: int, made: Make) -> Iterator[Cell]:
    x = made(*_rows(n, 1024))
    rows = x.sizes[0]

    def cell(name: str, operator: str, inputs: dict[str, Tensor], fields: dict[str, Any], **peers: Any) -> Cell:
        return Cell(
            group=MOVEMENT, name=name, operator=operator, inputs=inputs, fields=fields, is_movement=True, **peers
        )

    window = {"InputWindowOffsets": [0, 17], "InputWindowSizes": [rows, 990], "InputWindowStrides": [1, 1]}
    bounds = {"starts": _integers(17), "ends": _integers(1007), "axes": _integers(1)}
    yield cell("slice", "SLICE1", {"InputTensor": x}, window,
               numpy=lambda a: np.ascontiguousarray(a[:, 17:1007]), torch=lambda a: a[:, 17:1007].contiguous(),
               jax=lambda a: a[:, 17:1007],
               onnx=Onnx("Slice", {}, bounds))  # fmt: skip
    yield cell("join", "JOIN", {"InputTensors[0]": x, "InputTensors[1]": x}, {"Axis": 1},
               numpy=_joined, torch=lambda a, b: torch_.cat([a, b], 1), jax=lambda a, b: jnp.concatenate([a, b], 1),
               onnx=Onnx("Concat", {"axis": 1}))  # fmt: skip
    yield cell("tile", "TILE", {"InputTensor": x}, {"Repeats": [1, 2]},
               numpy=lambda a: np.tile(a, (1, 2)), torch=lambda a: a.tile(1, 2), jax=lambda a: jnp.tile(a, (1, 2)),
               onnx=Onnx("Tile", {}, {"repeats": _integers(1, 2)}))  # fmt: skip
    pads = {"PaddingMode": "CONSTANT", "PaddingValue": 0, "StartPadding": [0, 3], "EndPadding": [0, 5]}
    yield cell("pad", "PADDING", {"InputTensor": x}, pads,
               numpy=_padded, torch=lambda a: functional.pad(a, (3, 5)), jax=lambda a: jnp.pad(a, ((0, 0), (3, 5))),
               onnx=Onnx("Pad", {}, {"pads": _integers(0, 3, 0, 5)}))  # fmt: skip
    turned = Tensor((1024, rows), order=() if x.order else (1, 0))
    yield cell("transposed copy", "ELEMENT_WISE_IDENTITY", {"InputTensor": turned}, {},
               numpy=lambda a: np.array(a, order="C"),
               torch=lambda a: a.clone(memory_format=torch_.contiguous_format), jax=lambda a: a.copy(),
               onnx=Onnx("Identity"))  # fmt: skip
    image = made(*_images(n))
    if image.sizes[1] % 4 == 0:
        yield cell("depth to space", "DEPTH_TO_SPACE1", {"InputTensor": image},
                   {"BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"},
                   torch=lambda a: functional.pixel_shuffle(a, 2), jax=_shuffled,
                   onnx=Onnx("DepthToSpace", {"blocksize": 2, "mode": "CRD"}))  # fmt: skip


def _gathering(n: int, made: Make) -> Iterator[Cell]:
    group, table = "gathers and scatters", made(*_rows(n, 64))
    rows = table.sizes[0]
    which = Tensor((1, rows), "int64", below(0, rows))
    yield Cell(group=group, name="gather rows", operator="GATHER",
               inputs={"InputTensor": table, "IndicesTensor": which}, fields={"Axis": 0, "IndexDimensions": 1},
               numpy=lambda a, i: np.take(a, i[0], 0), torch=lambda a, i: a.index_select(0, i[0]),
               jax=lambda a, i: a[i[0]], onnx=Onnx("Gather", {"axis": 0}))  # fmt: skip
    each = Tensor((rows, 64), "int64", below(0, rows))
    yield Cell(group=group, name="gather elements", operator="GATHER_ELEMENTS",
               inputs={"InputTensor": table, "IndicesTensor": each}, fields={"Axis": 0},
               numpy=lambda a, i: np.take_along_axis(a, i, 0), torch=lambda a, i: a.gather(0, i),
               jax=lambda a, i: jnp.take_along_axis(a, i, 0), onnx=Onnx("GatherElements", {"axis": 0}))  # fmt: skip
    order = Tensor((rows, 64), "int64", shuffled)
    yield Cell(group=group, name="scatter elements", operator="SCATTER_ELEMENTS",
               inputs={"InputTensor": table, "IndicesTensor": order, "UpdatesTensor": table}, fields={"Axis": 0},
               torch=lambda a, i, u: a.scatter(0, i, u), onnx=Onnx("ScatterElements", {"axis": 0}))  # fmt: skip


def _sums(a: Any, window: int, stride: int, pad: int) -> Any:
    """Sums windows, with JAX."""
    places = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    return lax.reduce_window(a, 0.0, lax.add, (1, 1, window, window), (1, 1, stride, stride), places)


def _pooling(n: int, made: Make) -> Iterator[Cell]:
    def cell(name: str, operator: str, side: int, how: tuple[int, int, int], **other: Any) -> Cell:
        window, stride, pad = how
        arrays = {"Strides": stride, "WindowSize": window, "StartPadding": pad, "EndPadding": pad}
        fields = {key: [value] * 2 for key, value in arrays.items()} | other.pop("fields")
        attributes = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        onnx, more = other.pop("onnx")
        inputs = {"InputTensor": made(*_images(n, side))}
        return Cell(group="pooling", name=name, operator=operator, inputs=inputs, fields=fields,
                    onnx=Onnx(onnx, attributes | more), **other)  # fmt: skip

    for side, *how in ((56, 2, 2, 0), (56, 3, 1, 1), (14, 3, 1, 1)):
        window, stride, pad = how
        yield cell(f"average {window}x{window}/{stride} of {side}", "AVERAGE_POOLING", side, (window, stride, pad),
                   fields={"IncludePadding": True}, onnx=("AveragePool", {"count_include_pad": 1}),
                   torch=lambda a, how=how: functional.avg_pool2d(a, *how),
                   jax=lambda a, how=how: _sums(a, *how) / how[0] ** 2)  # fmt: skip
    yield cell("norm 2x2/2", "LP_POOLING", 56, (2, 2, 0), fields={"P": 2}, onnx=("LpPool", {"p": 2}),
               torch=lambda a: functional.lp_pool2d(a, 2, 2, 2),
               jax=lambda a: _sums(a * a, 2, 2, 0) ** 0.5)  # fmt: skip


def _cumulative(n: int, made: Make) -> Iterator[Cell]:
    for width, axis in product((1024, 16), (1, 0)):
        yield Cell(group="cumulative", name=f"sums of {width} along {axis}", operator="CUMULATIVE_SUMMATION",
                   inputs={"InputTensor": made(*_rows(n, width))},
                   fields={"Axis": axis, "AxisDirection": "INCREASING", "HasExclusiveSum": False},
                   numpy=lambda a, i=axis: np.cumsum(a, i), torch=lambda a, i=axis: a.cumsum(i),
                   jax=lambda a, i=axis: jnp.cumsum(a, i),
                   onnx=Onnx("CumSum", {}, {"axis": np.array(axis)}))  # fmt: skip


def _selecting(n: int, made: Make) -> Iterator[Cell]:
    for k in (10, 1024):
        yield Cell(group="top-k", name=f"{k} of 1024", operator="TOP_K1",
                   inputs={"InputTensor": made(*_rows(n, 1024))},
                   fields={"Axis": 1, "K": k, "AxisDirection": "DECREASING"},
                   torch=lambda a, k=k: a.topk(k, 1), jax=lambda a, k=k: lax.top_k(a, k), is_chosen=True,
                   onnx=Onnx("TopK", {"axis": 1}, {"k": _integers(k)}, outputs=("float32", "int64")))  # fmt: skip


def _normalizing(n: int, made: Make) -> Iterator[Cell]:
    def scaled(a: Any) -> Any:
        shifted = a - a.mean(1, keepdims=True)
        return shifted * ((shifted * shifted).mean(1, keepdims=True) + 1e-5) ** -0.5

    group, x = "normalizations", made(*_rows(n, 768))
    yield Cell(group=group, name="layer", operator="MEAN_VARIANCE_NORMALIZATION1", inputs={"InputTensor": x},
               fields={"Axes": [1], "NormalizeVariance": True, "Epsilon": 1e-5},
               torch=lambda a: functional.layer_norm(a, (768,)), jax=scaled,
               onnx=Onnx("LayerNormalization", {"axis": 1}, {"scale": np.ones(768, np.float32)}))  # fmt: skip
    yield Cell(group=group, name="length", operator="LP_NORMALIZATION", inputs={"InputTensor": x},
               fields={"Axis": 1, "Epsilon": 1e-5, "P": 2},
               torch=lambda a: functional.normalize(a),
               jax=lambda a: a * ((a * a).sum(1, keepdims=True) + 1e-5) ** -0.5,
               onnx=Onnx("LpNormalization", {"axis": 1, "p": 2}))  # fmt: skip
    image = made(*_images(n))
    channels = image.sizes[1]
    steps = np.linspace(0.5, 2, channels, dtype=np.float32)
    each = Tensor((1, channels, 1, 1), draw=lambda _, sizes: steps.reshape(sizes))
    given = dict.fromkeys(("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor"), each)
    constants = dict.fromkeys(("scale", "bias", "mean", "variance"), steps)
    yield Cell(group=group, name="batch", operator="BATCH_NORMALIZATION", inputs={"InputTensor": image, **given},
               fields={"Spatial": True, "Epsilon": 1e-5},
               torch=lambda a, *parameters: functional.batch_norm(a, *(each.ravel() for each in parameters)),
               jax=lambda a, mean, variance, scale, bias: (a - mean) * (scale * (variance + 1e-5) ** -0.5) + bias,
               onnx=Onnx("BatchNormalization", {}, constants, 1))  # fmt: skip
    yield Cell(group=group, name="response", operator="LOCAL_RESPONSE_NORMALIZATION", inputs={"InputTensor": image},
               fields={"CrossChannel": True, "LocalSize": 5, "Alpha": 1e-4, "Beta": 0.75, "Bias": 1},
               torch=lambda a: functional.local_response_norm(a, 5),
               onnx=Onnx("LRN", {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}))  # fmt: skip


def _resampling(n: int, made: Make) -> Iterator[Cell]:
    x = made(*_images(n // 4))
    sizes = [*x.sizes[:2], 2 * x.sizes[2], 2 * x.sizes[3]]
    fields = {"Scales": [1, 1, 2, 2], "InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [-0.5] * 4}
    fields |= {"OutputTensor": {"DataType": "FLOAT32", "Sizes": sizes}}
    places = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    floors = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    twice = {"roi": np.empty(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    for mode, peer, settings in (("NEAREST_NEIGHBOR", "nearest", floors), ("LINEAR", "bilinear", places)):
        yield Cell(group="resampling", name=f"{peer} to twice the size", operator="RESAMPLE1",
                   inputs={"InputTensor": x}, fields=fields | {"InterpolationMode": mode},
                   torch=lambda a, m=peer: functional.interpolate(a, scale_factor=2, mode=m),
                   jax=lambda a, m=peer: _image.resize(a, sizes, m), onnx=Onnx("Resize", settings, twice))  # fmt: skip


def _reducing(n: int, made: Make) -> Iterator[Cell]:
    side = isqrt(n)
    for axis in (0, 1):
        yield Cell(group="reductions", name=f"sum along {axis}", operator="REDUCE",
                   inputs={"InputTensor": made(side, side)}, fields={"Function": "SUM", "Axes": [axis]},
                   numpy=lambda a, i=axis: a.sum(i), torch=lambda a, i=axis: a.sum(i), jax=lambda a, i=axis: a.sum(i),
                   onnx=Onnx("ReduceSum", {"keepdims": 0}, {"axes": _integers(axis)}))  # fmt: skip


_CASTS = (
    *(("float32", "float16"), ("float16", "float32"), ("float32", "int32"), ("int32", "float32")),
    *(("int64", "int8"), ("int8", "float32"), ("int32", "int16")),
)
_ONNX_TYPES = {"float16": 10, "float32": 1, "int8": 3, "int16": 5, "int32": 6}


def _casting(n: int, made: Make) -> Iterator[Cell]:
    for source, target in _CASTS:
        x = made(*_rows(n, 1024), dtype=source, draw=hundreds)
        yield Cell(group="casts", name=f"{source} to {target}", operator="CAST", inputs={"InputTensor": x},
                   fields=_as_peers_leave(x, target.upper()), is_by_element=True,
                   numpy=lambda a, t=target: a.astype(t), torch=lambda a, t=target: a.to(getattr(torch_, t)),
                   jax=None if source == "int64" else lambda a, t=target: a.astype(t),  # JAX has no int64
                   onnx=Onnx("Cast", {"to": _ONNX_TYPES[target]}, outputs=(target,)))  # fmt: skip


def _quantizing(n: int, made: Make) -> Iterator[Cell]:
    sizes = _rows(n, 1024)
    parameters = {
        "ScaleTensor": Tensor(sizes, draw=always(0.05), repeated=(0, 1)),
        "ZeroPointTensor": Tensor(sizes, "int8", always(3), repeated=(0, 1)),
    }
    constants: dict[str, Array] = {"scale": np.array(0.05, np.float32), "zero": np.array(3, np.int8)}
    x, codes = made(*sizes), made(*sizes, dtype="int8", draw=hundreds)
    yield Cell(group="quantization", name="quantize", operator="ELEMENT_WISE_QUANTIZE_LINEAR",
               inputs={"InputTensor": x, **parameters}, fields=_as_peers_leave(x, "INT8"), is_by_element=True,
               torch=lambda a, s, z: torch_.quantize_per_tensor(a, 0.05, 3, torch_.qint8),
               jax=lambda a, s, z: jnp.clip(jnp.round(a / 0.05) + 3, -128, 127).astype(jnp.int8),
               onnx=Onnx("QuantizeLinear", {}, constants, 1, ("int8",)))  # fmt: skip
    yield Cell(group="quantization", name="dequantize", operator="ELEMENT_WISE_DEQUANTIZE_LINEAR",
               inputs={"InputTensor": codes, **parameters}, fields=_as_peers_leave(codes, "FLOAT32"),
               numpy=lambda a, s, z: (a.astype(np.float32) - np.float32(3)) * np.float32(0.05),
               torch=lambda a, s, z: (a.to(torch_.float32) - 3) * 0.05, is_by_element=True,
               jax=lambda a, s, z: (a.astype(jnp.float32) - 3) * 0.05,
               onnx=Onnx("DequantizeLinear", {}, constants, 1))  # fmt: skip


_FAMILIES = (
    *(_movement, _gathering, _pooling, _cumulative, _selecting),
    *(_normalizing, _resampling, _reducing, _casting, _quantizing),
)


def cells() -> Iterator[Cell]:
    for family, size, layout in product(_FAMILIES, SIZES, ("packed", "strided")):
        for cell in family(SIZES[size], _packed if layout == "packed" else _strided):
            yield replace(cell, size=size, layout=layout)
