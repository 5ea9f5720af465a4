"""Reductions along each kind of axes, and max pooling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Draw, Function, Onnx, Tensor, below, functional, normal, positive, torch

SIZES = {"4KB": 1 << 12, "256KB": 1 << 18, "16MB": 1 << 24, "64MB": 1 << 26}

FLOATS = ("float32", "float16")
_WIDE = (*FLOATS, "int32", "int64")
_ALL = (*_WIDE, "int8", "uint8")

_LAYOUTS: Mapping[str, tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]] = {
    # The sizes as powers of the element count, the reduced axes, and the order in memory.
    "last": ((0.5, 0.5), (1,), ()),
    "first": ((0.5, 0.5), (0,), ()),
    "middle": ((0.3, 0.3, 0.4), (1,), ()),
    "all": ((0.5, 0.5), (0, 1), ()),
    "two_outer": ((0.25, 0.35, 0.4), (0, 1), ()),
    "channels_last": ((0.2, 0.3, 0.25, 0.25), (2, 3), (0, 2, 3, 1)),
}
_LARGE = {"last": (2,), "first": (0,), "middle": (1,), "all": (0, 1, 2)}
"""The reduced axes of the tensors of 1 GB."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A reduction; the functions take the input and the axes."""

    types: tuple[str, ...]
    numpy: Function | None
    torch: Function
    onnx: str


