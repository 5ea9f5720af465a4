"""Graphs in the form of DML_GRAPH_DESC: lists of nodes and of edges, which refer to nodes by index.

``{"Nodes": [{"Type": "OPERATOR", "Desc": {"Operator": {"type", "desc"}, "Name"}}, {"Type": "CONSTANT", "Desc": {"Data":
tensor, "Name"}}], "InputEdges": [{"GraphInputIndex", "ToNodeIndex", "ToNodeInputIndex"}], "OutputEdges": [...],
"IntermediateEdges": [...]}``; counts may be omitted. Source: ``directml.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..desc import Report, is_object, pointer_to, show
from ..fields import UNREAD
from ..violation import Code
from .form import LONGEST_NAME, MOST_EDGES, MOST_NODES, Edge, End, GraphForm, Node
from .names import NodeNames

_LISTS = {"Nodes": "NodeCount"} | {f"{kind}Edges": f"{kind}EdgeCount" for kind in ("Input", "Output", "Intermediate")}
_GRAPH: Mapping[str, None] = dict.fromkeys((*_LISTS, *_LISTS.values(), "InputCount", "OutputCount"))
_NODE_TYPES = {"INVALID": 0, "OPERATOR": 1, "CONSTANT": 2}
_EDGE_TYPES = {"InputEdges": ("INPUT", 1), "OutputEdges": ("OUTPUT", 2), "IntermediateEdges": ("INTERMEDIATE", 3)}
_SOURCES = {
    "InputEdges": (None, "GraphInputIndex"),
    "OutputEdges": ("FromNodeIndex", "FromNodeOutputIndex"),
    "IntermediateEdges": ("FromNodeIndex", "FromNodeOutputIndex"),
}
_TARGETS = {
    "InputEdges": ("ToNodeIndex", "ToNodeInputIndex"),
    "OutputEdges": (None, "GraphOutputIndex"),
    "IntermediateEdges": ("ToNodeIndex", "ToNodeInputIndex"),
}


class _NumberedReader:
    def __init__(self, form: GraphForm, report: Report) -> None:
        self.form = form
        self.report = report
        self.names = NodeNames()

    def graph(self, value: Mapping[str, Any]) -> None:
        form, report = self.form, self.report
        report.unknown_fields(value, _GRAPH, form.pointer, "a graph")
        for i, node in enumerate(self.listed(value, "Nodes", MOST_NODES, required=True)):
            self.node(node, i, pointer_to(form.pointer, "Nodes", i))
        for kind in _EDGE_TYPES:
            for i, edge in enumerate(self.listed(value, kind, MOST_EDGES, required=kind == "OutputEdges")):
                self.edge(edge, kind, pointer_to(form.pointer, kind, i))
        for names, what, ends in (
            (form.inputs, "Input", [edge.source for edge in form.edges]),
            (form.outputs, "Output", [edge.target for edge in form.edges]),
        ):
            used = 1 + max((int(end.slot) for end in ends if end is not None and end.node is None), default=-1)
            names += (f"{what}{i}" for i in range(self.count(value, f"{what}Count", used)))

    def count(self, value: Mapping[str, Any], name: str, used: int) -> int:
        given = value.get(name)
        if given is None:
            return used
        count = self.report.integer(given, pointer_to(self.form.pointer, name), 0, MOST_EDGES)
        if count is not None and count < used:
            message = f"{count} given; the edges use index {used - 1}"
            self.report.add(Code.OUT_OF_RANGE, pointer_to(self.form.pointer, name), message)
        return max(used, count or 0)

    def listed(self, value: Mapping[str, Any], name: str, most: int, *, required: bool) -> list[Any]:
        pointer, report = self.form.pointer, self.report
        given, at = value.get(name), pointer_to(pointer, name)
        if given is None:
            if required:
                report.missing(name, value, pointer)
                self.form.is_whole = False
            return []
        if not isinstance(given, list):
            report.add(Code.WRONG_TYPE, at, f"{show(given)} given; expected a list")
            self.form.is_whole = False
            return []
        if len(given) > most or (required and not given):
            report.add(Code.OUT_OF_RANGE, at, f"{len(given)} given; a graph has {int(required)} to {most} of them")
            self.form.is_whole = False
            return []
        count = value.get(_LISTS[name])
        if count is not None and count != len(given):
            message = f"{show(count)} given, and {name} has {len(given)}; they must agree"
            report.add(Code.COUNT_MISMATCH, pointer_to(pointer, _LISTS[name]), message, [len(given)])
        return given

    def node(self, node: object, index: int, pointer: str) -> None:
        """Reads a node. Even an invalid one is added to the list, so that the indices in edges stay correct."""
        name = self.names.of(node, index)
        if not is_object(node):
            self.form.nodes.append(Node(name, pointer, node))  # reported when the operator is read
            return
        self.report.unknown_fields(node, dict.fromkeys(("Type", "Desc")), pointer, "a node")
        at = pointer_to(pointer, "Type")
        kind = self.report.member(node.get("Type", "OPERATOR"), at, _NODE_TYPES, "DML_GRAPH_NODE_TYPE_")
        if kind == 0:
            self.report.add(Code.UNKNOWN_VALUE, at, "INVALID given; allowed: OPERATOR, CONSTANT", ["OPERATOR"])
        desc = node.get("Desc")
        if not is_object(desc):
            what = "is required and missing" if desc is None else f"is {show(desc)}; it must be an object"
            self.report.add(Code.WRONG_TYPE, pointer, f"Desc {what}")
            self.form.nodes.append(Node(name, pointer, UNREAD))
            return
        is_constant = kind == _NODE_TYPES["CONSTANT"] or (kind != _NODE_TYPES["OPERATOR"] and "Data" in desc)
        self.desc(desc, name, pointer_to(pointer, "Desc"), is_constant=is_constant)

    def desc(self, desc: Mapping[str, Any], name: str, pointer: str, *, is_constant: bool) -> None:
        members = ("Data", "DataSize", "Name") if is_constant else ("Operator", "Name")
        self.report.unknown_fields(desc, dict.fromkeys(members), pointer, "a node's desc")
        given = desc.get(members[0])
        if given is None:
            self.report.missing(members[0], desc, pointer)
        self.check_name(desc.get("Name"), pointer)
        if is_constant:
            self.form.nodes.append(Node(name, pointer, None, is_constant=True))
        elif given is None:
            self.form.nodes.append(Node(name, pointer, UNREAD))
        else:
            self.form.nodes.append(Node(name, pointer_to(pointer, "Operator"), given))

    def check_name(self, given: object, pointer: str) -> None:
        if given is not None and not (isinstance(given, str) and 0 < len(given) <= LONGEST_NAME):
            message = f"{show(given)} given; a name has 1 to {LONGEST_NAME} characters"
            self.report.add(Code.VALUE_NOT_ALLOWED, pointer_to(pointer, "Name"), message)

    def edge(self, edge: object, kind: str, pointer: str) -> None:
        name, value = _EDGE_TYPES[kind]
        if self.report.is_full:
            return
        if is_object(edge) and is_object(edge.get("Desc")):
            self.report.unknown_fields(edge, dict.fromkeys(("Type", "Desc")), pointer, "an edge")
            given = edge.get("Type", value)
            self.report.member(given, pointer_to(pointer, "Type"), {name: value}, "DML_GRAPH_EDGE_TYPE_")
            edge, pointer = edge["Desc"], pointer_to(pointer, "Desc")
        if not is_object(edge):
            self.report.add(Code.WRONG_TYPE, pointer, f"{show(edge)} given; expected an edge (an object)")
            return
        members = [member for member in (*_SOURCES[kind], *_TARGETS[kind]) if member is not None]
        self.report.unknown_fields(edge, dict.fromkeys((*members, "Name")), pointer, "an edge")
        source, target = (self.end(edge, *ends[kind], pointer) for ends in (_SOURCES, _TARGETS))
        self.form.edges.append(Edge(source, target, pointer))

    def end(self, edge: Mapping[str, Any], node_member: str | None, slot_member: str, pointer: str) -> End | None:
        most = len(self.form.nodes) - 1
        node = None if node_member is None else self.index(edge, node_member, pointer, most)
        slot = self.index(edge, slot_member, pointer, MOST_EDGES - 1)
        if slot is None or (node_member is not None and node is None):
            return None
        return End(node, slot)

    def index(self, edge: Mapping[str, Any], name: str, pointer: str, most: int) -> int | None:
        if edge.get(name) is None:
            self.report.missing(name, edge, pointer)
            return None
        return self.report.integer(edge[name], pointer_to(pointer, name), 0, most)


def read_numbered(value: Mapping[str, Any], pointer: str, report: Report) -> GraphForm:
    """Reads a graph in the form of DML_GRAPH_DESC, and reports violations of the form."""
    form = GraphForm(pointer)
    _NumberedReader(form, report).graph(value)
    return form
