"""The JSON Schemas of graphs in both forms."""

from __future__ import annotations

from collections.abc import Mapping

from ..fields import Schema
from ..graph import MOST_NODES
from .descs import UINT, nullable, object_schema, ref

_SOURCE: Schema = {"type": "string", "description": "input:NAME, NODE.TENSOR, or NODE for its only output"}
_NODE: Schema = {
    "description": "an operator with the sources of its inputs, or a constant",
    "oneOf": [
        {
            "type": "object",
            "required": ["type", "desc"],
            "properties": {
                "type": {},
                "desc": {},
                "inputs": {
                    "type": "object",
                    "additionalProperties": {"anyOf": [_SOURCE, {"type": "array", "items": _SOURCE}]},
                },
            },
            "additionalProperties": False,
        },
        object_schema(["constant"], {"constant": ref("InputTensor")}),
    ],
}
_INPUTS: Schema = {
    "description": "their order, if it matters, and the descs of those that nodes read with other descs",
    "anyOf": [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": nullable(ref("TensorDesc"))},
    ],
}


def _edges(*members: str) -> Schema:
    desc = object_schema(list(members), {**dict.fromkeys(members, UINT), "Name": {}})
    typed = {"type": "object", "required": ["Desc"], "properties": {"Type": {}, "Desc": desc}}
    return {"type": "array", "items": {"anyOf": [desc, {**typed, "additionalProperties": False}]}}


_FROM, _TO = ("FromNodeIndex", "FromNodeOutputIndex"), ("ToNodeIndex", "ToNodeInputIndex")
_OPERATOR_DESC = object_schema(["Operator"], {"Operator": ref("Operator"), "Name": {"type": "string"}})
_CONSTANT_DESC = object_schema(["Data"], {"Data": ref("InputTensor"), "DataSize": UINT, "Name": {"type": "string"}})

GRAPHS: Mapping[str, Schema] = {
    "NamedGraph": object_schema(
        ["nodes", "outputs"],
        {
            "nodes": {"type": "object", "minProperties": 1, "maxProperties": MOST_NODES, "additionalProperties": _NODE},
            "inputs": _INPUTS,
            "outputs": {"type": "object", "minProperties": 1, "additionalProperties": _SOURCE},
        },
        "a graph whose nodes, inputs and outputs are given by name",
    ),
    "NumberedGraph": object_schema(
        ["Nodes", "OutputEdges"],
        {
            **dict.fromkeys(("InputCount", "OutputCount", "NodeCount"), UINT),
            **dict.fromkeys(("InputEdgeCount", "OutputEdgeCount", "IntermediateEdgeCount"), UINT),
            "Nodes": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_NODES,
                "items": {
                    "type": "object",
                    "required": ["Desc"],
                    "properties": {"Type": {}, "Desc": {"anyOf": [_OPERATOR_DESC, _CONSTANT_DESC]}},
                    "additionalProperties": False,
                },
            },
            "InputEdges": _edges("GraphInputIndex", *_TO),
            "IntermediateEdges": _edges(*_FROM, *_TO),
            "OutputEdges": _edges(*_FROM, "GraphOutputIndex"),
        },
        "DML_GRAPH_DESC",
    ),
    "Graph": {"anyOf": [ref("NamedGraph"), ref("NumberedGraph")]},
}
"""The document must define ``Operator`` and ``InputTensor``."""
