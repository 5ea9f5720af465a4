"""The edges of a graph: the tensors that they connect, and the rules for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..desc import Report, show
from ..reading import ReadDesc
from ..tensor import BufferTensorDesc, TensorFlags
from ..violation import Code
from .form import End, GraphForm
from .ordering import ordered
from .slots import input_slot, output_slot

UNKNOWN: Final = End(-1, "")
"""Marks a source that is wrong, which is reported, or that belongs to a node whose outputs cannot be determined."""

_MAX_SHOWN = 8
"""Maximum number of nodes that the violation of a cycle names."""


@dataclass(slots=True, eq=False)
class Edges:
    """The edges of a graph, resolved as far as possible: errors in one edge do not affect the others.

    Attributes:
        form: the graph as given.
        descs: the descs of its nodes, by index.
        report: collects the violations.
        feeds: the source of each input of a node, by index and tensor.
        results: the source of each output of the graph.
        order: a topological order of the nodes.
    """

    form: GraphForm
    descs: Mapping[int, ReadDesc]
    report: Report
    feeds: dict[tuple[int, str], End] = field(default_factory=dict)
    results: dict[int, End] = field(default_factory=dict)
    order: Sequence[int] = ()
    _pointers: dict[tuple[int, str], str] = field(default_factory=dict)
    _used: set[End] = field(default_factory=set)
    _begun: set[int] = field(default_factory=set)
    """Nodes with outgoing edges."""
    _misread: set[int] = field(default_factory=set)
    """Nodes with an outgoing edge that names an output they do not have."""

    def resolve(self) -> None:
        """Finds the tensors at both ends of each edge."""
        for edge in self.form.edges:
            if self.report.is_full:
                return
            source = UNKNOWN if edge.source is None else self._source(edge.source, edge.pointer)
            self._used.add(source)
            if edge.target is None:
                continue
            if edge.target.node is None:
                self._resolve_output(edge.target, source, edge.pointer)
            else:
                self._resolve_input(edge.target.node, edge.target.slot, source, edge.pointer)

    def _source(self, end: End, pointer: str) -> End:
        node, slot = end
        if node is None:
            return end
        self._begun.add(node)
        if self.form.nodes[node].is_constant:
            if slot in ("", 0):
                return End(node, 0)
            message = f"{show(slot)} given; a constant has one output, number 0"
            self.report.add(Code.UNKNOWN_TENSOR, pointer, message)
            return UNKNOWN
        desc = self.descs.get(node)
        if desc is None or not desc.tensors:
            return UNKNOWN  # the node's violations are reported elsewhere
        found = output_slot(desc, slot)
        if found is not None and found in desc.outputs:
            return End(node, found)
        self._misread.add(node)
        names = list(desc.outputs)
        message = f"{self._quoted(node)} has no output {show(slot)} with this desc; its outputs are {', '.join(names)}"
        self.report.add(Code.UNKNOWN_TENSOR, pointer, message, names)
        return UNKNOWN

    def _resolve_output(self, target: End, source: End, pointer: str) -> None:
        number = int(target.slot)
        if number in self.results:
            message = f"the output {show(self.form.outputs[number])} already has an edge"
            self.report.add(Code.EDGE_CONFLICT, pointer, message)
        elif source.node is None or (source != UNKNOWN and self.form.nodes[source.node].is_constant):
            what = "an input of the graph" if source.node is None else "a constant"
            message = f"{what} given; an output must come from an operator: insert an ELEMENT_WISE_IDENTITY"
            self.report.add(Code.EDGE_CONFLICT, pointer, message)
            self.results[number] = UNKNOWN
        else:
            self.results[number] = source

    def _resolve_input(self, node: int, slot: str | int, source: End, pointer: str) -> None:
        if self.form.nodes[node].is_constant:
            message = f"{self._quoted(node)} is a constant, which has no inputs"
            self.report.add(Code.UNKNOWN_TENSOR, pointer, message)
            return
        desc = self.descs.get(node)
        if desc is None or not desc.is_complete:
            return  # its inputs are unknown
        found = input_slot(desc, slot)
        if found is None or found not in desc.inputs:
            names = list(desc.inputs)
            message = (
                f"{self._quoted(node)} has no input {show(slot)} with this desc; its inputs are {', '.join(names)}"
            )
            self.report.add(Code.UNKNOWN_TENSOR, pointer, message, names)
        elif (node, found) in self.feeds:
            message = f"{found} of {self._quoted(node)} already has an edge"
            self.report.add(Code.EDGE_CONFLICT, pointer, message)
        else:
            self.feeds[node, found] = source
            self._pointers[node, found] = pointer

    def check(self) -> None:
        """Checks that everything is connected, and that the sizes at both ends of each edge agree."""
        report, form = self.report, self.form
        for i, node in enumerate(form.nodes):
            desc = self.descs.get(i)
            for name in () if desc is None else desc.inputs:
                if (i, name) not in self.feeds:
                    report.add(Code.MISSING_TENSOR, node.pointer, f"no edge leads to {name} of {self._quoted(i)}")
            self._check_use(i)
        for number, name in enumerate(form.outputs):
            if number not in self.results:
                report.add(Code.MISSING_TENSOR, form.pointer, f"no edge leads to the output {show(name)}")
        readers = self.readers()
        for source, reading in readers.items():
            self._check_sizes(source, reading)

    def _check_use(self, node: int) -> None:
        """Checks that a node is used, and so are all outputs of an operator."""
        at, desc = self.form.nodes[node], self.descs.get(node)
        if node not in self._begun:
            what = "the constant" if at.is_constant else "the outputs of"
            self.report.add(Code.UNUSED_NODE, at.pointer, f"nothing uses {what} {self._quoted(node)}")
        elif desc is not None and node not in self._misread:
            unused = [name for name in desc.outputs if End(node, name) not in self._used]
            if unused:
                message = f"no edge leads from {', '.join(unused)} of {self._quoted(node)}"
                self.report.add(Code.MISSING_TENSOR, at.pointer, message)

    def readers(self) -> dict[End, list[tuple[int, str]]]:
        """Returns, for each known source, the inputs of nodes that read it, by index and tensor."""
        readers: dict[End, list[tuple[int, str]]] = {}
        for reader, source in self.feeds.items():
            if source != UNKNOWN:
                readers.setdefault(source, []).append(reader)
        return readers

    def own_desc(self, source: End) -> BufferTensorDesc | None:
        """Returns the desc of a source, or None for one with only its readers': a constant or an undeclared input."""
        if source.node is None:
            return self.form.declared.get(int(source.slot))
        desc = self.descs.get(source.node)
        return None if desc is None else desc.outputs[str(source.slot)]

    def _check_sizes(self, source: End, readers: Sequence[tuple[int, str]]) -> None:
        """Checks that both ends have the same size. The first reader determines that of a source without a desc."""
        descs = [self.descs[node].inputs[name] for node, name in readers]
        own = self.own_desc(source)
        size = (own or descs[0]).total_size_in_bytes
        owned = source.node is None and bool(descs[0].flags & TensorFlags.OWNED_BY_DML)
        for reader, desc in zip(readers, descs, strict=True):
            at = self._pointers[reader]
            if desc.total_size_in_bytes != size:
                what = f"{self._described(source)} {size}"
                message = f"{reader[1]} has {desc.total_size_in_bytes} bytes, and {what}; they must agree"
                self.report.add(Code.BYTE_COUNT_MISMATCH, at, message)
            elif source.node is None and own is not None and desc.data_size_in_bytes > own.data_size_in_bytes:
                # A request sends no more than that; between nodes, bytes that nothing writes are zero.
                what = f"the elements of {self._described(source)} end after {own.data_size_in_bytes}"
                message = f"{reader[1]} reads {desc.data_size_in_bytes} bytes, and {what}"
                self.report.add(Code.BYTE_COUNT_MISMATCH, at, message)
            if bool(desc.flags & TensorFlags.OWNED_BY_DML) is not owned:
                what = self._described(source)
                if source.node is None:
                    message = f"all readers of {what} must agree on OWNED_BY_DML"
                else:
                    message = (
                        f"OWNED_BY_DML is allowed only on tensors fed by an input of the graph, and {what} is not one"
                    )
                self.report.add(Code.FLAGS_INVALID, at, message)

    def _described(self, source: End) -> str:
        if source.node is None:
            return f"the input {show(self.form.inputs[int(source.slot)])}"
        name = self._quoted(source.node)
        return name if source.node not in self.descs else f"{source.slot} of {name}"

    def _quoted(self, node: int) -> str:
        return show(self.form.nodes[node].name)

    def sort(self) -> None:
        """Sorts the nodes topologically, or reports a cycle. Edges count even if their tensors are wrong."""
        needs: dict[int, set[int]] = {i: set() for i in range(len(self.form.nodes))}
        for source, target, _ in self.form.edges:
            if source is not None and source.node is not None and target is not None and target.node is not None:
                needs[target.node].add(source.node)
        self.order, cycle = ordered(needs)
        if cycle:
            names = [self._quoted(node) for node in cycle[:_MAX_SHOWN]]
            more = f" and {len(cycle) - _MAX_SHOWN} more" if len(cycle) > _MAX_SHOWN else ""
            message = f"the nodes {', '.join(names)}{more} form a cycle"
            self.report.add(Code.GRAPH_CYCLE, self.form.nodes[cycle[0]].pointer, message)
