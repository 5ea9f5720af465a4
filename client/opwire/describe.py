"""The contract as JSON: operators with their fields, support rows and examples, and the feature levels.

What the service's ``GET`` routes answer, the command line prints and the documents show; the client returns it as is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from .level import FeatureLevel, Rows
from .operator import ArrayField, CountField, EnumField, Example, Field, Operator, TensorField
from .operators import CATALOG, OPERATORS, OperatorType
from .operators.catalog import PREFIX


class OperatorSummary(TypedDict):
    """One operator type of DirectML, in a listing."""

    type: str
    value: int
    introduced: str
    executable: bool
    summary: str | None


class FieldInfo(TypedDict, total=False):
    """A member of a desc struct. ``kind`` is tensor, count, array or enum and decides what else is there."""

    name: str
    kind: str
    role: str
    counts: list[str]
    least: int
    values: dict[str, int]


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


class OperatorInfo(OperatorSummary):
    """One operator type of DirectML with all that the contract says of it; the lists are empty if it cannot be run."""

    fields: list[FieldInfo]
    support: list[RowInfo]
    examples: list[ExampleInfo]


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


class ServerInfo(TypedDict):
    """What a server is. ``limits`` are bounds by name; ``default_device`` runs the requests that name none, which
    ``auto`` means is decided for each."""

    name: str
    version: str
    ready: bool
    feature_levels: list[str]
    default_feature_level: str
    devices: list[DeviceInfo]
    default_device: str
    limits: dict[str, int]
    encodings: list[str]


def summarise(kind: OperatorType) -> OperatorSummary:
    """The listing's line of an operator type."""
    declared = OPERATORS.get(kind.name)
    return {
        "type": PREFIX + kind.name,
        "value": kind.value,
        "introduced": str(kind.introduced),
        "executable": declared is not None,
        "summary": None if declared is None else declared.summary,
    }


def describe(kind: OperatorType) -> OperatorInfo:
    """All that the contract says of an operator type."""
    declared = OPERATORS.get(kind.name)
    return {
        **summarise(kind),
        "fields": [] if declared is None else [_field(member) for member in declared.fields],
        "support": [] if declared is None else support(declared),
        "examples": [] if declared is None else [example_info(declared, example) for example in declared.examples],
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


def _field(member: Field) -> FieldInfo:
    if isinstance(member, TensorField):
        return {"name": member.name, "kind": "tensor", "role": member.role.value}
    if isinstance(member, CountField):
        return {"name": member.name, "kind": "count", "counts": list(member.counts)}
    if isinstance(member, ArrayField):
        return {"name": member.name, "kind": "array", "least": member.least}
    return {"name": member.name, "kind": "enum", "values": {row.name: row.value for row in member.type}}


def support(operator: Operator[Any]) -> list[RowInfo]:
    """The support rows, highest level first; where they depend on an enum field, once for each set of its values."""
    chosen = next((member for member in operator.fields if isinstance(member, EnumField)), None)
    if chosen is None:
        return _rows(operator.support(_sample(operator, {})), None)
    groups: list[tuple[Rows, list[str]]] = []
    for value in chosen.type:
        rows = operator.support(_sample(operator, {chosen.name: value}))
        names = next((names for known, names in groups if known == rows), None)
        if names is None:
            groups.append((rows, [value.name]))
        else:
            names.append(value.name)
    if len(groups) == 1:
        return _rows(groups[0][0], None)
    return [row for rows, names in groups for row in _rows(rows, {chosen.name: names})]


def _sample(operator: Operator[Any], chosen: Mapping[str, object]) -> Any:
    """Attributes with the chosen values; the others do not matter to the support rows."""
    others: dict[str, object] = {
        member.name: () if isinstance(member, ArrayField) else next(iter(member.type))
        for member in operator.fields
        if isinstance(member, ArrayField | EnumField)
    }
    return operator.attributes(**{**others, **chosen})


def _rows(rows: Rows, when: dict[str, list[str]] | None) -> list[RowInfo]:
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


def example_info(operator: Operator[Any], example: Example) -> ExampleInfo:
    """An example as the parts of an execute request, with its answer."""
    return {
        "name": example.name,
        "feature_level": str(example.level),
        "operator": {"type": PREFIX + operator.name, "desc": dict(example.desc)},
        "inputs": {name: {"data": data} for name, data in example.inputs.items()},
        "outputs": dict(example.outputs),
        "source": example.source,
    }
