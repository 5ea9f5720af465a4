"""Registered graphs: their file format, and the graph that a process loads from a file."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic_core import from_json, to_json

from opwire.check import Plan
from opwire.desc import Report
from opwire.graph import CONSTANT, with_constants
from opwire.level import FeatureLevel
from opwire.tensor import BufferTensorDesc
from opwire.tensor_desc import read_tensor
from opwire.violation import Violation
from opwire.wire import ExecuteRequest

from ..execution import FixedMemory

_ALIGNMENT = 64
"""Alignment of constants in bytes, sufficient for every data type."""

_LENGTH = 8
"""Size in bytes of the head's length, with which a file begins."""


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A graph as stored in its file.

    Attributes:
        graph: the graph as JSON, without the tensors of its constants.
        plan: plan of the graph.
        constants: bytes of each constant, by node name.
    """

    graph: object
    plan: Plan
    constants: Mapping[str, memoryview]

    def describe(self) -> dict[str, object]:
        """Returns what users see of the graph, as JSON."""
        return {
            "feature_level": str(self.plan.level),
            "nodes": len(self.plan.attributes.steps) + len(self.constants),
            "inputs": {
                name: desc.to_json() for name, desc in self.plan.inputs.items() if not name.startswith(CONSTANT)
            },
            "outputs": {name: desc.to_json() for name, desc in self.plan.outputs.items()},
        }

    def head(self, slot: int, token: int) -> bytes:
        """Returns what precedes the constants in the file. Its length does not depend on ``slot`` or ``token``."""
        described = {
            "slot": f"{slot:10d}",
            "token": f"{token:20d}",
            **self.describe(),
            "constants": {name: data.nbytes for name, data in self.constants.items()},
            "graph": self.graph,
        }
        text = to_json(described, inf_nan_mode="constants")
        text += b" " * (-(len(text) + _LENGTH) % _ALIGNMENT)
        return len(text).to_bytes(_LENGTH, "little") + text

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return len(self.head(0, 0)) + sum(_aligned(data.nbytes) for data in self.constants.values())

    def write(self, file: int, slot: int, token: int) -> None:
        """Writes the graph to an open file.

        Raises:
            OSError: the file system is full.
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
    """A registered graph, backed by a memory-mapped file that all workers of a server share.

    Attributes:
        name: name of the graph.
        inode: inode of its file, unique while the file is mapped.
        byte_size: size of the file in bytes.
        json_size: size of its JSON in bytes; the memory of its plan is proportional to it.
        level: feature level it was checked against.
        slot, token: number of the graph in its server, and a token that distinguishes it from earlier graphs with that
            number.
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
        self._constants: dict[str, memoryview] = {}
        begin = _LENGTH + self.json_size
        for node, size in described["constants"].items():
            self._constants[CONSTANT + node] = FixedMemory.fix(mapped[begin : begin + size])
            begin += _aligned(size)

    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = from_json(bytes(self._head))
        return described

    @property
    def graph(self) -> dict[str, Any]:
        """The graph as JSON, without the tensors of its constants."""
        graph: dict[str, Any] = self._described()["graph"]
        return graph

    @property
    def constant_bytes(self) -> int:
        """Total size of its constants."""
        return sum(map(len, self._constants.values()))

    def request(self, given: ExecuteRequest) -> ExecuteRequest:
        """Returns a request that names the graph with the graph's constants added to the inputs."""
        inputs = {**given.inputs, **self._constants}
        level = self.level if given.feature_level is None else given.feature_level
        return given._replace(
            operator=self, feature_level=level, inputs=inputs, places=dict.fromkeys(self._constants, given.plan_pointer)
        )

    @cached_property
    def inputs(self) -> Mapping[str, BufferTensorDesc]:
        """Descs of its inputs by name, without constants."""
        return {name: _desc(desc) for name, desc in self._described()["inputs"].items()}

    @cached_property
    def outputs(self) -> Mapping[str, BufferTensorDesc]:
        """Descs of its outputs by name."""
        return {name: _desc(desc) for name, desc in self._described()["outputs"].items()}

    def to_json(self) -> dict[str, object]:
        """Returns the description of the graph as JSON, without the graph itself."""
        described = self._described()
        found = {name: described[name] for name in ("feature_level", "nodes", "inputs", "outputs")}
        return {"name": self.name, **found, "byte_size": self.byte_size}

    def whole(self) -> tuple[dict[str, object], list[memoryview]]:
        """Returns the description including the graph, and its constants as a binary tail, ready to register again."""
        sizes = {name.removeprefix(CONSTANT): {"binary_data_size": len(data)} for name, data in self._constants.items()}
        return {**self.to_json(), "graph": with_constants(self.graph, sizes)}, list(self._constants.values())

    @cached_property
    def strided(self) -> tuple[str, ...]:
        """Names of the inputs that are not contiguous."""
        return tuple(name for name, desc in self.inputs.items() if not is_packed(desc))


def as_named(violations: Iterable[Violation], pointer: str) -> tuple[Violation, ...]:
    """Moves violations inside a graph to the place of its name, for a request that only names the graph.

    Args:
        violations: the violations of the graph.
        pointer: pointer to the name, with which the pointers of the violations begin.
    """
    return tuple(
        replace(each, pointer=pointer, message=f"{each.pointer.removeprefix(pointer)}: {each.message}")
        if each.pointer.startswith(f"{pointer}/")
        else each
        for each in violations
    )


def is_packed(desc: BufferTensorDesc) -> bool:
    """Whether a tensor is contiguous, with elements of at least a byte."""
    return (
        not desc.data_type.is_packed
        and desc.element_strides == BufferTensorDesc(desc.data_type, desc.sizes).element_strides
    )


def _desc(given: object) -> BufferTensorDesc:
    read = read_tensor(given, "", Report(), output=True)
    assert read is not None  # it was written by to_json
    return read.desc
