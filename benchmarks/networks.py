"""The networks of the graph benchmark, each built for opwire, ONNX Runtime and PyTorch at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import opwire
from opwire.tensor import Array

from . import onnx_model

Torch = Callable[..., Any]

_DOMAINS = {"": 20, "com.microsoft": 1}


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a network: its name in ONNX Runtime and PyTorch, and its opwire tensor."""

    name: str
    tensor: opwire.GraphTensor


@dataclass(slots=True)
class Network:
    """A network under construction; ``x`` is its only input.

    Attributes:
        graph: the opwire graph.
        nodes, constants: the ONNX Runtime model.
        steps: the PyTorch steps, each with the names of its inputs, weights last, and of its result.
    """

    graph: opwire.Graph = field(default_factory=opwire.Graph)
    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    steps: list[tuple[Torch, list[str], str]] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def weights(self, *shape: int, scale: float) -> Array:
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def add(
        self,
        tensor: opwire.GraphTensor,
        operator: str,
        attributes: Mapping[str, Any],
        torch: Torch,
        sources: list[Value],
        weights: tuple[Array, ...] = (),
        domain: str = "",
    ) -> Value:
        """Adds to the other libraries what the opwire graph already has."""
        name = f"t{len(self.steps)}"
        named = {f"{name}_w{i}": array for i, array in enumerate(weights)}
        self.constants |= named
        inputs = [*(source.name for source in sources), *named]
        self.nodes.append(onnx_model.node(operator, inputs, [name], attributes, domain))
        self.steps.append((torch, inputs, name))
        return Value(name, tensor)

    def convolution(self, x: Value, filters: int, window: int, stride: int = 1) -> Value:
        """Adds a convolution with bias, padded so that stride 1 preserves the size."""
        from torch.nn.functional import conv2d

        channels, padding = x.tensor.sizes[1], window // 2
        kernel = self.weights(filters, channels, window, window, scale=(2 / (channels * window * window)) ** 0.5)
        bias = self.weights(filters, scale=0.1)
        tensor = self.graph.convolution(
            x.tensor,
            kernel,
            bias.reshape(1, -1, 1, 1),
            strides=stride,
            start_padding=padding,
            end_padding=padding,
        )
        attributes = {"strides": [stride] * 2, "pads": [padding] * 4, "kernel_shape": [window] * 2}

        def run(a: Any, w: Any, b: Any) -> Any:
            return conv2d(a, w, b, stride=stride, padding=padding)

        return self.add(tensor, "Conv", attributes, run, [x], (kernel, bias))

    def relu(self, x: Value) -> Value:
        return self.add(self.graph.activation_relu(x.tensor), "Relu", {}, lambda a: a.relu(), [x])

    def gelu(self, x: Value) -> Value:
        from torch.nn.functional import gelu

        return self.add(self.graph.activation_gelu(x.tensor), "Gelu", {}, gelu, [x])

    def plus(self, x: Value, y: Value) -> Value:
        tensor = self.graph.element_wise_add(x.tensor, y.tensor)
        return self.add(tensor, "Add", {}, lambda a, b: a + b, [x, y])

    def max_pooling(self, x: Value, window: int, stride: int, padding: int) -> Value:
        from torch.nn.functional import max_pool2d

        tensor = self.graph.max_pooling(x.tensor, window, strides=stride, start_padding=padding, end_padding=padding)
        attributes = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.add(tensor, "MaxPool", attributes, lambda a: max_pool2d(a, window, stride, padding), [x])

    def linear(self, x: Value, size: int) -> Value:
        """Adds a matrix product and a bias."""
        _, rows, before = x.tensor.sizes
        matrix, bias = self.weights(before, size, scale=before**-0.5), self.weights(size, scale=0.1)
        tensor = self.graph.gemm(x.tensor, matrix[None], np.broadcast_to(bias, (1, rows, size)))
        product = self.add(tensor, "MatMul", {}, lambda a, w: a @ w, [x], (matrix,))
        return self.add(tensor, "Add", {}, lambda a, b: a + b, [product], (bias,))

    def attention(self, query: Value, key: Value, value: Value, heads: int) -> Value:
        from torch.nn.functional import scaled_dot_product_attention

        size = query.tensor.sizes[2] // heads
        tensor = self.graph.multihead_attention(
            query.tensor,
            key.tensor,
            value.tensor,
            scale=size**-0.5,
            mask_filter_value=-1e4,
            head_count=heads,
            mask_type="NONE",
        )

        def run(*given: Any) -> Any:
            q, k, v = (each.reshape(1, -1, heads, size).transpose(1, 2) for each in given)
            return scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(given[0].shape)

        sources = [query, key, value]
        return self.add(tensor, "MultiHeadAttention", {"num_heads": heads}, run, sources, domain="com.microsoft")

    def normalized(self, x: Value) -> Value:
        """Adds a layer normalization over the last dimension."""
        from torch.nn.functional import layer_norm

        size = x.tensor.sizes[2]
        scale, bias = self.weights(size, scale=1), self.weights(size, scale=0.1)
        shape = (1, 1, size)
        tensor = self.graph.mean_variance_normalization1(
            x.tensor, scale.reshape(shape), bias.reshape(shape), axes=[2], normalize_variance=True, epsilon=1e-5
        )

        def run(a: Any, s: Any, b: Any) -> Any:
            return layer_norm(a, (size,), s, b, 1e-5)

        attributes = {"axis": 2, "epsilon": 1e-5}
        return self.add(tensor, "LayerNormalization", attributes, run, [x], (scale, bias))

    def begin(self, *sizes: int) -> Value:
        """Declares the input."""
        return Value("x", self.graph.input("x", "FLOAT32", sizes))

    def end(self, y: Value) -> None:
        """Declares the output."""
        self.graph.output("y", y.tensor)
        self.nodes.append(onnx_model.node("Identity", [y.name], ["y"], {}))
        self.steps.append((lambda a: a, [y.name], "y"))

    def onnx(self, sizes: tuple[int, ...]) -> bytes:
        """Returns the ONNX model."""
        inputs = {"x": ("float32", sizes)}
        return onnx_model.network(self.nodes, self.constants, inputs, {"y": "float32"}, _DOMAINS)

    def torch(self, dtype: str) -> Callable[[Array], Any]:
        """Returns a function that runs the network in PyTorch, in ``float32`` or ``float64``."""
        import torch

        kind = getattr(torch, dtype)
        known = {name: torch.from_numpy(array).to(kind) for name, array in self.constants.items()}

        def run(x: Array) -> Any:
            with torch.inference_mode():
                values = {**known, "x": torch.from_numpy(x).to(kind)}
                for step, inputs, output in self.steps:
                    values[output] = step(*(values[name] for name in inputs))
                return values["y"]

        return run


