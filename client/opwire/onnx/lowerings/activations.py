"""Activation functions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...client.graph_tensors import GraphTensor
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers, spread

_ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, tuple[str, float]]]] = {
    "Sigmoid": ("SIGMOID", {}),
    "Tanh": ("TANH", {}),
    "Softsign": ("SOFTSIGN", {}),
    "LeakyRelu": ("LEAKY_RELU", {"Alpha": ("alpha", 0.01)}),
    "ThresholdedRelu": ("THRESHOLDED_RELU", {"Alpha": ("alpha", 1.0)}),
    "Elu": ("ELU", {"Alpha": ("alpha", 1.0)}),
    "Celu": ("CELU", {"Alpha": ("alpha", 1.0)}),
    "Selu": ("SCALED_ELU", {"Alpha": ("alpha", 1.6732632), "Gamma": ("gamma", 1.050701)}),
    "Shrink": ("SHRINK", {"Bias": ("bias", 0.0), "Threshold": ("lambd", 0.5)}),
    "HardSigmoid": ("HARD_SIGMOID", {"Alpha": ("alpha", 0.2), "Beta": ("beta", 0.5)}),
    "ScaledTanh": ("SCALED_TANH", {"Alpha": ("alpha", 1.0), "Beta": ("beta", 1.0)}),
    "ParametricSoftplus": ("PARAMETRIC_SOFTPLUS", {"Alpha": ("alpha", 1.0), "Beta": ("beta", 1.0)}),
}
"""Functions of one tensor: the operator, and its members with the attribute that gives each and its default."""


_FUSED = {name.lower(): each for name, each in _ACTIVATIONS.items()} | {
    "affine": ("LINEAR", {"Alpha": ("alpha", 1.0), "Beta": ("beta", 0.0)}),
    "dropout": ("IDENTITY", {}),
    "relu": ("RELU", {}),
    "softplus": ("SOFTPLUS", {}),
}
"""The functions that other operators may apply to their results, by their names in lower case."""


def fusable(name: str) -> tuple[str, Mapping[str, tuple[str, float]]]:
    """Returns the operator of an activation, without prefix, and its members, as in the table of functions.

    Raises:
        NotLowered: DirectML does not fuse it.
    """
    found = _FUSED.get(name.lower())
    if found is None:
        raise NotLowered(f"its activation is {name}, which DirectML does not fuse")
    return found


def fused_activation(node: NodeLowering, name: str, prefix: str) -> Mapping[str, Any]:
    """Returns the desc of an activation whose parameters are attributes of a node with a prefix."""
    operator, members = fusable(name)
    given = {member: float(node.attribute(prefix + key, default)) for member, (key, default) in members.items()}
    return {"Type": f"ACTIVATION_{operator}", **given}


def _activation(operator: str, members: Mapping[str, tuple[str, float]], node: NodeLowering) -> GraphTensor:
    given = {member: float(node.attribute(*attribute)) for member, attribute in members.items()}
    return node.emit(f"ACTIVATION_{operator}", InputTensor=node.lifted(0), **given).reshape(node.tensor(0).sizes)


for _name, (_operator, _members) in _ACTIVATIONS.items():
    lowers(_name)(partial(_activation, _operator, _members))


@lowers("Relu")
def relu(node: NodeLowering) -> GraphTensor:
    """Lowers the greater of x and 0: MAX for integers, which more types and lower levels have."""
    x = node.lifted(0)
    if x.data_type.is_float:
        return node.emit("ACTIVATION_RELU", InputTensor=x)
    return node.emit("ELEMENT_WISE_MAX", ATensor=x, BTensor=node.filled(0, x.data_type, x.sizes))


@lowers("Softplus")
def softplus(node: NodeLowering) -> GraphTensor:
    return node.emit("ACTIVATION_SOFTPLUS", InputTensor=node.lifted(0), Steepness=1.0)


@lowers("PRelu")
def prelu(node: NodeLowering) -> GraphTensor:
    x, slope = node.lifted(0), node.tensor(1)
    return node.emit("ACTIVATION_PARAMETERIZED_RELU", InputTensor=x, SlopeTensor=spread(lifted(slope, 4), x.sizes))


@lowers("HardSwish")
def hard_swish(node: NodeLowering) -> GraphTensor:
    """Lowers x max(0, min(1, x / 6 + 0.5)) in two steps, as ONNX defines it, which lower levels have than one."""
    x = node.lifted(0)
    return _gated(node, x, node.emit("ACTIVATION_HARD_SIGMOID", InputTensor=x, Alpha=1 / 6, Beta=0.5))


@lowers("Swish")
def swish(node: NodeLowering) -> GraphTensor:
    """Lowers x sigmoid(alpha x); in two steps if alpha is 1, which lower levels have than one."""
    x, alpha = node.lifted(0), float(node.attribute("alpha"))
    if alpha == 1:
        return _gated(node, x, node.emit("ACTIVATION_SIGMOID", InputTensor=x))
    return node.emit("ACTIVATION_SWISH", InputTensor=x, SigmoidInputScale=alpha)


@lowers("Mish")
def mish(node: NodeLowering) -> GraphTensor:
    """Lowers x tanh(softplus(x))."""
    x = node.lifted(0)
    softened = node.emit("ACTIVATION_SOFTPLUS", InputTensor=x, Steepness=1.0)
    return _gated(node, x, node.emit("ACTIVATION_TANH", InputTensor=softened))


def _gated(node: NodeLowering, x: GraphTensor, gate: GraphTensor) -> GraphTensor:
    return node.emit("ELEMENT_WISE_MULTIPLY", ATensor=x, BTensor=gate)


@lowers("Gelu")
def gelu(node: NodeLowering) -> GraphTensor:
    if node.attribute("approximate") != "none":
        raise NotLowered("it is approximated by tanh, which DirectML's GELU is not")
    return node.emit("ACTIVATION_GELU", InputTensor=node.lifted(0))
