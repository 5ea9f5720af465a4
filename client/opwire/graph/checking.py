"""From a graph as JSON and a feature level to a plan, or to every violation at once.

Source: the pages of ``DML_GRAPH_DESC`` and its nodes and edges. Where they are silent: a node of whose outputs none is
used is refused, and so is a graph's output that is one of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..check import Plan, ReadDesc, Validation, read_desc, read_level
from ..desc import Report, is_object, show
from ..errors import ContractViolation
from ..level import HIGHEST, FeatureLevel
from ..tensor import BufferTensorDesc, TensorFlags
from ..violation import Code, Violation
from .constants import CONSTANT
from .form import Edge, End, GraphForm
from .named import read_named
from .numbered import read_numbered
from .ordering import ordered
from .plan import Bytes, Place, Step, Steps, graph_plan
from .slots import input_slot, output_slot

GRAPHS_FROM = FeatureLevel.V2_1
"""The level from which on DirectML compiles graphs."""

CONSTANTS_FROM = FeatureLevel.V6_2
"""The level from which on a graph may have constants."""

_SHOWN = 8
"""Nodes of a cycle that its violation names."""


def check_graph(graph: object, feature_level: FeatureLevel | str | int = HIGHEST, *, pointer: str = "") -> Plan:
    """Checks a graph against exactly one feature level.

    Args:
        graph: in either spelling, by names or as DML_GRAPH_DESC.
        feature_level: in any spelling that ``FeatureLevel.parse`` takes.
        pointer: where the graph stands in the request; the violations' pointers begin with it.

    Raises:
        ContractViolation: with every violation.
    """
    level = read_level(feature_level, "")
    read = read_graph(graph, pointer)
    violations = read.violations_at(level)
    if violations:
        raise ContractViolation(violations)
    return read.plan(level)


@dataclass(frozen=True, slots=True)
class NodeValidation:
    """What is known of a node by itself.

    Attributes:
        name: of the node.
        pointer: where its operator stands, or the node itself if it is a constant.
        minimum_feature_level: the lowest level that takes its operator, or None if none does; of a constant the level
            that brought constants.
        inputs, outputs: the descs of its tensors, derived where left out; empty while they cannot be known, and of a
            constant.
    """

    name: str
    pointer: str
    minimum_feature_level: FeatureLevel | None
    inputs: Mapping[str, BufferTensorDesc]
    outputs: Mapping[str, BufferTensorDesc]

    def to_json(self) -> dict[str, object]:
        minimum = self.minimum_feature_level
        return {
            "name": self.name,
            "pointer": self.pointer,
            "minimum_feature_level": None if minimum is None else str(minimum),
            "inputs": {name: desc.to_json() for name, desc in self.inputs.items()},
            "outputs": {name: desc.to_json() for name, desc in self.outputs.items()},
        }


@dataclass(frozen=True, slots=True)
class GraphValidation(Validation):
    """What is known of a graph at a feature level.

    Attributes:
        nodes: each by itself, in the order of the graph.
    """

    nodes: tuple[NodeValidation, ...]

    def to_json(self) -> dict[str, object]:
        """What ``POST /v1/validate`` answers to a graph."""
        return {**Validation.to_json(self), "nodes": [node.to_json() for node in self.nodes]}


def validate_graph(
    graph: object, feature_level: FeatureLevel | str | int = HIGHEST, *, pointer: str = ""
) -> GraphValidation:
    """Like ``check_graph``, but returns what is wrong instead of raising it, and the lowest level that takes the graph.

    Raises:
        ContractViolation: there is no such feature level.
    """
    level = read_level(feature_level, "")
    read = read_graph(graph, pointer)
    violations = read.violations_at(level)
    minimum = next((lowest for lowest in FeatureLevel if not read.violations_at(lowest)), None)
    known = not read.report.violations and not any(node.structural for node in read.descs.values())
    return GraphValidation(violations, minimum, read.outputs() if known else {}, tuple(read.nodes()))


@dataclass(slots=True, eq=False)
class ReadGraph:
    """A graph as read, with its edges resolved.

    Attributes:
        descs: of the nodes that are operators, by index.
        feeds: for each input of a node, by index and tensor, its source.
        results: for each output of the graph its source.
        pointers: where the edge to an input of a node stands.
        order: of the nodes, in which they can run.
        misread: nodes of whose outputs an edge names one that is not there.
    """

    form: GraphForm
    report: Report
    descs: dict[int, ReadDesc] = field(default_factory=dict)
    feeds: dict[tuple[int, str], End] = field(default_factory=dict)
    results: dict[int, End] = field(default_factory=dict)
    pointers: dict[tuple[int, str], str] = field(default_factory=dict)
    order: Sequence[int] = ()
    misread: set[int] = field(default_factory=set)

    def violations_at(self, level: FeatureLevel) -> tuple[Violation, ...]:
        """Every violation at a level: of the graph's and the nodes' own, then those between nodes."""
        found = list(self._early(level))
        for node in self.descs.values():
            found += node.violations_at(level)
        return (*found, *self.report.violations)

    def nodes(self) -> Iterator[NodeValidation]:
        """What is known of each node by itself."""
        for i, node in enumerate(self.form.nodes):
            desc = self.descs.get(i)
            if desc is None:
                yield NodeValidation(node.name, node.pointer, CONSTANTS_FROM, {}, {})
            else:
                yield NodeValidation(node.name, node.pointer, desc.minimum_feature_level, desc.inputs, desc.outputs)

    def _early(self, level: FeatureLevel) -> Iterator[Violation]:
        if level < GRAPHS_FROM:
            message = f"graphs exist from {GRAPHS_FROM} on; {level} was requested"
            yield Violation(Code.OPERATOR_NOT_IN_LEVEL, self.form.pointer, message, available_from=GRAPHS_FROM)
        constants = [node for node in self.form.nodes if node.operator is None]
        if level < CONSTANTS_FROM and constants:
            message = f"constants exist from {CONSTANTS_FROM} on; {level} was requested"
            at = constants[0].pointer
            yield Violation(Code.OPERATOR_NOT_IN_LEVEL, at, message, available_from=CONSTANTS_FROM)

    def read_nodes(self) -> None:
        for i, node in enumerate(self.form.nodes):
            if node.operator is not None:
                self.descs[i] = read_desc(node.operator, node.pointer)

    def resolve(self) -> None:
        """Finds the tensors at both ends of each edge."""
        for edge in self.form.edges:
            source = self._source(edge)
            if edge.target.node is None:
                self._resolve_output(edge, source)
            else:
                self._resolve_input(edge, edge.target.node, source)

    def _source(self, edge: Edge) -> End | None:
        node, slot = edge.source
        if node is None or self.form.nodes[node].operator is None:
            if node is not None and slot not in ("", 0):
                message = f"{show(slot)} given; a constant has one output, number 0"
                self.report.add(Code.UNKNOWN_TENSOR, edge.pointer, message)
                return None
            return End(node, slot if node is None else 0)
        desc = self.descs[node]
        if not desc.tensors:
            return None  # what is wrong with the node is said, and its tensors are not known
        found = output_slot(desc, slot)
        if found is None or found not in desc.outputs:
            self.misread.add(node)
            names = list(desc.outputs)
            message = f"{self._quoted(node)} has no output {show(slot)} here; its outputs are {', '.join(names)}"
            self.report.add(Code.UNKNOWN_TENSOR, edge.pointer, message, names)
            return None
        return End(node, found)

    def _resolve_output(self, edge: Edge, source: End | None) -> None:
        number = int(edge.target.slot)
        if number in self.results:
            message = f"the output {show(self.form.outputs[number])} has another edge already"
            self.report.add(Code.EDGE_CONFLICT, edge.pointer, message)
        elif source is not None and (source.node is None or self.form.nodes[source.node].operator is None):
            what = "an input of the graph" if source.node is None else "a constant"
            message = f"{what} given; an output comes from an operator: put an ELEMENT_WISE_IDENTITY between"
            self.report.add(Code.EDGE_CONFLICT, edge.pointer, message)
            self.results[number] = End(-1, "")
        else:
            self.results[number] = source or End(-1, "")

    def _resolve_input(self, edge: Edge, node: int, source: End | None) -> None:
        desc = self.descs.get(node)
        if desc is None:
            message = f"{self._quoted(node)} is a constant, which has no inputs"
            self.report.add(Code.UNKNOWN_TENSOR, edge.pointer, message)
            return
        if not desc.tensors:
            return
        found = input_slot(desc, edge.target.slot)
        if found is None or found not in desc.inputs:
            names = list(desc.inputs)
            given = show(edge.target.slot)
            message = f"{self._quoted(node)} has no input {given} with this desc; its inputs are {', '.join(names)}"
            self.report.add(Code.UNKNOWN_TENSOR, edge.pointer, message, names)
        elif (node, found) in self.feeds:
            message = f"{found} of {self._quoted(node)} has another edge already"
            self.report.add(Code.EDGE_CONFLICT, edge.pointer, message)
        else:
            self.feeds[node, found] = source or End(-1, "")
            self.pointers[node, found] = edge.pointer

    def check_edges(self) -> None:
        """Applies the rules on what is connected, and on the sizes of both ends."""
        report, form = self.report, self.form
        used = {*self.feeds.values(), *self.results.values()}
        for i, node in enumerate(form.nodes):
            desc = self.descs.get(i)
            if desc is None:
                if End(i, 0) not in used:
                    report.add(Code.UNUSED_NODE, node.pointer, f"nothing uses the constant {show(node.name)}")
                continue
            for name in desc.inputs:
                if (i, name) not in self.feeds:
                    report.add(Code.MISSING_TENSOR, node.pointer, f"no edge leads to {name} of {self._quoted(i)}")
            unused = [name for name in desc.outputs if End(i, name) not in used]
            if i in self.misread:
                continue
            if unused and len(unused) == len(desc.outputs):
                report.add(Code.UNUSED_NODE, node.pointer, f"nothing uses the outputs of {self._quoted(i)}")
            elif unused:
                message = f"no edge leads from {', '.join(unused)} of {self._quoted(i)}"
                report.add(Code.MISSING_TENSOR, node.pointer, message)
        for number, name in enumerate(form.outputs):
            if number not in self.results:
                report.add(Code.MISSING_TENSOR, form.pointer, f"no edge leads to the output {show(name)}")
        for source, readers in self._readers().items():
            self._check_sizes(source, readers)

    def _readers(self) -> dict[End, list[tuple[int, str]]]:
        readers: dict[End, list[tuple[int, str]]] = {}
        for reader, source in self.feeds.items():
            if source.node != -1:
                readers.setdefault(source, []).append(reader)
        return readers

    def _check_sizes(self, source: End, readers: Sequence[tuple[int, str]]) -> None:
        """Both ends of an edge have the same size; a graph's input and a constant are as its first reader says."""
        descs = [self.descs[node].inputs[name] for node, name in readers]
        size = descs[0].total_size_in_bytes
        owned = source.node is None and bool(descs[0].flags & TensorFlags.OWNED_BY_DML)
        if source.node is not None and source.node in self.descs:
            size = self.descs[source.node].outputs[str(source.slot)].total_size_in_bytes
        for reader, desc in zip(readers, descs, strict=True):
            at = self.pointers[reader]
            if desc.total_size_in_bytes != size:
                what = f"{self._described(source)} {size}"
                message = f"{reader[1]} has {desc.total_size_in_bytes} bytes, and {what}; they must agree"
                self.report.add(Code.BYTE_COUNT_MISMATCH, at, message)
            if bool(desc.flags & TensorFlags.OWNED_BY_DML) is not owned:
                what = self._described(source)
                if source.node is None:
                    message = f"all that read {what} must agree on OWNED_BY_DML"
                else:
                    message = f"OWNED_BY_DML is for what an input of the graph feeds, and {what} is none"
                self.report.add(Code.FLAGS_INVALID, at, message)

    def _described(self, source: End) -> str:
        if source.node is None:
            return f"the input {show(self.form.inputs[int(source.slot)])}"
        name = self._quoted(source.node)
        return name if source.node not in self.descs else f"{source.slot} of {name}"

    def _quoted(self, node: int) -> str:
        return show(self.form.nodes[node].name)

    def sort(self) -> None:
        """Finds an order of the nodes, or a cycle."""
        needs: dict[int, set[int]] = {i: set() for i in range(len(self.form.nodes))}
        for (node, _), source in self.feeds.items():
            if source.node is not None and source.node >= 0:
                needs[node].add(source.node)
        self.order, cycle = ordered(needs)
        if cycle:
            names = [self._quoted(node) for node in cycle[:_SHOWN]]
            more = f" and {len(cycle) - _SHOWN} more" if len(cycle) > _SHOWN else ""
            message = f"the nodes {', '.join(names)}{more} feed each other in a circle"
            self.report.add(Code.GRAPH_CYCLE, self.form.nodes[cycle[0]].pointer, message)

    def outputs(self) -> dict[str, BufferTensorDesc]:
        """The descs of the graph's outputs, by name."""
        ends = [(name, self.results[number]) for number, name in enumerate(self.form.outputs)]
        return {name: self.descs[end.node or 0].outputs[str(end.slot)] for name, end in ends}

    def plan(self, level: FeatureLevel) -> Plan:
        """The plan of a graph without violations at a level."""
        inputs, places = self._inputs()
        outputs = self.outputs()
        copies: dict[str, Bytes] = {}
        between: list[int] = []
        readers = self._readers()
        for number, name in enumerate(self.form.outputs):
            source = self.results[number]
            seen_alike = all(
                self.descs[node].inputs[tensor] == outputs[name] for node, tensor in readers.get(source, ())
            )
            if source not in places and seen_alike:
                places[source] = Bytes(Place.OUTPUT, name)
                continue
            if source not in places:  # others read the same bytes in another way, perhaps more of them
                places[source] = Bytes(Place.BETWEEN, len(between))
                between.append(outputs[name].total_size_in_bytes)
            copies[name] = places[source]
        steps = []
        for i in self.order:
            desc = self.descs.get(i)
            if desc is None:
                continue
            plan = desc.plan(level)
            for name, output in plan.outputs.items():
                if End(i, name) not in places:
                    places[End(i, name)] = Bytes(Place.BETWEEN, len(between))
                    between.append(output.total_size_in_bytes)
            feeds = {name: places[self.feeds[i, name]] for name in plan.inputs}
            written = {name: places[End(i, name)] for name in plan.outputs}
            steps.append(Step(self.form.nodes[i].name, plan, feeds, written))
        return graph_plan(Steps(tuple(steps), tuple(between), copies), level, inputs, outputs)

    def _inputs(self) -> tuple[dict[str, BufferTensorDesc], dict[End, Bytes]]:
        """The inputs of the plan, the graph's constants among them, and where their bytes are.

        Of several readers that see the same bytes in different ways the one counts that reads most of them.
        """
        readers = self._readers()
        inputs: dict[str, BufferTensorDesc] = {}
        places: dict[End, Bytes] = {}
        graph_inputs = [(End(None, number), name) for number, name in enumerate(self.form.inputs)]
        constants = [(End(i, 0), CONSTANT + node.name) for i, node in enumerate(self.form.nodes) if i not in self.descs]
        for end, name in (*graph_inputs, *constants):
            places[end] = Bytes(Place.INPUT, name)
            if end in readers:
                descs = [self.descs[node].inputs[tensor] for node, tensor in readers[end]]
                inputs[name] = max(descs, key=lambda desc: desc.data_size_in_bytes)
        return inputs, places


def read_graph(graph: object, pointer: str) -> ReadGraph:
    """A graph in either spelling, with all that is wrong with it at any level in its report, or with its descs."""
    report = Report()
    if not is_object(graph):
        report.add(Code.WRONG_TYPE, pointer, f"{show(graph)} given where a graph (an object) belongs")
        return ReadGraph(GraphForm(pointer), report)
    read = ReadGraph(_form(graph, pointer, report), report)
    read.read_nodes()
    if not report.violations:
        read.resolve()
        if all(desc.tensors for desc in read.descs.values()):
            read.check_edges()
        read.sort()
    return read


def _form(graph: Mapping[str, Any], pointer: str, report: Report) -> GraphForm:
    is_numbered = "Nodes" in graph
    return (read_numbered if is_numbered else read_named)(graph, pointer, report)
