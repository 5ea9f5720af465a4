"""ONNX Runtime as a side, with every tensor between nodes marked as an output."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto

from ..tensor import Array
from .onnx_subject import OnnxSubject
from .sides import Files, Side, SideError, Tensors, file_name
from .subjects import Subject

_ROOM = 256 << 20
"""Bytes of tensors that one run of the model returns; a model with more is run several times."""


class OnnxRuntimeSide(Side):
    """ONNX Runtime in this process.

    Args:
        provider: the execution provider, with or without ``ExecutionProvider``; the CPU's otherwise.
        optimized: "optimized" to let it optimize the graph, so that fused nodes lack the tensors between them.
    """

    def __init__(self, provider: str = "CPU", optimized: str = "") -> None:
        self.name = f"onnxruntime:{provider}{':optimized' if optimized else ''}"
        self._provider = provider if provider.endswith("ExecutionProvider") else f"{provider}ExecutionProvider"
        self._optimized = bool(optimized)

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        if not isinstance(subject, OnnxSubject):
            raise SideError("onnxruntime runs ONNX models; other models are compared with files or a device")
        try:
            runtime: Any = import_module("onnxruntime")
        except ImportError:
            raise SideError("onnxruntime is not installed: pip install onnxruntime") from None
        if self._provider not in runtime.get_available_providers():
            listed = ", ".join(each.removesuffix("ExecutionProvider") for each in runtime.get_available_providers())
            raise SideError(f"onnxruntime has no {self._provider} here; it has {listed}")
        with tempfile.TemporaryDirectory(prefix="opwire-") as folder:
            proto = subject.model.read_proto()
            for names in _chunks(subject):
                self._run(runtime, marked(proto, names), inputs, Path(folder))
            yield Files(Path(folder))

    def _run(self, runtime: Any, model: ModelProto, inputs: Mapping[str, Array], folder: Path) -> None:
        options = runtime.SessionOptions()
        level = runtime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if self._optimized else level.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            session = runtime.InferenceSession(model.SerializeToString(), options, providers=[self._provider])
            found = session.run(None, dict(inputs))
        except Exception as error:
            raise SideError(f"{self.name} fails: {' '.join(str(error).split())}") from None
        for output, array in zip(session.get_outputs(), found, strict=True):
            if isinstance(array, np.ndarray):
                np.save(folder / file_name(output.name), array, allow_pickle=False)


def marked(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """Returns a copy of a model with given tensors as its outputs; those of functions' bodies are left out."""
    copy = ModelProto()
    copy.CopyFrom(model)
    produced = {name for node in copy.graph.node for name in node.output}
    del copy.graph.output[:]
    copy.graph.output.extend(ValueInfoProto(name=name, type=TypeProto()) for name in names if name in produced)
    return copy


def _chunks(subject: Subject) -> Iterator[list[str]]:
    """Yields the tensors in groups that one run can return."""
    chunk: list[str] = []
    taken = 0
    for name in (name for node in subject.nodes for name in node.outputs):
        known = subject.type_of(name)
        size = 0 if known is None else int(np.prod(known.sizes)) * known.dtype.itemsize
        if chunk and taken + size > _ROOM:
            yield chunk
            chunk, taken = [], 0
        chunk.append(name)
        taken += size
    if chunk:
        yield chunk
