"""The JSON Schemas of tensor descs and operator descs, with the references of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..fields import Member, Schema
from ..schema import CATALOG, PREFIX, OperatorSchema, schema_of
from ..tensor import MAX_RANK, DataType

UINT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


def ref(name: str) -> Schema:
    """Returns a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_schema(required: list[str], properties: Mapping[str, Schema], description: str = "") -> Schema:
    """Returns the schema of an object that allows no other members."""
    return {
        "type": "object",
        "description": description,
        "required": required,
        "properties": dict(properties),
        "additionalProperties": False,
    }


def names_schema(prefix: str, names: list[str], values: list[int], description: str) -> Schema:
    """Returns the schema of an enum of directml.h, given by short name, full name or value."""
    return {"enum": [*names, *(prefix + name for name in names), *values], "description": description}


TENSOR_DESC = object_schema(
    ["DataType", "Sizes"],
    {
        "DataType": names_schema("DML_TENSOR_DATA_TYPE_", [t.name for t in DataType], [t.code for t in DataType], ""),
        "Sizes": {"type": "array", "items": {**UINT, "minimum": 1}, "minItems": 1, "maxItems": MAX_RANK},
        "Strides": {
            "type": ["array", "null"],
            "items": UINT,
            "description": "in elements; null is contiguous row-major",
        },
        "DimensionCount": UINT,
        "TotalTensorSizeInBytes": {"type": "integer", "minimum": 0},
        "Flags": {"description": "NONE or OWNED_BY_DML, as a name, a list of names, or a number"},
        "GuaranteedBaseOffsetAlignment": UINT,
        "Type": {"description": "BUFFER"},
        "Desc": {"description": "the members may be nested here"},
    },
    "DML_BUFFER_TENSOR_DESC, with its members inline",
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
    """Returns the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def member_schema(member: Member) -> Schema:
    """Returns the schema of a member of a desc struct."""
    schema = _with_default(member)
    return nullable(schema) if member.nullable else schema


def _in_desc(member: Member) -> Schema:
    info = member.describe()
    # In C, an empty array may be a null pointer.
    return nullable(_with_default(member)) if info.get("kind") == "array" and "count" in info else member_schema(member)


def _with_default(member: Member) -> Schema:
    schema = member.json_schema()
    if member.default is None:
        return schema
    each = " for each dimension" if schema.get("type") == "array" else ""
    # Generators of clients take members with the keyword "default" as always there.
    return {**schema, "description": f"{member.default}{each} if left out"}


def desc_schema(schema: OperatorSchema) -> Schema:
    """Returns the schema of a desc struct. It allows other members, so that they can be added next to it."""
    members = {member.name: member for member in schema.members.every}
    properties = {name: _in_desc(member) for name, member in members.items()}
    found: Schema = {"type": "object", "description": schema.summary, "properties": properties}
    found["required"] = [name for name, member in members.items() if member.required]
    for alias, name in schema.aliases.items():
        properties[alias] = properties[name]
    return found


def desc_name(name: str) -> str:
    """Returns the name of the schema of an operator's desc."""
    return schema_of(name).struct


def spellings(name: str) -> list[str | int]:
    """Returns the spellings of an operator type."""
    return [name, PREFIX + name, CATALOG[name].value]


def definitions(names: Iterable[str]) -> dict[str, Schema]:
    """Returns the schemas of tensor descs and of the descs of operator types."""
    return {**TENSORS, **{desc_name(name): desc_schema(schema_of(name)) for name in names}}
