"""The JSON Schemas of tensor descs and of the descs of operators. References are those of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..fields import Member, Schema
from ..schema import CATALOG, PREFIX, OperatorSchema, schema_of
from ..tensor import MAX_RANK, DataType

UINT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


def ref(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_schema(required: list[str], properties: Mapping[str, Schema], description: str = "") -> Schema:
    """An object without other members."""
    return {
        "type": "object",
        "description": description,
        "required": required,
        "properties": dict(properties),
        "additionalProperties": False,
    }


def names_schema(prefix: str, names: list[str], values: list[int], description: str) -> Schema:
    """An enum of directml.h, given by short name, full name or value."""
    return {"enum": [*names, *(prefix + name for name in names), *values], "description": description}


TENSOR_DESC = object_schema(
    ["DataType", "Sizes"],
    {
        "DataType": names_schema("DML_TENSOR_DATA_TYPE_", [t.name for t in DataType], [t.code for t in DataType], ""),
        "Sizes": {"type": "array", "items": {**UINT, "minimum": 1}, "minItems": 1, "maxItems": MAX_RANK},
        "Strides": {"type": ["array", "null"], "items": UINT, "description": "in elements; null is packed row-major"},
        "DimensionCount": UINT,
        "TotalTensorSizeInBytes": {"type": "integer", "minimum": 0},
        "Flags": {"description": "NONE or OWNED_BY_DML, as a name, a list of names, or a number"},
        "GuaranteedBaseOffsetAlignment": UINT,
        "Type": {"description": "BUFFER"},
        "Desc": {"description": "the members may be nested here"},
    },
    "DML_BUFFER_TENSOR_DESC, its members inline",
)
_NESTED_TENSOR_DESC = {
    "type": "object",
    "required": ["Desc"],
    "properties": {"Type": {}, "Desc": ref("BufferTensorDesc")},
    "additionalProperties": False,
    "description": "DML_TENSOR_DESC with a nested Desc",
}

TENSORS: Mapping[str, Schema] = {
    "BufferTensorDesc": TENSOR_DESC,
    "TensorDesc": {"anyOf": [ref("BufferTensorDesc"), _NESTED_TENSOR_DESC]},
}


def nullable(schema: Schema) -> Schema:
    """The schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def member_schema(member: Member) -> Schema:
    """The schema of a member of a desc struct."""
    schema = member.json_schema()
    return nullable(schema) if member.nullable else schema


def _in_desc(member: Member) -> Schema:
    info = member.describe()
    # A null array is how C writes an empty one.
    return nullable(member.json_schema()) if info.get("kind") == "array" and "count" in info else member_schema(member)


def desc_schema(schema: OperatorSchema) -> Schema:
    """The schema of a desc struct; other members are not refused, so that it can stand beside them."""
    members = {member.name: member for member in schema.members.every}
    properties = {name: _in_desc(member) for name, member in members.items()}
    found: Schema = {"type": "object", "description": schema.summary, "properties": properties}
    found["required"] = [name for name, member in members.items() if member.required]
    for alias, name in schema.aliases.items():
        properties[alias] = properties[name]
    return found


def desc_name(name: str) -> str:
    """What the schema of an operator's desc is called."""
    return schema_of(name).struct


def spellings(name: str) -> list[str | int]:
    """How an operator type is written."""
    return [name, PREFIX + name, CATALOG[name].value]


def definitions(names: Iterable[str]) -> dict[str, Schema]:
    """The schemas of tensor descs and of the descs of some operator types."""
    return {**TENSORS, **{desc_name(name): desc_schema(schema_of(name)) for name in names}}
