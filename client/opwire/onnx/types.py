"""Element types and sizes of ONNX tensors, and their DirectML data types."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx
from onnx import TensorProto, TypeProto

from ..tensor import DataType

_DATA_TYPES: dict[int, DataType] = {
    TensorProto.FLOAT: DataType.FLOAT32,
    TensorProto.FLOAT16: DataType.FLOAT16,
    TensorProto.DOUBLE: DataType.FLOAT64,
    TensorProto.INT8: DataType.INT8,
    TensorProto.INT16: DataType.INT16,
    TensorProto.INT32: DataType.INT32,
    TensorProto.INT64: DataType.INT64,
    TensorProto.UINT8: DataType.UINT8,
    TensorProto.UINT16: DataType.UINT16,
    TensorProto.UINT32: DataType.UINT32,
    TensorProto.UINT64: DataType.UINT64,
    TensorProto.BOOL: DataType.UINT8,
    TensorProto.INT4: DataType.INT4,
    TensorProto.UINT4: DataType.UINT4,
}
"""The data type of each element type that DirectML has; booleans are bytes of 0 and 1."""


def data_type_of(element_type: int) -> DataType | None:
    """Returns the DirectML data type of an ONNX element type, or None if there is none."""
    return _DATA_TYPES.get(element_type)


def element_type_of(data_type: DataType) -> int:
    """Returns the ONNX element type of a data type; that of bytes is UINT8."""
    return next(each for each, found in _DATA_TYPES.items() if found is data_type)


def element_type_name(element_type: int) -> str:
    """Returns the name of an ONNX element type: ``float16``."""
    known = element_type in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(element_type)).lower() if known else f"element type {element_type}"


def tensor_type(element_type: int, sizes: Sequence[int]) -> TypeProto:
    """Returns the type of a tensor with known sizes."""
    return onnx.helper.make_tensor_type_proto(element_type, sizes)


def sizes_of(proto: TypeProto | None) -> tuple[int, ...] | None:
    """Returns the sizes of a tensor type, or None if it is no tensor or one of them is unknown."""
    if proto is None or not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    dimensions = proto.tensor_type.shape.dim
    if any(not each.HasField("dim_value") or each.dim_value < 0 for each in dimensions):
        return None
    return tuple(each.dim_value for each in dimensions)


def type_text(proto: TypeProto | None) -> str:
    """Describes a type: ``float[batch, 3, 224, 224]``."""
    if proto is None:
        return "unknown"
    if not proto.HasField("tensor_type"):
        return str(proto.WhichOneof("value")).removesuffix("_type")
    name = element_type_name(proto.tensor_type.elem_type)
    if not proto.tensor_type.HasField("shape"):
        return f"{name}[unknown rank]"
    given = [
        each.dim_param or ("?" if not each.HasField("dim_value") or each.dim_value < 0 else each.dim_value)
        for each in proto.tensor_type.shape.dim
    ]
    return f"{name}[{', '.join(str(each) for each in given)}]"


def element_count(sizes: Sequence[int]) -> int:
    return prod(sizes)
