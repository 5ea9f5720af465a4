"""Checks a graph at a feature level, and returns a plan or reports every violation at once.

Source: the pages on ``DML_GRAPH_DESC`` and its nodes and edges. They do not cover nodes whose outputs are all unused,
and graph outputs that are graph inputs; opwire rejects both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ..check import Plan, Validation, plan_of, read_level
from ..desc import Report, is_object, show
from ..errors import ContractViolation
from ..fields import UNREAD
from ..level import HIGHEST, FeatureLevel
from ..reading import ReadDesc, read_desc
from ..tensor import BufferTensorDesc
from ..tensor_names import element, grouped, split
from ..violation import Code, Violation
from .constants import CONSTANT
from .edges import Edges
from .form import MOST_VIOLATIONS, End, GraphForm
from .named import read_named
from .numbered import read_numbered
from .plan import Bytes, Place, Step, Steps, graph_plan

GRAPHS_FROM = FeatureLevel.V2_1
"""The first level at which DirectML compiles graphs."""

CONSTANTS_FROM = FeatureLevel.V6_2
"""The first level at which a graph may have constants."""


def check_graph(
    graph: object, feature_level: FeatureLevel | str | int = HIGHEST, *, strict: bool = False, pointer: str = ""
) -> Plan:
    """Checks a graph against exactly one feature level.

    Args:
        graph: in either form, named or DML_GRAPH_DESC.
        feature_level: in any spelling that ``FeatureLevel.parse`` accepts.
        strict: whether what the documentation forbids is a violation even if DirectML accepts it.
        pointer: JSON pointer to the graph in its request, the prefix of the violations' pointers.

    Raises:
        ContractViolation: with every violation or, for a valid graph that opwire cannot compute, with the reasons.
    """
    level = read_level(feature_level, "")
    read = read_graph(graph, pointer)
    violations = read.violations_at(level, strict=strict) or read.uncomputable
    if violations:
        raise ContractViolation(violations)
    return read.plan(level)


@dataclass(frozen=True, slots=True)
class NodeValidation:
    """The outcome of checking a single node.

    Attributes:
        name: the name of the node.
        pointer: the pointer to its operator or, for a constant, to the node itself.
        minimum_feature_level: the lowest level at which its operator is valid, or None; for a constant, the level that
            introduced constants.
        inputs, outputs: the descs of its tensors, derived where omitted; empty for a constant, or if they cannot be
            determined.
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
    """The outcome of checking a graph at a feature level.

    Attributes:
        nodes: the outcomes for the individual nodes, in the order of the graph.
        needs: the lowest level of each part: ``graph`` at all, its ``constants`` if it has some, and its ``operators``.
    """

    nodes: tuple[NodeValidation, ...] = ()
    needs: Mapping[str, FeatureLevel | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Returns the answer of ``POST /v1/validate`` for a graph."""
        needs = {part: None if level is None else str(level) for part, level in self.needs.items()}
        return {
            **Validation.to_json(self),
            "minimum_feature_level_of": needs,
            "nodes": [node.to_json() for node in self.nodes],
        }


def validate_graph(
    graph: object, feature_level: FeatureLevel | str | int = HIGHEST, *, strict: bool = False, pointer: str = ""
) -> GraphValidation:
    """Like ``check_graph``, but returns the violations instead of raising them, with warnings and the lowest level.

    Raises:
        ContractViolation: there is no such feature level.
    """
    level = read_level(feature_level, "")
    read = read_graph(graph, pointer)
    violations = read.violations_at(level, strict=strict)
    known = not read.report.violations and not any(node.structural for node in read.descs.values())
    nodes = tuple(read.nodes(strict=strict))
    return GraphValidation(
        violations,
        read.minimum_level(strict=strict),
        read.outputs() if known else {},
        () if strict else read.warnings_at(level),
        nodes,
        read.needs(nodes),
    )


@dataclass(slots=True, eq=False)
class ReadGraph:
    """A graph after reading, with its edges resolved.

    Attributes:
        form: the graph as given.
        report: the violations of the graph itself.
        descs: the descs of the nodes that are operators, by index.
        edges: the edges between its nodes.
    """

    form: GraphForm
    report: Report
    descs: Mapping[int, ReadDesc]
    edges: Edges

    def violations_at(self, level: FeatureLevel, *, strict: bool = False) -> tuple[Violation, ...]:
        """Returns the violations at a level, up to a limit: those specific to the level, the nodes' and the graph's.

        Args:
            level: the level.
            strict: whether warnings count.
        """
        return tuple(islice(self._violations(level, strict=strict), MOST_VIOLATIONS))

    def warnings_at(self, level: FeatureLevel) -> tuple[Violation, ...]:
        """Returns the warnings of the nodes at a level, up to a limit."""
        return tuple(
            islice((found for node in self.descs.values() for found in node.warnings_at(level)), MOST_VIOLATIONS)
        )

    @property
    def uncomputable(self) -> tuple[Violation, ...]:
        """Why opwire cannot compute the graph although it is valid."""
        found = (found for node in self.descs.values() for found in node.uncomputable)
        return tuple(islice(found, MOST_VIOLATIONS))

    def minimum_level(self, *, strict: bool = False) -> FeatureLevel | None:
        """Returns the lowest level at which the graph is valid, or None."""
        valid = (lowest for lowest in FeatureLevel if next(self._violations(lowest, strict=strict), None) is None)
        return next(valid, None)

    def _violations(self, level: FeatureLevel, *, strict: bool) -> Iterator[Violation]:
        yield from self._early(level)
        for node in self.descs.values():
            yield from node.violations_at(level, strict=strict)
        yield from self.report.violations

    def nodes(self, *, strict: bool) -> Iterator[NodeValidation]:
        """Yields the outcome for each node."""
        for i, node in enumerate(self.form.nodes):
            desc = self.descs.get(i)
            if desc is None:
                minimum = CONSTANTS_FROM if node.is_constant else None
                yield NodeValidation(node.name, node.pointer, minimum, {}, {})
            else:
                lowest = desc.minimum_level(strict=strict)
                yield NodeValidation(node.name, node.pointer, lowest, desc.inputs, desc.outputs)

    def needs(self, nodes: Sequence[NodeValidation]) -> dict[str, FeatureLevel | None]:
        """Returns the lowest level of each part of the graph; None if some of its operators have none."""
        needs: dict[str, FeatureLevel | None] = {"graph": GRAPHS_FROM}
        if any(node.is_constant for node in self.form.nodes):
            needs["constants"] = CONSTANTS_FROM
        of_operators = [node.minimum_feature_level for i, node in enumerate(nodes) if i in self.descs]
        levels = [level for level in of_operators if level is not None]
        if of_operators:
            needs["operators"] = max(levels) if len(levels) == len(of_operators) else None
        return needs

    def _early(self, level: FeatureLevel) -> Iterator[Violation]:
        if level < GRAPHS_FROM:
            message = f"graphs require {GRAPHS_FROM} or higher; {level} was requested"
            yield Violation(Code.OPERATOR_NOT_IN_LEVEL, self.form.pointer, message, available_from=GRAPHS_FROM)
        constants = [node for node in self.form.nodes if node.is_constant]
        if level < CONSTANTS_FROM and constants:
            message = f"constants require {CONSTANTS_FROM} or higher; {level} was requested"
            at = constants[0].pointer
            yield Violation(Code.OPERATOR_NOT_IN_LEVEL, at, message, available_from=CONSTANTS_FROM)

    def outputs(self) -> dict[str, BufferTensorDesc]:
        """Returns the descs of the graph's outputs, by name."""
        ends = [(name, self.edges.results[number]) for number, name in enumerate(self.form.outputs)]
        return {name: self.descs[end.node or 0].outputs[str(end.slot)] for name, end in ends}

    def plan(self, level: FeatureLevel) -> Plan:
        """Returns the plan of a graph that has no violations at a level."""
        inputs, places = self._inputs()
        outputs = self.outputs()
        copies: dict[str, Bytes] = {}
        between: list[int] = []
        readers = self.edges.readers()
        for number, name in enumerate(self.form.outputs):
            source = self.edges.results[number]
            seen_alike = all(
                self.descs[node].inputs[tensor] == outputs[name] for node, tensor in readers.get(source, ())
            )
            if source not in places and seen_alike:
                places[source] = Bytes(Place.OUTPUT, name)
                continue
            if source not in places:  # other readers see the same bytes with another desc, perhaps more of them
                places[source] = Bytes(Place.BETWEEN, len(between))
                between.append(outputs[name].total_size_in_bytes)
            copies[name] = places[source]
        steps = []
        for i in self.edges.order:
            desc = self.descs.get(i)
            if desc is None:
                continue
            plan = plan_of(desc, level)
            for name, output in plan.outputs.items():
                if End(i, name) not in places:
                    places[End(i, name)] = Bytes(Place.BETWEEN, len(between))
                    between.append(output.total_size_in_bytes)
            feeds = {name: places[self.edges.feeds[i, name]] for name in plan.inputs}
            written = {name: places[End(i, name)] for name in plan.outputs}
            steps.append(Step(self.form.nodes[i].name, plan, feeds, written))
        return graph_plan(Steps(tuple(steps), tuple(between), copies), level, inputs, outputs)

    def _inputs(self) -> tuple[dict[str, BufferTensorDesc], dict[End, Bytes]]:
        """Returns the inputs of the plan, including the graph's constants, and their buffers.

        A declared input has its own desc. Otherwise, if readers see the same bytes with different descs, the one that
        reads the most bytes determines it.
        """
        readers = self.edges.readers()
        inputs: dict[str, BufferTensorDesc] = {}
        places: dict[End, Bytes] = {}
        graph_inputs = [(End(None, number), name) for number, name in enumerate(self.form.inputs)]
        constants = [(End(i, 0), CONSTANT + node.name) for i, node in enumerate(self.form.nodes) if i not in self.descs]
        for end, name in (*graph_inputs, *constants):
            places[end] = Bytes(Place.INPUT, name)
            if end in readers:
                descs = [self.descs[node].inputs[tensor] for node, tensor in readers[end]]
                inputs[name] = self.edges.own_desc(end) or max(descs, key=lambda desc: desc.data_size_in_bytes)
        return inputs, places


def read_graph(graph: object, pointer: str) -> ReadGraph:
    """Reads a graph in either form. Violations at any level are in its report or its descs."""
    report = Report(most=MOST_VIOLATIONS)
    if is_object(graph):
        form = _form(graph, pointer, report)
    else:
        report.add(Code.WRONG_TYPE, pointer, f"{show(graph)} given; expected a graph (an object)")
        form = GraphForm(pointer, is_whole=False)
    descs = {
        i: read_desc(node.operator, node.pointer)
        for i, node in enumerate(form.nodes)
        if not (node.is_constant or node.operator is UNREAD)
    }
    edges = Edges(form, descs, report)
    _check_inputs(form, report)
    if form.is_whole:
        edges.resolve()
        edges.check()
        edges.sort()
    return ReadGraph(form, report, descs, edges)


def _check_inputs(form: GraphForm, report: Report) -> None:
    """Reports inputs that no request can supply: the tensors of an array are a list, so none may be missing."""
    given = grouped({name: name for name in form.inputs})
    for name in form.inputs:
        member, index = split(name)
        if index is not None and name in given:
            message = f"{show(name)} given; the inputs of an array are all from {show(element(member, 0))} on"
            report.add(Code.VALUE_NOT_ALLOWED, form.pointer, f"{message}, and none is {show(member)}")


def _form(graph: Mapping[str, Any], pointer: str, report: Report) -> GraphForm:
    is_numbered = "Nodes" in graph
    return (read_numbered if is_numbered else read_named)(graph, pointer, report)
