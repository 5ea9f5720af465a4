"""Graphs in named form: each node names the sources of its inputs.

``{"nodes": {"sum": {"type", "desc", "inputs": {"ATensor": "input:x", "BTensor": "weights"}}, "weights": {"constant":
tensor}}, "outputs": {"y": "sum.OutputTensor"}}``. A source is ``input:NAME``, ``NODE.TENSOR``, or ``NODE`` for a
constant or a node with one output; if it is the name of a node, it is that node. Optional ``inputs`` next to ``nodes``
set the order of the graph's inputs: a list of names, or an object of their tensor descs, null for one without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..desc import Report, is_object, pointer_to, show
from ..tensor_desc import read_tensor
from ..violation import Code
from .constants import CONSTANT
from .form import LONGEST_NAME, MOST_EDGES, MOST_NODES, Edge, End, GraphForm, Node
from .names import INPUT

_GRAPH: Mapping[str, None] = dict.fromkeys(("nodes", "inputs", "outputs"))
_OPERATOR: Mapping[str, None] = dict.fromkeys(("type", "desc", "inputs"))
_CONSTANT: Mapping[str, None] = dict.fromkeys(("constant",))


class _NamedReader:
    def __init__(self, form: GraphForm, report: Report) -> None:
        self.form = form
        self.report = report
        self.indices: dict[str, int] = {}
        self.inputs: dict[str, int] = {}

    def graph(self, value: Mapping[str, Any]) -> None:
        form, report = self.form, self.report
        report.unknown_fields(value, _GRAPH, form.pointer, "a graph")
        nodes = self.members(value, "nodes", form.pointer, MOST_NODES)
        self.indices = {name: i for i, name in enumerate(nodes)}
        self.declared_inputs(value.get("inputs"))
        for name, node in nodes.items():
            at = pointer_to(form.pointer, "nodes", name)
            self.refuse_reserved(name, INPUT, "inputs of the graph", at)
            self.node(name, node, at)
        outputs = self.members(value, "outputs", form.pointer, MOST_EDGES)
        for number, (name, source) in enumerate(outputs.items()):
            form.outputs.append(name)
            self.edge(source, End(None, number), pointer_to(form.pointer, "outputs", name))
        form.inputs = list(self.inputs)

    def members(self, value: Mapping[str, Any], name: str, pointer: str, most: int) -> Mapping[str, Any]:
        """Returns a member that is a non-empty object with valid names as keys, or {} if violations were reported."""
        given, at = value.get(name), pointer_to(pointer, name)
        if given is None:
            self.report.missing(name, value, pointer)
        elif not is_object(given):
            self.report.add(Code.WRONG_TYPE, at, f"{show(given)} given; expected an object of {name}")
        elif not 1 <= len(given) <= most:
            self.report.add(Code.OUT_OF_RANGE, at, f"{len(given)} {name} given; a graph has 1 to {most}")
        elif all(self.is_name(key, at) for key in given):
            return given
        self.form.is_whole = False
        return {}

    def is_name(self, name: object, pointer: str) -> bool:
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
            return True
        message = f"{show(name)} given; a name has 1 to {LONGEST_NAME} characters"
        self.report.add(Code.VALUE_NOT_ALLOWED, pointer, message)
        return False

    def is_input_name(self, name: object, pointer: str) -> bool:
        if not self.is_name(name, pointer):
            return False
        return self.refuse_reserved(str(name), CONSTANT, "constants", pointer)

    def refuse_reserved(self, name: str, prefix: str, what: str, pointer: str) -> bool:
        """Reports a name with a reserved prefix, and returns whether it has none."""
        if not name.startswith(prefix):
            return True
        message = f"{show(name)} given; names that begin with {show(prefix)} are reserved for {what}"
        self.report.add(Code.VALUE_NOT_ALLOWED, pointer, message)
        return False

    def declared_inputs(self, given: object) -> None:
        at = pointer_to(self.form.pointer, "inputs")
        if given is None:
            return
        if not (isinstance(given, list) or is_object(given)) or len(given) > MOST_EDGES:
            message = f"{show(given)} given; expected a list of names, or an object of tensor descs by name"
            self.report.add(Code.WRONG_TYPE, at, message)
            return
        for i, name in enumerate(given):
            pointer = pointer_to(at, i if isinstance(given, list) else name)
            if not self.is_input_name(name, pointer):
                return
            if name in self.inputs:
                self.report.add(Code.EDGE_CONFLICT, pointer, f"{show(name)} is listed twice as an input")
            self.inputs.setdefault(name, len(self.inputs))
            if is_object(given) and given[name] is not None and not self.report.is_full:
                tensor = read_tensor(given[name], pointer, self.report, output=False)
                if tensor is not None:
                    self.form.declared[self.inputs[name]] = tensor.desc

    def node(self, name: str, node: object, pointer: str) -> None:
        report = self.report
        if is_object(node) and "constant" in node:
            report.unknown_fields(node, _CONSTANT, pointer, "a constant")
            self.form.nodes.append(Node(name, pointer, None, is_constant=True))
            return
        operator = {key: value for key, value in node.items() if key != "inputs"} if is_object(node) else node
        self.form.nodes.append(Node(name, pointer, operator))
        if not is_object(node):
            return  # reported when the operator is read
        sources = node.get("inputs")
        if sources is None:
            return
        if not is_object(sources):
            at = pointer_to(pointer, "inputs")
            report.add(Code.WRONG_TYPE, at, f"{show(sources)} given; expected an object of sources")
            return
        index = self.indices[name]
        for tensor, source in sources.items():
            at = pointer_to(pointer, "inputs", tensor)
            if not isinstance(source, list):
                self.edge(source, End(index, tensor), at)
                continue
            for i, each in enumerate(source):
                self.edge(each, End(index, f"{tensor}[{i}]"), pointer_to(at, i))

    def edge(self, source: object, target: End, pointer: str) -> None:
        if self.report.is_full:
            return
        if len(self.form.edges) >= MOST_EDGES:
            if self.form.is_whole:
                self.report.add(Code.OUT_OF_RANGE, self.form.pointer, f"a graph has at most {MOST_EDGES} edges")
            self.form.is_whole = False
            return
        self.form.edges.append(Edge(self.source(source, pointer), target, pointer))

    def source(self, given: object, pointer: str) -> End | None:
        if not isinstance(given, str):
            message = f"{show(given)} given; expected the name of a source: {INPUT}NAME, NODE.TENSOR or NODE"
            self.report.add(Code.WRONG_TYPE, pointer, message)
            return None
        if given.startswith(INPUT):
            return self.graph_input(given.removeprefix(INPUT), pointer)
        if given in self.indices:
            return End(self.indices[given], "")
        node, dot, tensor = given.rpartition(".")
        if dot and node in self.indices:
            return End(self.indices[node], tensor)
        message = f"{show(given)} given; the graph has no such node, and a graph input is written {show(INPUT + given)}"
        self.report.add(Code.UNKNOWN_VALUE, pointer, message)
        return None

    def graph_input(self, name: str, pointer: str) -> End | None:
        if not self.is_input_name(name, pointer):
            return None
        return End(None, self.inputs.setdefault(name, len(self.inputs)))


def read_named(value: Mapping[str, Any], pointer: str, report: Report) -> GraphForm:
    """Reads a graph in named form, and reports violations of the form."""
    form = GraphForm(pointer)
    _NamedReader(form, report).graph(value)
    return form
