"""Graphs of DirectML operators as subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..client.calls import BuiltGraph
from ..client.graphs import unused
from ..graph import CONSTANT, INPUT, Bytes, Place, Step, check_graph
from ..graph_files import write_graph
from ..tensor import Array, BufferTensorDesc
from ..tensor_names import grouped
from ..wire import constant_bytes
from .subjects import Isolated, Runner, Subject, SubjectNode, TensorType

_FILE = "graph.json"


@dataclass(frozen=True, slots=True, eq=False)
class WrittenGraph(BuiltGraph):
    """A graph as JSON with its constants."""

    written: Mapping[str, Any]
    held: Mapping[str, Array]

    def to_json(self) -> dict[str, Any]:
        """See ``BuiltGraph``."""
        return dict(self.written)

    @property
    def constants(self) -> Mapping[str, Array]:
        """See ``BuiltGraph``."""
        return self.held


class GraphSubject(Subject):
    """The operators of a graph.

    A tensor between nodes is called ``NODE.TENSOR``; an input, and what an output reads, by the name that it has there.

    Args:
        graph: the graph, with nodes by name.
        name: what to call it.
        names: what to call tensors instead, by ``NODE.TENSOR`` or ``input:NAME``.

    Raises:
        ContractViolation: the graph is not valid.
    """

    def __init__(self, graph: BuiltGraph, name: str, names: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._written = graph.to_json()
        self._constants = graph.constants
        plan = check_graph(self._written)
        self._names: dict[Bytes, str] = {}
        self._descs: dict[str, BufferTensorDesc] = {}
        self._sources: dict[Bytes, str] = {}
        for each, desc in plan.inputs.items():
            self._add(Bytes(Place.INPUT, each), (names or {}).get(INPUT + each, each), desc)
        self.inputs = {
            self._names[Bytes(Place.INPUT, each)]: _type(desc)
            for each, desc in plan.inputs.items()
            if not each.startswith(CONSTANT)
        }
        outputs = {plan.attributes.copies.get(each, Bytes(Place.OUTPUT, each)): each for each in plan.outputs}
        for step in plan.attributes.steps:
            for tensor, at in step.outputs.items():
                source = self._sources[at] = f"{step.name}.{tensor}"
                shown = outputs.get(at, source)
                shown = (names or {}).get(source) or (names or {}).get(shown) or shown
                self._add(at, shown, step.plan.outputs[tensor])
        self.outputs = [self._names[at] for at in outputs]
        self.nodes = [self._node(step) for step in plan.attributes.steps]

    def _add(self, at: Bytes, name: str, desc: BufferTensorDesc) -> None:
        while name in self._descs:
            name += "_"
        self._names[at], self._descs[name] = name, desc

    def _node(self, step: Step) -> SubjectNode:
        read = dict.fromkeys(self._names[at] for at in step.inputs.values() if not _is_constant(at))
        produced = tuple(self._names[at] for at in step.outputs.values())
        return SubjectNode(step.name, step.plan.operator.name, tuple(read), produced, "", step)

    def type_of(self, tensor: str) -> TensorType | None:
        desc = self._descs.get(tensor)
        return None if desc is None else _type(desc)

    def adapted(self, tensor: str, array: Array) -> Array:
        """Returns a tensor of a side with its sizes in the graph, if its elements are all in one dimension."""
        known = self.type_of(tensor)
        is_flat = known is not None and array.ndim == 1 and array.size == np.prod(known.sizes, dtype=np.int64)
        return array.reshape(known.sizes) if known is not None and is_flat else array

    def run(self, node: SubjectNode, tensors: Mapping[str, Array], runner: Runner) -> dict[str, Array]:
        alone = self.isolated(node)
        feeds = {given: np.asarray(tensors[name]) for name, given in alone.feeds.items()}
        outputs = runner.execute(WrittenGraph(alone.graph, alone.constants), feeds).outputs
        return {name: outputs[given] for name, given in alone.results.items()}

    def isolated(self, node: SubjectNode) -> Isolated:
        return self.part([node])

    def part(self, nodes: Sequence[SubjectNode]) -> Isolated:
        """Returns nodes as a graph of their own, whose inputs and outputs are called as the nodes' tensors."""
        written, feeds, held = {}, dict[str, str](), dict[str, Array]()
        produced = {at for node in nodes for at in node.origin.outputs.values()}
        for node in nodes:
            step: Step = node.origin
            sources = {tensor: self._source(tensor, at, produced, feeds, held) for tensor, at in step.inputs.items()}
            written[step.name] = {**self._written["nodes"][step.name], "inputs": grouped(sources)}
        results, last = dict[str, str](), nodes[-1].origin
        for tensor, at in last.outputs.items():
            results[self._names[at]] = _plain(tensor)
        graph = {
            "nodes": {**written, **{name: {"constant": ""} for name in held}},
            "inputs": {given: self._descs[name].to_json() for name, given in feeds.items()},
            "outputs": {_plain(tensor): f"{last.name}.{tensor}" for tensor in last.outputs},
        }
        return Isolated(graph, held, feeds, results)

    def write_part(
        self, nodes: Sequence[SubjectNode], inputs: Mapping[str, Array], folder: Path
    ) -> tuple[str, Mapping[str, str]]:
        part = self.part(nodes)
        constants = {name: constant_bytes(array) for name, array in part.constants.items()}
        write_graph(folder / _FILE, part.graph, constants, "inside")
        names = {INPUT + each: name for name, each in part.feeds.items()}
        return _FILE, names | {part.graph["outputs"][each]: name for name, each in part.results.items()}

    def _source(
        self, tensor: str, at: Bytes, produced: Set[Bytes], feeds: dict[str, str], held: dict[str, Array]
    ) -> str:
        """Returns the source of a tensor in a part, and adds what it needs to the inputs and constants of the part."""
        if at in produced:
            return self._sources[at]
        if _is_constant(at):
            name = str(at.name).removeprefix(CONSTANT)
            held[name] = self._constants[name]
            return name
        given = feeds.get(self._names[at])
        if given is None:
            given = feeds[self._names[at]] = unused(_plain(tensor), [*feeds.values()])
        return INPUT + given


def _plain(tensor: str) -> str:
    """Returns a name that is not taken as that of an array."""
    return tensor.replace("[", "_").replace("]", "")


def _is_constant(at: Bytes) -> bool:
    return at.place is Place.INPUT and str(at.name).startswith(CONSTANT)


def _type(desc: BufferTensorDesc) -> TensorType:
    return TensorType(desc.data_type.dtype, desc.sizes)
