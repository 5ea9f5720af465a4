"""Where ONNX Runtime's DirectML provider runs a node, and the DirectML operators that it emits for it.

The provider is that of the version ``VERSION``, without the optimizations that fuse nodes, on a device that has every
data type. It takes a node if it has the exact version of the operator, whatever feature level the device has.

Source: the registration table and the operators of ``onnxruntime/core/providers/dml`` (MIT).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pkgutil import get_data
from typing import Any

from ..enums import ReduceFunction
from ..level import FeatureLevel
from ..schema import CATALOG, schema_of
from ..support import SupportRow
from ..tensor import DataType
from .nodes import Domain, ModelNode
from .provider_conditions import CONDITIONS, QUERIES, Seen, type_name
from .values import Value

Row = Mapping[str, Any]

Body = Callable[[ModelNode], Sequence[ModelNode] | None]
"""Returns the nodes that ONNX defines the operator of a node by, or None."""


@cache
def _document() -> Mapping[str, Any]:
    text = get_data(__name__, "provider.json")
    assert text is not None  # the file is part of the package
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _rows() -> Mapping[tuple[Domain, str], list[Row]]:
    found: dict[tuple[Domain, str], list[Row]] = {}
    for row in _document()["rows"]:
        found.setdefault((row["domain"], row["operator"]), []).append(row)
    return found


VERSION = str(_document()["version"])
"""The version of ONNX Runtime."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A DirectML operator that the provider emits.

    Attributes:
        type: the operator type, without prefix.
        level: the lowest level that takes it with the data types and ranks of the node's tensors.
        why: what needs this level.
    """

    type: str
    level: FeatureLevel
    why: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the provider runs a node.

    Attributes:
        is_taken: whether the provider takes the node; otherwise ONNX Runtime runs it on the CPU.
        reason: why it does not run as DirectML operators, or "".
        emits: the DirectML operators, each type once; none if the node does not run as DirectML operators.
    """

    is_taken: bool
    reason: str = ""
    emits: tuple[Emitted, ...] = ()

    @property
    def level(self) -> FeatureLevel | None:
        """The lowest level that has what is emitted; None if nothing is."""
        return max((each.level for each in self.emits), default=None)

    @property
    def why(self) -> str:
        """What needs the level."""
        return next((each.why for each in self.emits if each.level == self.level), "")

    def to_json(self) -> dict[str, Any]:
        """Returns the placement as JSON."""
        level = self.level
        return {
            "is_taken": self.is_taken,
            "reason": self.reason or None,
            "why": self.why or None,
            "directml": [{"type": each.type, "minimum_feature_level": str(each.level)} for each in self.emits],
            "minimum_feature_level": None if level is None else str(level),
        }


def placement(node: ModelNode, values: Mapping[str, Value], body: Body = lambda _: None) -> Placement:
    """Returns where the provider runs a node, seen by itself.

    Args:
        node: the node.
        values: the tensors of the model by name. Conditions on the types of others are taken to hold.
        body: what ONNX defines operators by.
    """
    row, reason = _row_of(node)
    seen = Seen(node, values)
    if row is None:
        return _outside(node) or _inlined(node, reason, values, body)
    reason = _misfit(seen, row) or (QUERIES[row["query"]](seen) if "query" in row else "")
    if reason:
        return Placement(is_taken=False, reason=reason)
    types = _variant(seen, row)
    if not types:
        return Placement(is_taken=True, reason="the provider computes it on the CPU")
    return Placement(is_taken=True, emits=tuple(_emitted(seen, row, each, is_alone=len(types) == 1) for each in types))


def _row_of(node: ModelNode) -> tuple[Row | None, str]:
    """Returns the row of a node's operator, or why there is none."""
    rows = _rows().get((node.domain, node.proto.op_type), [])
    since = node.since or 1  # operators of ONNX Runtime in ONNX's domain, which ONNX does not know
    found = next((row for row in rows if since in row["since"]), None)
    if found is not None:
        return found, ""
    if not rows:
        return None, f"the provider has no {node.operator}"
    versions = sorted({since for row in rows for since in row["since"]})
    listed = f"{', '.join(map(str, versions[:-1]))} and {versions[-1]}" if versions[1:] else str(versions[0])
    return None, f"the provider has {node.operator} {listed}, not {since}"


