"""A graph that is registered under a name: what a file holds of it, and what a process makes of that."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic_core import from_json, to_json

from opwire.check import Plan
from opwire.desc import Report, read_tensor
from opwire.graph import CONSTANT, with_constants
from opwire.level import FeatureLevel
from opwire.tensor import BufferTensorDesc
from opwire.violation import Violation
from opwire.wire import ExecuteRequest

from .plan_cache import Prepared

_ALIGNMENT = 64
"""Bytes: the constants begin where any data type may."""

_LENGTH = 8
"""Bytes of the length of the head, which a file begins with."""


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A graph as its file stores it.

    Attributes:
        graph: as JSON, without the tensors of its constants.
        plan: of it.
        constants: their bytes, by the names of their nodes.
    """

    graph: object
    plan: Plan
    constants: Mapping[str, memoryview]

    def head(self, slot: int, token: int) -> bytes:
        """What stands before the constants, in a length that depends on neither number."""
        described = {
            "slot": f"{slot:10d}",
            "token": f"{token:20d}",
            "feature_level": str(self.plan.level),
            "nodes": len(self.plan.attributes.steps) + len(self.constants),
            "inputs": {
                name: desc.to_json() for name, desc in self.plan.inputs.items() if not name.startswith(CONSTANT)
            },
            "outputs": {name: desc.to_json() for name, desc in self.plan.outputs.items()},
            "constants": {name: data.nbytes for name, data in self.constants.items()},
            "graph": self.graph,
        }
        text = to_json(described, inf_nan_mode="constants")
        text += b" " * (-(len(text) + _LENGTH) % _ALIGNMENT)
        return len(text).to_bytes(_LENGTH, "little") + text

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.head(0, 0)) + sum(_aligned(data.nbytes) for data in self.constants.values())

    def write(self, file: int, slot: int, token: int) -> None:
        """Writes all of it.

        Raises:
            OSError: the system has no more room.
        """
        _write(file, memoryview(self.head(slot, token)))
        for data in self.constants.values():
            _write(file, data)
            _write(file, memoryview(bytes(_aligned(data.nbytes) - data.nbytes)))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _write(file: int, data: memoryview) -> None:
    written = 0
    while written < data.nbytes:
        written += os.write(file, data[written:])


class RegisteredGraph:
    """A registered graph, whose file is mapped: all processes of a server share its bytes.

    Attributes:
        name: of it.
        inode: of its file, which no other file has as long as this one is mapped.
        byte_size: of the file.
        json_size: bytes of its JSON, to which the memory that its plan takes is in proportion.
        level: that it was checked against.
        slot, token: one of a server's numbers for graphs, and what tells it from those that had the number before.
        prepared: its plan at its level, once that was made.
    """

    def __init__(self, name: str, file: int) -> None:
        found = os.fstat(file)
        mapped = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
        self.name = name
        self.inode = found.st_ino
        self.byte_size = found.st_size
        self.json_size = int.from_bytes(mapped[:_LENGTH], "little")
        self._head = mapped[_LENGTH : _LENGTH + self.json_size]
        described = self._described()
        self.level = FeatureLevel.parse(described["feature_level"])
        self.slot, self.token = int(described["slot"]), int(described["token"])
        self.prepared: Prepared | None = None
        self._constants: dict[str, memoryview] = {}
        begin = _LENGTH + self.json_size
        for node, size in described["constants"].items():
            self._constants[CONSTANT + node] = mapped[begin : begin + size]
            begin += _aligned(size)

    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = from_json(bytes(self._head))
        return described

    @property
    def graph(self) -> dict[str, Any]:
        """As JSON, without the tensors of its constants."""
        graph: dict[str, Any] = self._described()["graph"]
        return graph

    @property
    def constant_bytes(self) -> int:
        """The size of all its constants."""
        return sum(map(len, self._constants.values()))

    def plan_at(self, level: object) -> Prepared | None:
        """The plan, if it was made and is for this level."""
        return self.prepared if level in (self.level, self.level.short, str(self.level)) else None

    def request(self, given: ExecuteRequest) -> ExecuteRequest:
        """A request that names the graph, with its constants among the inputs."""
        inputs = {**given.inputs, **self._constants}
        level = self.level if given.feature_level is None else given.feature_level
        return given._replace(
            operator=self, feature_level=level, inputs=inputs, places=dict.fromkeys(self._constants, given.plan_pointer)
        )

    @cached_property
    def inputs(self) -> Mapping[str, BufferTensorDesc]:
        """The descs of its inputs by name, constants apart."""
        return {name: _desc(desc) for name, desc in self._described()["inputs"].items()}

    @cached_property
    def outputs(self) -> Mapping[str, BufferTensorDesc]:
        """The descs of its outputs by name."""
        return {name: _desc(desc) for name, desc in self._described()["outputs"].items()}

    def to_json(self) -> dict[str, object]:
        """What is known of it, without itself."""
        described = self._described()
        found = {name: described[name] for name in ("feature_level", "nodes", "inputs", "outputs")}
        return {"name": self.name, **found, "byte_size": self.byte_size}

    def whole(self) -> tuple[dict[str, object], list[memoryview]]:
        """What is known of it and the graph itself, as it may be registered again: its constants are in a tail."""
        sizes = {name.removeprefix(CONSTANT): {"binary_data_size": len(data)} for name, data in self._constants.items()}
        return {**self.to_json(), "graph": with_constants(self.graph, sizes)}, list(self._constants.values())

    @cached_property
    def strided(self) -> tuple[str, ...]:
        """The inputs whose elements do not lie packed."""
        return tuple(name for name, desc in self.inputs.items() if not is_packed(desc))


def as_named(violations: Iterable[Violation], pointer: str) -> tuple[Violation, ...]:
    """What is wrong with a graph, for a request that has but its name.

    Args:
        pointer: where the name stands, and the places of the violations begin.
    """
    return tuple(
        replace(each, pointer=pointer, message=f"{each.pointer.removeprefix(pointer)}: {each.message}")
        if each.pointer.startswith(f"{pointer}/")
        else each
        for each in violations
    )


def is_packed(desc: BufferTensorDesc) -> bool:
    """Whether the bytes of a tensor are those of an array of its elements."""
    return (
        not desc.data_type.is_packed
        and desc.element_strides == BufferTensorDesc(desc.data_type, desc.sizes).element_strides
    )


def _desc(given: object) -> BufferTensorDesc:
    read = read_tensor(given, "", Report(), output=True)
    assert read is not None  # it was written by to_json
    return read.desc
