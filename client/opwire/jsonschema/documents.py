"""The JSON Schema of the documents that users write: DxDispatch models, requests and operators."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..fields import Schema
from ..fields.tensors import MOST_TENSORS
from ..schema import CATALOG, OperatorType
from ..tensor import DataType
from .descs import UINT, definitions, desc_name, names_schema, ref, spellings
from .requests import REQUESTS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FOREIGN = ("hlsl", "onnx", "dmlSerializedGraph")
_SIZE: Schema = {"type": "integer", "minimum": 0}

_BUFFER: Schema = {
    "type": "object",
    "description": "a buffer: its initial values and its size",
    "required": ["initialValues"],
    "properties": {
        "initialValuesDataType": names_schema(
            "DML_TENSOR_DATA_TYPE_",
            ["UNKNOWN", *(row.name for row in DataType if row.bits >= 8)],
            [],
            "the data type of the values",
        ),
        "initialValues": {
            "anyOf": [
                {"type": "array"},
                {"const": "deferred"},
                {"type": "object", "required": ["value", "valueCount"]},
                {"type": "object", "required": ["valueStart", "valueDelta", "valueCount"]},
                {"type": "object", "required": ["sourcePath"]},
            ]
        },
        "initialValuesOffsetInBytes": _SIZE,
        "sizeInBytes": _SIZE,
    },
}
_PIECE: Schema = {
    "anyOf": [
        {"type": "string", "description": "the name of a resource"},
        {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "elementOffset": _SIZE, "elementSizeInBytes": UINT},
        },
    ]
}
_BINDINGS: Schema = {
    "type": "object",
    "description": "by name of the tensor's field, a resource, or a list of resources for an array of tensors",
    "additionalProperties": {
        "anyOf": [ref("Piece"), {"type": "array", "minItems": 1, "maxItems": MOST_TENSORS, "items": ref("Piece")}]
    },
}
_COMMAND: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
    "anyOf": [
        {
            "required": ["dispatchable", "bindings"],
            "properties": {
                "type": {"pattern": "^[dD][iI][sS][pP][aA][tT][cC][hH]$"},
                "dispatchable": {"type": "string"},
                "bindings": ref("Bindings"),
            },
        },
        {
            "required": ["resource"],
            "properties": {
                "type": {"pattern": "^[pP][rR][iI][nN][tT]$"},
                "resource": {"type": "string"},
                "verbose": {"type": "boolean"},
            },
        },
        {
            "required": ["resource", "targetPath"],
            "properties": {
                "type": {"pattern": "^[wW][rR][iI][tT][eE][fF][iI][lL][eE]$"},
                "resource": {"type": "string"},
                "targetPath": {"type": "string"},
                "dimensions": {"type": "array", "items": {**UINT, "minimum": 1}},
            },
        },
    ],
}
_MODEL: Schema = {
    "type": "object",
    "description": "a DxDispatch model",
    "required": ["resources", "dispatchables", "commands"],
    "properties": {
        "resources": {"type": "object", "additionalProperties": ref("Buffer")},
        "dispatchables": {"type": "object", "additionalProperties": ref("Dispatchable")},
        "commands": {"type": "array", "items": ref("Command")},
    },
}


def _typed(kinds: list[OperatorType], others: tuple[str, ...]) -> Schema:
    names = {"enum": [*others, *(spelling for kind in kinds for spelling in spellings(kind.name))]}
    return {"properties": {"type": names, "Type": names}, "anyOf": [{"required": ["type"]}, {"required": ["Type"]}]}


def _dispatchable(kinds: list[OperatorType]) -> Schema:
    """Returns the schema of an operator of a model, with its members in ``desc``, in ``Desc``, or next to its type."""
    own: dict[str, Schema] = {
        "dmlCompileType": {"enum": ["DmlCompileOp", "DmlCompileGraph"]},
        "executionFlags": {},
        "bindings": ref("Bindings"),
    }
    rules = []
    for kind in kinds:
        names: Schema = {"enum": spellings(kind.name)}
        desc = ref(desc_name(kind.name))
        closed = {**desc, "unevaluatedProperties": False}
        placed = [{"required": [name], "properties": {name: closed}} for name in ("desc", "Desc")]
        given = {"anyOf": [{"required": [name], "properties": {name: names}} for name in ("type", "Type")]}
        rules.append({"if": given, "then": {"anyOf": [*placed, desc]}})
    return {"type": "object", **_merged(_typed(kinds, _FOREIGN), own), "allOf": rules}


def _merged(schema: Schema, properties: dict[str, Schema]) -> Schema:
    return {**schema, "properties": {**schema["properties"], **properties}}


def _operator(kinds: list[OperatorType]) -> Schema:
    """Returns the schema of an operator of a request."""
    rules = [
        {
            "if": {"required": ["type"], "properties": {"type": {"enum": spellings(kind.name)}}},
            "then": {"properties": {"desc": {**ref(desc_name(kind.name)), "unevaluatedProperties": False}}},
        }
        for kind in kinds
    ]
    return {
        "type": "object",
        "required": ["type", "desc"],
        "properties": {"type": {"enum": [name for kind in kinds for name in spellings(kind.name)]}, "desc": {}},
        "additionalProperties": False,
        "allOf": rules,
    }


_FORMS = (
    (("nodes", "Nodes"), "Graph"),
    (("dispatchables",), "Model"),
    (("model",), "ExecuteModelRequest"),
    (("requests",), "BatchRequest"),
    (("inputs",), "ExecuteRequest"),
    (("operator", "graph"), "ValidateRequest"),
)
"""Members that tell the kinds of documents apart, in this order; anything else is an operator."""


@cache
def documents() -> Schema:
    """Returns the schema of DxDispatch models, request bodies, and standalone operators and graphs."""
    kinds = list(CATALOG.values())
    rest = ref("Dispatchable")
    for members, name in reversed(_FORMS):
        rest = {"if": {"anyOf": [{"required": [member]} for member in members]}, "then": ref(name), "else": rest}
    found: Schema = {
        "$schema": _DIALECT,
        "$id": "urn:opwire:json-schema:documents",
        "title": "DxDispatch models and requests to opwire",
        **rest,
        "$defs": {
            "Model": _MODEL,
            "Buffer": _BUFFER,
            "Dispatchable": _dispatchable(kinds),
            "Command": _COMMAND,
            "Bindings": _BINDINGS,
            "Piece": _PIECE,
            "Operator": _operator(kinds),
            **REQUESTS,
            **definitions(CATALOG),
        },
    }
    made: Schema = _local(found)
    return made


def _local(value: Any) -> Any:
    """Returns a schema with its references changed to those of a standalone document."""
    if isinstance(value, dict):
        return {name: _local(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_local(item) for item in value]
    return value.replace("#/components/schemas/", "#/$defs/") if isinstance(value, str) else value
