"""Tests of recurrent networks of ONNX, as DirectML operators."""

from typing import Any

import numpy as np
import pytest

from opwire.level import FeatureLevel
from opwire.onnx import ModelError, load
from tests.onnx_models.single import by_onnx_runtime, lowered, require_same, single

pytest.importorskip("onnxruntime")

STEPS, BATCH, ELEMENTS, HIDDEN = 4, 3, 2, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def network(operator: Any, *, optional: Any = (), outputs: Any = ("y", "h"), **attributes: Any) -> Any:
    """Returns a model of one node with random weights, and its inputs."""
    rng = np.random.default_rng(7)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[operator]
    sizes = {
        "x": (STEPS, BATCH, ELEMENTS),
        "w": (directions, gates * HIDDEN, ELEMENTS),
        "r": (directions, gates * HIDDEN, HIDDEN),
        "b": (directions, 2 * gates * HIDDEN),
        "h0": (directions, BATCH, HIDDEN),
        "c0": (directions, BATCH, HIDDEN),
        "p": (directions, 3 * HIDDEN),
    }
    arrays = {name: rng.standard_normal(each).astype(np.float32) for name, each in sizes.items()}
    arrays["lengths"] = np.array([4, 1, 3], np.int32)
    if attributes.get("layout"):
        arrays |= {name: np.swapaxes(arrays[name], 0, 1).copy() for name in ("x", "h0", "c0")}
    names = ["x", "w", "r", "b", "lengths", "h0", *(["c0", "p"] if operator == "LSTM" else [])]
    given = [arrays[name] if name in ("x", "w", "r", *optional) else None for name in names]
    source = single(operator, given, WEIGHTS, opset=21, outputs=len(outputs), hidden_size=HIDDEN, **attributes)
    for i, name in enumerate(outputs):
        source.graph.node[0].output[i] = name and f"y{i}"
    kept = [each for each in source.graph.output if each.name in source.graph.node[0].output]
    del source.graph.output[:]
    source.graph.output.extend(kept)
    return source, given


def assert_as_in_onnx_runtime(source: Any, inputs: Any) -> Any:
    loaded, found = lowered(source, inputs)
    require_same(found, by_onnx_runtime(source, inputs), 1e-5, 1e-5)
    return loaded


WEIGHTS = (1, 2, 3, 7)
"""The places of the inputs that are constants."""

ALL = ("b", "lengths", "h0", "c0", "p")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", GATES)
def test_all_optional_inputs(operator, direction):
    source, inputs = network(operator, optional=ALL, direction=direction)
    loaded = assert_as_in_onnx_runtime(source, inputs)
    assert [use.type for each in loaded.nodes for use in each.uses] == [operator]
    assert [each.level for each in loaded.nodes] == [FeatureLevel.V1_0]


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.3], "activation_beta": [-0.1]}),
        ("RNN", {"activations": ["Softsign"]}),
        ("GRU", {"linear_before_reset": 1}),
        (
            "GRU",
            {
                "activations": ["HardSigmoid", "ScaledTanh"],
                "activation_alpha": [0.3, 0.7],
                "activation_beta": [0.4, 1.5],
            },
        ),
        ("LSTM", {"clip": 0.4}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["Sigmoid", "Elu", "ThresholdedRelu"], "activation_alpha": [1.0, 0.5]}),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Softplus"]}),
    ],
)
def test_attributes(operator, attributes):
    source, inputs = network(operator, optional=("b", "h0"), **attributes)
    assert_as_in_onnx_runtime(source, inputs)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("outputs", [("", "h"), ("y",)])
def test_outputs_may_be_left_out(operator, outputs):
    source, inputs = network(operator, outputs=outputs)
    assert_as_in_onnx_runtime(source, inputs)


@pytest.mark.parametrize("outputs", [("y", "h", "c"), ("", "", "c")])
def test_cell(outputs):
    source, inputs = network("LSTM", outputs=outputs, optional=ALL, direction="bidirectional")
    assert_as_in_onnx_runtime(source, inputs)


@pytest.mark.parametrize("operator", GATES)
def test_batch_first_is_the_same_transposed(operator):
    """ONNX Runtime has no kernel for it."""
    outputs = ("y", "h", "c") if operator == "LSTM" else ("y", "h")
    y, *states = lowered(*network(operator, outputs=outputs, optional=ALL, direction="bidirectional"))[1]
    first, *others = lowered(*network(operator, outputs=outputs, optional=ALL, direction="bidirectional", layout=1))[1]
    np.testing.assert_array_equal(first, y.transpose(2, 0, 1, 3))
    for one, other in zip(others, states, strict=True):
        np.testing.assert_array_equal(one, np.swapaxes(other, 0, 1))


def test_clip_of_other_networks_is_refused_rather_than_ignored():
    source, inputs = network("GRU", clip=0.5)
    loaded = load(source)
    assert [each.reason for each in loaded.nodes] == ["it has a clip, which DirectML has for LSTM alone"]
    with pytest.raises(ModelError, match="ignores its clip"):
        loaded.run({"x0": inputs[0]})
