"""Opens the files that a DxDispatch model refers to: graphs with their constants, and the values of buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..desc import Report, show
from ..errors import ContractViolation, RequestError
from ..files import is_npy, locate, read_npy, read_raw
from ..graph.serialized import MOST_BYTES
from ..operator import Code, Violation
from ..tensor import DataType
from .model import Dispatchable, GraphFile, Model
from .resources import Buffer, Deferred, SourceFile

_SUFFIX = ".bin"
IMAGES = (".jpg", ".jpeg", ".png")
"""Suffixes of images, which DxDispatch reads and writes and opwire does not."""


def open_graphs(model: Model, folder: Path) -> Model:
    """Replaces the graph files of a model by their graphs.

    Args:
        model: model as read from its file.
        folder: folder to look for files in, before the current one, as in DxDispatch.

    Raises:
        ContractViolation: a file is not a graph, or refers to a constant in another folder.
        OSError: a file cannot be read.
    """
    opened = {name: _open(dispatchable, folder) for name, dispatchable in model.dispatchables.items()}
    return replace(model, dispatchables=opened)


def constant_beside(path: Path, name: str, pointer: str) -> Path:
    """Returns the path of a constant's file, which is in the same folder as that of its graph.

    Raises:
        ContractViolation: the name refers to another folder; the violation is at ``pointer``.
    """
    if not name or "/" in name or "\\" in name or "\0" in name:
        message = f"{show(path.name)} has the constant {show(name)}, whose file would not be in the same folder"
        raise ContractViolation([Violation(Code.VALUE_NOT_ALLOWED, pointer, message)])
    return path.with_name(name + _SUFFIX)


def read_whole(path: Path, pointer: str) -> bytes:
    """Reads a graph file.

    Raises:
        ContractViolation: the file is too large; the violation is at ``pointer``.
        OSError: the file cannot be read.
    """
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        message = f"{show(path.name)} has {path.stat().st_size} bytes; graph files may have at most {MOST_BYTES}"
        raise ContractViolation([Violation(Code.OUT_OF_RANGE, pointer, message)])
    return path.read_bytes()


def _open(dispatchable: Dispatchable, folder: Path) -> Dispatchable:
    if not isinstance(dispatchable, GraphFile):
        return dispatchable
    path = locate(dispatchable.path, folder)
    at = dispatchable.pointer + "/sourcePath"
    try:
        return dispatchable.read(read_whole(path, at), lambda name: constant_beside(path, name, at).read_bytes())
    except RequestError as error:
        raise ContractViolation([Violation(Code.WRONG_TYPE, at, f"{show(path.name)}: {error.detail}")]) from None


def load_buffer(buffer: Buffer, folder: Path, report: Report) -> Buffer:
    """Loads the initial values of a buffer from its file, if it has one; reports what is wrong with it.

    Raises:
        OSError: the file cannot be read.
    """
    if isinstance(buffer.initial, Deferred):
        message = "deferred buffers take their size from an ONNX model, which opwire does not support"
        report.add(Code.VALUE_NOT_ALLOWED, buffer.pointer + "/initialValues", message)
    if not isinstance(buffer.initial, SourceFile):
        return buffer
    path = locate(buffer.initial.path, folder)
    at = buffer.pointer + "/initialValues/sourcePath"
    if path.suffix.lower() in IMAGES:
        message = f"{show(path.name)} is an image; opwire reads .npy files and raw bytes"
        report.add(Code.UNKNOWN_VALUE, at, message)
        return buffer
    try:
        array = read_npy(path) if is_npy(path) else read_raw(path)
    except ValueError as error:
        report.add(Code.WRONG_TYPE, at, f"{show(path.name)} cannot be read: {error}")
        return buffer
    return buffer.with_file(array.reshape(-1), DataType.of(array.dtype) if is_npy(path) else None, report)
