"""Reads models: from files with their external data, or from bytes without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from os import PathLike
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from ..desc import show
from ..tensor import Array
from .errors import ModelError
from .types import element_type_name

MOST_NODES = 100_000
"""Maximum number of nodes of a model, with those of its functions and subgraphs (opwire's own limit)."""

DEEPEST = 16
"""Maximum depth of subgraphs within subgraphs (opwire's own limit)."""

Source = str | PathLike[str] | bytes | ModelProto


def read_model(source: Source, most_nodes: int = MOST_NODES) -> tuple[ModelProto, Path | None]:
    """Reads a model, and returns it with the folder of its external data; None if it may not have any.

    Args:
        source: a path, the bytes of a model, or a ModelProto.
        most_nodes: the most nodes that it may have, with those of its functions and subgraphs.

    Raises:
        ModelError: it is not an ONNX model, or exceeds a limit.
        OSError: the file cannot be read.
    """
    folder = None
    if isinstance(source, ModelProto):
        model = ModelProto()
        model.CopyFrom(source)
    elif isinstance(source, bytes):
        model = _parsed(source, "the body")
    else:
        path = Path(source)
        model, folder = _parsed(path.read_bytes(), path.name), path.parent
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError("the model has no graph")
    _count(model, most_nodes)
    return model, folder


def _parsed(data: bytes, what: str) -> ModelProto:
    try:
        model: ModelProto = ModelProto.FromString(data)
    except DecodeError:
        raise ModelError(f"{what} is not an ONNX model, or it is truncated") from None
    if not model.opset_import:
        raise ModelError(f"{what} is not an ONNX model: it names no operator set")
    return model


def _count(model: ModelProto, most_nodes: int) -> None:
    """Counts nodes and depth before anything is done with them."""
    graphs = [(model.graph.node, 0), *((function.node, 0) for function in model.functions)]
    count = 0
    while graphs:
        nodes, depth = graphs.pop()
        count += len(nodes)
        if depth > DEEPEST:
            raise ModelError(f"the model has subgraphs more than {DEEPEST} deep, opwire's limit")
        if count > most_nodes:
            raise ModelError(f"the model has more than {most_nodes} nodes, opwire's limit")
        graphs += [(graph.node, depth + 1) for node in nodes for graph in subgraphs(node.attribute)]


def subgraphs(attributes: Iterable[AttributeProto]) -> Iterator[GraphProto]:
    """Yields the graphs among the attributes of a node."""
    for attribute in attributes:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def read_tensor(tensor: TensorProto, folder: Path | None) -> Array:
    """Returns the elements of a tensor, and frees those in the model.

    Raises:
        ModelError: its elements are missing, or do not match its sizes.
        OSError: the file with its external data cannot be read.
    """
    name = tensor.name or "of an attribute"
    if any(size < 0 for size in tensor.dims):
        raise ModelError(f"the tensor {show(name)} has the sizes {list(tensor.dims)}")
    if tensor.data_location == TensorProto.EXTERNAL:
        if folder is None:
            raise ModelError(f"the tensor {show(name)} is in a file beside the model, which only a model in a file has")
        _load_external(tensor, folder)
    try:
        _require_size(tensor, name)
        array: Array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"the tensor {show(name)} cannot be read: {error}") from None
    if tensor.HasField("raw_data"):
        tensor.ClearField("raw_data")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _load_external(tensor: TensorProto, folder: Path) -> None:
    where = {entry.key: entry.value for entry in tensor.external_data}
    try:
        load_external_data_for_tensor(tensor, str(folder))
    except (onnx.checker.ValidationError, ValueError) as error:
        said = f"the external data of the tensor {show(tensor.name)}, {where.get('location')!r}, cannot be read"
        raise ModelError(f"{said}: {error}") from None


def _require_size(tensor: TensorProto, name: str) -> None:
    """Compares the number of elements with the data before anything of the declared size is made."""
    if tensor.HasField("raw_data"):
        bits = _BITS.get(tensor.data_type)
        if bits is None:
            raise ModelError(f"the tensor {show(name)} is {element_type_name(tensor.data_type)}, without raw data")
        expected = -(-prod(tensor.dims) * bits // 8)
        if len(tensor.raw_data) != expected:
            sizes = f"sizes {list(tensor.dims)} of {element_type_name(tensor.data_type)}"
            raise ModelError(f"the tensor {show(name)} has {len(tensor.raw_data)} bytes; {sizes} take {expected}")
    elif tensor.data_type not in (TensorProto.STRING,):
        counts = [len(getattr(tensor, field)) for field in _FIELDS]
        if prod(tensor.dims) > 2 * max(counts):
            raise ModelError(f"the tensor {show(name)} has the sizes {list(tensor.dims)} and {max(counts)} elements")


_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def _bits() -> Mapping[int, int]:
    found = {}
    for element_type in TensorProto.DataType.values():
        if element_type in (TensorProto.UNDEFINED, TensorProto.STRING):
            continue
        name = TensorProto.DataType.Name(element_type)
        if name.endswith("INT4") or name.startswith("FLOAT4"):
            found[element_type] = 4
        elif name.endswith("INT2"):
            found[element_type] = 2
        else:
            found[element_type] = 8 * np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type)).itemsize
    return found


_BITS = _bits()
