"""Operators that make tensors from attributes and constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, prod

from onnx import TensorProto, numpy_helper

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lowers
from ..types import data_type_of, element_type_name
from .shapes import copied


@lowers("ConstantOfShape")
def constant_of_shape(node: NodeLowering) -> GraphTensor:
    """Fills a tensor of constant sizes with one value, by default the float 0."""
    sizes = node.integers(0)
    given = node.attribute("value")
    element_type = TensorProto.FLOAT if given is None else given.data_type
    value = 0.0 if given is None else numpy_helper.to_array(given).reshape(()).item()
    return _filled(node, sizes, _type_of(element_type), value)


def _type_of(element_type: int) -> DataType:
    data_type = data_type_of(element_type)
    if data_type is None:
        raise NotLowered(f"it makes elements of {element_type_name(element_type)}, which DirectML lacks")
    return data_type


def _filled(node: NodeLowering, sizes: Sequence[int], data_type: DataType, value: float) -> GraphTensor:
    raised = [1] * (4 - len(sizes)) + list(sizes)
    if prod(raised) == 0:
        raise NotLowered(f"its output has the sizes {list(sizes)}, and DirectML has no tensors without elements")
    if not isfinite(value):  # which a number in a desc is not
        return copied(node, node.filled(value, data_type, raised)).reshape(sizes or (1,))
    desc = node.desc(data_type, raised)
    number = value if data_type.is_float else int(value)
    made = node.emit("FILL_VALUE_CONSTANT", OutputTensor=desc, ValueDataType=data_type.name, Value=number)
    return made.reshape(sizes or (1,))


@lowers("Range")
def range_(node: NodeLowering) -> GraphTensor:
    """Lowers start + k delta up to a limit, all constant."""
    start, limit, delta = (node.constant(i).reshape(()).item() for i in range(3))
    count = max(ceil((limit - start) / delta), 0)
    if not count:
        raise NotLowered("its output is empty, and DirectML has no tensors without elements")
    data_type = node.data_type(0)
    made = node.emit(
        "FILL_VALUE_SEQUENCE",
        OutputTensor=node.desc(data_type, [1, 1, 1, count]),
        ValueDataType=data_type.name,
        ValueStart=start,
        ValueDelta=delta,
    )
    return made.reshape(count)


@lowers("EyeLike")
def eye_like(node: NodeLowering) -> GraphTensor:
    """Makes a matrix with ones on a diagonal, of the sizes of the input and, without ``dtype``, of its type."""
    rows, columns = node.sizes(0)
    data_type = _type_of(node.attribute("dtype") or node.value(0).element_type)
    desc = node.desc(data_type, [1, 1, rows, columns])
    return node.emit("DIAGONAL_MATRIX", OutputTensor=desc, Offset=node.attribute("k", 0), Value=1.0)
