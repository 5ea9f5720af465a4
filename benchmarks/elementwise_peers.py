"""Elementwise operators in NumPy, PyTorch, JAX and ONNX Runtime, each in the fastest documented way.

Every peer gets the tensors as they are laid out in memory. NumPy and PyTorch support strides and write to preallocated
memory, like opwire. JAX and ONNX Runtime have no strides, so they compile transposition and broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from opwire.tensor import Array

from .onnx_model import elementwise

Call = Callable[[], Any]


class Row(NamedTuple):
    """An operator and its equivalents in other libraries.

    Attributes:
        name: name of the operator.
        numpy: function of the inputs and the output.
        torch: name of the PyTorch function.
        jax: name of the function in ``jax.numpy`` or ``jax.nn``.
        onnx: name of the ONNX operator.
        types: the measured data types.
        attributes: attributes of the desc.
        chain: whether ``x * 0.5 + 0.25`` is applied first.
    """

    name: str
    numpy: Callable[..., Any] | None
    torch: str
    jax: str
    onnx: str
    types: tuple[str, ...] = ("FLOAT32", "FLOAT16")
    attributes: Mapping[str, Any] = {}
    chain: bool = False


class Operand(NamedTuple):
    """An input.

    Attributes:
        memory: its elements in memory order.
        layout: how they become the tensor: packed, row, column or transposed.
        view: the tensor.
    """

    memory: Array
    layout: str
    view: Array


SCALE, BIAS = 0.5, 0.25


def numpy_call(row: Row, operands: list[Operand], threads: int) -> Call | None:
    """NumPy, single-threaded."""
    function = row.numpy
    if function is None or row.chain:
        return None
    inputs = [operand.view for operand in operands]
    output = np.empty(inputs[0].shape, bool if "LOGICAL" in row.name else inputs[0].dtype)
    return lambda: function(*inputs, out=output)


def torch_call(row: Row, operands: list[Operand], threads: int) -> Call | None:
    """PyTorch in eager mode."""
    if find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(threads)
    inputs = [_as_torch(torch, operand) for operand in operands]
    if row.chain:
        eager = getattr(torch, row.torch)
        return lambda: eager(inputs[0] * SCALE + BIAS)
    if row.torch in ("gelu", "relu"):
        function = getattr(torch.ops.aten, row.torch)
        output = torch.empty(inputs[0].shape, dtype=inputs[0].dtype)
        return lambda: function.out(inputs[0], out=output)
    function = getattr(torch, row.torch)
    kind = torch.bool if "LOGICAL" in row.name else inputs[0].dtype
    output = torch.empty(inputs[0].shape, dtype=kind)
    return lambda: function(*inputs, out=output)


def _as_torch(torch: Any, operand: Operand) -> Any:
    memory = torch.from_numpy(operand.memory)
    if operand.layout == "transposed":
        return memory.T
    return memory.expand(operand.view.shape)


def jax_call(row: Row, operands: list[Operand], threads: int) -> Call | None:
    """JAX, compiled for the layout."""
    if find_spec("jax") is None or not row.jax:
        return None
    import jax

    function = getattr(jax.numpy, row.jax, None) or getattr(jax.nn, row.jax)
    shape, layouts = operands[0].view.shape, [operand.layout for operand in operands]

    def whole(*memories: Any) -> Any:
        laid = [
            memory.T if layout == "transposed" else jax.numpy.broadcast_to(memory, shape)
            for memory, layout in zip(memories, layouts, strict=True)
        ]
        if row.chain:
            laid = [laid[0] * SCALE + BIAS]
        return function(*laid)

    compiled = jax.jit(whole)
    inputs = [jax.numpy.asarray(operand.memory) for operand in operands]
    return lambda: compiled(*inputs).block_until_ready()


def onnxruntime_call(row: Row, operands: list[Operand], threads: int) -> Call | None:
    """ONNX Runtime with preallocated output; None if it has no such kernel."""
    if find_spec("onnxruntime") is None or not row.onnx or row.chain:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    shape = operands[0].view.shape
    output = np.empty(shape, bool if "LOGICAL" in row.name else operands[0].memory.dtype)
    content = elementwise(
        row.onnx,
        [(operand.memory.dtype.name, operand.memory.shape, operand.layout == "transposed") for operand in operands],
        output.dtype.name,
    )
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    binding = session.io_binding()
    for number, operand in enumerate(operands):
        binding.bind_ortvalue_input(f"x{number}", onnxruntime.OrtValue.ortvalue_from_numpy(operand.memory))
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(output))
    return lambda: session.run_with_iobinding(binding)


PEERS = {"numpy": numpy_call, "torch": torch_call, "jax": jax_call, "onnxruntime": onnxruntime_call}
