"""Graphs in files: JSON with a graph, by itself or in a request, and its constants inside or in files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pybase64
from pydantic_core import to_json

from .check import Plan, read_level
from .dxdispatch import read_text
from .errors import ProblemCode, RequestError
from .files import read_payload, without_files
from .level import FeatureLevel
from .wire import ExecuteRequest, RequestBody, parse_registration, read_constants

Weights = Literal["inside", "beside"]
"""Where the constants of a graph are saved: in its file as base64, or as raw bytes in a folder beside it."""


def parse_graph(data: bytes, folder: Path) -> tuple[ExecuteRequest, Mapping[str, Path]]:
    """Parses a file with a graph, by itself or in a request.

    Args:
        data: the content of the file.
        folder: the folder to look for files of constants in, before the current one.

    Returns:
        A request with the graph, and the files of its constants by name of the plan's input.

    Raises:
        RequestError: the file does not contain a graph, or is malformed.
    """
    value = read_text(data)
    if not isinstance(value, Mapping) or not {"graph", "nodes", "Nodes"} & value.keys():
        detail = "the file contains no graph: it is neither an object with nodes nor a request with a graph"
        raise RequestError(ProblemCode.INVALID_REQUEST, detail)
    if "graph" in value:
        value = {name: value[name] for name in ("graph", "feature_level", "strict") if name in value}
    kept, files = without_files(value, folder)
    return parse_registration(RequestBody.split(to_json(kept, inf_nan_mode="constants"))), files


def request_level(request: ExecuteRequest) -> FeatureLevel:
    """Returns the feature level of a request.

    Raises:
        ContractViolation: there is no such level.
    """
    return read_level(request.feature_level, "/feature_level")


def read_file_constants(plan: Plan, request: ExecuteRequest, files: Mapping[str, Path]) -> dict[str, memoryview]:
    """Returns the bytes of all constants of a checked graph, by the names of their nodes.

    Raises:
        ContractViolation, RequestError: a constant does not match its desc.
        OSError: a file cannot be read.
    """
    payloads = {name: read_payload(path, request.places[name], plan.inputs.get(name)) for name, path in files.items()}
    return read_constants(plan, request._replace(inputs={**request.inputs, **payloads}))


def write_graph(path: Path, graph: Mapping[str, Any], constants: Mapping[str, memoryview], weights: Weights) -> None:
    """Writes a graph in named form with its constants, given by the names of their nodes.

    Raises:
        OSError: a file cannot be written.
        ValueError: ``weights`` is neither of the two.
    """
    if weights not in ("inside", "beside"):
        raise ValueError(f'weights is {weights!r}; it must be "inside" or "beside"')
    folder = path.with_name(f"{path.name}.weights")
    tensors: dict[str, object] = {}
    for i, (name, data) in enumerate(constants.items()):
        if weights == "inside":
            tensors[name] = pybase64.b64encode_as_string(data)
            continue
        folder.mkdir(exist_ok=True)
        (folder / f"{i}.bin").write_bytes(data)
        tensors[name] = {"sourcePath": f"{folder.name}/{i}.bin"}
    nodes = {name: {"constant": tensors[name]} if name in tensors else node for name, node in graph["nodes"].items()}
    path.write_bytes(to_json({**graph, "nodes": nodes}, indent=2, inf_nan_mode="constants"))
