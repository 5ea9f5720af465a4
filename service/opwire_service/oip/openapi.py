"""OpenAPI description of the Open Inference Protocol's routes, with examples from the operator declarations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opwire.jsonschema import object_schema, ref
from opwire.level import FeatureLevel
from opwire.listing import one_of_each_family
from opwire.operator import Example, Operator
from opwire.schema import CATALOG
from opwire.tensor import DataType
from opwire.tensor_names import element
from opwire.wire import BINARY, JSON

from ..http.documents.responses import DATA_STATUSES, LENGTH, Schema, answered, problem
from ..kernels.executable import EXECUTABLE
from .datatypes import NAMES
from .models import version_at
from .parameters import PARAMETERS_HEADER

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_DURATION = object_schema(["count", "ns"], {"count": _COUNT, "ns": _COUNT})
_DATATYPE: Schema = {"enum": list(NAMES.values())}
_MODEL = {"anyOf": [{"enum": list(CATALOG)}, {"type": "string", "description": "the name of a registered graph"}]}
_VERSION = {"enum": [version_at(level) for level in FeatureLevel]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _parameters(description: str, **known: Schema) -> Schema:
    """Returns the schema of a parameters object; the protocol allows further parameters."""
    properties = {"type": "object", "description": description, "properties": known}
    return {**properties, "additionalProperties": {"type": ["string", "number", "boolean"]}}


_DATA: Schema = {"type": "array", "items": {}, "description": "numbers, flat or nested; NaN and Infinity literally"}
_SIZE: Schema = {**_COUNT, "description": "size in bytes of this tensor in the binary tail"}

_SHARED: dict[str, Schema] = {
    "shared_memory_region": {**_TEXT, "description": "name of the registered region that holds the tensor"},
    "shared_memory_offset": _COUNT,
    "shared_memory_byte_size": _COUNT,
}

_STATISTICS = (
    "success",
    "queue",
    "compute_input",
    "compute_infer",
    "compute_output",
    "fail",
    "cache_hit",
    "cache_miss",
)

SCHEMAS: dict[str, Schema] = {
    "InferInput": {
        "type": "object",
        "required": ["name", "datatype", "shape"],
        "description": "a contiguous tensor, given by data, binary_data_size or shared_memory_region",
        "properties": {
            "name": _TEXT,
            "datatype": _DATATYPE,
            "shape": _list({"type": "integer", "minimum": 1}),
            "data": _DATA,
            "parameters": _parameters("", binary_data_size=_SIZE, **_SHARED),
        },
    },
    "InferOutputRequest": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _TEXT, "parameters": _parameters("", binary_data={"type": "boolean"}, **_SHARED)},
    },
    "InferRequest": object_schema(
        ["inputs"],
        {
            "id": {"type": "string", "description": "repeated in the response"},
            "parameters": _parameters(
                "the attributes of the operator: arrays and tensor descs as text, enums by name",
                binary_data_output={"type": "boolean"},
                priority={**_COUNT, "description": "1 is the most urgent, 0 means the default"},
                timeout={**_COUNT, "description": "in microseconds; 0 means the server's maximum"},
            ),
            "inputs": _list(ref("InferInput")),
            "outputs": {**_list(ref("InferOutputRequest")), "description": "outputs to return; all by default"},
            "model_name": _TEXT,
            "model_version": _TEXT,
        },
    ),
    "InferAnswer": object_schema(
        ["model_name", "model_version", "outputs"],
        {
            "model_name": _MODEL,
            "model_version": _VERSION,
            "id": _TEXT,
            "outputs": _list(
                object_schema(
                    ["name", "datatype", "shape"],
                    {
                        "name": _TEXT,
                        "datatype": _DATATYPE,
                        "shape": _list(_COUNT),
                        "data": _DATA,
                        "parameters": object_schema([], {"binary_data_size": _SIZE, **_SHARED}),
                    },
                )
            ),
        },
    ),
    "InferServer": object_schema(
        ["name", "version", "extensions"], {"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}
    ),
    "InferModelTensor": object_schema(
        ["name", "datatype", "shape"],
        {"name": _TEXT, "datatype": _DATATYPE, "shape": _list({"type": "integer", "description": "-1 means any size"})},
    ),
    "InferModel": object_schema(
        ["name", "versions", "platform", "inputs", "outputs", "parameters"],
        {
            "name": _MODEL,
            "versions": _list(_VERSION),
            "platform": _TEXT,
            "inputs": _list(ref("InferModelTensor")),
            "outputs": _list(ref("InferModelTensor")),
            "parameters": object_schema(
                ["attributes", "support"],
                {
                    "attributes": {"type": "object", "additionalProperties": _TEXT},
                    "support": _list(
                        {
                            "type": "object",
                            "additionalProperties": True,
                            "description": "supported data types and ranks at this version",
                        }
                    ),
                },
            ),
        },
    ),
    "InferModelConfig": {"type": "object", "additionalProperties": True, "description": "Triton model configuration"},
    "InferStatistics": object_schema(
        ["model_stats"],
        {
            "model_stats": _list(
                {
                    "type": "object",
                    "required": ["name", "version", "inference_count", "execution_count", "inference_stats"],
                    "properties": {
                        "name": _MODEL,
                        "version": _VERSION,
                        "last_inference": {**_COUNT, "description": "milliseconds since 1970"},
                        "inference_count": _COUNT,
                        "execution_count": _COUNT,
                        "inference_stats": object_schema(list(_STATISTICS), dict.fromkeys(_STATISTICS, _DURATION)),
                    },
                }
            )
        },
    ),
    "InferRegistration": {
        "type": "object",
        "required": ["key", "byte_size"],
        "properties": {
            "key": {**_TEXT, "description": "name of a POSIX shared memory object"},
            "offset": _COUNT,
            "byte_size": {"type": "integer", "minimum": 1},
        },
    },
    "InferRegions": _list(
        object_schema(
            ["name", "key", "offset", "byte_size"], {"name": _TEXT, "key": _TEXT, "offset": _COUNT, "byte_size": _COUNT}
        )
    ),
    "InferIndex": _list(
        object_schema(
            ["name", "version", "state", "reason"],
            {"name": _MODEL, "version": _VERSION, "state": {"const": "READY"}, "reason": _TEXT},
        )
    ),
}


@dataclass(frozen=True)
class _DocumentedRoute:
    """A documented route.

    Attributes:
        method: HTTP method, in lower case.
        path: path below ``/v2``.
        summary: summary of the operation.
        answer: schema of the response.
        errors: error statuses besides those of every route.
        body: schema of the request body, unless the route is one of inference.
    """

    method: str
    path: str
    summary: str
    answer: Schema
    errors: tuple[int, ...] = ()
    body: Schema | None = None


_LIVE = object_schema(["live"], {"live": {"type": "boolean"}})
_READY = object_schema(["ready"], {"ready": {"type": "boolean"}})
_MODEL_READY = object_schema(["name", "ready"], {"name": _MODEL, "ready": {"type": "boolean"}})
_REGION = "/systemsharedmemory/region/{region}"
_VERSIONED = "/models/{name}/versions/{version}"

_ROWS = (
    _DocumentedRoute("get", "", "Returns the metadata of the server", ref("InferServer")),
    _DocumentedRoute("get", "/health/live", "Liveness probe: succeeds while the process responds", _LIVE),
    _DocumentedRoute("get", "/health/ready", "Readiness probe: succeeds while the server accepts work", _READY, (503,)),
    *(
        _DocumentedRoute(method, model + path, summary, answer, errors)
        for model in ("/models/{name}", _VERSIONED)
        for method, path, summary, answer, errors in (
            ("get", "", "Returns the tensors and attributes of a model", ref("InferModel"), (404,)),
            ("get", "/ready", "Readiness probe of a model", _MODEL_READY, (404, 503)),
            ("get", "/config", "Returns the configuration of a model", ref("InferModelConfig"), (404,)),
            ("get", "/stats", "Returns the statistics of a model", ref("InferStatistics"), (404,)),
            ("post", "/infer", "Runs an operator or a registered graph", ref("InferAnswer"), (404, *DATA_STATUSES)),
        )
    ),
    _DocumentedRoute("get", "/models/stats", "Returns the statistics of all models", ref("InferStatistics")),
    _DocumentedRoute("post", "/repository/index", "Lists all models", ref("InferIndex"), (503,)),
    _DocumentedRoute(
        "post",
        "/repository/models/{name}/load",
        "Has no effect: all models are always loaded",
        {"type": "object"},
        (404, 503),
    ),
    _DocumentedRoute(
        "post",
        "/repository/models/{name}/unload",
        "Is always refused: models cannot be unloaded",
        {"type": "object"},
        (400, 404, 503),
    ),
    _DocumentedRoute(
        "get", "/systemsharedmemory/status", "Lists the registered shared memory regions", ref("InferRegions"), (400,)
    ),
    _DocumentedRoute(
        "get", f"{_REGION}/status", "Returns a registered shared memory region", ref("InferRegions"), (400, 404)
    ),
    _DocumentedRoute(
        "post",
        f"{_REGION}/register",
        "Registers a shared memory region for tensors, if the server allows it",
        {"type": "object"},
        (400, 408, 411, 413, 429, 503),
        ref("InferRegistration"),
    ),
    _DocumentedRoute(
        "post", f"{_REGION}/unregister", "Unregisters a shared memory region", {"type": "object"}, (400, 503)
    ),
    _DocumentedRoute(
        "post",
        "/systemsharedmemory/unregister",
        "Unregisters all shared memory regions",
        {"type": "object"},
        (400, 503),
    ),
)

_HEADER: Schema = {
    "name": PARAMETERS_HEADER,
    "in": "header",
    "required": False,
    "schema": _TEXT,
    "description": "parameters as a JSON object, for clients that cannot set them in the body",
}


def _identity(path: str) -> str:
    """Returns the ID of an operation: ``oipModelInfer`` for ``/models/{name}/infer``."""
    parts = [part for part in path.split("/") if part]
    words = [
        part.removesuffix("s") if parts[i + 1 : i + 2] and parts[i + 1].startswith("{") else part
        for i, part in enumerate(parts)
        if not part.startswith("{")
    ]
    if not parts or parts[-1].startswith("{"):
        words.append("metadata")
    return "oip" + "".join(word.capitalize() for word in words)


def _operation(row: _DocumentedRoute) -> Schema:
    infer = row.path.endswith("/infer")
    named = {"{name}": ("name", _MODEL), "{version}": ("version", _VERSION), "{region}": ("region", _TEXT)}
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for part, (name, schema) in named.items()
        if part in row.path
    ]
    operation: Schema = {
        "summary": row.summary,
        "operationId": _identity(row.path),
        "tags": ["Open Inference Protocol"],
        "parameters": parameters,
    }
    if infer:
        raw = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
        parameters += [LENGTH, _HEADER]
        examples = {} if _VERSIONED in row.path else {"examples": dict(_examples())}
        content = {JSON: {"schema": ref("InferRequest"), **examples}, **raw}
        operation["requestBody"] = {"required": True, "content": content}
    elif row.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": row.body}}}
    errors = {status: problem(status, JSON) for status in sorted({401, 405, 500, *row.errors})}
    responses = {200: answered(row.answer, tail=infer), **errors}
    return {**operation, "responses": {str(status): response for status, response in responses.items()}}


def _examples() -> Iterator[tuple[str, Schema]]:
    for operator in one_of_each_family(EXECUTABLE):
        example = operator.examples[0]
        summary = f"{operator.name}: {example.name.replace('_', ' ')}"
        yield f"{operator.name}-{example.name}", {"summary": summary, "value": _example(operator, example)}


def _example(operator: Operator[Any], example: Example) -> Mapping[str, object]:
    inputs = [tensor for name, data in example.inputs.items() for tensor in _tensors(name, example.desc[name], data)]
    attributes = {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in example.desc.items()
        if name not in example.inputs
    }
    return {"inputs": inputs, "parameters": attributes, "model_name": operator.name}


def _tensors(name: str, desc: Any, data: Any) -> Iterator[Mapping[str, object]]:
    """Yields a tensor in the protocol's form, or the tensors of an array."""
    if isinstance(desc, list):
        for i, (each, values) in enumerate(zip(desc, data, strict=True)):
            yield from _tensors(element(name, i), each, values)
        return
    yield {"name": name, "datatype": NAMES[DataType[desc["DataType"]]], "shape": desc["Sizes"], "data": data}


def _paths() -> dict[str, Schema]:
    paths: dict[str, Schema] = {}
    for row in _ROWS:
        paths.setdefault(f"/v2{row.path}", {})[row.method] = _operation(row)
    return paths


PATHS = _paths()
"""The operations below ``/v2``, by path and method."""
