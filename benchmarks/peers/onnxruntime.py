"""ONNX Runtime with preallocated outputs; it has no strided tensors, so the model transposes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Onnx
from .call import Call

_OPSET, _IR_VERSION = 20, 10


def call(cell: Cell, memories: Sequence[Array], threads: int) -> Call | None:
    if cell.onnx is None:
        return None
    taken = list(zip(cell.inputs.values(), memories, strict=True))[: cell.onnx.takes]
    given = {f"x{i}": memory for i, (_, memory) in enumerate(taken)}
    orders = [() if cell.is_by_element else tensor.inverse for tensor, _ in taken]
    session = opened(model(cell.onnx, given, orders), threads)
    if session is None:
        return None
    try:
        outputs = session.run(None, given)
    except Exception:  # each status has its own exception class, and any of them means it is unsupported
        return None
    binding = session.io_binding()
    for name, memory in given.items():
        binding.bind_ortvalue_input(name, _value(memory))
    for i, output in enumerate(outputs):
        binding.bind_ortvalue_output(f"y{i}", _value(output))
    return Call(lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu)


def _value(array: Array) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def opened(content: bytes, threads: int) -> Any | None:
    """Returns a session; None if ONNX Runtime has no such kernel."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    except Exception:  # as above
        return None


def model(onnx: Onnx, given: dict[str, Array], orders: Sequence[tuple[int, ...]]) -> bytes:
    """Returns a model of one operator, with the outputs ``y0``, ``y1``, ... and the inputs transposed to ``orders``."""
    from onnx import helper, numpy_helper

    nodes, names = [], list(given)
    for i, order in enumerate(orders):
        if order:
            nodes.append(helper.make_node("Transpose", [names[i]], [f"t{i}"], perm=order))
            names[i] = f"t{i}"
    outputs = [f"y{i}" for i in range(len(onnx.outputs))]
    nodes.append(helper.make_node(onnx.operator, [*names, *onnx.constants], outputs, **onnx.attributes))
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [helper.make_tensor_value_info(name, _type(array.dtype), array.shape) for name, array in given.items()],
        [
            helper.make_tensor_value_info(name, _type(np.dtype(dtype)), None)
            for name, dtype in zip(outputs, onnx.outputs, strict=True)
        ],
        [numpy_helper.from_array(array, name) for name, array in onnx.constants.items()],
    )
    imports = [helper.make_opsetid("", _OPSET)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION).SerializeToString())


def _type(dtype: Any) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))
