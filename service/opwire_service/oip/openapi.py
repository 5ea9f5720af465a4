"""The OpenAPI document of the Open Inference Protocol's routes: paths, schemas, and examples from the declarations."""

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

from ..http.responses import DATA_STATUSES, LENGTH, Schema, problem
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
    """An object of parameters; the protocol lets anyone add some."""
    properties = {"type": "object", "description": description, "properties": known}
    return {**properties, "additionalProperties": {"type": ["string", "number", "boolean"]}}


_DATA: Schema = {"type": "array", "items": {}, "description": "numbers, flat or nested; NaN and Infinity as they are"}
_SIZE: Schema = {**_COUNT, "description": "bytes of the tail that are this tensor"}

_SHARED: dict[str, Schema] = {
    "shared_memory_region": {**_TEXT, "description": "a registered region, in which the tensor lies"},
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
        "description": "a packed tensor: data, binary_data_size bytes of the tail, or bytes of shared memory",
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
            "id": {"type": "string", "description": "is repeated in the answer"},
            "parameters": _parameters(
                "the attributes of the operator: arrays and tensor descs as text, enums by name",
                binary_data_output={"type": "boolean"},
                priority={**_COUNT, "description": "1 is most urgent, 0 the default"},
                timeout={**_COUNT, "description": "microseconds; 0 is the server's longest"},
            ),
            "inputs": _list(ref("InferInput")),
            "outputs": {**_list(ref("InferOutputRequest")), "description": "those to answer with; by default all"},
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
        {"name": _TEXT, "datatype": _DATATYPE, "shape": _list({"type": "integer", "description": "-1 is any size"})},
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
                    "support": _list({"type": "object", "description": "data types and ranks at this version"}),
                },
            ),
        },
    ),
    "InferModelConfig": {"type": "object", "description": "the model configuration of Triton"},
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
            "key": {**_TEXT, "description": "of a POSIX shared memory object"},
            "offset": _COUNT,
            "byte_size": {"type": "integer", "minimum": 1},
        },
    },
    "InferRegions": _list(
        object_schema(
            ["name", "key", "offset", "byte_size"],
            {"name": _TEXT, "key": _TEXT, "offset": _COUNT, "byte_size": _COUNT},
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
    """A route: what it answers with, its errors beside those of any route, and what it takes if not an inference."""

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
    _DocumentedRoute("get", "", "What the server is", ref("InferServer")),
    _DocumentedRoute("get", "/health/live", "Whether the process answers", _LIVE),
    _DocumentedRoute("get", "/health/ready", "Whether the server takes work", _READY, (503,)),
    *(
        _DocumentedRoute(method, model + path, summary, answer, errors)
        for model in ("/models/{name}", _VERSIONED)
        for method, path, summary, answer, errors in (
            ("get", "", "Tensors and attributes of a model", ref("InferModel"), (404,)),
            ("get", "/ready", "Whether a model takes work", _MODEL_READY, (404, 503)),
            ("get", "/config", "The configuration of a model", ref("InferModelConfig"), (404,)),
            ("get", "/stats", "What a model has done", ref("InferStatistics"), (404,)),
            ("post", "/infer", "Run an operator, or a registered graph", ref("InferAnswer"), (404, *DATA_STATUSES)),
        )
    ),
    _DocumentedRoute("get", "/models/stats", "What all models have done", ref("InferStatistics")),
    _DocumentedRoute("post", "/repository/index", "All models", ref("InferIndex"), (503,)),
    _DocumentedRoute(
        "post", "/repository/models/{name}/load", "Does nothing: each model is there", {"type": "object"}, (404, 503)
    ),
    _DocumentedRoute("post", "/repository/models/{name}/unload", "Is refused", {"type": "object"}, (400, 404, 503)),
    _DocumentedRoute("get", "/systemsharedmemory/status", "All regions", ref("InferRegions"), (400,)),
    _DocumentedRoute("get", f"{_REGION}/status", "A region", ref("InferRegions"), (400, 404)),
    _DocumentedRoute(
        "post",
        f"{_REGION}/register",
        "Have tensors in shared memory of this machine, if the server lets in such",
        {"type": "object"},
        (400, 408, 411, 413, 429, 503),
        ref("InferRegistration"),
    ),
    _DocumentedRoute("post", f"{_REGION}/unregister", "Forget a region", {"type": "object"}, (400, 503)),
    _DocumentedRoute("post", "/systemsharedmemory/unregister", "Forget all regions", {"type": "object"}, (400, 503)),
)

_HEADER: Schema = {
    "name": PARAMETERS_HEADER,
    "in": "header",
    "required": False,
    "schema": _TEXT,
    "description": "parameters as a JSON object, for clients that cannot put them into the body",
}


def _operation(row: _DocumentedRoute) -> Schema:
    infer = row.path.endswith("/infer")
    named = {"{name}": ("name", _MODEL), "{version}": ("version", _VERSION), "{region}": ("region", _TEXT)}
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for part, (name, schema) in named.items()
        if part in row.path
    ]
    answers: Schema = {JSON: {"schema": row.answer}}
    operation: Schema = {
        "summary": row.summary,
        "operationId": "_".join(["oip", *(part.strip("{}") for part in row.path.split("/") if part), row.method]),
        "tags": ["Open Inference Protocol"],
        "parameters": parameters,
    }
    if infer:
        raw = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
        answers |= raw
        parameters += [LENGTH, _HEADER]
        examples = {} if _VERSIONED in row.path else {"examples": dict(_examples())}
        content = {JSON: {"schema": ref("InferRequest"), **examples}, **raw}
        operation["requestBody"] = {"required": True, "content": content}
    elif row.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": row.body}}}
    errors = {status: problem(status, JSON) for status in sorted({401, 405, 500, *row.errors})}
    responses = {200: {"description": "The answer", "content": answers}, **errors}
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
    """A tensor as the protocol has it, or those of an array."""
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
