"""The JSON Schema of the schema of DirectML that ``whole_schema`` returns."""

from __future__ import annotations

from ..fields import NUMBERS, STRUCTS, Role, Schema
from ..schema import Departure, Ground, Promise
from ..tensor import MAX_RANK, DataType
from ..violation import Basis, Code

_LEVEL: Schema = {"type": "string", "pattern": "^[1-9]_[0-9]$", "description": "a feature level"}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_]+$"}
_NAMES: Schema = {"type": "array", "items": _NAME}
_NUMBER: Schema = {"enum": list(NUMBERS)}
_FUSABLE: Schema = {
    "type": "object",
    "description": "the operator types that each feature level adds",
    "propertyNames": _LEVEL,
    "additionalProperties": _NAMES,
}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    properties = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def _member(kind: str, required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    every = {"name": _NAME, "kind": {"const": kind}, **required}
    return _object(every, {"aliases": _NAMES, "default": {}, **(optional or {})})


_ROLE: Schema = {"enum": [role.value for role in Role]}
_LEAST: Schema = {"type": "integer"}
_OPTIONAL: Schema = {"type": "boolean"}

_DIFFERING: dict[str, Schema] = {
    "undocumented": {**_NAMES, "description": "those that DirectML fuses and the documentation does not list"},
    "refused": {**_NAMES, "description": "operator types that the documentation lists and DirectML does not fuse"},
}

_MEMBERS: tuple[Schema, ...] = (
    _member("tensor", {"role": _ROLE}),
    _member("tensors", {"role": _ROLE}, {"count": _NAME}),
    _member("count", {"counts": _NAMES}),
    _member("scalar", {"number": _NUMBER}, {"least": _LEAST}),
    _member("array", {"number": _NUMBER}, {"least": _LEAST, "count": _NAME}),
    _member("enum", {"enum": _NAME}),
    _member("struct", {"struct": {"enum": list(STRUCTS)}}, {"optional": _OPTIONAL}),
    _member("union", {"data_type": _NAME}),
    _member("operator", {"activations": _FUSABLE}, {"optional": _OPTIONAL, **_DIFFERING}),
    _member("operators", {"activations": _FUSABLE}, {"optional": _OPTIONAL, "count": _NAME, **_DIFFERING}),
)

_RANK: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_RANK}
_LIMITED: dict[str, Schema] = {
    "ranks": {"type": "array", "prefixItems": [_RANK, _RANK], "items": False, "minItems": 2},
    "data_types": {"type": "array", "items": {"enum": [row.name for row in DataType]}},
}
_PAGE: Schema = {
    **_object({}, _LIMITED),
    "description": "what the documentation says instead, where DirectML differs",
    "minProperties": 1,
}
_LIMITS = _object(
    _LIMITED, {"dimensions": {"type": "array", "items": {"type": "string"}}, "optional": _OPTIONAL, "page": _PAGE}
)
_BASIS: Schema = {
    "enum": [basis.value for basis in Basis],
    "description": "what DirectML's documentation says (page), what DirectML does (observed), both, or opwire's own",
}
_ROW = _object(
    {
        "from": _LEVEL,
        "tensors": {"type": "object", "propertyNames": _NAME, "additionalProperties": _LIMITS},
        "basis": _BASIS,
    },
    {"when": {"type": "object", "propertyNames": _NAME, "additionalProperties": _NAMES}, "origin": {"type": "string"}},
)
_RULE = _object(
    {"code": {"enum": [code.value for code in Code]}, "members": _NAMES, "text": {"type": "string"}, "basis": _BASIS}
)
_ACCURACY = _object({"promise": {"enum": [promise.value for promise in Promise]}}, {"where": {"type": "string"}})
_TEXT: Schema = {"type": "string", "minLength": 1}
_DECISION: Schema = {
    **_object(
        {"what": _TEXT, "ground": {"enum": [ground.value for ground in Ground]}},
        {"page": _TEXT, "directml": _TEXT, "class": {"enum": [departure.value for departure in Departure]}},
    ),
    "dependentRequired": {"directml": ["class"], "class": ["directml"]},
}
_OPERATOR = _object(
    {
        "value": {"type": "integer", "minimum": 1},
        "introduced": _LEVEL,
        "family": _NAME,
        "struct": _NAME,
        "summary": {"type": "string"},
        "source": {"type": "string", "format": "uri"},
        "accuracy": {"type": "array", "items": _ACCURACY, "minItems": 1},
        "members": {"type": "array", "items": {"$ref": "#/$defs/Member"}},
        "support": {"type": "array", "items": _ROW},
        "rules": {"type": "array", "items": _RULE},
    },
    {
        "aliases": _NAMES,
        "in_place": {"type": "array", "items": _NAMES},
        "decisions": {"type": "array", "items": _DECISION, "minItems": 1},
    },
)
_ENUM = _object(
    {
        "prefix": _NAME,
        "from": _LEVEL,
        "members": {
            "type": "object",
            "propertyNames": _NAME,
            "additionalProperties": _object({"value": {"type": "integer"}, "from": _LEVEL}),
        },
    }
)

META: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:opwire:json-schema:schema",
    "title": "The schema of DirectML",
    **_object(
        {
            "prefix": {"const": "DML_OPERATOR_"},
            "feature_levels": {"type": "array", "items": _LEVEL},
            "enums": {"type": "object", "propertyNames": _NAME, "additionalProperties": _ENUM},
            "flags": {"type": "object", "propertyNames": _NAME, "additionalProperties": _ENUM},
            "structs": {"type": "object", "additionalProperties": _object({"number": _NUMBER, "members": _NAMES})},
            "operators": {"type": "object", "propertyNames": _NAME, "additionalProperties": _OPERATOR},
        }
    ),
    "$defs": {"Member": {"oneOf": list(_MEMBERS)}},
}
"""The schema of the schema."""
