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


def main(folder: Path) -> None:
    task = json.loads((folder / "run.json").read_bytes())
    model = onnx.load(task["model"])
    inputs = {name: np.load(folder / file) for name, file in task["inputs"].items()}
    for group in task["groups"]:
        try:
            _run(marked(model, group), inputs, folder, task)
        except Exception as error:
            failed = {"tensors": [*group], "error": " ".join(str(error).split())}
            with (folder / FAILED).open("a", encoding="utf-8") as file:
                file.write(json.dumps(failed) + "\n")


def _run(model: onnx.ModelProto, inputs: dict[str, Any], folder: Path, task: dict[str, Any]) -> None:
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if task["optimized"] else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[task["provider"]])
    taken = {each.name for each in session.get_inputs()}
    found = session.run(None, {name: array for name, array in inputs.items() if name in taken})
    for output, array in zip(session.get_outputs(), found, strict=True):
        if isinstance(array, np.ndarray):
            np.save(folder / "outputs" / task["files"][output.name], array, allow_pickle=False)


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