def _outside(node: ModelNode) -> Placement | None:
    """Returns where a node goes that the provider runs without DirectML operators."""
    for each in _document()["outside"]:
        if not node.domain and each["operator"] == node.proto.op_type and node.since in each["since"]:
            how = "by a shader of its own" if each["runs"] == "shader" else "on the CPU"
            return Placement(is_taken=True, reason=f"the provider computes it {how}")
    return None


def is_inlined(node: ModelNode) -> bool:
    """Returns whether ONNX Runtime replaces a node by its function body, as it has no kernel for it at all."""
    return not node.domain and node.proto.op_type in _document()["inlined"] and _row_of(node)[0] is None


def _inlined(node: ModelNode, reason: str, values: Mapping[str, Value], body: Body) -> Placement:
    """Returns where a node without a row goes: ONNX Runtime inlines what it has no kernel for at all."""
    parts = body(node) if is_inlined(node) else None
    if not parts:
        return Placement(is_taken=False, reason=reason)
    placed = [(part, placement(part, values, body)) for part in parts if part.operator != "Constant"]
    refused = next(((part, each) for part, each in placed if not each.is_taken), None)
    if refused is not None:
        part, each = refused
        return Placement(
            is_taken=False, reason=f"{reason}; of its function body {part.operator} is left: {each.reason}"
        )
    emits = {found.type: found for _, each in placed for found in each.emits}
    return Placement(is_taken=True, emits=tuple(emits.values()))


def _misfit(seen: Seen, row: Row) -> str:
    """Returns why the types of a node's tensors do not fit a row, or ""."""
    sets = _document()["type_sets"]
    for constraint, kind, i, value in _constrained(seen):
        found = type_name(value)
        allowed = row["types"].get(constraint)
        if allowed is not None and found and found not in sets.get(allowed, allowed).split():
            return f"the provider takes {sets.get(allowed, allowed).replace(' ', ', ')} as {kind} {i}, not {found}"
        is_read_on_cpu = kind == "input" and i in row.get("constant", ())
        if found and not is_read_on_cpu and not found.startswith("seq(") and value is not None and not value.data_type:
            return f"{kind} {i} is {found}, which DirectML lacks"
    return ""


def _constrained(seen: Seen) -> Iterator[tuple[str, str, int, Value | None]]:
    """Yields the tensors of a node: the type constraint, "input" or "output", the number, and the tensor."""
    node = seen.node
    listed = _document()["input_types"].get(node.operator)
    for i in range(len(node.inputs)):
        if node.schema is not None:
            formal = node.schema.inputs[min(i, len(node.schema.inputs) - 1)].type_str
        else:
            formal = "T" if listed is None else listed[min(i, len(listed) - 1)]
        yield formal, "input", i, seen.input(i)
    if node.schema is not None:
        for i in range(len(node.outputs)):
            yield node.schema.outputs[min(i, len(node.schema.outputs) - 1)].type_str, "output", i, seen.output(i)


def _variant(seen: Seen, row: Row) -> Sequence[str]:
    """Returns the DirectML operator types that a row emits for a node."""
    if "emits" in row:
        return tuple(row["emits"])
    variants = _document()["lowerings"][row["lowering"]]
    chosen = next(each for each in variants if "when" not in each or CONDITIONS[each["when"]](seen))
    return tuple(chosen["emits"])


def _emitted(seen: Seen, row: Row, type_: str, *, is_alone: bool) -> Emitted:
    """Returns an emitted operator with the lowest level that takes the node's tensors."""
    introduced = CATALOG[type_].introduced
    lowest, why = introduced, f"{type_} exists from {introduced.short} on"
    rows = _support(type_, row.get("function", "SUM"))
    for member, data_type, rank in _tensors(seen, row, type_, is_alone=is_alone):
        level = min((each.level for each in rows if _admits(each, member, data_type, rank)), default=None)
        if level is not None and level > lowest:
            lowest, why = level, f"{type_} takes {data_type.name} of rank {rank} as {member} from {level.short} on"
    return Emitted(type_, lowest, why)


@cache
def _support(type_: str, function: str) -> Sequence[SupportRow]:
    """Returns the support rows of an operator type; of REDUCE, those of a function."""
    support = schema_of(type_).support
    return support.rows({support.attribute: ReduceFunction[function]} if support.attribute else {})


