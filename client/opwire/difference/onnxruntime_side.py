"""ONNX Runtime as a side, with every tensor between nodes marked as an output."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..tensor import Array
from . import programs
from .onnx_subject import OnnxSubject
from .sides import Files, Side, SideError, Tensors, file_name
from .subjects import Subject

_ROOM = 256 << 20
"""Bytes of tensors that one run of the model returns; a model with more is run several times."""
_WORKER = Path(__file__).with_name("onnxruntime_worker.py")
_LARGE = 1 << 30
_TIMEOUT = 3600.0


class OnnxRuntimeSide(Side):
    """ONNX Runtime in a process of its own, which may crash.

    Args:
        provider: the execution provider, with or without ``ExecutionProvider``; the CPU's otherwise.
        optimized: "optimized" to let it optimize the graph, so that fused nodes lack the tensors between them.
        timeout: the seconds after which it is stopped.
    """

    def __init__(self, provider: str = "CPU", optimized: str = "", timeout: float | None = None) -> None:
        self.name = f"onnxruntime:{provider}{':optimized' if optimized else ''}"
        self._provider = provider if provider.endswith("ExecutionProvider") else f"{provider}ExecutionProvider"
        self._optimized = bool(optimized)
        self._timeout = timeout or _TIMEOUT

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        if not isinstance(subject, OnnxSubject):
            raise SideError("onnxruntime runs ONNX models; other models are compared with files or a device")
        self._require_provider()
        with tempfile.TemporaryDirectory(prefix="opwire-") as folder:
            yield self._run(subject, inputs, Path(folder))

    def _require_provider(self) -> None:
        try:
            runtime: Any = import_module("onnxruntime")
        except ImportError:
            raise SideError("onnxruntime is not installed: pip install onnxruntime") from None
        if self._provider not in runtime.get_available_providers():
            listed = ", ".join(each.removesuffix("ExecutionProvider") for each in runtime.get_available_providers())
            raise SideError(f"onnxruntime has no {self._provider} here; it has {listed}")

    def _run(self, subject: OnnxSubject, inputs: Mapping[str, Array], folder: Path) -> Tensors:
        outputs = folder / "outputs"
        outputs.mkdir()
        self._write_task(subject, inputs, folder)
        failure = programs.run([sys.executable, str(_WORKER), str(folder)], self._timeout)
        reasons: dict[str, str] = {}
        failure = f"{self.name} {failure}" if failure else ""
        for failed in _failed(folder / "failed.jsonl"):
            reason = f"{self.name} {failed['reason']}"
            reasons |= dict.fromkeys(failed["tensors"], reason)
            failure = failure or (reason if failed["is_failure"] else "")
        if failure and not any(outputs.iterdir()):
            raise SideError(failure)
        return Files(outputs, failure, reasons)

    def _write_task(self, subject: OnnxSubject, inputs: Mapping[str, Array], folder: Path) -> None:
        """Writes the model, its inputs and what to run to a folder."""
        _save(subject.model.read_proto(), folder / "model.onnx")
        names = {name: f"{i}.npy" for i, name in enumerate(inputs)}
        for name, file in names.items():
            np.save(folder / file, inputs[name], allow_pickle=False)
        task = {
            "model": str(folder / "model.onnx"),
            "inputs": names,
            "groups": list(_groups(subject)),
            "files": {name: file_name(name) for node in subject.nodes for name in node.outputs},
            "provider": self._provider,
            "optimized": self._optimized,
        }
        (folder / "run.json").write_text(json.dumps(task), encoding="utf-8")


def _save(model: onnx.ModelProto, path: Path) -> None:
    """Writes a model, with its constants in another file if it is too large for one."""
    if model.ByteSize() < _LARGE:
        onnx.save(model, path)
        return
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # saving replaces its constants
    onnx.save(copy, path, save_as_external_data=True)


def _failed(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _groups(subject: Subject) -> Iterator[list[str]]:
    """Yields the tensors in groups that one run can return."""
    group: list[str] = []
    taken = 0
    for name in (name for node in subject.nodes for name in node.outputs):
        known = subject.type_of(name)
        size = 0 if known is None else int(np.prod(known.sizes)) * known.dtype.itemsize
        if group and taken + size > _ROOM:
            yield group
            group, taken = [], 0
        group.append(name)
        taken += size
    if group:
        yield group
