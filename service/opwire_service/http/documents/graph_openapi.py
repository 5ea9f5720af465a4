"""OpenAPI description of the routes for registered graphs."""

from __future__ import annotations

from collections.abc import Iterable

from opwire.jsonschema import object_schema, ref
from opwire.level import FeatureLevel
from opwire.wire import BINARY, JSON

from ...offline.onnx_models import MEDIA_TYPE
from ..data.graphs import ALL, ONE
from .responses import DIMENSIONS, ERRORS, LENGTH, Schema, answered, problem

_DESCS = {"type": "object", "additionalProperties": ref("OutputDesc")}
_DESCRIBED: dict[str, Schema] = {
    "name": {"type": "string"},
    "feature_level": {"enum": [str(level) for level in FeatureLevel]},
    "nodes": {"type": "integer", "minimum": 1, "description": "number of nodes, including constants"},
    "inputs": {**_DESCS, "description": "tensor descs by name, without constants"},
    "outputs": {**_DESCS, "description": "tensor descs by name"},
    "byte_size": {
        "type": "integer",
        "minimum": 1,
        "description": "size in bytes that counts toward the server's limit",
    },
}
_WITHOUT_TENSORS = (
    "the graph as registered; the tensors of its constants are in the binary tail, or omitted without one"
)

GRAPH_SCHEMAS: dict[str, Schema] = {
    "RegisteredGraph": object_schema(list(_DESCRIBED), _DESCRIBED),
    "WholeGraph": object_schema(
        [*_DESCRIBED, "graph"],
        {**_DESCRIBED, "graph": {"type": "object", "additionalProperties": True, "description": _WITHOUT_TENSORS}},
    ),
    "RegisteredGraphs": object_schema(["graphs"], {"graphs": {"type": "array", "items": ref("RegisteredGraph")}}),
}

_BYTES: Schema = {"schema": {"type": "string", "format": "binary"}}
_NAME: Schema = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"},
}


def _operation(
    name: str, summary: str, answers: dict[int, Schema], errors: Iterable[int], parameters: list[Schema]
) -> Schema:
    responses = {str(status): answer for status, answer in answers.items()}
    responses |= {str(status): problem(status) for status in errors}
    responses |= {str(status): error for status, error in ERRORS.items()}
    return {
        "summary": summary,
        "operationId": name,
        "tags": ["graphs"],
        "parameters": parameters,
        "responses": responses,
    }


_ONE = answered(ref("RegisteredGraph"))
_WHOLE = answered(ref("WholeGraph"), tail=True)

GRAPH_PATHS: dict[str, Schema] = {
    ALL: {
        "get": _operation(
            "graphs", "Lists the client's registered graphs", {200: answered(ref("RegisteredGraphs"))}, (), []
        )
    },
    ONE: {
        "get": _operation("graph", "Returns a registered graph", {200: _WHOLE}, (404,), [_NAME]),
        "put": {
            **_operation(
                "register",
                "Registers a graph or an ONNX model, replacing any graph of the same name",
                {200: _ONE, 201: _ONE},
                (400, 408, 411, 413, 415, 422, 429, 503, 504),
                [_NAME, LENGTH, DIMENSIONS],
            ),
            "requestBody": {
                "required": True,
                "content": {JSON: {"schema": ref("RegisterRequest")}, BINARY: _BYTES, MEDIA_TYPE: _BYTES},
            },
        },
        "delete": _operation(
            "unregister", "Removes a registered graph", {200: answered({"type": "object"})}, (404,), [_NAME]
        ),
    },
}
