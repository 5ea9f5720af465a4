"""The contract as JSON: operators with their fields, support rows and examples, and the feature levels.

The service's ``GET`` routes, the command line and the documentation all use it; the client returns it as is. The whole
schema is one value for use without opwire.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from enum import IntEnum
from typing import Any, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from .fields import FieldInfo, Member
from .level import FeatureLevel
from .operator import BadExample, Example, Operator
from .operators import OPERATORS
from .schema import CATALOG, PREFIX, OperatorSchema, OperatorType, document, operator_document, schema_of
from .support import Support, SupportRows, TensorSupport


class OperatorSummary(TypedDict):
    """An operator type of DirectML, as listed.

    All types have their members and support rows. opwire checks the descs of those that are ``declared``; those that
    are ``executable`` run on at least one of the server's devices.
    """

    type: str
    value: int
    introduced: str
    family: str
    declared: bool
    executable: bool
    summary: str


class PageLimitsInfo(TypedDict):
    """The data types and ranks that the documentation page allows for a tensor."""

    data_types: list[str]
    ranks: list[int]


class LimitsInfo(PageLimitsInfo):
    """The data types and ranks allowed for a tensor; ``page`` has those of its page if DirectML differs, or null."""

    page: PageLimitsInfo | None


class RowInfo(TypedDict):
    """A support row. If the rows depend on an attribute, ``when`` has the values that this one applies to.

    ``basis`` is ``both`` if the page and DirectML agree, ``page`` if DirectML was asked at none of these levels, and
    ``observed`` if it differs from the page.
    """

    feature_level: str
    when: dict[str, list[str]] | None
    basis: str
    tensors: dict[str, LimitsInfo]


class ExampleInfo(TypedDict):
    """A worked example: the operator and inputs of an execute request, with tensors as numbers, and the outputs."""

    name: str
    feature_level: str
    operator: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    source: str


class RuleInfo(TypedDict):
    """A rule of an operator: the code of its violations, the members that it reads, its text, and its basis.

    ``basis`` is ``both`` if the documentation states the rule and DirectML enforces it, ``page`` if DirectML does not
    enforce it, so that breaking it is a warning, ``observed`` if only DirectML shows it, and ``opwire`` if it limits
    only what opwire computes.
    """

    code: str
    members: list[str]
    text: str
    basis: str


class BadExampleInfo(TypedDict):
    """An operator that is rejected at a level, with the code of the violation and its pointer below ``desc``."""

    name: str
    feature_level: str
    operator: dict[str, Any]
    code: str
    pointer: str


class AccuracyInfo(TypedDict):
    """The accuracy of the outputs: ``promise`` is a ``Promise``; ``where`` says which descs it covers, null for all
    those not covered by another entry."""

    promise: str
    where: str | None


class OperatorInfo(OperatorSummary):
    """An operator type of DirectML with its whole contract.

    ``rules``, ``examples`` and ``bad_examples`` are empty if it is not declared. ``source`` is its documentation page.
    """

    struct: str
    source: str
    accuracy: list[AccuracyInfo]
    fields: list[FieldInfo]
    support: list[RowInfo]
    rules: list[RuleInfo]
    examples: list[ExampleInfo]
    bad_examples: list[BadExampleInfo]


class LevelInfo(TypedDict):
    """A feature level and the operator types that it introduced."""

    name: str
    value: int
    introduces: list[str]


class DeviceMemory(TypedDict):
    """Device memory that accepted operators hold, and the most that they may hold, in bytes."""

    used: int
    limit: int


@with_config(ConfigDict(extra="allow"))
class DeviceInfo(TypedDict):
    """A device and its load, with additional members that depend on its ``kind``.

    ``places`` is the number of operators that it runs concurrently, ``kernels`` the number of compiled ones. ``memory``
    is null for a device without memory of its own. ``broken`` says why it failed, if it did.
    """

    name: str
    kind: str
    queued: int
    running: int
    places: int
    kernels: int
    memory: DeviceMemory | None
    broken: str | None


class ClusterInfo(TypedDict):
    """The state of the server's connection to its Ray cluster.

    ``state`` is ``joining``, ``joined``, or ``refused`` if the versions are incompatible; ``reason`` says why it has
    not joined. ``nodes`` are the nodes with devices; ``refused`` has the reason for each device that cannot be used.
    """

    address: str
    state: str
    reason: str | None
    nodes: list[str]
    refused: dict[str, str]


class ServerInfo(TypedDict):
    """A server. ``limits`` has its limits by name. ``default_device`` runs the requests that do not name a device;
    ``auto`` means that one is chosen for each request. ``cluster`` is null if the server is not part of one."""

    name: str
    version: str
    ready: bool
    feature_levels: list[str]
    default_feature_level: str
    devices: list[DeviceInfo]
    cluster: ClusterInfo | None
    default_device: str
    limits: dict[str, int]
    encodings: list[str]


class GraphInfo(TypedDict):
    """A registered graph: its inputs and outputs as tensor descs by name, without its constants, and the number of
    bytes that the server stores for it. ``graph`` is present when a single graph is requested; it does not include the
    tensors of constants."""

    name: str
    feature_level: str
    nodes: int
    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]
    byte_size: int
    graph: NotRequired[dict[str, Any]]


def summarise(kind: OperatorType, executable: Container[str] = ()) -> OperatorSummary:
    """Returns an operator type as listed.

    Args:
        kind: the type.
        executable: the names of the types that a device runs.
    """
    return {
        "type": PREFIX + kind.name,
        "value": kind.value,
        "introduced": str(kind.introduced),
        "family": kind.family,
        "declared": kind.name in OPERATORS,
        "executable": kind.name in executable,
        "summary": schema_of(kind.name).summary,
    }


def describe(kind: OperatorType, executable: Container[str] = ()) -> OperatorInfo:
    """Returns an operator type with its whole contract. Takes the same arguments as ``summarise``."""
    schema, declared = schema_of(kind.name), OPERATORS.get(kind.name)
    return {
        **summarise(kind, executable),
        "struct": schema.struct,
        "source": schema.source,
        "accuracy": [{"promise": each.promise.value, "where": each.where or None} for each in schema.accuracy],
        "fields": [_field(member) for member in schema.members.every],
        "support": support(schema),
        "rules": [] if declared is None else _rules(declared),
        "examples": [] if declared is None else [example_info(declared, example) for example in declared.examples],
        "bad_examples": [] if declared is None else [_bad_example(declared, bad) for bad in declared.bad_examples],
    }


def _field(member: Member) -> FieldInfo:
    info = member.describe()
    return info if member.default is None else {**info, "default": member.default}


def _rules(operator: Operator[Any]) -> list[RuleInfo]:
    """Returns the rules of an operator; for a conditional rule, the rules that it contains."""
    order = [member.name for member in operator.members.every]
    return [
        {
            "code": part.code.value,
            "members": [name for name in order if name in rule.reads],
            "text": part.text,
            "basis": basis.value,
        }
        for rule in operator.rules
        for part, basis in rule.parts()
    ]


def _bad_example(operator: Operator[Any], bad: BadExample) -> BadExampleInfo:
    return {
        "name": bad.name,
        "feature_level": str(bad.level),
        "operator": {"type": PREFIX + operator.name, "desc": dict(bad.desc)},
        "code": bad.code.value,
        "pointer": bad.pointer,
    }


def operator_schema(name: str) -> dict[str, Any]:
    """Returns the schema of an operator type as JSON, with its rules, and the basis of each row and rule.

    Raises:
        KeyError: there is no such type.
    """
    found, declared = operator_document(name), OPERATORS.get(name)
    bases = {
        (row.level.short, frozenset(names)): row.basis
        for names, group in _groups(schema_of(name).support)
        for row in group
    }
    rows = [
        {**row, "basis": bases[row["from"], frozenset(*row.get("when", {}).values())].value} for row in found["support"]
    ]
    return {**found, "support": rows, "rules": [] if declared is None else _rules(declared)}


def whole_schema() -> dict[str, Any]:
    """Returns the feature levels, enums, structs and operators. The contents must not be modified."""
    return {
        "prefix": PREFIX,
        "feature_levels": [level.short for level in FeatureLevel],
        **document("types"),
        "operators": {name: operator_schema(name) for name in CATALOG},
    }


def levels() -> list[LevelInfo]:
    """Returns all feature levels, lowest first."""
    return [
        {
            "name": str(level),
            "value": level.value,
            "introduces": [PREFIX + kind.name for kind in CATALOG.values() if kind.introduced is level],
        }
        for level in FeatureLevel
    ]


def support(schema: OperatorSchema) -> list[RowInfo]:
    """Returns the support rows, highest level first; if they depend on an attribute, once per set of its values."""
    rows: list[RowInfo] = []
    attribute = schema.support.attribute
    for names, group in _groups(schema.support):
        rows += _rows(group, None if attribute is None else {attribute: names})
    return rows


def _groups(support: Support) -> Iterator[tuple[list[str], SupportRows]]:
    """Yields the groups of rows, each with the names of the attribute's values that they apply to."""
    for among, group in support.groups:
        yield [value.name for value in sorted(among) if isinstance(value, IntEnum)], group


