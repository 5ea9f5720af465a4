"""The commands of a DxDispatch model, and the bindings of buffers to tensors.

Source: ``doc/Guide.md``, ``models/_schema.json`` and ``JsonParsers.cpp`` of DxDispatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..desc import UINT_MAX, pointer_to, show
from ..fields.tensors import MOST_TENSORS
from ..operator import Code
from ..tensor import MAX_RANK
from .model_object import ModelObject, is_known


@dataclass(frozen=True, slots=True)
class Binding:
    """A part of a buffer bound to a tensor, from ``element_offset`` elements to the end of the buffer.

    ``element_size`` is in bytes; None is that of the buffer's data type.
    """

    resource: str
    element_offset: int
    element_size: int | None
    pointer: str


Bindings = Mapping[str, tuple[Binding, ...]]
"""The bindings of each tensor, or of the tensors of an array, by field name."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Runs a dispatchable on the buffers bound to its tensors."""

    dispatchable: str
    bindings: Bindings
    pointer: str


@dataclass(frozen=True, slots=True)
class Print:
    """Prints the values of a buffer; ``verbose`` adds their indices and bits."""

    resource: str
    verbose: bool
    pointer: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Writes a buffer to a file; ``dimensions`` are those of the array in a ``.npy`` file, empty for one dimension."""

    resource: str
    target: str
    dimensions: tuple[int, ...]
    pointer: str


Command = Dispatch | Print | WriteFile


def read_command(members: ModelObject, buffers: Iterable[str], dispatchables: Iterable[str]) -> Command | None:
    """Reads a command, or reports its violations and returns None.

    Args:
        members: the members of the command.
        buffers: the names of the model's resources.
        dispatchables: the names of its dispatchables.
    """
    kind = members.string("type")
    read = None if kind is None else _COMMANDS.get(kind.lower())
    if kind is not None and read is None:
        allowed = ["dispatch", "print", "writeFile"]
        message = f"{show(kind)} given; allowed: {', '.join(allowed)}"
        members.report.add(Code.UNKNOWN_VALUE, members.at("type"), message, allowed)
    return None if read is None else read(members, buffers, dispatchables)


def _dispatch(members: ModelObject, buffers: Iterable[str], dispatchables: Iterable[str]) -> Dispatch | None:
    name = members.named("dispatchable", dispatchables, "dispatchable")
    bindings = read_bindings(members, buffers)
    return None if name is None else Dispatch(name, bindings, members.pointer)


def _print(members: ModelObject, buffers: Iterable[str], _: Iterable[str]) -> Print | None:
    resource = members.named("resource", buffers, "resource")
    verbose = members.values.get("verbose") or False
    if not isinstance(verbose, bool):
        members.report.add(Code.WRONG_TYPE, members.at("verbose"), f"{show(verbose)} given; expected true or false")
    return None if resource is None else Print(resource, bool(verbose), members.pointer)


def _write_file(members: ModelObject, buffers: Iterable[str], _: Iterable[str]) -> WriteFile | None:
    resource = members.named("resource", buffers, "resource")
    target = members.string("targetPath")
    dimensions: tuple[int, ...] | None = ()
    if members.has("dimensions"):
        at = members.at("dimensions")
        dimensions = members.report.integers(members.values["dimensions"], at, 1)
        if dimensions is not None and len(dimensions) > MAX_RANK:
            members.report.add(Code.OUT_OF_RANGE, at, f"{len(dimensions)} dimensions given; at most {MAX_RANK} allowed")
    if resource is None or target is None or dimensions is None:
        return None
    return WriteFile(resource, target, dimensions, members.pointer)


_COMMANDS = {"dispatch": _dispatch, "print": _print, "writefile": _write_file}


def read_bindings(members: ModelObject, buffers: Iterable[str]) -> Bindings:
    """Reads the member ``bindings``, by tensor. Invalid bindings are reported and omitted."""
    given = members.child("bindings")
    if given is None:
        return {}
    bindings = {name: _listed(value, given, name, buffers) for name, value in given.values.items()}
    return {name: listed for name, listed in bindings.items() if listed is not None}


def _listed(value: object, owner: ModelObject, name: str, buffers: Iterable[str]) -> tuple[Binding, ...] | None:
    """Reads the binding of a field: a resource, or a list of resources. The operator checks their number later."""
    at = owner.at(name)
    if not isinstance(value, list):
        binding = _binding(value, owner, at, buffers)
        return None if binding is None else (binding,)
    if not 0 < len(value) <= MOST_TENSORS:
        message = f"{len(value)} resources given; a list has at least 1 and at most {MOST_TENSORS}"
        owner.report.add(Code.COUNT_MISMATCH, at, message)
        return None
    found = [_binding(item, owner, pointer_to(at, i), buffers) for i, item in enumerate(value)]
    listed = tuple(binding for binding in found if binding is not None)
    return listed if len(listed) == len(found) else None


def _binding(value: object, owner: ModelObject, at: str, buffers: Iterable[str]) -> Binding | None:
    if isinstance(value, str):
        return Binding(value, 0, None, at) if is_known(value, at, buffers, "resource", owner.report) else None
    if not isinstance(value, Mapping):
        message = f"{show(value)} given; expected the name of a resource, or an object with its name"
        owner.report.add(Code.WRONG_TYPE, at, message)
        return None
    piece = ModelObject(value, at, owner.report)
    resource = piece.named("name", buffers, "resource")
    offset, size = piece.integer("elementOffset", 0), piece.integer("elementSizeInBytes", 0, UINT_MAX)
    if resource is None or offset is None or size is None:
        return None
    return Binding(resource, offset, size or None, at)
