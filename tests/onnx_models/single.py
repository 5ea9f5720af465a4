"""Models of a single node, run by opwire and by ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper

import opwire.onnx

from .building import info, model, node

Arrays = Sequence[Any]


def single(
    operator: str,
    inputs: Arrays,
    constant: Collection[int] = (),
    *,
    opset: int = 18,
    outputs: int = 1,
    **attributes: Any,
) -> ModelProto:
    """Returns a model of one node.

    Args:
        operator: its operator.
        inputs: its inputs in order; None leaves one out.
        constant: the places of the inputs that are constants of the model.
        opset: the operator set.
        outputs: the number of its outputs.
        attributes: its attributes; ``domain`` is one.
    """
    arrays = {f"x{at}": np.asarray(array) for at, array in enumerate(inputs) if array is not None}
    known = {name: array for name, array in arrays.items() if int(name[1:]) in constant}
    infos = [
        info(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in arrays.items()
        if name not in known
    ]
    names = ["" if array is None else f"x{at}" for at, array in enumerate(inputs)]
    made = [f"y{i}" for i in range(outputs)]
    return model([node(operator, names, made, **attributes)], infos, made, known, opset=opset, ir_version=9)


def lowered(source: ModelProto, inputs: Arrays) -> tuple[opwire.onnx.Model, list[Any]]:
    """Returns a model, whose nodes must all become operators, and its outputs."""
    found = opwire.onnx.load(source)
    assert [each.reason for each in found.nodes if each.reason] == []
    outputs = found.run({name: np.asarray(inputs[int(name[1:])]) for name in found.inputs})
    return found, [outputs[name] for name in found.outputs]


def by_onnx_runtime(source: ModelProto, inputs: Arrays) -> list[Any]:
    """Returns the outputs that ONNX Runtime computes on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    untyped = ModelProto()
    untyped.CopyFrom(source)
    for each in untyped.graph.output:
        each.ClearField("type")
    session = onnxruntime.InferenceSession(untyped.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return list(session.run(None, {name: np.asarray(inputs[int(name[1:])]) for name in names}))


def require_same(found: Arrays, expected: Arrays, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Compares outputs: types, sizes, and elements."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(one, other)


def agree(
    operator: str, inputs: Arrays, constant: Collection[int] = (), *, tolerance: float = 1e-5, **options: Any
) -> opwire.onnx.Model:
    """Compares a model of one node with ONNX Runtime, and returns the model."""
    source = single(operator, inputs, constant, **options)
    model, found = lowered(source, inputs)
    require_same(found, by_onnx_runtime(source, inputs), tolerance)
    return model


def types(model: opwire.onnx.Model) -> list[str]:
    """Returns the types of the operators that a model became."""
    return [use.type for node in model.nodes for use in node.uses]