def resnet() -> tuple[Network, tuple[int, ...]]:
    """Returns the start of a ResNet-50 and two bottlenecks of each of its stages, the first with a projection."""
    made, sizes = Network(), (1, 3, 224, 224)
    x = made.max_pooling(made.relu(made.convolution(made.begin(*sizes), 64, 7, 2)), 3, 2, 1)
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = made.relu(made.convolution(x, width, 1))
            y = made.relu(made.convolution(y, width, 3, stride))
            y = made.convolution(y, 4 * width, 1)
            x = made.relu(made.plus(y, x if block else made.convolution(x, 4 * width, 1, stride)))
    made.end(x)
    return made, sizes


def bert() -> tuple[Network, tuple[int, ...]]:
    """Returns an encoder layer of BERT-base: 128 tokens, 768 features, 12 heads."""
    made, sizes = Network(), (1, 128, 768)
    x = made.begin(*sizes)
    mixed = made.attention(*(made.linear(x, 768) for _ in range(3)), heads=12)
    x = made.normalized(made.plus(x, made.linear(mixed, 768)))
    x = made.normalized(made.plus(x, made.linear(made.gelu(made.linear(x, 3072)), 768)))
    made.end(x)
    return made, sizes


def formulas() -> tuple[Network, tuple[int, ...]]:
    """Returns three chained elementwise formulas on 16 MiB."""
    made, sizes = Network(), (1, 1, 2048, 2048)
    x = made.begin(*sizes)
    made.end(made.relu(made.plus(made.plus(x, x), x)))
    return made, sizes


NETWORKS = {"ResNet-50, 8 blocks": resnet, "BERT-base layer": bert, "add, add, relu of 16 MiB": formulas}
