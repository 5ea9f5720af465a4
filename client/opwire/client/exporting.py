"""Writes a graph as a DxDispatch model: one dispatchable per operator, and a file per constant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..graph import CONSTANT, Bytes, Place, Step, check_graph
from ..schema import PREFIX, schema_of
from ..tensor import Array, BufferTensorDesc, DataType
from ..tensor_names import grouped
from ..wire import constant_bytes
from .calls import BuiltGraph
from .graphs import unused

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def write_dxdispatch(graph: BuiltGraph, inputs: Mapping[str, Array], folder: Path, name: str = "model") -> Path:
    """Writes a graph and its tensors to a folder, and returns the path of the DxDispatch model.

    Args:
        graph: the graph.
        inputs: the values of its inputs; those without are zeros.
        folder: the folder; it is made if it is missing.
        name: the name of the model's file, without suffix.

    Raises:
        OSError: a file cannot be written.
    """
    writer = _Writer(graph, folder)
    for each, desc in writer.plan.inputs.items():
        if not each.startswith(CONSTANT):
            writer.add_input(each, desc, inputs.get(each))
    for step in writer.plan.attributes.steps:
        writer.add_step(step)
    for output in writer.plan.outputs:
        writer.commands.append({"type": "print", "resource": writer.resource_of(Bytes(Place.OUTPUT, output))})
    model = {"resources": writer.resources, "dispatchables": writer.dispatchables, "commands": writer.commands}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")
    return path


class _Writer:
    def __init__(self, graph: BuiltGraph, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        written = graph.to_json()
        self.nodes: Mapping[str, Any] = written["nodes"]
        self.constants = graph.constants
        self.folder = folder
        self.plan = check_graph(written)
        self.resources: dict[str, Any] = {}
        self.dispatchables: dict[str, Any] = {}
        self.commands: list[dict[str, Any]] = []
        self._names: dict[Bytes, str] = {}
        self._files: set[str] = set()

    def add_input(self, name: str, desc: BufferTensorDesc, given: Array | None) -> None:
        """Adds an input of the graph, with its values in a file or zero."""
        resource = self._name(Bytes(Place.INPUT, name), name)
        self.resources[resource] = self._zeros(desc) if given is None else self._file(resource, given)

    def add_step(self, step: Step) -> None:
        """Adds an operator and the command that runs it."""
        name = self._unused(step.name, self.dispatchables)
        node = self.nodes[step.name]
        self.dispatchables[name] = {"type": node["type"], "desc": _complete(node, step)}
        for tensor, at in step.outputs.items():
            if at not in self._names:
                wanted = str(at.name) if at.place is Place.OUTPUT else f"{step.name}.{tensor}"
                self.resources[self._name(at, wanted)] = self._zeros(step.plan.outputs[tensor])
        bindings = {tensor: self.resource_of(at) for tensor, at in (*step.inputs.items(), *step.outputs.items())}
        self.commands.append({"type": "dispatch", "dispatchable": name, "bindings": grouped(bindings)})

    def resource_of(self, at: Bytes) -> str:
        """Returns the name of the resource that holds a buffer of the plan."""
        at = self.plan.attributes.copies.get(at.name, at) if at.place is Place.OUTPUT else at
        if at not in self._names:  # constants become resources when they are read first
            name = str(at.name).removeprefix(CONSTANT)
            resource = self._name(at, name)
            self.resources[resource] = self._file(resource, self.constants[name])
        return self._names[at]

    def _name(self, at: Bytes, wanted: str) -> str:
        self._names[at] = self._unused(wanted, self.resources)
        return self._names[at]

    @staticmethod
    def _unused(wanted: str, used: Mapping[str, Any]) -> str:
        name = "".join(each if each in _SAFE else "_" for each in wanted).lstrip(".") or "tensor"
        return unused(name, used)

    @staticmethod
    def _zeros(desc: BufferTensorDesc) -> dict[str, Any]:
        data_type = DataType.UINT8 if desc.data_type.is_packed else desc.data_type
        count = -(-desc.total_size_in_bytes // data_type.dtype.itemsize)
        return {"initialValuesDataType": data_type.name, "initialValues": {"valueCount": count, "value": 0}}

    def _file(self, resource: str, array: Array) -> dict[str, Any]:
        """Writes elements to a file of the folder; those of 4 bits as bytes."""
        data_type = DataType.of(array.dtype)
        stored = np.frombuffer(constant_bytes(array), np.uint8) if data_type.is_packed else array.reshape(-1)
        file = f"{self._unused(resource, dict.fromkeys(self._files))}.npy"
        self._files.add(file.removesuffix(".npy"))
        with (self.folder / file).open("wb") as opened:
            np.lib.format.write_array(opened, np.ascontiguousarray(stored), allow_pickle=False)
        return {"initialValuesDataType": DataType.of(stored.dtype).name, "initialValues": {"sourcePath": file}}


def _complete(node: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Returns the desc of an operator with its outputs, counts and defaults, which DxDispatch does not have."""
    schema = schema_of(node["type"].removeprefix(PREFIX))
    desc = dict(schema.members.completed(node["desc"]))
    desc |= {member.name: _nested(desc[member.name]) for member in schema.members.nested if desc.get(member.name)}
    desc |= {name: each for name, each in grouped(_descs(step.plan.outputs)).items() if desc.get(name) is None}
    for count in schema.members.counts:
        lengths = [len(desc[name]) for name in count.counts if isinstance(desc.get(name), list)]
        if lengths:
            desc.setdefault(count.name, lengths[0])
    return desc


def _nested(given: Any) -> Any:
    """Returns a nested operator, or a list of them, with its defaults."""
    if isinstance(given, list):
        return [_nested(each) for each in given]
    kind = schema_of(str(given["Type"]).removeprefix(PREFIX))
    return {**given, "Desc": kind.members.completed(given.get("Desc", {}))}


def _descs(tensors: Mapping[str, BufferTensorDesc]) -> dict[str, Any]:
    return {name: desc.to_json() for name, desc in tensors.items()}
