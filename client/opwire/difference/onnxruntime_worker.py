"""Runs a model in ONNX Runtime and writes its tensors to files, in a process of its own, so that it may crash.

It is a program rather than a module of the package, and imports nothing of it. It reads ``run.json`` of the folder that
its argument names, and writes ``failed.jsonl`` with a line for each group of tensors that could not be computed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

FAILED = "failed.jsonl"
_FLOATS = ("bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1")
_NOT_IN_NUMPY = {f"tensor({each})" for each in (*_FLOATS, "int4", "uint4", "int2", "uint2")}


def main(folder: Path) -> None:
    task = json.loads((folder / "run.json").read_bytes())
    model = onnx.load(task["model"])
    inputs = {name: np.load(folder / file) for name, file in task["inputs"].items()}
    for group in task["groups"]:
        try:
            _run(marked(model, group), inputs, folder, task)
        except Exception as error:  # ONNX Runtime has a class for each status, without a common one
            _fail(folder, group, f"fails: {' '.join(str(error).split())}", is_failure=True)


def _fail(folder: Path, tensors: list[str], reason: str, *, is_failure: bool = False) -> None:
    with (folder / FAILED).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"tensors": tensors, "reason": reason, "is_failure": is_failure}) + "\n")


def _run(model: onnx.ModelProto, inputs: dict[str, Any], folder: Path, task: dict[str, Any]) -> None:
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if task["optimized"] else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[task["provider"]])
    taken = {each.name for each in session.get_inputs()}
    outputs = {each.name: each.type for each in session.get_outputs()}
    for name, kind in outputs.items():
        if kind in _NOT_IN_NUMPY:
            _fail(folder, [name], f"does not return {kind} in Python")
    names = [name for name, kind in outputs.items() if kind not in _NOT_IN_NUMPY]
    found = session.run(names, {name: array for name, array in inputs.items() if name in taken}) if names else []
    for name, array in zip(names, found, strict=True):
        if isinstance(array, np.ndarray):
            np.save(folder / "outputs" / task["files"][name], array, allow_pickle=False)


def marked(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """Returns a copy of a model with given tensors as its outputs; those of functions' bodies are left out."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    produced = {name for node in copy.graph.node for name in node.output}
    del copy.graph.output[:]
    found = [onnx.ValueInfoProto(name=name, type=onnx.TypeProto()) for name in names if name in produced]
    copy.graph.output.extend(found)
    return copy


if __name__ == "__main__":
    main(Path(sys.argv[1]))
