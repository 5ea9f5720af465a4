"""Tests of recurrent networks of ONNX, as DirectML operators."""

import numpy as np
import pytest
from onnx import TensorProto

import opwire
from opwire.level import FeatureLevel
from opwire.onnx import ModelError, load
from tests.onnx_models.building import info, model, node
from tests.onnx_models.peers import assert_as_in_onnxruntime

STEPS, BATCH, ELEMENTS, HIDDEN = 4, 3, 2, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.fixture(scope="module")
def runner():
    with opwire.local() as client:
        yield client


def network(operator, *, optional=(), outputs=("y", "h"), **attributes):
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
    given = [name if name in ("x", "w", "r", *optional) else "" for name in names]
    built = node(operator, given, outputs, hidden_size=HIDDEN, **attributes)
    inputs = [name for name in ("x", "lengths", "h0", "c0") if name in given]
    constants = {name: arrays[name] for name in given if name and name not in inputs}
    types = {"lengths": TensorProto.INT32}
    infos = [info(name, arrays[name].shape, types.get(name, TensorProto.FLOAT)) for name in inputs]
    return model([built], infos, [name for name in outputs if name], constants), {name: arrays[name] for name in inputs}


ALL = ("b", "lengths", "h0", "c0", "p")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", GATES)
def test_all_optional_inputs(operator, direction, runner):
    proto, inputs = network(operator, optional=ALL, direction=direction)
    loaded = assert_as_in_onnxruntime(proto, inputs, runner)
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
def test_attributes(operator, attributes, runner):
    proto, inputs = network(operator, optional=("b", "h0"), **attributes)
    assert_as_in_onnxruntime(proto, inputs, runner)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("outputs", [("", "h"), ("y",)])
def test_outputs_may_be_left_out(operator, outputs, runner):
    proto, inputs = network(operator, outputs=outputs)
    assert_as_in_onnxruntime(proto, inputs, runner)


@pytest.mark.parametrize("outputs", [("y", "h", "c"), ("", "", "c")])
def test_cell(outputs, runner):
    proto, inputs = network("LSTM", outputs=outputs, optional=ALL, direction="bidirectional")
    assert_as_in_onnxruntime(proto, inputs, runner)


@pytest.mark.parametrize("operator", GATES)
def test_batch_first_is_the_same_transposed(operator, runner):
    """ONNX Runtime has no kernel for it."""
    outputs = ("y", "h", "c") if operator == "LSTM" else ("y", "h")
    proto, inputs = network(operator, outputs=outputs, optional=ALL, direction="bidirectional")
    expected = load(proto).run(inputs, runner=runner)
    proto, inputs = network(operator, outputs=outputs, optional=ALL, direction="bidirectional", layout=1)
    loaded = load(proto)
    found = loaded.run(inputs, runner=runner)
    assert all(each.is_lowered for each in loaded.nodes)
    np.testing.assert_array_equal(found["y"], expected["y"].transpose(2, 0, 1, 3))
    for name in outputs[1:]:
        np.testing.assert_array_equal(found[name], np.swapaxes(expected[name], 0, 1))


def test_clip_of_other_networks_is_refused_rather_than_ignored(runner):
    proto, inputs = network("GRU", clip=0.5)
    loaded = load(proto)
    assert [each.reason for each in loaded.nodes] == ["it has a clip, which DirectML has for LSTM alone"]
    with pytest.raises(ModelError, match="ignores its clip"):
        loaded.run(inputs, runner=runner)
