"""DxDispatch models as subjects: a graph of what their commands dispatch, whose tensors are called as resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..check import Plan
from ..desc import Report, show
from ..dxdispatch import Binding, Dispatch, ForeignDispatchable, GraphDispatchable, Model, OperatorDispatchable
from ..dxdispatch.opening import load_buffer, open_graphs
from ..errors import ContractViolation, ProblemCode, RequestError
from ..graph import CONSTANT, INPUT, check_graph
from ..level import HIGHEST
from ..tensor import Array, BufferTensorDesc
from ..tensor_names import grouped, ungrouped
from .graph_subject import GraphSubject, WrittenGraph


class DxDispatchSubject(GraphSubject):
    """The operators that the commands of a DxDispatch model dispatch, in that order.

    Args:
        model: the model.
        folder: the folder to look for its files in.
        name: what to call it.

    Raises:
        ContractViolation: an operator is not valid.
        RequestError: it has something other than operators and graphs on whole buffers.
        OSError: a file cannot be read.
    """

    def __init__(self, model: Model, folder: Path, name: str) -> None:
        built = _Builder(open_graphs(model, folder), folder)
        super().__init__(WrittenGraph(built.graph(), built.constants), name, built.names())
        self.given = {shown: built.value(each, self._descs[shown]) for each, shown in built.inputs().items()}


class _Builder:
    """Turns commands into nodes: each buffer that is read is an input, or what a node wrote to it last.

    Attributes:
        nodes, constants: those of the graph.
        read: the inputs of the graph, which are buffers or parts of them.
        starts: the buffer of each input, and the byte that it starts at.
        written: the sources of what was written to each buffer.
    """

    def __init__(self, model: Model, folder: Path) -> None:
        report = Report()
        self.buffers = {name: load_buffer(each, folder, report) for name, each in model.resources.items()}
        if report.violations:
            raise ContractViolation(report.violations)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.constants: dict[str, Array] = {}
        self.read: dict[str, BufferTensorDesc] = {}
        self.starts: dict[str, tuple[str, int]] = {}
        self.written: dict[str, list[str]] = {}
        for command in model.commands:
            if isinstance(command, Dispatch):
                self._dispatch(command, model)

    def graph(self) -> dict[str, Any]:
        if not self.nodes:
            raise RequestError(ProblemCode.INVALID_MODEL, "the model dispatches nothing")
        outputs = {source: source for sources in self.written.values() for source in sources}
        inputs = {name: desc.to_json() for name, desc in self.read.items()}
        return {"nodes": self.nodes, "inputs": inputs, "outputs": outputs}

    def names(self) -> dict[str, str]:
        """Returns what to call tensors: as the resource, but for those that a later command overwrites."""
        found = {INPUT + name: shown for name, shown in self.inputs().items()}
        for name, sources in self.written.items():
            found |= {source: f"{name} of {source.rpartition('.')[0]}" for source in sources[:-1]}
            found[sources[-1]] = name
        return found

    def inputs(self) -> dict[str, str]:
        """Returns what to call the buffers that are read before a command writes them."""
        return {name: f"{name} at first" if name in self.written else name for name in self.read}

    def value(self, name: str, desc: BufferTensorDesc) -> Array:
        resource, start = self.starts[name]
        return desc.elements(desc.view(self.buffers[resource].allocate()[start : start + desc.total_size_in_bytes]))

    def _dispatch(self, command: Dispatch, model: Model) -> None:
        dispatchable = model.dispatchables[command.dispatchable]
        name = command.dispatchable
        while name in self.nodes:
            name += "_"
        if isinstance(dispatchable, ForeignDispatchable):
            raise ContractViolation([dispatchable.violation])
        plan = dispatchable.check(HIGHEST)
        bound = dict(_bound({**dispatchable.bindings, **command.bindings}, plan))
        sources = {each: self._source(bound, each, desc) for each, desc in plan.inputs.items() if each in bound}
        if isinstance(dispatchable, OperatorDispatchable):
            operator = dispatchable.operator
            assert isinstance(operator, Mapping)  # it was checked
            self.nodes[name] = {**operator, "desc": _unowned(operator["desc"]), "inputs": grouped(sources)}
            outputs = {each: f"{name}.{each}" for each in plan.outputs}
        else:
            assert isinstance(dispatchable, GraphDispatchable)  # files were opened
            outputs = self._inline(name, dispatchable, sources)
        for each in plan.outputs:
            if each not in bound:
                raise RequestError(ProblemCode.INVALID_MODEL, f"{command.pointer}: nothing is bound to {show(each)}")
            _refuse_part(bound[each])
            self.written.setdefault(bound[each].resource, []).append(outputs[each])

    def _source(self, bound: Mapping[str, Binding], tensor: str, desc: BufferTensorDesc) -> str:
        resource, start = bound[tensor].resource, self._start(bound[tensor])
        if resource in self.written:
            _refuse_part(bound[tensor])
            return self.written[resource][-1]
        size, buffer = desc.total_size_in_bytes, self.buffers[resource]
        if start + size > buffer.size_in_bytes:
            said = f"{show(resource)} has {buffer.size_in_bytes} bytes; {tensor} takes {size} from {start} on"
            raise RequestError(ProblemCode.INVALID_MODEL, f"{bound[tensor].pointer}: {said}")
        name = f"{resource} from byte {start}" if start else resource
        self.starts[name] = resource, start
        known = self.read.get(name)
        if known is None or known.total_size_in_bytes < size:
            self.read[name] = desc
        return INPUT + name

    def _start(self, binding: Binding) -> int:
        data_type = self.buffers[binding.resource].data_type
        size = binding.element_size or (0 if data_type is None else data_type.dtype.itemsize)
        return binding.element_offset * size

    def _inline(self, owner: str, given: GraphDispatchable, sources: Mapping[str, str]) -> dict[str, str]:
        """Adds the nodes of a graph, named after it, and returns the sources of its outputs."""
        graph = given.graph.graph
        plan = check_graph(graph)
        for name, data in given.kept.items():
            each = f"{owner}/{name.removeprefix(CONSTANT)}"
            self.nodes[each] = {"constant": ""}
            desc = plan.inputs[name]
            array = np.frombuffer(data + bytes(-len(data) % 4), np.uint8)[: desc.data_size_in_bytes]
            self.constants[each] = array if desc.data_type.is_packed else array.view(desc.data_type.dtype)

        def moved(source: str) -> str:
            if not source.startswith(INPUT):
                return f"{owner}/{source}"
            name = source.removeprefix(INPUT)
            return f"{owner}/{name}" if name in given.kept else sources[name]

        for name, node in graph["nodes"].items():
            if "constant" not in node:
                read = {tensor: moved(source) for tensor, source in ungrouped(node.get("inputs", {})).items()}
                self.nodes[f"{owner}/{name}"] = {**node, "desc": _unowned(node["desc"]), "inputs": grouped(read)}
        return {name: moved(source) for name, source in graph["outputs"].items()}


def _bound(bindings: Mapping[str, tuple[Binding, ...]], plan: Plan) -> Iterator[tuple[str, Binding]]:
    """Yields the buffer of each tensor of an operator or a graph."""
    members = grouped({name: name for name in (*plan.inputs, *plan.outputs)})
    aliases = plan.operator.schema.aliases
    for member, listed in bindings.items():
        names = members.get(aliases.get(member, member), [])
        names = names if isinstance(names, list) else [names]
        if len(names) != len(listed):
            said = f"{len(listed)} buffers are bound to {show(member)}, which has {len(names)} tensors"
            raise RequestError(ProblemCode.INVALID_MODEL, said)
        yield from zip(names, listed, strict=True)


def _refuse_part(binding: Binding) -> None:
    if binding.element_offset:
        said = f"a command writes a part of {show(binding.resource)}, or reads a part that another one wrote"
        raise RequestError(ProblemCode.INVALID_MODEL, f"{binding.pointer}: {said}; opwire diff takes whole buffers")


def _unowned(desc: Any) -> Any:
    """Returns a desc without the flags of its tensors, which do not affect results and bind tensors to inputs."""
    if isinstance(desc, list):
        return [_unowned(each) for each in desc]
    if not isinstance(desc, Mapping):
        return desc
    is_tensor = "Sizes" in desc
    return {name: _unowned(each) for name, each in desc.items() if not (is_tensor and name == "Flags")}
