"""Reads graph files for registration on a server: checks the graphs and loads all their constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opwire.client.calls import BuiltGraph
from opwire.dxdispatch.opening import constant_beside, read_whole
from opwire.graph import CONSTANT, as_named, check_graph
from opwire.graph.serialized import read_serialized
from opwire.graph_files import parse_graph, read_file_constants, request_level
from opwire.level import HIGHEST, FeatureLevel
from opwire.tensor import Array
from opwire.wire import ExecuteRequest

_BINARY = ".bin"
"""File name suffix of ONNX Runtime's graph files."""


@dataclass(frozen=True, slots=True)
class FileGraph(BuiltGraph):
    """A graph read from a file.

    Attributes:
        graph: the graph with named nodes, without the tensors of its constants.
        bytes_of: bytes of each constant, by node name.
        level: feature level it was checked against.
    """

    graph: Mapping[str, Any]
    bytes_of: Mapping[str, Array]
    level: FeatureLevel
    strict: bool

    def to_json(self) -> dict[str, Any]:
        """See ``BuiltGraph``."""
        return dict(self.graph)

    @property
    def constants(self) -> Mapping[str, Array]:
        """See ``BuiltGraph``."""
        return self.bytes_of


def read_graph_file(path: Path, level: FeatureLevel | None, *, strict: bool = False) -> FileGraph:
    """Reads a graph from a file: JSON with a graph or a request, or a ``.bin`` file written by ONNX Runtime.

    Args:
        path: path of the file; referenced files are looked for in the same folder.
        level: feature level to check the graph against; by default that of the request, or the highest.
        strict: whether what the documentation forbids is a violation, even if the request does not say so.

    Raises:
        ContractViolation: the graph is not valid at the level.
        OSError: the file or one that it references cannot be read.
        RequestError: the file does not contain a graph.
    """
    is_binary = path.suffix.lower() == _BINARY
    request, files = _of_onnx_runtime(path) if is_binary else parse_graph(path.read_bytes(), path.parent)
    level, strict = level or request_level(request), strict or request.strict
    plan = check_graph(request.operator, level, strict=strict, pointer=request.plan_pointer)
    graph: Any = request.operator
    named = as_named(graph) if "Nodes" in graph else graph
    constants = read_file_constants(plan, request, files)
    return FileGraph(named, {name: np.frombuffer(each, np.uint8) for name, each in constants.items()}, level, strict)


def _of_onnx_runtime(path: Path) -> tuple[ExecuteRequest, dict[str, Path]]:
    """Reads a graph file of ONNX Runtime and returns the graph with the files of its constants."""
    found = read_serialized(read_whole(path, ""))
    graph, names = found.with_file_constants()
    files = {CONSTANT + name: constant_beside(path, file, "") for file, name in names.items()}
    inputs = {CONSTANT + name: memoryview(_padded(constant)) for name, constant in found.constants.items()}
    places = dict.fromkeys((*files, *inputs), "/graph")
    return ExecuteRequest(graph, HIGHEST, inputs, is_graph=True, places=places), files


def _padded(constant: bytes) -> bytes:
    """Pads a constant stored in the file itself to the multiple of 4 bytes that its tensor has."""
    return constant + bytes(-len(constant) % 4)
