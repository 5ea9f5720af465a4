"""Tests of whole networks: their outputs are those of ONNX Runtime, within what float32 explains."""

import time
import tracemalloc

import numpy as np
import pytest

import opwire
from opwire.difference.drawing import draw
from opwire.difference.onnx_subject import OnnxSubject
from opwire.level import FeatureLevel
from opwire.onnx import load
from tests.onnx_models.building import info, model, node
from tests.onnx_models.networks import networks

NETWORKS = {network.name: (network, path) for network, path in networks()}
QUICK = {"squeezenet"}
CASES = [each if each in QUICK else pytest.param(each, marks=pytest.mark.thorough) for each in NETWORKS]


@pytest.mark.parametrize("name", CASES)
def test_network_computes_what_onnx_runtime_computes(name):
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    network, path = NETWORKS[name]
    loaded = load(path, dimensions=network.dimensions)
    assert all(node.is_lowered for node in loaded.nodes), [node.reason for node in loaded.nodes if not node.is_lowered]
    subject, generator = OnnxSubject(loaded, name), np.random.default_rng(0)
    inputs = draw(subject.inputs)
    for each, kind in subject.inputs.items():
        if kind.dtype.kind in "iu":
            inputs[each] = generator.integers(0, network.integers, kind.sizes).astype(kind.dtype)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = dict(zip((each.name for each in session.get_outputs()), session.run(None, inputs), strict=True))
    with opwire.local() as runner:
        found = loaded.run(inputs, runner=runner)
    for each, array in expected.items():
        scale = max(1, float(np.abs(array).max(initial=0)))
        np.testing.assert_allclose(found[each], array, rtol=2e-4, atol=2e-5 * scale, err_msg=each)


@pytest.mark.serial
def test_level_of_a_large_model_takes_little_time_and_memory():
    weights = {f"w{i}": np.full((1024, 1024), i, np.float32) for i in range(25)}  # 100 MiB
    nodes = [node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(25)]
    body = model(nodes, [info("x0", [1, 1024])], ["x25"], weights).SerializeToString()
    del weights
    tracemalloc.start()
    began = time.monotonic()
    assert load(body).level == FeatureLevel.V2_1
    assert time.monotonic() - began < 5
    assert tracemalloc.get_traced_memory()[1] < 2 * len(body)  # beside the body itself
    tracemalloc.stop()
