"""Reads DirectML graphs that ONNX Runtime serializes to files, as graphs in named form.

The format is a FlatBuffer of the namespace ``dml.ir``. Its tables are taken from headers in microsoft/onnxruntime and
microsoft/DirectML; neither a schema nor a version is published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..desc import DATA_TYPE_PREFIX, show
from ..errors import ProblemCode, RequestError
from ..fields import NUMBERS, Member, Scalar, TensorMember, Union
from ..schema import OperatorType, find, schema_of
from ..tensor import DataType
from ..tensor_names import element
from .constants import HELD
from .flatbuffer import FlatBuffer, Malformed, Table
from .form import LONGEST_NAME, MOST_NODES
from .names import INPUT, NodeNames, unmistakable

MOST_BYTES = 256 * 2**20
"""Maximum size of a file, in bytes (opwire's own limit)."""

_MAX_DEPTH = 4
"""Maximum nesting depth of operators; DirectML's own are nested one deep."""


@dataclass(frozen=True, slots=True)
class SerializedGraph:
    """A graph read from a file.

    Attributes:
        graph: the graph in named form, without the tensors of its constants.
        constants: the bytes of its constants, by the names of their nodes.
        files: the inputs of the graph that are stored next to its file, in ``NAME.bin``.
    """

    graph: Mapping[str, Any]
    constants: Mapping[str, bytes]
    files: tuple[str, ...]

    def with_file_constants(self) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Replaces the inputs stored in files by constants. Returns the graph, and the constant of each file."""
        nodes = dict(self.graph["nodes"])
        claimed = NodeNames({*nodes, *_sources(self.graph)})
        names = {file: claimed.claim(file, i) for i, file in enumerate(self.files)}
        nodes |= {name: {"constant": HELD} for name in names.values()}
        sources = {INPUT + file: name for file, name in names.items()}
        nodes = {name: _with_constants(node, sources) if "inputs" in node else node for name, node in nodes.items()}
        inputs = [name for name in self.graph["inputs"] if name not in names]
        return {**self.graph, "nodes": nodes, "inputs": inputs}, names


def _sources(graph: Mapping[str, Any]) -> Iterator[str]:
    """Yields all sources of a graph in named form."""
    for members in (graph["outputs"], *(node.get("inputs", {}) for node in graph["nodes"].values())):
        for source in members.values():
            yield from source if isinstance(source, list) else [source]


def _with_constants(node: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Any]:
    """Returns a node with some inputs replaced by constants, which cannot be OWNED_BY_DML."""
    desc, inputs = dict(node["desc"]), dict(node["inputs"])
    for member, source in inputs.items():
        if isinstance(source, list):
            inputs[member] = [sources.get(each, each) for each in source]
            desc[member] = [_not_owned(tensor) for tensor in desc[member]]
        elif source in sources:
            inputs[member] = sources[source]
            desc[member] = _not_owned(desc[member])
    return {**node, "desc": desc, "inputs": inputs}


def _not_owned(tensor: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tensor.items() if name != "Flags"}


def read_serialized(data: bytes) -> SerializedGraph:
    """Reads a file.

    Raises:
        RequestError: the format is wrong; the message says where.
    """
    if len(data) > MOST_BYTES:
        raise RequestError(ProblemCode.INVALID_REQUEST, f"{len(data)} bytes given; a graph has at most {MOST_BYTES}")
    try:
        return _SerializedReader().read(FlatBuffer(data).root())
    except Malformed as error:
        raise RequestError(ProblemCode.INVALID_REQUEST, f"the file is not a serialized graph: {error}") from None


class _SerializedReader:
    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.sources: dict[str, str] = {}
        self.constants: dict[str, bytes] = {}
        self.files: dict[str, None] = {}

    def read(self, root: Table) -> SerializedGraph:
        nodes, inputs, outputs = root.tables(0), root.texts(1), root.texts(2)
        if not 1 <= len(nodes) <= MOST_NODES:
            raise Malformed(f"{len(nodes)} nodes; a graph has 1 to {MOST_NODES}")
        self.sources = {name: INPUT + name for name in inputs}
        slots = [self._slots(node) for node in nodes]
        names = unmistakable([self._name(node, i) for i, node in enumerate(nodes)], slots)
        self.nodes = {name: {} for name in names}
        for node, name, listed in zip(nodes, names, slots, strict=True):
            self._outputs(node, name, listed)
        for node, name in zip(nodes, names, strict=True):
            if node.number(0, "B") == 1:
                self.nodes[name] = self._operator(node, name)
        listed = list(dict.fromkeys((*inputs, *self.files)))
        results = {name: self._source(name) for name in outputs}
        graph = {"nodes": self.nodes, "inputs": listed, "outputs": results}
        return SerializedGraph(graph, self.constants, tuple(name for name in self.files if name not in inputs))

    def _name(self, node: Table, index: int) -> str:
        """Returns the name of a node. Constants that several nodes use occur several times, with the same name."""
        name = node.text(2) or f"{index}"
        if len(name) > LONGEST_NAME:
            raise Malformed(f"the name {show(name)} is too long")
        return name

    def _slots(self, node: Table) -> list[str]:
        """Returns the outputs of a node; none for a constant."""
        kind = node.number(0, "B")
        if kind not in (1, 2):
            what = show(node.text(2))
            raise Malformed(f"node {what} is of type {kind}; allowed are operators (1) and constants (2)")
        if kind == 2:
            return []
        members = schema_of(_kind(self._desc_of(node)).name).members.outputs
        return list(_slots(members, len(node.texts(4))))

    def _outputs(self, node: Table, name: str, slots: list[str]) -> None:
        """Maps the edge names of a node to its outputs."""
        edges = node.texts(4)
        is_constant = node.number(0, "B") == 2
        found = [self._constant(node, name)] if is_constant else [f"{name}.{slot}" for slot in slots]
        for edge, source in zip(edges, found, strict=False):
            if edge:
                self.sources[edge] = source

    def _source(self, edge: str) -> str:
        found = self.sources.get(edge)
        if found is None:
            raise Malformed(f"{show(edge)} is neither an input nor the output of a node")
        return found

    def _constant(self, node: Table, name: str) -> str:
        """Returns the source of a constant's bytes: the node itself, or an input stored in a file."""
        desc = self._desc_of(node)
        kind, detail = desc.number(0, "B"), desc.table(1)
        if detail is None or kind not in (1, 2):
            raise Malformed(f"the constant {show(name)} has no data")
        if kind == 2:
            self.constants[name] = detail.raw(0)
            self.nodes[name] = {"constant": HELD}
            return name
        del self.nodes[name]
        file = detail.text(0)
        self.files[file] = None
        return INPUT + file

    def _desc_of(self, node: Table) -> Table:
        desc = node.table(1)
        if desc is None:
            raise Malformed(f"node {show(node.text(2))} has no desc")
        return desc

    def _operator(self, node: Table, name: str) -> dict[str, Any]:
        table = self._desc_of(node)
        kind = _kind(table)
        members = schema_of(kind.name).members
        desc = _attributes([member for member in members.every if member not in members.tensors], table.tables(3), 0)
        edges = node.texts(3)
        desc.update(_tensors(members.inputs, edges, table.tables(1), name))
        desc.update(_tensors(members.outputs, node.texts(4), table.tables(2), name))
        inputs: dict[str, Any] = {}
        for slot, edge in zip(_slots(members.inputs, len(edges)), edges, strict=True):
            if edge:
                member, bracket, index = slot.partition("[")
                source = self._source(edge)
                if bracket:
                    inputs.setdefault(member, []).append(source)
                else:
                    inputs[member] = source
                if source.startswith(INPUT) and source.removeprefix(INPUT) in self.files:
                    tensor = desc[member][int(index[:-1])] if bracket else desc[member]
                    tensor["Flags"] = "OWNED_BY_DML"
        return {"type": kind.name, "desc": desc, "inputs": inputs}


def _kind(table: Table) -> OperatorType:
    given = table.text(0)
    kind = find(given)
    if kind is None:
        raise Malformed(f"{show(given)} is not a DirectML operator type")
    return kind


def _slots(members: tuple[TensorMember, ...], count: int) -> Iterator[str]:
    """Yields the names of ``count`` slots; an array takes all that the other members leave.

    Raises:
        Malformed: the members have a different number of slots.
    """
    left = count - sum(not member.is_array for member in members)
    arrays = sum(member.is_array for member in members)
    if left < 0 or (left and not arrays):
        raise Malformed(f"{count} tensor names given; expected {count - left}")
    for member in members:
        if member.is_array:
            yield from (element(member.name, i) for i in range(left))
        else:
            yield member.name


def _tensors(members: tuple[TensorMember, ...], edges: list[str], tables: list[Table], node: str) -> dict[str, Any]:
    """Reads the tensor descs: one for each edge that has a name."""
    found: dict[str, Any] = {}
    given = iter(tables)
    for slot, edge in zip(_slots(members, len(edges)), edges, strict=True):
        table = next(given, None) if edge else None
        if table is None:
            if edge:
                raise Malformed(f"{slot} of {show(node)} has no tensor desc")
            continue
        member, bracket, _ = slot.partition("[")
        if bracket:
            found.setdefault(member, []).append(_tensor(table))
        else:
            found[member] = _tensor(table)
    return found


def _tensor(table: Table) -> dict[str, Any]:
    desc: dict[str, Any] = {"DataType": table.text(0), "Sizes": table.numbers(1, "I")}
    if table.place(2) is not None:
        desc["Strides"] = table.numbers(2, "I")
    desc["TotalTensorSizeInBytes"] = table.number(3, "Q")
    return desc


def _attributes(members: list[Member], tables: list[Table], depth: int) -> dict[str, Any]:
    """Reads the members that are not tensors: the file has them in order, including counts."""
    if len(tables) < len(members):
        raise Malformed(f"{len(tables)} attributes given; expected {len(members)}")
    desc = {member.name: _value(table, depth) for member, table in zip(members, tables, strict=False)}
    for member in members:
        if isinstance(member, Union):
            desc[member.name] = _scalar(desc[member.name], desc.get(member.data_type))
        elif isinstance(member, Scalar) and member.number is NUMBERS["BOOL"]:
            desc[member.name] = bool(desc[member.name])
    return {name: value for name, value in desc.items() if value is not None}


def _value(table: Table, depth: int) -> Any:
    kind, at = table.number(1, "B"), table.target(2)
    if at is None:
        return None
    read = _VALUES.get(kind)
    if read is None:
        raise Malformed(f"an attribute is of type {kind}; allowed are {min(_VALUES)} to {max(_VALUES)}")
    return read(table.buffer, at, depth)


def _activation(buffer: FlatBuffer, at: int, depth: int) -> dict[str, Any]:
    if depth >= _MAX_DEPTH:
        raise Malformed(f"operators are nested more than {_MAX_DEPTH} deep")
    table = Table(buffer, at)
    kind = _kind(table)
    members = schema_of(kind.name).members
    inner = [member for member in members.every if member not in members.tensors]
    return {"Type": kind.name, "Desc": _attributes(inner, table.tables(1), depth + 1)}


def _activations(buffer: FlatBuffer, at: int, depth: int) -> list[Any]:
    return [_activation(buffer, table.at, depth) for table in Table(buffer, at).tables(0)]


def _float(number: float) -> float | str:
    """Converts a number for JSON: NaN and infinities become strings."""
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def _number(form: str) -> Callable[[FlatBuffer, int, int], Any]:
    return lambda buffer, at, depth: _float(buffer.unpack(form, at)) if form == "f" else buffer.unpack(form, at)


def _array(form: str) -> Callable[[FlatBuffer, int, int], Any]:
    return lambda buffer, at, depth: [
        _float(value) if form == "f" else value for value in Table(buffer, at).numbers(0, form)
    ]


def _pair(first: str, second: str, form: str) -> Callable[[FlatBuffer, int, int], Any]:
    def read(buffer: FlatBuffer, at: int, depth: int) -> dict[str, Any]:
        number = _number(form)
        return {first: number(buffer, at, depth), second: number(buffer, at + 4, depth)}

    return read


def _union(buffer: FlatBuffer, at: int, depth: int) -> bytes:
    table = Table(buffer, at)
    inner = table.target(1)
    if table.number(0, "B") != 1 or inner is None:
        raise Malformed("a scalar union does not have 8 bytes")
    return buffer.piece(inner, 8)


def _scalar(data: Any, given: Any) -> Any:
    """Returns the number in the bytes of a union, whose type is given by a sibling member."""
    if not isinstance(data, bytes):
        return data
    named = {row.code: row for row in DataType} | {DATA_TYPE_PREFIX + row.name: row for row in DataType}
    data_type = named.get(given)
    if data_type is None:
        raise Malformed(f"a scalar union is of the unknown type {show(given)}")
    number = np.frombuffer(data, data_type.dtype, 1)[0].item()
    return _float(number) if data_type.is_float else number


_VALUES: Mapping[int, Callable[[FlatBuffer, int, int], Any]] = {
    1: _activation,
    2: _activations,
    3: _number("I"),
    4: _number("Q"),
    5: _number("i"),
    6: _number("f"),
    7: _array("I"),
    8: _array("i"),
    9: _array("f"),
    10: _pair("Scale", "Bias", "f"),
    11: _pair("Width", "Height", "I"),
    12: _union,
    13: _number("B"),
}
"""Functions that read an attribute, by its type."""
