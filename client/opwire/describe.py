"""The contract as JSON: operators with their fields, support rows and examples, and the feature levels.

What the service's ``GET`` routes answer, the command line prints and the documents show; the client returns it as is.
"""

from __future__ import annotations

from collections.abc import Container
from enum import IntEnum
from typing import Any, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from .fields import FieldInfo
from .level import FeatureLevel
from .operator import BadExample, Example, Operator
from .operators import OPERATORS
from .schema import CATALOG, PREFIX, OperatorSchema, OperatorType, schema_of
from .support import SupportRows


class OperatorSummary(TypedDict):
    """One operator type of DirectML, in a listing.

    All are known: their members and support rows are there. Descs of those that are ``declared`` are checked, those
    that are ``executable`` run on one of the server's devices.
    """

    type: str
    value: int
    introduced: str
    family: str
    declared: bool
    executable: bool
    summary: str


class LimitsInfo(TypedDict):
    """What one tensor may be."""

    data_types: list[str]
    ranks: list[int]


class RowInfo(TypedDict):
    """A support row; ``when`` names the attribute values that it is for, where the rows depend on one."""

    feature_level: str
    when: dict[str, list[str]] | None
    tensors: dict[str, LimitsInfo]


class ExampleInfo(TypedDict):
    """A worked example: an execute request's operator and inputs as numbers, and the outputs."""

    name: str
    feature_level: str
    operator: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    source: str


class RuleInfo(TypedDict):
    """A rule: the code of its violations, the members that it looks at, and what it says."""

    code: str
    members: list[str]
    text: str


class BadExampleInfo(TypedDict):
    """An operator that is refused at a level, with the code of the violation and its place below ``desc``."""

    name: str
    feature_level: str
    operator: dict[str, Any]
    code: str
    pointer: str


class AccuracyInfo(TypedDict):
    """How near outputs are to the exact results: ``promise`` is a ``Promise``; ``where`` says for which descs, null for
    all that nothing else is said of."""

    promise: str
    where: str | None


class OperatorInfo(OperatorSummary):
    """One operator type of DirectML with all that the contract says of it.

    ``rules``, ``examples`` and ``bad_examples`` are empty while it is not declared. ``source`` is the page that it is
    documented on.
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
    """A feature level and the operator types that it brought."""

    name: str
    value: int
    introduces: list[str]


class DeviceMemory(TypedDict):
    """Bytes of a device's own memory that accepted operators hold, and may hold."""

    used: int
    limit: int


@with_config(ConfigDict(extra="allow"))
class DeviceInfo(TypedDict):
    """What a device is and has to do; there is more, which depends on its ``kind``.

    ``places`` is how many operators run on it at a time, ``kernels`` how many are compiled. ``memory`` is null where
    a device has none of its own. ``broken`` says why it failed, if it did.
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
    """How a server stands with its Ray cluster.

    ``state`` is ``joining``, ``joined``, or ``refused`` where versions do not fit; ``reason`` says why it is not
    joined. ``nodes`` are those with devices; ``refused`` has the reason for each device that cannot be used.
    """

    address: str
    state: str
    reason: str | None
    nodes: list[str]
    refused: dict[str, str]


class ServerInfo(TypedDict):
    """What a server is. ``limits`` are bounds by name; ``default_device`` runs the requests that name none, which
    ``auto`` means is decided for each. ``cluster`` is null where the server has none."""

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
    """What is known of a registered graph: its inputs and outputs as tensor descs by name, its constants apart, and the
    bytes that the server keeps of it. ``graph``, where one graph is asked for, has no tensors of constants."""

    name: str
    feature_level: str
    nodes: int
    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]
    byte_size: int
    graph: NotRequired[dict[str, Any]]


def summarise(kind: OperatorType, executable: Container[str] = ()) -> OperatorSummary:
    """The listing's line of an operator type.

    Args:
        kind: the type.
        executable: the names of those that a device runs.
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
    """All that the contract says of an operator type; the arguments are those of ``summarise``."""
    schema, declared = schema_of(kind.name), OPERATORS.get(kind.name)
    return {
        **summarise(kind, executable),
        "struct": schema.struct,
        "source": schema.source,
        "accuracy": [{"promise": each.promise.value, "where": each.where or None} for each in schema.accuracy],
        "fields": [member.describe() for member in schema.members.every],
        "support": support(schema),
        "rules": [] if declared is None else _rules(declared),
        "examples": [] if declared is None else [example_info(declared, example) for example in declared.examples],
        "bad_examples": [] if declared is None else [_bad_example(declared, bad) for bad in declared.bad_examples],
    }


def _rules(operator: Operator[Any]) -> list[RuleInfo]:
    """The rules of an operator; of one with a condition that what it is about."""
    order = [member.name for member in operator.members.every]
    return [
        {
            "code": part.code.value,
            "members": [name for name in order if name in rule.reads],
            "text": (type(part).__doc__ or "").partition("\n")[0].replace("``", ""),
        }
        for rule in operator.rules
        for part in rule.parts()
    ]


def _bad_example(operator: Operator[Any], bad: BadExample) -> BadExampleInfo:
    return {
        "name": bad.name,
        "feature_level": str(bad.level),
        "operator": {"type": PREFIX + operator.name, "desc": dict(bad.desc)},
        "code": bad.code.value,
        "pointer": bad.pointer,
    }


def levels() -> list[LevelInfo]:
    """All feature levels, lowest first."""
    return [
        {
            "name": str(level),
            "value": level.value,
            "introduces": [PREFIX + kind.name for kind in CATALOG.values() if kind.introduced is level],
        }
        for level in FeatureLevel
    ]


def support(schema: OperatorSchema) -> list[RowInfo]:
    """The support rows, highest level first; where they depend on an attribute, once for each set of its values."""
    rows: list[RowInfo] = []
    for among, group in schema.support.groups:
        attribute = schema.support.attribute
        names = [value.name for value in sorted(among) if isinstance(value, IntEnum)]
        rows += _rows(group, None if attribute is None else {attribute: names})
    return rows


def _rows(rows: SupportRows, when: dict[str, list[str]] | None) -> list[RowInfo]:
    return [
        {
            "feature_level": str(row.level),
            "when": when,
            "tensors": {
                name: {
                    "data_types": [data_type.name for data_type in limits.data_types],
                    "ranks": list(range(limits.ranks[0], limits.ranks[1] + 1)),
                }
                for name, limits in row.tensors.items()
            },
        }
        for row in rows
    ]


def _payloads(desc: Any, data: Any) -> Any:
    """A tensor of a request, or the list of those of an array."""
    return [{"data": each} for each in data] if isinstance(desc, list) else {"data": data}


def example_info(operator: Operator[Any], example: Example) -> ExampleInfo:
    """An example as the parts of an execute request, with its answer."""
    return {
        "name": example.name,
        "feature_level": str(example.level),
        "operator": {"type": PREFIX + operator.name, "desc": dict(example.desc)},
        "inputs": {name: _payloads(example.desc[name], data) for name, data in example.inputs.items()},
        "outputs": dict(example.outputs),
        "source": example.source,
    }
