"""Folders that reproduce a wrong node alone: its model, its inputs, and what it produces.

``repro.json`` says what it is of. The node is in ``model.onnx`` or ``graph.json``; if it has DirectML operators,
``dxdispatch/model.json`` runs them in DxDispatch. The ``.npy`` files in ``inputs``, ``side`` and ``exact`` have the
tensors that it reads, what the side made of them, and the exact results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..client.exporting import write_dxdispatch
from ..client.graphs import Graph
from ..errors import ProblemCode, RequestError
from ..tensor import Array
from .comparing import Compared
from .graph_subject import GraphSubject, WrittenGraph
from .results import Verdict
from .sides import file_name
from .subjects import Subject

_MANIFEST = "repro.json"
SIDE = "side"
"""The folder with the tensors of the side."""


class Reproductions:
    """Writes a folder for each node that is wrong.

    Attributes:
        written: the folders.
    """

    def __init__(self, folder: Path, subject: Subject, side: str) -> None:
        self.written: list[Path] = []
        self._folder = folder
        self._subject = subject
        self._side = side

    def keep(self, compared: Compared) -> None:
        """Writes a folder if a node is wrong.

        Raises:
            OSError: a file cannot be written.
        """
        if compared.difference.verdict is not Verdict.WRONG:
            return
        folder = self._unused(compared.difference.name)
        self._write(compared, folder)
        self.written.append(folder)

    def _unused(self, node: str) -> Path:
        name = re.sub(r"[^\w.-]", "_", node).strip("._") or "node"
        while self._folder / name in self.written:
            name += "_"
        return self._folder / name

    def _write(self, compared: Compared, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        found = compared.difference
        kinds = {"inputs": compared.inputs, SIDE: compared.actual, "exact": compared.exact}
        for kind, tensors in kinds.items():
            (folder / kind).mkdir(exist_ok=True)
            for name, array in tensors.items():
                np.save(folder / kind / file_name(name), array, allow_pickle=False)
        manifest = {
            "subject": self._subject.name,
            "side": self._side,
            "nodes": [node.name for node in compared.nodes],
            "operator": found.operator,
            "detail": found.detail,
            **_write_model(self._subject, compared, folder),
        }
        _write_dxdispatch(self._subject, compared, folder / "dxdispatch")
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _write_model(subject: Subject, compared: Compared, folder: Path) -> dict[str, Any]:
    """Writes the nodes as a model of their own, and returns its file and what its tensors are called in the other."""
    file, names = subject.write_part(compared.nodes, compared.inputs, folder)
    return {"model": file, "names": names} if names else {"model": file}


def _write_dxdispatch(subject: Subject, compared: Compared, folder: Path) -> None:
    """Writes a single node as a DxDispatch model, if it has DirectML operators."""
    alone = subject.isolated(compared.nodes[-1]) if len(compared.nodes) == 1 else None
    if alone is not None and any("type" in node for node in alone.graph["nodes"].values()):
        inputs = {each: _stored(compared.inputs[name]) for name, each in alone.feeds.items()}
        write_dxdispatch(WrittenGraph(alone.graph, alone.constants), inputs, folder)


def _stored(array: Array) -> Array:
    return np.asarray(array).view(np.uint8) if array.dtype == np.bool_ else np.asarray(array)


def is_reproduction(path: Path) -> bool:
    """Returns whether a path is that of a folder that reproduces a node."""
    return (path / _MANIFEST).is_file()


def read_reproduction(folder: Path) -> Subject:
    """Returns the node of a folder as a subject with its inputs.

    Raises:
        RequestError: a file is malformed.
        OSError: a file cannot be read.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        model = folder / manifest["model"]
        names = dict(manifest.get("names") or {})
    except (ValueError, KeyError, TypeError) as error:
        detail = f"{folder / _MANIFEST} is malformed: {error}"
        raise RequestError(ProblemCode.INVALID_MODEL, detail) from None
    subject = _read_model(model, names, folder.name)
    subject.given = {name: _read(folder / "inputs" / file_name(name)) for name in subject.inputs}
    return subject


def _read_model(model: Path, names: Mapping[str, str], name: str) -> Subject:
    if model.suffix == ".json":
        return GraphSubject(Graph.load(model), name, names)
    from ..onnx import load  # its package is optional
    from .onnx_subject import OnnxSubject

    return OnnxSubject(load(model), name)


def _read(path: Path) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise RequestError(ProblemCode.INVALID_MODEL, f"{path} cannot be read: {error}") from None
    return array
