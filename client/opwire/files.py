"""Reads tensors from files, in ``.npy`` format or as raw bytes, and finds the files that a graph refers to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ContractViolation
from .graph import CONSTANT, with_constants, without_constants
from .tensor import Array, BufferTensorDesc, DataType
from .violation import Code, Violation


def is_npy(path: Path) -> bool:
    return path.suffix.lower() == ".npy"


def read_npy(path: Path) -> Array:
    """Reads a ``.npy`` file as a contiguous little-endian array; booleans become UINT8.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a ``.npy`` file, or DirectML does not have its data type.
    """
    with path.open("rb") as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    try:
        data_type = DataType.of(array.dtype)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return np.ascontiguousarray(array, data_type.dtype).reshape(array.shape)


def read_raw(path: Path) -> Array:
    """Reads the bytes of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path is not a valid file name.
    """
    return np.frombuffer(path.read_bytes(), np.uint8)


def locate(path: str, folder: Path) -> Path:
    """Returns the path of a file in ``folder``, or in the current folder if it only exists there."""
    beside, here = folder / path, Path(path)
    return beside if beside.exists() or not here.exists() else here


def without_files(value: Mapping[str, Any], folder: Path) -> tuple[Mapping[str, Any], dict[str, Path]]:
    """Returns a graph, or a request with one, without the constants that are in files, and those files."""
    graph = value.get("graph", value)
    if not isinstance(graph, Mapping):
        return value, {}
    tensors = {name: tensor for name, (tensor, _) in without_constants(graph, "")[1].items()}
    paths = {name: tensor["sourcePath"] for name, tensor in tensors.items() if _is_file(tensor)}
    kept = with_constants(graph, {name: "" if name in paths else tensor for name, tensor in tensors.items()})
    files = {CONSTANT + name: locate(path, folder) for name, path in paths.items()}
    return ({**value, "graph": kept} if "graph" in value else kept), files


def _is_file(tensor: object) -> bool:
    return isinstance(tensor, Mapping) and set(tensor) == {"sourcePath"} and isinstance(tensor["sourcePath"], str)


def read_payload(path: Path, pointer: str, desc: BufferTensorDesc | None) -> memoryview:
    """Reads a tensor's bytes from a file. The elements of a ``.npy`` file are put into the layout of the desc.

    Raises:
        OSError: the file cannot be read.
        ContractViolation: the file does not match the desc.
    """
    if desc is None or not is_npy(path):
        return read_raw(path).data
    try:
        array = read_npy(path)
    except ValueError as error:
        raise _mismatch(Code.WRONG_TYPE, pointer, f"{path} cannot be read: {error}") from None
    given = DataType.of(array.dtype)
    if given is not desc.data_type:
        message = f"{path} has the data type {given.name}; the desc says {desc.data_type.name}"
        raise _mismatch(Code.DATA_TYPES_DIFFER, pointer, message)
    if array.shape not in (desc.sizes, (desc.element_count,)):
        message = f"{path} has the shape {list(array.shape)}; the desc says {list(desc.sizes)}"
        raise _mismatch(Code.SHAPE_MISMATCH, pointer, message)
    buffer, view = desc.allocate()
    view[...] = array.reshape(desc.sizes)
    if view.tobytes() != array.tobytes():
        message = f"{path} has different values for elements that share an address because of the strides"
        raise _mismatch(Code.OVERLAP_CONFLICT, pointer, message)
    return buffer.data


def _mismatch(code: Code, pointer: str, message: str) -> ContractViolation:
    return ContractViolation([Violation(code, pointer, message)])
