"""The OpenAPI document of the data routes, whose bodies no model reads: schemas and examples from the declarations."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from opwire.describe import example_info
from opwire.errors import PROBLEMS, ProblemCode
from opwire.fields import Member
from opwire.level import FeatureLevel
from opwire.operator import Code, Operator
from opwire.operators import OPERATORS
from opwire.schema import CATALOG, PREFIX
from opwire.tensor import MAX_RANK, DataType
from opwire.wire import BINARY, HEAD_LENGTH, JSON, LOWEST_PRIORITY

from ..kernels.executable import EXECUTABLE

Schema = dict[str, Any]

_PROBLEM_JSON = "application/problem+json"
_UINT: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


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


def _names(prefix: str, names: list[str], values: list[int], description: str) -> Schema:
    """An enum of directml.h, given by short name, full name or value."""
    return {"enum": [*names, *(prefix + name for name in names), *values], "description": description}


_TENSOR_DESC = object_schema(
    ["DataType", "Sizes"],
    {
        "DataType": _names("DML_TENSOR_DATA_TYPE_", [t.name for t in DataType], [t.code for t in DataType], ""),
        "Sizes": {"type": "array", "items": {**_UINT, "minimum": 1}, "minItems": 1, "maxItems": MAX_RANK},
        "Strides": {"type": ["array", "null"], "items": _UINT, "description": "in elements; null is packed row-major"},
        "DimensionCount": _UINT,
        "TotalTensorSizeInBytes": {"type": "integer", "minimum": 0},
        "Flags": {"description": "NONE or OWNED_BY_DML, as a name, a list of names, or a number"},
        "GuaranteedBaseOffsetAlignment": _UINT,
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


def _member_schema(member: Member) -> Schema:
    schema = member.json_schema()
    return {"anyOf": [schema, {"type": "null"}]} if member.nullable else schema


def _operator_schema(operator: Operator[Any]) -> Schema:
    members = operator.members
    required = [member.name for member in members.every if member.required]
    desc = object_schema(required, {member.name: _member_schema(member) for member in members.every})
    names = [operator.name, PREFIX + operator.name, CATALOG[operator.name].value]
    return object_schema(["type", "desc"], {"type": {"enum": names}, "desc": desc}, operator.summary)


_INPUT_TENSOR = {
    "description": "the tensor's whole buffer as base64, its elements as numbers, or a piece of the tail",
    "oneOf": [
        {"type": "string", "format": "byte"},
        object_schema(["data"], {"data": {"type": ["array", "string"], "items": {}}}),
        object_schema(["binary_data_size"], {"binary_data_size": {"type": "integer", "minimum": 0}}),
    ],
}

_LEVELS = [spelling for level in FeatureLevel for spelling in (str(level), level.short, level.value)]

_EXECUTE_REQUEST = object_schema(
    ["operator", "inputs"],
    {
        "feature_level": {"enum": _LEVELS, "description": "checked against exactly this one; by default the highest"},
        "operator": ref("Operator"),
        "inputs": {"type": "object", "additionalProperties": ref("InputTensor")},
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
        "priority": {"type": "integer", "minimum": 0, "maximum": LOWEST_PRIORITY, "description": "0 is most urgent"},
        "device": {"type": "string", "description": "auto, or a device of the server"},
        "output_format": {"enum": ["base64", "numbers"]},
    },
)
_VALIDATE_REQUEST = object_schema(["operator"], {"feature_level": {"enum": _LEVELS}, "operator": ref("Operator")})
_OUTPUT_TENSOR = {
    "type": "object",
    "required": ["desc"],
    "properties": {
        "desc": {"type": "object"},
        "data": {"description": "base64 of the buffer, or nested numbers"},
        "binary_data_size": {"type": "integer", "minimum": 0},
    },
}
_EXECUTE_ANSWER = {
    "type": "object",
    "required": ["outputs", "feature_level", "device", "timing", "request_id"],
    "properties": {
        "outputs": {"type": "object", "additionalProperties": ref("OutputTensor")},
        "feature_level": {"enum": [str(level) for level in FeatureLevel]},
        "device": {"type": "string"},
        "timing": {
            "type": "object",
            "description": "microseconds by stage: receive, parse, check, decode, queue, run, encode, total",
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
        "request_id": {"type": "string"},
    },
}
_VIOLATION = {
    "type": "object",
    "required": ["code", "pointer", "message", "allowed", "available_from"],
    "properties": {
        "code": {"enum": [code.value for code in Code]},
        "pointer": {"type": "string", "format": "json-pointer", "description": "into the request"},
        "message": {"type": "string", "description": "what was given and what is allowed"},
        "allowed": {"type": ["array", "null"]},
        "available_from": {"enum": [*(str(level) for level in FeatureLevel), None]},
    },
}
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457; further members depend on the code",
    "required": ["type", "title", "status", "detail", "code", "request_id", "error"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"enum": [code.value for code in ProblemCode]},
        "request_id": {"type": "string"},
        "error": {"type": "string", "description": "title and detail"},
        "violations": {"type": "array", "items": ref("Violation")},
    },
}

SCHEMAS: dict[str, Schema] = {
    "BufferTensorDesc": _TENSOR_DESC,
    "TensorDesc": {"anyOf": [ref("BufferTensorDesc"), _NESTED_TENSOR_DESC]},
    **{name: _operator_schema(operator) for name, operator in OPERATORS.items()},
    "Operator": {"anyOf": [ref(name) for name in OPERATORS]},
    "InputTensor": _INPUT_TENSOR,
    "OutputTensor": _OUTPUT_TENSOR,
    "ExecuteRequest": _EXECUTE_REQUEST,
    "ExecuteAnswer": _EXECUTE_ANSWER,
    "BatchRequest": object_schema(["requests"], {"requests": {"type": "array", "items": ref("ExecuteRequest")}}),
    "BatchAnswer": {
        "type": "object",
        "required": ["results", "request_id"],
        "properties": {
            "results": {"type": "array", "items": {"anyOf": [ref("ExecuteAnswer"), ref("Problem")]}},
            "request_id": {"type": "string"},
        },
    },
    "ValidateRequest": _VALIDATE_REQUEST,
    "ValidateAnswer": {
        "type": "object",
        "required": ["valid", "violations", "minimum_feature_level", "outputs"],
        "properties": {
            "valid": {"type": "boolean"},
            "violations": {"type": "array", "items": ref("Violation")},
            "minimum_feature_level": {"enum": [*(str(level) for level in FeatureLevel), None]},
            "outputs": {"type": "object", "additionalProperties": {"type": "object"}},
        },
    },
    "Violation": _VIOLATION,
    "Problem": _PROBLEM,
}


def problem(status: int, media: str = _PROBLEM_JSON) -> Schema:
    """The response of a status that is an error."""
    titles = sorted({row.title for row in PROBLEMS.values() if row.status == status})
    return {"description": "; ".join(titles), "content": {media: {"schema": ref("Problem")}}}


ERRORS: dict[int | str, dict[str, Any]] = {status: problem(status) for status in (401, 405, 500)}
"""The errors that any route may answer with."""

DATA_STATUSES = sorted({row.status for row in PROBLEMS.values()} - {404})
_DATA_ERRORS = {status: problem(status) for status in DATA_STATUSES}


LENGTH: Schema = {
    "name": HEAD_LENGTH,
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "the bytes of JSON in front of the raw tensors, where there are any",
}
"""The parameter of a route whose bodies may have a tail."""


def _data_route(summary: str, request: str, answer: str, examples: Mapping[str, Any], *, tail: bool = True) -> Schema:
    """The operation of a data route, whose body no model reads."""
    bodies: Schema = {JSON: {"schema": ref(request), "examples": dict(examples)}}
    answers: Schema = {JSON: {"schema": ref(answer)}}
    if tail:
        bodies[BINARY] = answers[BINARY] = {"schema": {"type": "string", "format": "binary"}}
    responses = {200: {"description": "The answer", "content": answers}, **_DATA_ERRORS}
    return {
        "summary": summary,
        "operationId": request.removesuffix("Request").lower(),
        "tags": ["operators"],
        "parameters": [LENGTH] if tail else [],
        "requestBody": {"required": True, "content": bodies},
        "responses": {str(status): response for status, response in responses.items()},
    }


def _examples() -> dict[str, Any]:
    examples = {}
    for operator in EXECUTABLE.values():
        for example in operator.examples:
            info = example_info(operator, example)
            value = {
                "feature_level": info["feature_level"],
                "operator": info["operator"],
                "inputs": info["inputs"],
                "output_format": "numbers",
            }
            summary = f"{operator.name}: {example.name.replace('_', ' ')}"
            examples[f"{operator.name}-{example.name}"] = {"summary": summary, "value": value}
    return examples


_EXAMPLES = _examples()
_FIRST = next(iter(_EXAMPLES.values()))["value"]

DATA_PATHS = {
    "/v1/execute": _data_route("Run one operator", "ExecuteRequest", "ExecuteAnswer", _EXAMPLES),
    "/v1/batch": _data_route(
        "Run several operators, each with its own outcome",
        "BatchRequest",
        "BatchAnswer",
        {"two": {"summary": "two operators", "value": {"requests": [_FIRST, _FIRST]}}},
    ),
    "/v1/validate": _data_route(
        "Check a desc against a feature level",
        "ValidateRequest",
        "ValidateAnswer",
        {
            name: {
                "summary": example["summary"],
                "value": {key: example["value"][key] for key in ("feature_level", "operator")},
            }
            for name, example in _EXAMPLES.items()
        },
        tail=False,
    ),
}
OPERATOR: dict[str, Any] = {"responses": {404: problem(404)}}
READY: dict[str, Any] = {"responses": {503: problem(503)}}
METRICS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Prometheus' text format, or OpenMetrics where it is asked for",
            "content": {
                media: {"schema": {"type": "string"}} for media in ("text/plain", "application/openmetrics-text")
            },
        }
    }
}


OPEN = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"})
"""The paths of health, which are open to everyone."""

_KEY = "apiKey"
_API_KEY = {"type": "http", "scheme": "bearer", "description": "An API key, where the server asks for one"}


def document(app: FastAPI, paths: Mapping[str, Schema], schemas: Mapping[str, Schema]) -> Schema:
    """The OpenAPI document of an app, with the data routes and their schemas, and with other paths and theirs."""
    schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    for path in schema["paths"].values():
        for route in path.values():
            route["responses"].pop("422", None)  # fastapi's own, for parameters that it cannot read
    schema["paths"] = {path: {"post": operation} for path, operation in DATA_PATHS.items()} | schema["paths"]
    schema["paths"].update(deepcopy(dict(paths)))
    schema.setdefault("components", {}).setdefault("schemas", {}).update({**SCHEMAS, **schemas})
    schema["components"]["securitySchemes"] = {_KEY: _API_KEY}
    schema["security"] = [{}, {_KEY: []}]
    for path in OPEN.intersection(schema["paths"]):
        for operation in schema["paths"][path].values():
            operation["security"] = []
            operation["responses"].pop("401", None)
    return schema
