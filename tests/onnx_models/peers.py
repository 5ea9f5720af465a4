"""Runs models in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import opwire.onnx
from opwire.onnx.model import Runner


def in_onnxruntime(proto: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Returns the outputs of a model as ONNX Runtime computes them on the CPU, without optimizations."""
    runtime: Any = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    untyped = ModelProto.FromString(proto.SerializeToString())
    untyped.ir_version = min(proto.ir_version, 10)
    for each in untyped.graph.output:
        each.ClearField("type")  # to be inferred
    session = runtime.InferenceSession(untyped.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def assert_as_in_onnxruntime(
    proto: ModelProto, inputs: Mapping[str, Any], runner: Runner, *, rtol: float = 1e-5, atol: float = 1e-5
) -> opwire.onnx.Model:
    """Runs a model on DirectML operators alone, and compares the outputs with those of ONNX Runtime."""
    expected = in_onnxruntime(proto, inputs)
    model = opwire.onnx.load(proto, like=inputs)
    reasons = [f"{node.operator}: {node.reason}" for node in model.nodes if not node.is_lowered]
    assert not reasons
    found = model.run(inputs, runner=runner)
    for name, array in zip(model.outputs, expected, strict=True):
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape, name
        np.testing.assert_allclose(found[name].astype("f8"), array.astype("f8"), rtol=rtol, atol=atol, err_msg=name)
    return model
