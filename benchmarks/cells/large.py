"""The operator families other than products, of tensors of about 256 MB on a GPU, with PyTorch as the peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Draw, Function, Tensor, below, functional, normal, positive, shuffled, torch

ROWS, WIDTH = 2**16, 1024
"""Sizes of a FLOAT32 matrix of 256 MB."""

_IMAGES = (32, 64, 128, 256)
_HUNDRED = below(-100, 100)


def _cell(
    group: str, name: str, operator: str, given: Tensor | dict[str, Tensor], peer: Function, **fields: Any
) -> Cell:
    inputs = {"InputTensor": given} if isinstance(given, Tensor) else given
    return Cell(group=group, name=name, operator=operator, inputs=inputs, fields=fields, torch=peer, size="256MB")


def _output(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def _window(offset: int, width: int, stride: int = 1) -> dict[str, Any]:
    return {"InputWindowOffsets": [0, offset], "InputWindowSizes": [ROWS, width], "InputWindowStrides": [1, stride]}


def _views() -> Iterator[Cell]:
    cell, matrix, images = partial(_cell, "views"), Tensor((ROWS, WIDTH)), Tensor(_IMAGES)
    half = Tensor((ROWS, WIDTH // 2))
    for name, offset, width in (("slice of whole vectors", 16, 992), ("slice", 17, 990)):
        sliced = cell(
            name,
            "SLICE1",
            matrix,
            lambda x, a=offset, b=offset + width: x[:, a:b].contiguous(),
            **_window(offset, width),
        )
        yield replace(sliced, moved=2 * 4 * ROWS * width)
    yield cell("reversal", "SLICE1", matrix, lambda x: x.flip(1), **_window(0, WIDTH, -1))
    parts = [_output("FLOAT32", ROWS, 256)] * 4
    yield cell(
        "split", "SPLIT", matrix, lambda x: [part.contiguous() for part in x.split(256, 1)], Axis=1, OutputTensors=parts
    )
    pair = {f"InputTensors[{i}]": half for i in range(2)}
    yield cell("join", "JOIN", pair, lambda a, b: torch.cat([a, b], 1), Axis=1)
    yield cell("tile", "TILE", half, lambda x: x.tile(1, 2), Repeats=[1, 2])
    pads: dict[str, Any] = {"PaddingValue": 0, "StartPadding": [0, 0, 1, 1], "EndPadding": [0, 0, 1, 1]}
    yield cell("padding with zeros", "PADDING", images, lambda x: functional.pad(x, (1, 1, 1, 1)),
               PaddingMode="CONSTANT", **pads)  # fmt: skip
    yield cell("padding with mirrors", "PADDING", images, lambda x: functional.pad(x, (1, 1, 1, 1), "reflect"),
               PaddingMode="REFLECTION", **pads)  # fmt: skip
    blocks: dict[str, Any] = {"BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"}
    yield cell("depth to space", "DEPTH_TO_SPACE1", images, lambda x: functional.pixel_shuffle(x, 2), **blocks)
    yield cell("space to depth", "SPACE_TO_DEPTH1", images, lambda x: functional.pixel_unshuffle(x, 2), **blocks)
    yield cell("fill", "FILL_VALUE_CONSTANT", {}, lambda: torch.full((ROWS, WIDTH), 1.5, device="cuda"),
               OutputTensor=_output("FLOAT32", ROWS, WIDTH), ValueDataType="FLOAT32", Value=1.5)  # fmt: skip


def _blocks() -> Iterator[Cell]:
    names = ("Strides", "Dilations", "StartPadding", "EndPadding")
    window: dict[str, Any] = {"WindowSizes": [3, 3], **{name: [1, 1] for name in names}}
    image = (8, 16, 256, 256)
    yield _cell("blocks", "columns of 3 x 3", "UNFOLD", Tensor(image),
                lambda x: functional.unfold(x, kernel_size=3, padding=1), **window)  # fmt: skip
    yield _cell("blocks", "sums of 3 x 3", "FOLD", Tensor((8, 16 * 9, 256 * 256)),
                lambda x: functional.fold(x, (256, 256), kernel_size=3, padding=1),
                OutputTensor=_output("FLOAT32", *image), **window)  # fmt: skip


def _turned(sizes: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32") -> Tensor:
    """Returns a tensor of the given sizes in memory, with its dimensions permuted."""
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    draw = normal if dtype.startswith("float") else _HUNDRED
    return Tensor(tuple(sizes[axis] for axis in order), dtype, draw, inverse)


def _transposes() -> Iterator[Cell]:
    for dtype, side in (("float32", 2**13), ("float16", 2**13), ("uint8", 2**14), ("int64", 2**12)):
        yield _cell("transposes", f"matrix of {dtype}", "TILE", _turned((side, side), (1, 0), dtype),
                    lambda x: x.contiguous(), Repeats=[1, 1])  # fmt: skip
    for channels in (3, 64):
        images = 64 * 64 // channels
        last, first = (images, 128, 128, channels), (images, channels, 128, 128)
        for name, sizes, order in (("last to first", last, (0, 3, 1, 2)), ("first to last", first, (0, 2, 3, 1))):
            yield _cell("transposes", f"{channels} channels {name}", "ELEMENT_WISE_IDENTITY", _turned(sizes, order),
                        lambda x: x.clone(memory_format=torch.contiguous_format))  # fmt: skip
    yield _cell("transposes", "heads", "TILE", _turned((64, 1024, 16, 64), (0, 2, 1, 3), "float16"),
                lambda x: x.contiguous(), Repeats=[1] * 4)  # fmt: skip


def _casts() -> Iterator[Cell]:
    pairs = (
        *(("FLOAT32", "FLOAT16"), ("FLOAT16", "FLOAT32"), ("FLOAT32", "INT8")),
        *(("INT32", "FLOAT32"), ("INT64", "INT32"), ("UINT8", "FLOAT16")),
    )
    for source, target in pairs:
        x = Tensor((ROWS, WIDTH), source.lower(), normal if source.startswith("FLOAT") else _HUNDRED)
        yield _cell("casts", f"{source} to {target}", "CAST", x, lambda x, t=target: x.to(getattr(torch, t.lower())),
                    OutputTensor=_output(target, ROWS, WIDTH))  # fmt: skip


def _indices() -> Iterator[Cell]:
    cell = partial(_cell, "indices")

    def drawn(x: tuple[int, ...], indices: tuple[int, ...], draw: Draw, updates: bool = False) -> dict[str, Tensor]:
        found = {"InputTensor": Tensor(x), "IndicesTensor": Tensor(indices, "int64", draw)}
        return {**found, "UpdatesTensor": Tensor(x)} if updates else found

    for width in (1, 64, 1024):
        rows = min(2**24, 2**26 // width)
        yield cell(f"gather of rows of {width}", "GATHER", drawn((rows, width), (1, rows), below(0, rows)),
                   lambda x, i: x.index_select(0, i[0]), Axis=0, IndexDimensions=1)  # fmt: skip
    sizes = (2**18, 64)
    yield cell("gather of elements", "GATHER_ELEMENTS", drawn(sizes, sizes, below(0, sizes[0])),
               lambda x, i: x.gather(0, i), Axis=0)  # fmt: skip
    yield cell("scatter of elements", "SCATTER_ELEMENTS", drawn(sizes, sizes, shuffled, updates=True),
               lambda x, i, u: x.scatter(0, i, u), Axis=0)  # fmt: skip
    yield cell("scatter of rows", "SCATTER_ND", drawn((2**20, 64), (2**20, 1), shuffled, updates=True),
               lambda x, i, u: x.index_copy(0, i[:, 0], u), InputDimensionCount=2, IndicesDimensionCount=2)  # fmt: skip
    classes = {
        "IndicesTensor": Tensor((ROWS, 1), "int64", below(0, WIDTH)),
        "ValuesTensor": Tensor((1, 2), draw=lambda *_: np.array([[0, 1]])),
    }
    yield cell("one hot", "ONE_HOT", classes, lambda i, v: functional.one_hot(i[:, 0], WIDTH), Axis=1,
               OutputTensor=_output("FLOAT32", ROWS, WIDTH))  # fmt: skip


def _sparse(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return np.maximum(normal(generator, sizes), 0)


def _chosen() -> Iterator[Cell]:
    sizes = (2**16, 1000, 5), (2**12, 2**14, 50), (1, 2**24, 100), (16, 2**20, 2**10), (1, 2**22, 2**22)
    for rows, width, count in sizes:
        found = _cell("chosen", f"best {count} of {rows} x {width}", "TOP_K1", Tensor((rows, width)),
                      lambda x, k=count: torch.topk(x, k), Axis=1, K=count, AxisDirection="DECREASING")  # fmt: skip
        yield replace(found, is_chosen=True)
    found = _cell("chosen", "coordinates", "NONZERO_COORDINATES", Tensor((2**12, 2**12), draw=_sparse),
                  lambda x: torch.nonzero(x))  # fmt: skip
    yield replace(found, is_chosen=True)


def _running() -> Iterator[Cell]:
    for sizes, axis in (((2**16, 1024), 1), ((1024, 2**16), 0), ((1, 2**25), 1), ((2**19, 64), 1)):
        for dtype in ("float32", "int32"):
            yield _cell("running sums", f"{dtype} of {sizes[0]} x {sizes[1]} along {axis}", "CUMULATIVE_SUMMATION",
                        Tensor(sizes, dtype, normal if dtype == "float32" else _HUNDRED),
                        lambda x, i=axis: torch.cumsum(x, i, dtype=x.dtype),
                        Axis=axis, AxisDirection="INCREASING", HasExclusiveSum=False)  # fmt: skip


def _of(dtype: str, **sizes: tuple[int, ...]) -> dict[str, Tensor]:
    """Returns tensors of one data type; variances and scales of quantization are positive."""
    return {
        name: Tensor(each, dtype, positive if name.startswith("Variance") else normal) for name, each in sizes.items()
    }


def _softmax(dtype: str, scale: int) -> Iterator[Cell]:
    shapes = (
        ("rows of 1024", (64 * 1024 * scale, 1024)),
        ("rows of 128", (512 * 1024 * scale, 128)),
        ("rows of 50000", (1342 * scale, 50_000)),
        ("channels", (16 * scale, 64, 256, 256)),
    )
    for name, sizes in shapes:
        yield _cell("softmax", name, "ACTIVATION_SOFTMAX1", Tensor(sizes, dtype), lambda x: x.softmax(1), Axes=[1])
    yield _cell("softmax", "logarithms of 1024", "ACTIVATION_LOG_SOFTMAX1", Tensor(shapes[0][1], dtype),
                lambda x: x.log_softmax(1), Axes=[1])  # fmt: skip


def _normalizations(dtype: str, scale: int) -> Iterator[Cell]:
    cell, rows, image = partial(_cell, "normalizations"), (64 * 1024 * scale, 1024), (16 * scale, 64, 256, 256)
    row, channel = (1, 1024), (1, 64, 1, 1)
    yield cell("layers", "MEAN_VARIANCE_NORMALIZATION1",
               _of(dtype, InputTensor=rows, ScaleTensor=row, BiasTensor=row),
               lambda x, s, b: functional.layer_norm(x, (1024,), s[0], b[0]),
               Axes=[1], NormalizeVariance=True, Epsilon=1e-5)  # fmt: skip
    yield cell("mean squares", "MEAN_VARIANCE_NORMALIZATION2", _of(dtype, InputTensor=rows, ScaleTensor=row),
               lambda x, s: functional.rms_norm(x, (1024,), s[0], 1e-5),
               Axes=[1], UseMean=False, UseVariance=True, Epsilon=1e-5)  # fmt: skip
    yield cell("instances", "MEAN_VARIANCE_NORMALIZATION", Tensor(image, dtype),
               lambda x: functional.instance_norm(x), CrossChannel=False, NormalizeVariance=True,
               Epsilon=1e-5)  # fmt: skip
    names = ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    yield cell("batches", "BATCH_NORMALIZATION", _of(dtype, InputTensor=image, **dict.fromkeys(names, channel)),
               lambda x, *parameters: functional.batch_norm(x, *(each.flatten() for each in parameters)),
               Spatial=True, Epsilon=1e-5)  # fmt: skip
    yield cell("training", "BATCH_NORMALIZATION_TRAINING",
               _of(dtype, InputTensor=image, **dict.fromkeys(names[2:], channel)),
               lambda x, s, b: functional.batch_norm(x, None, None, s.flatten(), b.flatten(), training=True),
               Epsilon=1e-5)  # fmt: skip
    yield cell("lengths", "LP_NORMALIZATION", Tensor(rows, dtype), lambda x: functional.normalize(x),
               Axis=1, Epsilon=1e-12, P=2)  # fmt: skip
    yield cell("responses", "LOCAL_RESPONSE_NORMALIZATION", Tensor(image, dtype),
               lambda x: functional.local_response_norm(x, 5),
               CrossChannel=True, LocalSize=5, Alpha=1e-4, Beta=0.75, Bias=1)  # fmt: skip


def _averages(dtype: str, scale: int) -> Iterator[Cell]:
    images = Tensor((16 * scale, 64, 256, 256), dtype)
    for how in ((3, 2, 1), (2, 2, 0), (3, 1, 1)):
        window, stride, pad = how
        arrays = {"Strides": stride, "WindowSize": window, "StartPadding": pad, "EndPadding": pad}
        fields: dict[str, Any] = {name: [value] * 2 for name, value in arrays.items()}
        name = f"{window}x{window}/{stride}"
        yield _cell("averages", name, "AVERAGE_POOLING", images, lambda x, how=how: functional.avg_pool2d(x, *how),
                    IncludePadding=True, **fields)  # fmt: skip
        if not pad:
            yield _cell("averages", f"norms of {name}", "LP_POOLING", images,
                        lambda x, how=how: functional.lp_pool2d(x, 2.0, *how[:2]), P=2, **fields)  # fmt: skip


def _quantized(x: Any, scale: Any, zero_point: Any) -> Any:
    return (x / scale).round_().add_(zero_point).clamp_(0, 255).to(torch.uint8)


def _dequantized(x: Any, scale: Any, zero_point: Any) -> Any:
    return (x.to(scale.dtype) - zero_point) * scale


def _quantizations(dtype: str, scale: int) -> Iterator[Cell]:
    sizes, codes = (64 * scale, 1024, 1024), below(0, 256)
    for name, each in (("one scale", (1, 1, 1)), ("a scale for each row", (*sizes[:2], 1))):
        parameters = {
            "QuantizationTensors[0]": Tensor(each, dtype, positive),
            "QuantizationTensors[1]": Tensor(each, "uint8", codes),
        }
        kind = {"QuantizationType": "SCALE_ZERO_POINT"}
        yield _cell("quantizations", name, "QUANTIZE", {"InputTensor": Tensor(sizes, dtype), **parameters},
                    _quantized, **kind)  # fmt: skip
        yield _cell("quantizations", f"{name}, back", "DEQUANTIZE",
                    {"InputTensor": Tensor(sizes, "uint8", codes), **parameters}, _dequantized, **kind)  # fmt: skip


def _resamplings(dtype: str, scale: int) -> Iterator[Cell]:
    for name, side, factor in (("twice", 128, 2), ("half", 256, 0.5)):
        sizes, other = (16 * scale, 64, side, side), int(side * factor)
        fields = {"OutputTensor": _output(dtype.upper(), *sizes[:2], other, other), "Scales": [1, 1, factor, factor]}
        yield _cell("resamplings", name, "RESAMPLE", Tensor(sizes, dtype),
                    lambda x, f=factor: functional.interpolate(x, scale_factor=f, mode="bilinear"),
                    InterpolationMode="LINEAR", **fields)  # fmt: skip
        if factor > 1:  # PyTorch breaks ties between two neighbors differently
            yield _cell("resamplings", f"{name}, nearest", "RESAMPLE", Tensor(sizes, dtype),
                        lambda x, f=factor: functional.interpolate(x, scale_factor=f),
                        InterpolationMode="NEAREST_NEIGHBOR", **fields)  # fmt: skip


def cells() -> Iterator[Cell]:
    for family in (_views, _blocks, _transposes, _casts, _indices, _chosen, _running):
        yield from family()
    for typed in (_softmax, _normalizations, _averages, _quantizations, _resamplings):
        for dtype, scale in (("float32", 1), ("float16", 2)):
            for cell in typed(dtype, scale):
                yield cell if scale == 1 else replace(cell, name=f"{cell.name} of float16")
