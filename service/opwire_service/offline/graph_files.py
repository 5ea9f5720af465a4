"""The files of graphs that a DxDispatch model names, and of their constants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opwire.desc import show
from opwire.dxdispatch import Dispatchable, GraphFile, Model
from opwire.errors import ContractViolation, RequestError
from opwire.graph.serialized import MOST_BYTES
from opwire.operator import Code, Violation

_SUFFIX = ".bin"


def open_graphs(model: Model, folder: Path) -> Model:
    """The model with the graphs that its files hold.

    Args:
        model: as read from its file.
        folder: where files are looked for; the current folder comes second, as in DxDispatch.

    Raises:
        ContractViolation: a file holds no graph, or names a constant in another folder.
        OSError: a file cannot be read.
    """
    opened = {name: _open(dispatchable, folder) for name, dispatchable in model.dispatchables.items()}
    return replace(model, dispatchables=opened)


def locate(path: str, folder: Path) -> Path:
    """Where a file lies: in a folder, or else in the current one."""
    beside, here = folder / path, Path(path)
    return beside if beside.exists() or not here.exists() else here


def constant_beside(path: Path, name: str, pointer: str) -> Path:
    """The file of a constant, which lies beside that of its graph.

    Raises:
        ContractViolation: the name is one of another folder; the violation stands at ``pointer``.
    """
    if not name or "/" in name or "\\" in name or "\0" in name:
        message = f"{show(path.name)} names the constant {show(name)}, whose file would not lie beside it"
        raise ContractViolation([Violation(Code.VALUE_NOT_ALLOWED, pointer, message)])
    return path.with_name(name + _SUFFIX)


def read_whole(path: Path, pointer: str) -> bytes:
    """The bytes of a graph's file.

    Raises:
        ContractViolation: it is larger than such a file may be; the violation stands at ``pointer``.
        OSError: it cannot be read.
    """
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        message = f"{show(path.name)} has {path.stat().st_size} bytes; a graph has at most {MOST_BYTES}"
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