def _admits(row: SupportRow, member: str, data_type: DataType, rank: int) -> bool:
    limits = row.tensors[member]
    return data_type in limits.data_types and limits.ranks[0] <= rank <= limits.ranks[1]


def _tensors(seen: Seen, row: Row, type_: str, *, is_alone: bool) -> Iterator[tuple[str, DataType, int]]:
    """Yields the members of an operator that tensors of the node become: name, data type and rank.

    The first input is the first of the node, and the first output its output, unless another operator comes between;
    others are named in ``provider.json``.
    """
    members = schema_of(type_).members
    given = {member.name: "input 0" for member in members.inputs[:1]}
    if not given or is_alone:
        given |= {member.name: "output 0" for member in members.outputs[:1]}
    given |= _document()["members"].get(type_, {})
    values = {name: _referred(seen, source) for name, source in given.items()}
    ranks = [len(value.sizes or ()) for value in values.values() if value is not None]
    rank = max([*ranks, 1 if row.get("natural_rank") else 4])
    for name, value in values.items():
        if value is not None and (data_type := value.data_type) is not None:
            yield name, _unsigned(data_type) if given[name].startswith("unsigned") else data_type, rank


def _referred(seen: Seen, source: str) -> Value | None:
    *_, kind, number = source.split()
    return seen.input(int(number)) if kind == "input" else seen.output(int(number))


def _unsigned(data_type: DataType) -> DataType:
    return DataType["U" + data_type.name] if data_type.name.startswith("INT") else data_type


class Provider:
    """The provider on a whole model.

    Args:
        nodes: the nodes of the model, each after those that it reads from.
        values: its tensors by name.
        inputs: the names of its inputs.
        body: what ONNX defines operators by.
        origins: the nodes that a node is part of, the outermost first.
    """

    def __init__(
        self,
        nodes: Iterable[ModelNode],
        values: Mapping[str, Value],
        inputs: Iterable[str],
        body: Body,
        origins: Mapping[ModelNode, Sequence[ModelNode]],
    ) -> None:
        self._values = values
        self._body = body
        self._origins = origins
        self._inputs = frozenset(inputs)
        self._preferred = frozenset(self._prefer_cpu(nodes))

    def placement(self, node: ModelNode) -> Placement:
        """Returns where the provider runs a node, or the one that it is part of unless that is inlined."""
        for each in self._origins.get(node, ()):
            if not is_inlined(each):
                return placement(each, self._values, self._body)
        if node.name in self._preferred:
            return Placement(is_taken=False, reason="ONNX Runtime prefers the CPU for arithmetic on shapes")
        return placement(node, self._values, self._body)

    def _prefer_cpu(self, nodes: Iterable[ModelNode]) -> Iterator[str]:
        """Yields the nodes that only compute with tensors that a kernel has left in the memory of the CPU."""
        on_cpu: set[str] = set()
        for node in nodes:
            if node.operator in _LEAVE_ON_CPU:
                on_cpu.update(filter(None, node.outputs))
            elif any(name in on_cpu for name in node.inputs) and self._is_preferred(node, on_cpu):
                on_cpu.update(filter(None, node.outputs))
                yield node.name

    def _is_preferred(self, node: ModelNode, on_cpu: set[str]) -> bool:
        row, _ = _row_of(node)
        if row is None:
            return True
        read_on_cpu = row.get("constant", ())
        for i, name in enumerate(node.inputs):
            if name in on_cpu and i in read_on_cpu:
                return False
            if name and not (name in on_cpu or name in self._inputs or self._is_small_constant(name)):
                return False
            if name and type_name(self._values.get(name)).startswith(("float16", "bfloat16", "float8", "float4")):
                return False
        return True

    def _is_small_constant(self, name: str) -> bool:
        value = self._values[name]
        array = value.array if value.is_constant else None
        return array is not None and array.size <= _SMALL


_LEAVE_ON_CPU = frozenset({"Shape", "Size", "SequenceLength"})
"""Operators whose kernels leave their output in the memory of the CPU."""

_SMALL = 100
"""The most elements of a constant that takes part in arithmetic on shapes."""
