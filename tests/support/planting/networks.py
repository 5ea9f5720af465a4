"""ONNX models of the usual kinds, with seeded weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from opwire.tensor import Array

Build = Callable[[], ModelProto]

_OPSET = 20
_IR_VERSION = 10


class _Network:
    """A model under construction, whose weights are drawn."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []

    def weight(self, *sizes: int, scale: float | None = None, near: float = 0.0) -> str:
        """Adds a constant of normal elements; by default, a filter or matrix that keeps the variance."""
        inner = int(np.prod(sizes[1:] if len(sizes) > 2 else sizes[:1]))
        deviation = 1 / np.sqrt(inner) if scale is None else scale
        return self.constant((near + deviation * self._generator.standard_normal(sizes)).astype(np.float32))

    def constant(self, given: Any) -> str:
        array = np.asarray(given)
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node and returns the name of its first output; the others have ``_1``, ``_2``, ... appended."""
        name = f"{operator.lower()}{len(self._nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self._nodes.append(helper.make_node(operator, [*inputs], names, name=name, **attributes))
        return name

    def model(self, inputs: Mapping[str, tuple[int, ...]], *outputs: str) -> ModelProto:
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in inputs.items()]
        produced = [onnx.ValueInfoProto(name=name, type=onnx.TypeProto()) for name in outputs]
        graph = helper.make_graph(self._nodes, "network", given, produced, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        return onnx.shape_inference.infer_shapes(model)


def perceptron() -> ModelProto:
    """Four layers with different activations, and a classifier."""
    net, x = _Network(1), "x"
    for activation in ("Relu", "Tanh", "Sigmoid", "Gelu"):
        x = net.add("Gemm", x, net.weight(64, 64), net.weight(64, scale=0.1))
        x = net.add(activation, x)
    x = net.add("Gemm", x, net.weight(64, 10), net.weight(10, scale=0.1))
    return net.model({"x": (32, 64)}, net.add("Softmax", x, axis=-1))


def transformer() -> ModelProto:
    """Two blocks of attention and feed-forward layers."""
    net, x = _Network(2), "x"
    width, heads, length = 64, 4, 32
    split = net.constant(np.array([1, length, heads, width // heads]))
    joined = net.constant(np.array([1, length, width]))
    for _ in range(2):
        normal = net.add("LayerNormalization", x, net.weight(width, scale=0.1, near=1), net.weight(width, scale=0.1))
        query, key, value = (
            net.add(
                "Transpose",
                net.add("Reshape", net.add("MatMul", normal, net.weight(width, width)), split),
                perm=[0, 2, 3, 1] if each == 1 else [0, 2, 1, 3],
            )
            for each in range(3)
        )
        scores = net.add("Mul", net.add("MatMul", query, key), net.constant(np.array([0.25], np.float32)))
        mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
        mixed = net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = net.add("Add", x, net.add("MatMul", mixed, net.weight(width, width)))
        normal = net.add("LayerNormalization", x, net.weight(width, scale=0.1, near=1), net.weight(width, scale=0.1))
        hidden = net.add(
            "Add", net.add("MatMul", normal, net.weight(width, 4 * width)), net.weight(4 * width, scale=0.1)
        )
        x = net.add("Add", x, net.add("MatMul", net.add("Gelu", hidden), net.weight(4 * width, width)))
    return net.model({"x": (1, length, width)}, x)


def tagger() -> ModelProto:
    """A bidirectional LSTM and a GRU, with a choice among the classes of each word."""
    net = _Network(3)
    length, inputs, hidden = 12, 16, 24
    x = net.add(
        "LSTM",
        "x",
        net.weight(2, 4 * hidden, inputs, scale=0.2),
        net.weight(2, 4 * hidden, hidden, scale=0.2),
        net.weight(2, 8 * hidden, scale=0.1),
        direction="bidirectional",
        hidden_size=hidden,
    )
    x = net.add("Reshape", net.add("Transpose", x, perm=[0, 2, 1, 3]), net.constant(np.array([length, 2, 2 * hidden])))
    x = net.add(
        "GRU",
        x,
        net.weight(1, 3 * hidden, 2 * hidden, scale=0.2),
        net.weight(1, 3 * hidden, hidden, scale=0.2),
        net.weight(1, 6 * hidden, scale=0.1),
        hidden_size=hidden,
    )
    x = net.add("Squeeze", x, net.constant(np.array([1])))
    x = net.add("Add", net.add("MatMul", x, net.weight(hidden, 8)), net.weight(8, scale=0.1))
    coarse = net.add("Round", net.add("Mul", x, net.constant(np.array([2], np.float32))))
    best = net.add("ArgMax", coarse, axis=-1, keepdims=0)
    net.add("TopK", coarse, net.constant(np.array([3])), outputs=2, axis=-1)
    mean = net.add("ReduceMean", x, net.constant(np.array([0])), keepdims=1)
    return net.model({"x": (length, 2, inputs)}, best, mean, net.add("LogSoftmax", x, axis=-1))


def decoder() -> ModelProto:
    """Convolutions that scale up, with pooling, batch normalization, and resampling of several kinds."""
    net = _Network(4)
    x = net.add("Conv", "x", net.weight(16, 8, 3, 3), net.weight(16, scale=0.1), pads=[1, 1, 1, 1])
    parameters = (net.weight(16, scale=0.1, near=1), net.weight(16, scale=0.1), net.weight(16, scale=0.1))
    variance = net.constant(np.linspace(1e-5, 1.5, 16, dtype=np.float32))
    x = net.add("BatchNormalization", x, *parameters, variance, epsilon=1e-5)
    x = net.add("LeakyRelu", x, alpha=0.1)
    pooled = net.add("AveragePool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    most = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    x = net.add("Add", pooled, most)
    scales, none = net.constant(np.array([1, 1, 2, 2], np.float32)), ""
    x = net.add("Resize", x, none, scales, mode="linear", coordinate_transformation_mode="half_pixel")
    x = net.add(
        "ConvTranspose", x, net.weight(16, 8, 4, 4, scale=0.1), net.weight(8), strides=[2, 2], pads=[1, 1, 1, 1]
    )
    x = net.add("InstanceNormalization", x, net.weight(8, scale=0.1, near=1), net.weight(8, scale=0.1))
    x = net.add("HardSwish", x)
    x = net.add("Resize", x, none, scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    x = net.add("Conv", x, net.weight(3, 8, 3, 3), net.weight(3, scale=0.1), pads=[1, 1, 1, 1])
    return net.model({"x": (1, 8, 12, 12)}, net.add("Sigmoid", x))


def quantized() -> ModelProto:
    """A convolutional network of 8-bit integers."""
    net = _Network(5)
    generator = np.random.default_rng(5)

    def scale(value: float) -> str:
        return net.constant(np.float32(value))

    def integers(*sizes: int) -> str:
        return net.constant(generator.integers(-60, 60, sizes).astype(np.int8))

    zero, weights_zero = net.constant(np.uint8(128)), net.constant(np.int8(0))
    x = net.add("QuantizeLinear", "x", scale(0.03125), zero)
    for inputs, outputs in ((3, 16), (16, 16)):
        bias = net.constant(generator.integers(-2000, 2000, outputs).astype(np.int32))
        x = net.add(
            "QLinearConv",
            *(x, scale(0.03125), zero, integers(outputs, inputs, 3, 3), scale(0.004), weights_zero),
            *(scale(0.03125), zero, bias),
            pads=[1, 1, 1, 1],
        )
    y = net.add("DequantizeLinear", x, scale(0.03125), zero)
    y = net.add("Relu", y)
    y = net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = net.add("GlobalAveragePool", net.add("Clip", y, net.constant(np.float32(0)), net.constant(np.float32(6))))
    y = net.add("Flatten", y)
    z = net.add("QuantizeLinear", y, scale(0.0625), zero)
    z = net.add(
        "QLinearMatMul", *(z, scale(0.0625), zero, integers(16, 10), scale(0.01), weights_zero, scale(0.125), zero)
    )
    return net.model({"x": (1, 3, 24, 24)}, net.add("DequantizeLinear", z, scale(0.125), zero))


SMALL: Mapping[str, Build] = {
    "perceptron": perceptron,
    "transformer": transformer,
    "tagger": tagger,
    "decoder": decoder,
    "quantized": quantized,
}
"""Small networks by name."""

LIGHT = ("squeezenet", "shufflenet", "inception_v1", "resnet50", "densenet121")
"""Models of the onnx package, with weights of their own in place of constant ones."""


def light(name: str) -> ModelProto:
    """Returns a light model of the onnx package with drawn weights, and its image as the only input."""
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph = model.graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    sizes = {node.output[0]: constants[node.input[0]] for node in graph.node if node.op_type == "ConstantOfShape"}
    generator = np.random.default_rng(len(graph.node))
    drawn = [
        numpy_helper.from_array(_drawn(generator, node, place, tuple(sizes[tensor])), tensor)
        for tensor, (node, place) in _readers(model).items()
        if tensor in sizes
    ]
    kept = [node for node in graph.node if node.output[0] not in sizes]
    used = {tensor for node in kept for tensor in node.input}
    initializers = [*drawn, *(each for each in graph.initializer if each.name in used)]
    known = {each.name for each in initializers}
    inputs = [each for each in graph.input if each.name in used and each.name not in known]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(kept)
    graph.initializer.extend(initializers)
    graph.input.extend(inputs)
    model.ir_version = _IR_VERSION
    for i, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{i}"
    return onnx.shape_inference.infer_shapes(model)


def _readers(model: ModelProto) -> dict[str, tuple[NodeProto, int]]:
    """Returns the first node that reads each tensor, and as which of its inputs."""
    found: dict[str, tuple[NodeProto, int]] = {}
    for node in model.graph.node:
        for place, tensor in enumerate(node.input):
            found.setdefault(tensor, (node, place))
    return found


def _drawn(generator: np.random.Generator, node: NodeProto, place: int, sizes: tuple[int, ...]) -> Array:
    """Returns weights that keep the variance of activations."""
    if node.op_type == "BatchNormalization":
        values = generator.uniform(0.5, 1.5, sizes) if place in (1, 4) else 0.1 * generator.standard_normal(sizes)
    elif len(sizes) >= 2:
        values = generator.standard_normal(sizes) * np.sqrt(1.5 / np.prod(sizes[1:]))
    else:
        values = 0.1 * generator.standard_normal(sizes)
    return values.astype(np.float32)
