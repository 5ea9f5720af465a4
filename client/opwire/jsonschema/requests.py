"""The JSON Schemas of requests."""

from __future__ import annotations

from collections.abc import Mapping

from ..fields import Schema
from ..fields.tensors import MOST_TENSORS
from ..level import FeatureLevel
from ..wire import LOWEST_PRIORITY
from .descs import object_schema, ref
from .graphs import GRAPHS

_INPUT_TENSOR: Schema = {
    "description": "the tensor's whole buffer as base64, its elements as numbers, or a slice of the binary data",
    "oneOf": [
        {"type": "string", "format": "byte"},
        object_schema(["data"], {"data": {"type": ["array", "string"], "items": {}}}),
        object_schema(["binary_data_size"], {"binary_data_size": {"type": "integer", "minimum": 0}}),
    ],
}
_INPUT: Schema = {
    "description": "a tensor, or a list of tensors for an array member",
    "anyOf": [
        ref("InputTensor"),
        {"type": "array", "minItems": 1, "maxItems": MOST_TENSORS, "items": ref("InputTensor")},
    ],
}

_LEVELS = [spelling for level in FeatureLevel for spelling in (str(level), level.short, level.value)]

_LEVEL: Schema = {"enum": _LEVELS, "description": "the exact level to check against; defaults to the highest"}
_STRICT: Schema = {
    "type": "boolean",
    "description": "whether what the documentation forbids is a violation even if DirectML accepts it",
}
_CONTRACT: Mapping[str, Schema] = {"feature_level": _LEVEL, "strict": _STRICT}
_OPTIONS: Mapping[str, Schema] = {
    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "priority": {"type": "integer", "minimum": 0, "maximum": LOWEST_PRIORITY, "description": "0 is most urgent"},
    "device": {"type": "string", "description": "auto, or a device of the server"},
    "output_format": {"enum": ["base64", "numbers"]},
}
_MODEL: Schema = {
    "type": "object",
    "additionalProperties": True,
    "description": "a DxDispatch model; the output of its print commands is returned, and file access is refused",
}
_GRAPH: Schema = {"anyOf": [ref("Graph"), {"type": "string", "description": "the name of a registered graph"}]}
_TARGETS: Mapping[str, Schema] = {"operator": ref("Operator"), "graph": _GRAPH}


def _either(required: list[str], properties: Mapping[str, Schema]) -> list[Schema]:
    """Returns the schemas of a request with an operator and of one with a graph."""
    forms = _TARGETS.items()
    return [object_schema([name, *required], {**_CONTRACT, name: schema, **properties}) for name, schema in forms]


REQUESTS: Mapping[str, Schema] = {
    "InputTensor": _INPUT_TENSOR,
    "ExecuteRequest": {
        "anyOf": _either(["inputs"], {"inputs": {"type": "object", "additionalProperties": _INPUT}, **_OPTIONS})
    },
    "ExecuteModelRequest": object_schema(["model"], {**_CONTRACT, "model": _MODEL, **_OPTIONS}),
    "BatchRequest": object_schema(["requests"], {"requests": {"type": "array", "items": ref("ExecuteRequest")}}),
    "ValidateRequest": {"anyOf": [*_either([], {}), ref("Graph")]},
    "ValidateModelRequest": object_schema(
        ["model"], {"feature_level": {"enum": _LEVELS}, "strict": _STRICT, "model": _MODEL}
    ),
    "RegisterRequest": {"anyOf": [object_schema(["graph"], {**_CONTRACT, "graph": ref("Graph")}), ref("Graph")]},
    **GRAPHS,
}
"""The bodies of requests. The document must define ``Operator``."""
