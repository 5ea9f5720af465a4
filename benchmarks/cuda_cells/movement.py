"""Data movement, casts, gathers, scatters, top-k and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from .cell import Cell, Tensors

F = torch.nn.functional

ROWS, WIDTH = 2**16, 1024
"""Shape of a 256 MB FLOAT32 matrix."""

IMAGES = (32, 64, 128, 256)


def _drawn(*sizes: int, dtype: torch.dtype = torch.float32, name: str = "InputTensor") -> Any:
    """Returns a factory of one random input."""
    return lambda: {name: _values(sizes, dtype)}


def _values(sizes: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(sizes, device="cuda").to(dtype)
    return torch.randint(-100, 100, sizes, device="cuda").to(dtype)


def views() -> Iterator[Cell]:
    matrix = _drawn(ROWS, WIDTH)
    window = {"InputWindowOffsets": [0, 16], "InputWindowSizes": [ROWS, 992], "InputWindowStrides": [1, 1]}
    yield Cell("views", "slice of whole vectors", "SLICE1", matrix, lambda x: x[:, 16:1008].contiguous(), window,
               moved=2 * 4 * ROWS * 992)  # fmt: skip
    window = {"InputWindowOffsets": [0, 17], "InputWindowSizes": [ROWS, 990], "InputWindowStrides": [1, 1]}
    yield Cell("views", "slice", "SLICE1", matrix, lambda x: x[:, 17:1007].contiguous(), window,
               moved=2 * 4 * ROWS * 990)  # fmt: skip
    window = {"InputWindowOffsets": [0, 0], "InputWindowSizes": [ROWS, WIDTH], "InputWindowStrides": [1, -1]}
    yield Cell("views", "reversal", "SLICE1", matrix, lambda x: x.flip(1), window)
    yield Cell("views", "split", "SPLIT", matrix, lambda x: [part.contiguous() for part in x.split(256, 1)],
               {"Axis": 1, "OutputTensors": [{"DataType": "FLOAT32", "Sizes": [ROWS, 256]}] * 4})  # fmt: skip
    yield Cell("views", "join", "JOIN", _pair, lambda a, b: torch.cat([a, b], 1), {"Axis": 1})
    half = _drawn(ROWS, WIDTH // 2)
    yield Cell("views", "tile", "TILE", half, lambda x: x.tile(1, 2), {"Repeats": [1, 2]})
    pads = {"PaddingMode": "CONSTANT", "PaddingValue": 0, "StartPadding": [0, 0, 1, 1], "EndPadding": [0, 0, 1, 1]}
    images = _drawn(*IMAGES)
    yield Cell("views", "padding with zeros", "PADDING", images, lambda x: F.pad(x, (1, 1, 1, 1)), pads)
    pads |= {"PaddingMode": "REFLECTION"}
    yield Cell("views", "padding with mirrors", "PADDING", images, lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), pads)
    yield Cell("views", "depth to space", "DEPTH_TO_SPACE1", images, lambda x: F.pixel_shuffle(x, 2),
               {"BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"})  # fmt: skip
    yield Cell("views", "space to depth", "SPACE_TO_DEPTH1", images, lambda x: F.pixel_unshuffle(x, 2),
               {"BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"})  # fmt: skip
    shape = {"OutputTensor": {"DataType": "FLOAT32", "Sizes": [ROWS, WIDTH]}, "ValueDataType": "FLOAT32"}
    yield Cell("views", "fill", "FILL_VALUE_CONSTANT", dict, lambda: torch.full((ROWS, WIDTH), 1.5, device="cuda"),
               {**shape, "Value": 1.5})  # fmt: skip


def blocks() -> Iterator[Cell]:
    ones, threes = [1, 1], [3, 3]
    window = {"WindowSizes": threes, "Strides": ones, "Dilations": ones, "StartPadding": ones, "EndPadding": ones}
    image = (8, 16, 256, 256)
    yield Cell("blocks", "columns of 3 x 3", "UNFOLD", _drawn(*image), partial(F.unfold, kernel_size=3, padding=1),
               window)  # fmt: skip
    output = {"OutputTensor": {"DataType": "FLOAT32", "Sizes": list(image)}}
    yield Cell("blocks", "sums of 3 x 3", "FOLD", _drawn(8, 16 * 9, 256 * 256),
               partial(F.fold, output_size=(256, 256), kernel_size=3, padding=1), {**window, **output},
               compares=_near)  # fmt: skip


def _pair() -> dict[str, torch.Tensor]:
    return {f"InputTensors[{i}]": _values((ROWS, WIDTH // 2), torch.float32) for i in range(2)}


def transposes() -> Iterator[Cell]:
    sides = {torch.float32: 2**13, torch.float16: 2**13, torch.uint8: 2**14, torch.int64: 2**12}
    for dtype, side in sides.items():
        name = str(dtype).removeprefix("torch.")
        yield Cell("transposes", f"matrix of {name}", "TILE", _turned((side, side), (1, 0), dtype),
                   torch.Tensor.contiguous, {"Repeats": [1, 1]})  # fmt: skip
    packed = partial(torch.clone, memory_format=torch.contiguous_format)
    for channels in (3, 64):
        images = 64 * 64 // channels
        last, first = (images, 128, 128, channels), (images, channels, 128, 128)
        for name, sizes, order in (("last to first", last, (0, 3, 1, 2)), ("first to last", first, (0, 2, 3, 1))):
            made = _turned(sizes, order, torch.float32)
            yield Cell("transposes", f"{channels} channels {name}", "ELEMENT_WISE_IDENTITY", made, packed)
    yield Cell("transposes", "heads", "TILE", _turned((64, 1024, 16, 64), (0, 2, 1, 3), torch.float16),
               torch.Tensor.contiguous, {"Repeats": [1] * 4})  # fmt: skip


def _turned(sizes: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype) -> Any:
    return lambda: {"InputTensor": _values(sizes, dtype).permute(order)}


def casts() -> Iterator[Cell]:
    pairs = (
        ("FLOAT32", "FLOAT16"),
        ("FLOAT16", "FLOAT32"),
        ("FLOAT32", "INT8"),
        ("INT32", "FLOAT32"),
        ("INT64", "INT32"),
        ("UINT8", "FLOAT16"),
    )
    for source, target in pairs:
        output = {"OutputTensor": {"DataType": target, "Sizes": [ROWS, WIDTH]}}
        made = _drawn(ROWS, WIDTH, dtype=getattr(torch, source.lower()))
        yield Cell("casts", f"{source} to {target}", "CAST", made,
                   partial(torch.Tensor.to, dtype=getattr(torch, target.lower())), output)  # fmt: skip


def indices() -> Iterator[Cell]:
    for width in (1, 64, 1024):
        rows = min(2**24, 2**26 // width)
        yield Cell("indices", f"gather of rows of {width}", "GATHER", partial(_table, rows, width),
                   lambda x, i: x.index_select(0, i[0]), {"Axis": 0, "IndexDimensions": 1})  # fmt: skip
    yield Cell("indices", "gather of elements", "GATHER_ELEMENTS", _elements, lambda x, i: x.gather(0, i), {"Axis": 0})
    yield Cell("indices", "scatter of elements", "SCATTER_ELEMENTS", _permuted, lambda x, i, u: x.scatter(0, i, u),
               {"Axis": 0})  # fmt: skip
    yield Cell("indices", "scatter of rows", "SCATTER_ND", _scattered_rows, lambda x, i, u: x.index_copy(0, i[:, 0], u),
               {"InputDimensionCount": 2, "IndicesDimensionCount": 2})  # fmt: skip
    hot = {"OutputTensor": {"DataType": "FLOAT32", "Sizes": [ROWS, WIDTH]}, "Axis": 1}
    yield Cell("indices", "one hot", "ONE_HOT", _classes, lambda i, v: F.one_hot(i[:, 0], WIDTH), hot)


def _table(rows: int, width: int) -> dict[str, torch.Tensor]:
    which = torch.randint(0, rows, (1, rows), device="cuda")
    return {"InputTensor": _values((rows, width), torch.float32), "IndicesTensor": which}


def _elements() -> dict[str, torch.Tensor]:
    shape = (2**18, 64)
    return {
        "InputTensor": _values(shape, torch.float32),
        "IndicesTensor": torch.randint(0, shape[0], shape, device="cuda"),
    }


def _permuted() -> dict[str, torch.Tensor]:
    rows, width = 2**18, 64
    order = torch.stack([torch.randperm(rows, device="cuda") for _ in range(width)], 1).contiguous()
    values = [_values((rows, width), torch.float32) for _ in range(2)]
    return {"InputTensor": values[0], "IndicesTensor": order, "UpdatesTensor": values[1]}


def _scattered_rows() -> dict[str, torch.Tensor]:
    rows, width = 2**20, 64
    order = torch.randperm(rows, device="cuda")[:, None].contiguous()
    values = [_values((rows, width), torch.float32) for _ in range(2)]
    return {"InputTensor": values[0], "IndicesTensor": order, "UpdatesTensor": values[1]}


def _classes() -> dict[str, torch.Tensor]:
    which = torch.randint(0, WIDTH, (ROWS, 1), device="cuda")
    return {"IndicesTensor": which, "ValuesTensor": torch.tensor([[0.0, 1.0]], device="cuda")}


def chosen() -> Iterator[Cell]:
    sizes = (2**16, 1000, 5), (2**12, 2**14, 50), (1, 2**24, 100), (16, 2**20, 2**10), (1, 2**22, 2**22)
    for rows, width, count in sizes:
        fields = {"Axis": 1, "K": count, "AxisDirection": "DECREASING"}
        yield Cell("chosen", f"best {count} of {rows} x {width}", "TOP_K1", _drawn(rows, width),
                   partial(torch.topk, k=count), fields, False, compares=_same_values)  # fmt: skip
    yield Cell("chosen", "coordinates", "NONZERO_COORDINATES", _sparse, torch.nonzero, {}, False, compares=_same_rows)


def _sparse() -> dict[str, torch.Tensor]:
    return {"InputTensor": F.relu(_values((2**12, 2**12), torch.float32))}


def _same_values(outputs: Tensors, result: Any) -> bool:
    """Compares the values only, as PyTorch breaks ties arbitrarily."""
    return torch.equal(outputs[0], result[0])


def _same_rows(outputs: Tensors, result: Any) -> bool:
    rows = max(outputs, key=torch.numel).reshape(-1, result.shape[1])
    return torch.equal(rows[: len(result)].long(), result)


def running() -> Iterator[Cell]:
    shapes = ((2**16, 1024), 1), ((1024, 2**16), 0), ((1, 2**25), 1), ((2**19, 64), 1)
    for sizes, axis in shapes:
        fields = {"Axis": axis, "AxisDirection": "INCREASING", "HasExclusiveSum": False}
        for dtype in (torch.float32, torch.int32):
            name = f"{str(dtype).removeprefix('torch.')} of {sizes[0]} x {sizes[1]} along {axis}"
            yield Cell("running sums", name, "CUMULATIVE_SUMMATION", _drawn(*sizes, dtype=dtype), _summed(axis, dtype),
                       fields, compares=_near)  # fmt: skip


def _summed(axis: int, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: torch.cumsum(x, axis, dtype=dtype)


def _near(outputs: Tensors, result: Any) -> bool:
    """Compares with a tolerance, as PyTorch's sums are rounded at each step."""
    return torch.allclose(outputs[0].double(), result.double(), rtol=1e-3, atol=0.3)


FAMILIES = (views, blocks, transposes, casts, indices, chosen, running)