def _near_1(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return np.exp2(np.float32(0.01) * normal(generator, sizes))


def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    greatest = np.max(x, axes, keepdims=True)
    result: Array = np.log(np.sum(np.exp(x - greatest), axes, keepdims=True)) + greatest
    return result


def _position(function: Any, x: Array, axes: tuple[int, ...]) -> Any:
    if len(axes) == 1:
        return function(x, axes[0])
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return function(x.transpose([*kept, *axes]).reshape([x.shape[axis] for axis in kept] + [-1]), -1)


def _torch_position(function: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == x.ndim:
        return function(x)
    return function(x, axes[0]) if len(axes) == 1 else function(x.flatten(min(axes), max(axes)), min(axes))


def _norm(power: int) -> Function:
    return lambda x, axes: torch.linalg.vector_norm(x, power, axes)


def _torch_product(x: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == x.ndim:
        return x.prod(dtype=x.dtype)
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, dtype=x.dtype)
    return x


_FUNCTIONS = {
    "SUM": _Row(_WIDE, lambda x, i: np.sum(x, i, x.dtype), lambda x, i: torch.sum(x, i, dtype=x.dtype), "ReduceSum"),
    "AVERAGE": _Row(FLOATS, lambda x, i: np.mean(x, i), lambda x, i: torch.mean(x, i), "ReduceMean"),
    "L1": _Row(
        _WIDE,
        lambda x, i: np.sum(np.abs(x), i, x.dtype),
        lambda x, i: _norm(1)(x, i) if x.is_floating_point() else torch.sum(x.abs(), i, dtype=x.dtype),
        "ReduceL1",
    ),
    "L2": _Row(FLOATS, lambda x, i: np.sqrt(np.sum(np.square(x), i, x.dtype)), _norm(2), "ReduceL2"),
    "SUM_SQUARE": _Row(
        _WIDE,
        lambda x, i: np.sum(np.square(x), i, x.dtype),
        lambda x, i: _norm(2)(x, i).square() if x.is_floating_point() else torch.sum(x.square(), i, dtype=x.dtype),
        "ReduceSumSquare",
    ),
    "MULTIPLY": _Row(_WIDE, lambda x, i: np.prod(x, i, x.dtype), _torch_product, "ReduceProd"),
    "LOG_SUM": _Row(
        FLOATS,
        lambda x, i: np.log(np.sum(x, i, x.dtype)),
        lambda x, i: torch.sum(x, i, dtype=torch.float32).log(),
        "ReduceLogSum",
    ),
    "LOG_SUM_EXP": _Row(FLOATS, _log_sum_exp, lambda x, i: torch.logsumexp(x, i), "ReduceLogSumExp"),
    "MIN": _Row(_ALL, lambda x, i: np.min(x, i), lambda x, i: torch.amin(x, i), "ReduceMin"),
    "MAX": _Row(_ALL, lambda x, i: np.max(x, i), lambda x, i: torch.amax(x, i), "ReduceMax"),
    "ARGMIN": _Row(
        _ALL, lambda x, i: _position(np.argmin, x, i), lambda x, i: _torch_position(torch.argmin, x, i), "ArgMin"
    ),
    "ARGMAX": _Row(
        _ALL, lambda x, i: _position(np.argmax, x, i), lambda x, i: _torch_position(torch.argmax, x, i), "ArgMax"
    ),
}


def _draw(function: str, dtype: str) -> Draw:
    """Returns what draws elements for which the function's result is neither zero nor infinite, if possible."""
    if dtype in FLOATS:
        return {"MULTIPLY": _near_1, "LOG_SUM": positive}.get(function, normal)
    return below(1, 5) if function == "MULTIPLY" else below(0 if dtype == "uint8" else -1000, 1001)


def _reduction(function: str, tensor: Tensor, axes: tuple[int, ...], layout: str, size: str) -> Cell:
    row, is_position = _FUNCTIONS[function], function.startswith("ARG")
    numpy, torch_function = row.numpy, row.torch
    onnx = Onnx(row.onnx, {"keepdims": 1}, {"axes": np.array(axes)}, outputs=(tensor.dtype,))
    if is_position:
        onnx = Onnx(row.onnx, {"keepdims": 1, "axis": axes[0]}, outputs=("int64",))
    return Cell(
        group="reductions",
        name=function,
        operator=function if is_position else "REDUCE",
        inputs={"InputTensor": tensor},
        fields={"Axes": list(axes), **({"AxisDirection": "INCREASING"} if is_position else {"Function": function})},
        type=tensor.dtype.upper(),
        layout=layout,
        size=size,
        numpy=None if numpy is None else lambda x: numpy(x, axes),
        torch=lambda x: torch_function(x, axes),
        onnx=None if is_position and len(axes) > 1 else onnx,
        is_chosen=is_position,
    )


def _sized(powers: tuple[float, ...], elements: int) -> tuple[int, ...]:
    """Returns power-of-two sizes with ``elements`` elements, itself a power of two."""
    bits = elements.bit_length() - 1
    parts = [round(power * bits) for power in powers[:-1]]
    return tuple(1 << part for part in (*parts, bits - sum(parts)))


_POOLINGS = {
    # sizes, window, stride and padding, the last three for each spatial dimension
    "global": ((64, 256, 32, 32), 32, 1, 0),
    "2x2/2": ((8, 64, 112, 112), 2, 2, 0),
    "3x3/2 p1": ((8, 64, 112, 112), 3, 2, 1),
    "3x3/1 p1": ((8, 64, 112, 112), 3, 1, 1),
    "3x3x3/2 p1": ((2, 16, 32, 80, 80), 3, 2, 1),
}


def _pooling(name: str, sizes: tuple[int, ...], dtype: str, indices: bool, size: str = "") -> Cell:
    _, window, stride, padding = _POOLINGS[name]
    spatial = len(sizes) - 2
    arrays = {"Strides": stride, "WindowSize": window, "StartPadding": padding, "EndPadding": padding, "Dilations": 1}
    fields: dict[str, Any] = {key: [value] * spatial for key, value in arrays.items()}
    if indices:
        pooled = [(each + 2 * padding - window) // stride + 1 for each in sizes[2:]]
        fields["OutputIndicesTensor"] = {"DataType": "UINT64", "Sizes": [*sizes[:2], *pooled]}
    attributes = {"kernel_shape": [window] * spatial, "strides": [stride] * spatial, "pads": [padding] * 2 * spatial}

    def pool(x: Any) -> Any:
        called = functional.max_pool2d if spatial == 2 else functional.max_pool3d
        return called(x, window, stride, padding, return_indices=indices)

    return Cell(
        group="max pooling",
        name=f"MAX_POOLING {name}",
        operator="MAX_POOLING2",
        inputs={"InputTensor": Tensor(sizes, dtype, _draw("MAX", dtype))},
        fields=fields,
        type=dtype.upper(),
        layout="indices" if indices else "values",
        size=size or f"{int(np.prod(sizes)) * np.dtype(dtype).itemsize / 2**20:.0f}MB",
        torch=pool,
        onnx=Onnx("MaxPool", attributes, outputs=(dtype, "int64") if indices else (dtype,)),
    )


def cpu() -> Iterator[Cell]:
    for function, row in _FUNCTIONS.items():
        for dtype in row.types:
            for size, count in SIZES.items():
                for layout, (powers, axes, order) in _LAYOUTS.items():
                    sizes = _sized(powers, count // np.dtype(dtype).itemsize)
                    tensor = Tensor(sizes, dtype, _draw(function, dtype), order)
                    yield _reduction(function, tensor, axes, layout, size)
    for dtype in FLOATS:  # the classes of an image's pixels
        logits = Tensor((1, 150, 256, 256), dtype)
        yield _reduction("ARGMAX", logits, (1,), "class map", "38MB" if dtype == "float32" else "19MB")
    for name, (sizes, *_) in _POOLINGS.items():
        for dtype in (*FLOATS, "int8", "uint8"):
            for indices in (False, True):
                yield _pooling(name, sizes, dtype, indices)


def cuda() -> Iterator[Cell]:
    for dtype, scale in (("float32", 1), ("float16", 2)):
        for function in _FUNCTIONS:
            for layout, axes in _LARGE.items():
                tensor = Tensor((128 * scale, 1024, 2048), dtype, _draw(function, dtype))
                yield _reduction(function, tensor, axes, layout, "1GB")
        for name in ("3x3/2 p1", "2x2/2", "3x3/1 p1"):
            for indices in (False, True):
                yield _pooling(name, (16 * scale, 64, 512, 512), dtype, indices, "1GB")
