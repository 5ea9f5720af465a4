"""The same cells in NumPy, ONNX Runtime and PyTorch, each in the fastest documented form.

A peer turns a cell into a call without arguments that returns the answer, or into None if it does not support the cell.
All setup happens outside of the call, including the allocation of the result where the library allows that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import torch

from opwire.tensor import Array

from .matrix import Cell
from .onnx_model import ELEMENT_TYPES, model

Call = Callable[[], Any]

_NUMPY: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "SUM": lambda x, axes: np.sum(x, axes, x.dtype, keepdims=True),
    "AVERAGE": lambda x, axes: np.mean(x, axes, keepdims=True),
    "L1": lambda x, axes: np.sum(np.abs(x), axes, x.dtype, keepdims=True),
    "L2": lambda x, axes: np.sqrt(np.sum(np.square(x), axes, x.dtype, keepdims=True)),
    "SUM_SQUARE": lambda x, axes: np.sum(np.square(x), axes, x.dtype, keepdims=True),
    "MULTIPLY": lambda x, axes: np.prod(x, axes, x.dtype, keepdims=True),
    "LOG_SUM": lambda x, axes: np.log(np.sum(x, axes, x.dtype, keepdims=True)),
    "LOG_SUM_EXP": lambda x, axes: _numpy_log_sum_exp(x, axes),
    "MIN": lambda x, axes: np.min(x, axes, keepdims=True),
    "MAX": lambda x, axes: np.max(x, axes, keepdims=True),
    "ARGMIN": lambda x, axes: _numpy_arg(np.argmin, x, axes),
    "ARGMAX": lambda x, axes: _numpy_arg(np.argmax, x, axes),
}


def _numpy_log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    greatest = np.max(x, axes, keepdims=True)
    result: Array = np.log(np.sum(np.exp(x - greatest), axes, keepdims=True)) + greatest
    return result


def _numpy_arg(function: Callable[..., Array], x: Array, axes: tuple[int, ...]) -> Array:
    if len(axes) == 1:
        return function(x, axes[0], keepdims=True)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    flat = x.transpose([*kept, *axes]).reshape([x.shape[axis] for axis in kept] + [-1])
    return function(flat, -1)


def numpy_call(cell: Cell, threads: int) -> Call | None:
    """NumPy, single-threaded."""
    if cell.function not in _NUMPY:
        return None
    function, axes = _NUMPY[cell.function], cell.attributes["axes"]
    return lambda: function(cell.source, axes)


def _torch_arg(function: Callable[..., Any], x: Any, axes: tuple[int, ...]) -> Any:
    return function(x, axes[0]) if len(axes) == 1 else function(x.flatten(min(axes), max(axes)), min(axes))


_TORCH: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "SUM": lambda x, axes: torch.sum(x, axes, dtype=x.dtype),
    "AVERAGE": lambda x, axes: torch.mean(x, axes),
    "L1": lambda x, axes: (
        torch.linalg.vector_norm(x, 1, axes) if x.is_floating_point() else torch.sum(x.abs(), axes, dtype=x.dtype)
    ),
    "L2": lambda x, axes: torch.linalg.vector_norm(x, 2, axes),
    "SUM_SQUARE": lambda x, axes: torch.sum(x.square(), axes, dtype=x.dtype),
    "MULTIPLY": lambda x, axes: _torch_product(x, axes),
    "LOG_SUM": lambda x, axes: torch.sum(x, axes).log(),
    "LOG_SUM_EXP": lambda x, axes: torch.logsumexp(x, axes),
    "MIN": lambda x, axes: torch.amin(x, axes),
    "MAX": lambda x, axes: torch.amax(x, axes),
    "ARGMIN": lambda x, axes: _torch_arg(torch.argmin, x, axes),
    "ARGMAX": lambda x, axes: _torch_arg(torch.argmax, x, axes),
}


def _torch_product(x: Any, axes: tuple[int, ...]) -> Any:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, dtype=x.dtype)
    return x


def torch_call(cell: Cell, threads: int) -> Call | None:
    """PyTorch on the CPU; its max pooling returns values alone or with indices, like opwire's."""
    torch.set_num_threads(threads)
    tensor = torch.from_numpy(cell.source)
    if cell.function in _TORCH:
        function, axes = _TORCH[cell.function], cell.attributes["axes"]
        return lambda: function(tensor, axes)
    given = cell.attributes
    pool = torch.nn.functional.max_pool2d if given["spatial"] == 2 else torch.nn.functional.max_pool3d
    settings = (given["window"], given["stride"], given["padding"])
    return lambda: pool(tensor, *settings, return_indices=given["indices"])


_REDUCTIONS = {
    "SUM": "ReduceSum",
    "AVERAGE": "ReduceMean",
    "L1": "ReduceL1",
    "L2": "ReduceL2",
    "SUM_SQUARE": "ReduceSumSquare",
    "MULTIPLY": "ReduceProd",
    "LOG_SUM": "ReduceLogSum",
    "LOG_SUM_EXP": "ReduceLogSumExp",
    "MIN": "ReduceMin",
    "MAX": "ReduceMax",
}


def _model(cell: Cell) -> bytes | None:
    dtype, given = cell.source.dtype.name, cell.attributes
    if cell.function in _REDUCTIONS:
        return model(_REDUCTIONS[cell.function], dtype, cell.source.shape, {"y": dtype}, {"keepdims": 1}, given["axes"])
    if cell.function.startswith("ARG"):
        if len(given["axes"]) > 1:
            return None
        name = cell.function.replace("ARGM", "ArgM")
        name = name[:4] + name[4:].lower()
        return model(name, dtype, cell.source.shape, {"y": "int64"}, {"axis": given["axes"][0], "keepdims": 1})
    spatial = given["spatial"]
    attributes = {
        "kernel_shape": [given["window"]] * spatial,
        "strides": [given["stride"]] * spatial,
        "pads": [given["padding"]] * (2 * spatial),
    }
    outputs = {"y": dtype, "i": "int64"} if given["indices"] else {"y": dtype}
    return model("MaxPool", dtype, cell.source.shape, outputs, attributes)


def onnxruntime_call(cell: Cell, threads: int) -> Call | None:
    """ONNX Runtime on the CPU. It has no strided tensors, so a copy to dimension order is part of the call."""
    content = _model(cell)
    if content is None or cell.source.dtype.name not in ELEMENT_TYPES:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        session.run(None, {"x": np.ascontiguousarray(cell.source)})
    except Exception:  # each status has its own exception class, and any of them means it is unsupported
        return None
    return lambda: session.run(None, {"x": np.ascontiguousarray(cell.source)})


PEERS: dict[str, Callable[[Cell, int], Call | None]] = {
    "NumPy": numpy_call,
    "ONNX Runtime": onnxruntime_call,
    "PyTorch": torch_call,
}


def arrays(answer: Any) -> tuple[Array, ...]:
    """Converts an answer of any library to arrays."""
    parts = answer if isinstance(answer, tuple | list) else (answer,)
    return tuple(part.numpy() if isinstance(part, torch.Tensor) else np.asarray(part) for part in parts)
