"""Faults that backends have, to be planted in a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from opwire.difference.precision import FP16, TF32
from opwire.tensor import Array

from .backend import Run

Inputs = Sequence[Array | None]
Make = Callable[[NodeProto, Inputs, list[Array], Run, np.random.Generator], Array | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        name: its class.
        said: what a detail that names it contains, any of these.
        make: returns the first result of a node with it; None if the node cannot have it.
    """

    name: str
    said: tuple[str, ...]
    make: Make


def _element(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    if right[0].dtype.kind not in "fiu" or right[0].size < 2:
        return None
    found = right[0].copy()
    at = np.unravel_index(int(rng.integers(found.size)), found.shape)
    top = np.abs(found.astype(np.float64)).max()
    found[at] = found[at] + found.dtype.type(max(0.2 * top, 1) if found.dtype.kind != "f" else 0.2 * top + 1e-3)
    return found


def _channel(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    y = right[0]
    if y.dtype.kind != "f" or y.ndim < 3 or y.shape[1] < 4 or y[0, 0].size < 4:
        return None
    found = y.copy()
    channel = int(rng.integers(y.shape[1]))
    found[:, channel] *= np.float32(1.02)
    return found if np.abs(y[:, channel]).max() > 0.01 * np.abs(y).max() else None


def _half(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    y = right[0]
    has_room = y.dtype == np.float32 and y.size and 1e-3 < np.abs(y).max() < FP16.largest
    return FP16.rounded(y) if has_room else None


def _tf32(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    if node.op_type not in ("Conv", "Gemm", "MatMul", "ConvTranspose"):
        return None
    return run(node, [None if each is None else TF32.rounded(each) for each in inputs])[0]


def _with(node: NodeProto, **attributes: Any) -> NodeProto:
    """Returns a node with other attributes."""
    copy = NodeProto()
    copy.CopyFrom(node)
    kept = [each for each in node.attribute if each.name not in attributes]
    del copy.attribute[:]
    copy.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in attributes.items())])
    return copy


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _padding(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    pads = _attributes(node).get("pads")
    if not pads or not any(pads) or node.op_type not in ("Conv", "MaxPool", "AveragePool", "QLinearConv"):
        return None
    half = len(pads) // 2
    other = [each - 1 for each in pads[:half]] + [each + 1 for each in pads[half:]]
    return run(_with(node, pads=other), inputs)[0] if min(other) >= 0 else None


def _counted(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    given = _attributes(node)
    if node.op_type != "AveragePool" or not any(given.get("pads", [])):
        return None
    return run(_with(node, count_include_pad=1 - given.get("count_include_pad", 0)), inputs)[0]


def _axis(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    if node.op_type not in ("Softmax", "LogSoftmax") or right[0].ndim < 2:
        return None
    return run(_with(node, axis=right[0].ndim - 2), inputs)[0] if right[0].shape[-2] > 1 else None


def _turned(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    x = inputs[0] if inputs else None
    if node.op_type != "Transpose" or x is None:
        return None
    perm = list(_attributes(node)["perm"])
    a, b = len(perm) - 2, len(perm) - 1
    perm[a], perm[b] = perm[b], perm[a]
    return run(_with(node, perm=perm), inputs)[0].reshape(right[0].shape)


def _ties(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    return run(_with(node, select_last_index=1), inputs)[0] if node.op_type in ("ArgMax", "ArgMin") else None


def _rounding(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    if node.op_type == "QuantizeLinear":
        x, scale, zero = (np.asarray(each) for each in inputs)
        limit = np.iinfo(zero.dtype)
        return np.asarray(np.clip(np.trunc(x / scale) + zero, limit.min, limit.max).astype(zero.dtype))
    if node.op_type == "Round":
        return np.asarray(np.trunc(np.asarray(inputs[0])))
    return None


def _approximate(
    node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator
) -> Array | None:
    if node.op_type == "Gelu":
        return run(_with(node, approximate="tanh"), inputs)[0]
    if node.op_type in ("Sigmoid", "Tanh", "Softmax", "Exp"):
        y = right[0].astype(np.float64)
        return np.asarray(y * (1 + 2e-4 * np.sin(37 * np.asarray(inputs[0]))), np.float32)
    return None


def _bias(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    if node.op_type not in ("Conv", "Gemm", "ConvTranspose", "QLinearConv"):
        return None
    bias = inputs[-1]
    if len(inputs) not in (3, 9) or bias is None or not bias.any():
        return None
    return run(node, [*inputs[:-1], np.zeros_like(bias)])[0]


def _epsilon(node: NodeProto, inputs: Inputs, right: list[Array], run: Run, rng: np.random.Generator) -> Array | None:
    """Adds epsilon to the deviation, or leaves it out."""
    given = _attributes(node)
    epsilon = float(given.get("epsilon", 1e-5))
    if node.op_type == "BatchNormalization":
        x, scale, bias, mean, variance = (np.asarray(each, np.float64) for each in inputs)
        if not epsilon or variance.min() > 1e3 * epsilon:
            return None
        ends = (1, -1, *[1] * (x.ndim - 2))
        factor = (scale / (np.sqrt(variance) + epsilon)).reshape(ends)
        return np.asarray((x - mean.reshape(ends)) * factor + bias.reshape(ends), np.float32)
    return None


FAULTS: Sequence[Fault] = (
    Fault("element", ("1 element",), _element),
    Fault("channel", ("channel", "index"), _channel),
    Fault("FLOAT16", ("FLOAT16",), _half),
    Fault("TF32", ("TF32",), _tf32),
    Fault("padding", ("padding",), _padding),
    Fault("padding counted", ("counted",), _counted),
    Fault("axis", ("axis", "axes"), _axis),
    Fault("transposition", ("axes in the order",), _turned),
    Fault("ties", ("ties",), _ties),
    Fault("rounding", ("round",), _rounding),
    Fault("approximate function", ("approximate", "GELU by tanh"), _approximate),
    Fault("bias", ("bias",), _bias),
    Fault("epsilon", ("epsilon",), _epsilon),
)
"""All kinds of faults."""


class Planting:
    """Plants faults in some nodes of a run, and keeps what it planted."""

    def __init__(self, run: Run, count: int, candidates: Sequence[str], seed: int) -> None:
        self._run = run
        self._rng = np.random.default_rng(seed)
        self._chosen = set(self._rng.permutation(np.array(candidates))[:count].tolist())
        self._order = dict.fromkeys((fault.name for fault in FAULTS), 0)
        self.planted: dict[str, Fault] = {}

    def __call__(self, node: NodeProto, inputs: Inputs, right: list[Array]) -> list[Array]:
        if node.name not in self._chosen:
            return right
        for fault in sorted(FAULTS, key=self._rank):
            found = fault.make(node, inputs, right, self._run, self._rng)
            if found is not None and not _same(found, right[0]):
                self._order[fault.name] += 1
                self.planted[node.name] = fault
                return [found, *right[1:]]
        return right

    def _rank(self, fault: Fault) -> tuple[int, int]:
        """Orders faults by how often they were planted, and the last first, as few nodes can have them."""
        return self._order[fault.name], -FAULTS.index(fault)


def _same(one: Array, other: Array) -> bool:
    """Returns whether a fault changes nothing that rounding does not."""
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return not bool(np.nanmax(away, initial=0) > 3e-5 * float(np.nanmax(np.abs(other), initial=0)))
