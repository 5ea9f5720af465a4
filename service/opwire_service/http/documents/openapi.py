"""The OpenAPI document, with schemas and examples of the data routes generated from the operator declarations."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from opwire.describe import example_info
from opwire.errors import ProblemCode
from opwire.jsonschema import REQUESTS, definitions, member_schema, object_schema, ref
from opwire.level import FeatureLevel
from opwire.listing import one_of_each_family
from opwire.operator import Code, Operator
from opwire.operators import OPERATORS
from opwire.schema import CATALOG, PREFIX
from opwire.tensor import DataType
from opwire.violation import FEW_ALLOWED, MOST_ALLOWED, OBSERVED_SOURCE
from opwire.wire import BINARY, JSON

from ...kernels.executable import EXECUTABLE
from ...offline.onnx_models import MEDIA_TYPE
from .graph_openapi import GRAPH_PATHS, GRAPH_SCHEMAS
from .responses import (
    CONTRACT,
    DATA_STATUSES,
    DIMENSIONS,
    LENGTH,
    MODEL_LEVEL,
    ONE_OPERATOR,
    OPEN,
    Schema,
    answered,
    problem,
)


def _operator_schema(operator: Operator[Any]) -> Schema:
    members = operator.members
    required = [member.name for member in members.every if member.required]
    properties = {member.name: member_schema(member) for member in members.every}
    properties |= {alias: properties[name] for alias, name in operator.schema.aliases.items()}
    names = [operator.name, PREFIX + operator.name, CATALOG[operator.name].value]
    desc = object_schema(required, properties)
    return object_schema(["type", "desc"], {"type": {"enum": names}, "desc": desc}, operator.summary)


_LEVEL: Schema = {"enum": [str(level) for level in FeatureLevel]}
_LEVEL_OR_NONE: Schema = {"enum": [*_LEVEL["enum"], None]}
_DESCS: Schema = {"type": "object", "additionalProperties": ref("OutputDesc")}
_UINT: Schema = {"type": "integer", "minimum": 0}
_OUTPUT_DESC = {
    "type": "object",
    "description": "DML_BUFFER_TENSOR_DESC, without the members that have their default",
    "required": ["DataType", "Sizes", "TotalTensorSizeInBytes"],
    "properties": {
        "DataType": {"enum": [data_type.name for data_type in DataType]},
        "Sizes": {"type": "array", "items": _UINT},
        "Strides": {"type": "array", "items": _UINT, "description": "in elements; contiguous without"},
        "TotalTensorSizeInBytes": _UINT,
        "Flags": {"type": "string"},
        "GuaranteedBaseOffsetAlignment": _UINT,
    },
}
_OUTPUT_TENSOR = {
    "type": "object",
    "required": ["desc"],
    "properties": {
        "desc": ref("OutputDesc"),
        "data": {
            "type": ["string", "array"],
            "items": {},
            "description": "base64 of the whole buffer, or nested numbers",
        },
        "binary_data_size": {**_UINT, "description": "instead of data, its length in the binary tail"},
    },
}


def _outputs() -> Schema:
    """Returns the schema of outputs by name: those that are single tensors in each operator, and any others."""
    members = [member for operator in OPERATORS.values() for member in operator.members.outputs]
    lists = {member.name for member in members if member.is_array}
    return {
        "type": "object",
        "properties": {member.name: ref("OutputTensor") for member in members if member.name not in lists},
        "additionalProperties": {"anyOf": [ref("OutputTensor"), {"type": "array", "items": ref("OutputTensor")}]},
    }


_EXECUTE_ANSWER = {
    "type": "object",
    "required": ["outputs", "feature_level", "device", "timing", "request_id"],
    "properties": {
        "outputs": _outputs(),
        "feature_level": _LEVEL,
        "device": {"type": "string"},
        "timing": {
            "type": "object",
            "description": "microseconds per stage: receive, parse, check, decode, queue, run, encode, total",
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
        "request_id": {"type": "string"},
    },
}
_VIOLATION = {
    "type": "object",
    "required": ["code", "pointer", "message", "allowed", "available_from", "source", "documented"],
    "properties": {
        "code": {"enum": [code.value for code in Code]},
        "pointer": {"type": "string", "format": "json-pointer", "description": "place in the request"},
        "message": {"type": "string", "description": "what was given and what is allowed"},
        "allowed": {
            "type": ["array", "null"],
            "items": {},
            "description": f"the allowed values; of more than {MOST_ALLOWED}, the likeliest {FEW_ALLOWED}",
        },
        "available_from": _LEVEL_OR_NONE,
        "source": {
            "type": ["string", "null"],
            "description": f"the page that states the rule, or {OBSERVED_SOURCE} for what only the library shows",
        },
        "documented": {"type": "boolean", "description": "whether Microsoft's documentation states the rule"},
        "allowed_more": {"type": "integer", "minimum": 1, "description": "number of values besides those in allowed"},
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
    **definitions(()),
    **{name: _operator_schema(operator) for name, operator in OPERATORS.items()},
    "Operator": {"anyOf": [ref(name) for name in OPERATORS]},
    **REQUESTS,
    "OutputDesc": _OUTPUT_DESC,
    "OutputTensor": _OUTPUT_TENSOR,
    "ExecuteAnswer": _EXECUTE_ANSWER,
    "BatchAnswer": {
        "type": "object",
        "required": ["results", "request_id"],
        "properties": {
            "results": {"type": "array", "items": {"anyOf": [ref("ExecuteAnswer"), ref("Problem")]}},
            "request_id": {"type": "string"},
        },
    },
    "ValidateAnswer": {
        "type": "object",
        "required": ["valid", "violations", "warnings", "minimum_feature_level", "outputs"],
        "properties": {
            "valid": {"type": "boolean"},
            "violations": {"type": "array", "items": ref("Violation")},
            "warnings": {
                "type": "array",
                "items": ref("Violation"),
                "description": "what DirectML accepts although it is undocumented, and why the operator does not run",
            },
            "minimum_feature_level": _LEVEL_OR_NONE,
            "outputs": _DESCS,
            "minimum_feature_level_of": {
                "type": "object",
                "additionalProperties": _LEVEL_OR_NONE,
                "description": "for a graph: the lowest level of a graph at all, of its constants and of its operators",
            },
            "nodes": {
                "type": "array",
                "items": ref("NodeValidation"),
                "description": "for a graph: the lowest feature level and the tensor descs of each node on its own",
            },
            "dispatchables": {
                "type": "object",
                "additionalProperties": {"type": "object", "additionalProperties": True},
                "description": "for a model: the validation of each of its operators",
            },
        },
    },
    "NodeValidation": object_schema(
        ["name", "pointer", "minimum_feature_level", "inputs", "outputs"],
        {
            "name": {"type": "string"},
            "pointer": {"type": "string", "format": "json-pointer"},
            "minimum_feature_level": _LEVEL_OR_NONE,
            "inputs": _DESCS,
            "outputs": _DESCS,
        },
    ),
    "Violation": _VIOLATION,
    "Problem": _PROBLEM,
}


_DATA_ERRORS = {status: problem(status) for status in DATA_STATUSES}
_ERRORS_WITH_NAMES = {**_DATA_ERRORS, 404: problem(404)}
"""Errors of the routes that accept the name of a registered graph."""


def _data_route(
    summary: str,
    request: str,
    answer: str,
    examples: Mapping[str, Any],
    *,
    tail: bool = True,
    other: str | None = None,
    takes_onnx: bool = False,
) -> Schema:
    """Returns the operation of a data route.

    Args:
        summary: summary of the operation.
        request: schema of the request body.
        answer: schema of the response body.
        examples: examples of the request.
        tail: whether the bodies may have a binary tail.
        other: schema of an alternative request body.
        takes_onnx: whether the body may be an ONNX model.
    """
    schema = ref(request) if other is None else {"anyOf": [ref(request), ref(other)]}
    bodies: Schema = {JSON: {"schema": schema, "examples": dict(examples)}}
    if tail:
        bodies[BINARY] = {"schema": {"type": "string", "format": "binary"}}
    if takes_onnx:
        bodies[MEDIA_TYPE] = {"schema": {"type": "string", "format": "binary"}}
    parameters = [*([LENGTH] if tail else []), *([DIMENSIONS, MODEL_LEVEL] if takes_onnx else [])]
    errors = _DATA_ERRORS if request == "BatchRequest" else _ERRORS_WITH_NAMES
    responses = {200: answered(ref(answer), tail=tail), **errors}
    return {
        "summary": summary,
        "operationId": request.removesuffix("Request").lower(),
        "tags": ["operators"],
        "parameters": parameters,
        "requestBody": {"required": True, "content": bodies},
        "responses": {str(status): response for status, response in responses.items()},
    }


def _examples() -> dict[str, Any]:
    examples = {}
    for operator in one_of_each_family(EXECUTABLE):
        info = example_info(operator, operator.examples[0])
        value = {
            "feature_level": info["feature_level"],
            "operator": info["operator"],
            "inputs": info["inputs"],
            "output_format": "numbers",
        }
        summary = f"{operator.name}: {info['name'].replace('_', ' ')}"
        examples[f"{operator.name}-{info['name']}"] = {"summary": summary, "value": value}
    return examples


_EXAMPLES = _examples()
_FIRST = next(iter(_EXAMPLES.values()))["value"]

DATA_PATHS = {
    "/v1/execute": _data_route(
        "Runs one operator, a graph or a model",
        "ExecuteRequest",
        "ExecuteAnswer",
        _EXAMPLES,
        other="ExecuteModelRequest",
    ),
    "/v1/batch": _data_route(
        "Runs several operators, each with its own result",
        "BatchRequest",
        "BatchAnswer",
        {"two": {"summary": "two operators", "value": {"requests": [_FIRST, _FIRST]}}},
    ),
    "/v1/validate": _data_route(
        "Validates a desc, a graph or a model at a feature level",
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
        other="ValidateModelRequest",
        takes_onnx=True,
    ),
}
_KEY = "apiKey"
_API_KEY = {"type": "http", "scheme": "bearer", "description": "An API key, if the server requires one"}


_TAGS = {
    "operators": "Operators, graphs and models: checked and run",
    "graphs": "Graphs that are registered under a name",
    "contract": "The operator contract, which is the same on every server",
    "server": "The server itself: its description, load, health and metrics",
    "Open Inference Protocol": "The KServe protocol, version 2",
}
"""The groups of operations."""


def _complete(path: str, operation: Schema) -> None:
    """Completes the operation of a route that FastAPI describes: its group, and the summary that is its docstring."""
    operation["tags"] = ["contract" if path in CONTRACT or path.startswith(ONE_OPERATOR) else "server"]
    operation["summary"] = operation.pop("description").removesuffix(".")


_ID = "X-Request-Id"
_HEADERS: dict[str, Schema] = {
    _ID: {
        "description": "The ID of the request, as in logs and traces",
        "required": True,
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {"description": "How to authenticate", "required": True, "schema": {"type": "string"}},
    "Allow": {"description": "The methods of the route", "required": True, "schema": {"type": "string"}},
    "ETag": {"description": "The version, for If-None-Match", "schema": {"type": "string"}},
    "Server-Timing": {"description": "Milliseconds per stage", "required": True, "schema": {"type": "string"}},
}
"""Response headers by name."""

_HEADERS_OF = {"401": ["WWW-Authenticate"], "405": ["Allow"], "304": ["ETag"]}
"""The headers of a status besides the ID."""

_TIMED = "/v1/execute"


def _add_headers(path: str, status: str, response: Schema) -> None:
    names = [_ID, *_HEADERS_OF.get(status, ())]
    if status == "200":
        names += ["ETag"] * (path in CONTRACT) + ["Server-Timing"] * (path == _TIMED or path.endswith("/infer"))
    refs = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    response["headers"] = {**response.get("headers", {}), **refs}


def document(app: FastAPI, paths: Mapping[str, Schema], schemas: Mapping[str, Schema]) -> Schema:
    """Returns the OpenAPI document of an app, extended by the data routes and by ``paths`` with their ``schemas``."""
    schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    schema["info"]["license"] = {"name": "Apache 2.0", "identifier": "Apache-2.0"}
    schema["servers"] = [{"url": app.root_path or ".", "description": "The server that this document is from"}]
    schema["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    for path, item in schema["paths"].items():
        for route in item.values():
            _complete(path, route)
            route["responses"].pop("422", None)  # FastAPI's own validation error, which this app never returns
    data = {path: {"post": operation} for path, operation in DATA_PATHS.items()}
    schema["paths"] = deepcopy({**data, **schema["paths"], **GRAPH_PATHS, **paths})
    schema.setdefault("components", {}).setdefault("schemas", {}).update({**SCHEMAS, **GRAPH_SCHEMAS, **schemas})
    for unused in ("HTTPValidationError", "ValidationError"):  # of FastAPI
        schema["components"]["schemas"].pop(unused, None)
    schema["components"]["securitySchemes"] = {_KEY: _API_KEY}
    schema["security"] = [{}, {_KEY: []}]
    for path in [each for each in schema["paths"] if each in OPEN or each.startswith(ONE_OPERATOR)]:
        for operation in schema["paths"][path].values():
            operation["security"] = []
            operation["responses"].pop("401", None)
    schema["components"]["headers"] = deepcopy(_HEADERS)
    for path, item in schema["paths"].items():
        for operation in item.values():
            for status, response in operation["responses"].items():
                _add_headers(path, status, response)
    return schema