def _rows(rows: SupportRows, when: dict[str, list[str]] | None) -> list[RowInfo]:
    return [
        {
            "feature_level": str(row.level),
            "when": when,
            "basis": row.basis.value,
            "tensors": {
                name: {**_limits(limits), "page": None if limits.page is None else _limits(limits.page)}
                for name, limits in row.tensors.items()
            },
        }
        for row in rows
    ]


def _limits(limits: TensorSupport) -> PageLimitsInfo:
    return {
        "data_types": [data_type.name for data_type in limits.data_types],
        "ranks": list(range(limits.ranks[0], limits.ranks[1] + 1)),
    }


def _payloads(desc: Any, data: Any) -> Any:
    """Returns the tensor of a request, or the list of tensors of an array member."""
    return [{"data": each} for each in data] if isinstance(desc, list) else {"data": data}


def example_info(operator: Operator[Any], example: Example) -> ExampleInfo:
    """Returns an example as the parts of an execute request, with the outputs."""
    return {
        "name": example.name,
        "feature_level": str(example.level),
        "operator": {"type": PREFIX + operator.name, "desc": dict(example.desc)},
        "inputs": {name: _payloads(example.desc[name], data) for name, data in example.inputs.items()},
        "outputs": dict(example.outputs),
        "source": example.source,
    }
