"""The cells of the families in NumPy, ONNX Runtime, PyTorch and JAX.

ONNX Runtime and JAX have no strided tensors. They get the elements in memory order, and transpose the dimensions
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opwire.tensor import Array

from .family_cells import Cell, Onnx
from .onnx_model import network, node

Call = Callable[[], Any]

_OPSET = 18


def numpy_call(cell: Cell, threads: int) -> Call | None:
    """NumPy, single-threaded."""
    function, arrays = cell.numpy, list(cell.inputs.values())
    return None if function is None else lambda: function(*arrays)


def torch_call(cell: Cell, threads: int) -> Call | None:
    """PyTorch, with strided tensors."""
    function = cell.torch
    if function is None:
        return None
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(array) for array in cell.inputs.values()]
    return lambda: function(*tensors)


def _laid(array: Array) -> tuple[Array, tuple[int, ...]]:
    """Returns the elements in memory order, and the permutation of dimensions that restores the array."""
    order = list(range(array.ndim))
    if not array.flags.c_contiguous:
        order.sort(key=lambda axis: -array.strides[axis])
    return array.transpose(order), tuple(order.index(axis) for axis in range(array.ndim))


def jax_call(cell: Cell, threads: int) -> Call | None:
    """JAX, with one thread per core of the process."""
    function = cell.jax
    if function is None:
        return None
    import jax

    found = [_laid(array) for array in cell.inputs.values() if array.flags.c_contiguous or 0 not in array.strides]

    def whole(*memories: Any) -> Any:
        if not cell.is_by_element:
            memories = tuple(memory.transpose(order) for memory, (_, order) in zip(memories, found, strict=True))
        return function(*memories)

    compiled, given = jax.jit(whole), [jax.numpy.asarray(memory) for memory, _ in found]
    return lambda: jax.block_until_ready(compiled(*given))


def onnxruntime_call(cell: Cell, threads: int) -> Call | None:
    """ONNX Runtime with preallocated output; None if it has no such kernel."""
    if cell.onnx is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    found = [_laid(array) for array in list(cell.inputs.values())[: cell.onnx.takes]]
    orders = [tuple(range(len(order))) if cell.is_by_element else order for _, order in found]
    given = {f"x{i}": memory for i, (memory, _) in enumerate(found)}
    model = _model(cell.onnx, given, orders)
    try:
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    binding = session.io_binding()
    for name, memory in given.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(memory))
    for name, output in zip(cell.onnx.outputs, session.run(None, given), strict=True):
        binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(output))
    return lambda: session.run_with_iobinding(binding)


def _model(onnx: Onnx, given: dict[str, Array], orders: list[tuple[int, ...]]) -> bytes:
    nodes, names = [], list(given)
    for i, order in enumerate(orders):
        if order != tuple(range(len(order))):
            names[i] = f"t{i}"
            nodes.append(node("Transpose", [f"x{i}"], [f"t{i}"], {"perm": order}))
    nodes.append(node(onnx.operator, [*names, *onnx.constants], list(onnx.outputs), onnx.attributes))
    inputs = {name: (memory.dtype.name, memory.shape) for name, memory in given.items()}
    return network(nodes, onnx.constants, inputs, onnx.outputs, {"": _OPSET})


PEERS: dict[str, Callable[[Cell, int], Call | None]] = {
    "NumPy": numpy_call,
    "ONNX Runtime": onnxruntime_call,
    "PyTorch": torch_call,
    "JAX": jax_call,
}
