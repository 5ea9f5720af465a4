"""Rules of the errors of softmax and normalizations, by their formulas."""

from __future__ import annotations

from math import prod

import numpy as np

from ..tensor import Array
from .bounds import Errors, Limit, Run
from .chain import shaped
from .error_rules import LIKELY, Rounded, overflows, ulps_of


def softmax(run: Run, output: str) -> Limit:
    n = max(run.operation.sizes("InputTensor"))
    return Rounded(8 + np.sqrt(n), logarithm=2)(run, output)


def log_softmax(run: Run, output: str) -> Limit:
    n = max(run.operation.sizes("InputTensor"))
    return Rounded(4, absolute=16 + np.sqrt(n), of_input=4)(run, output)


def batch_normalization(run: Run, output: str) -> Limit:
    """Scale, mean and bias may be folded before the input is read."""
    tensors = {name: np.abs(_logical(run, name)) for name in run.inputs}
    epsilon = float(run.operation.desc.get("Epsilon", 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = tensors.get("ScaleTensor", np.ones(1)) / np.sqrt(tensors["VarianceTensor"] + epsilon)
        constant = tensors["MeanTensor"] * factor + tensors.get("BiasTensor", np.zeros(1))
        size = (tensors["InputTensor"] * factor + constant).reshape(-1)
    exact, u = run.outputs[output], run.smallest(output)

    def at(part: slice) -> Errors:
        own = 1.5 * ulps_of(exact[part], u) + 8 * min(u, 2.0**-24) * np.nan_to_num(size[part], nan=0.0, posinf=0.0)
        return Errors(own, 2 * own)

    return at


def mean_variance(run: Run, output: str) -> Limit:
    """The mean, and the variance as the mean of squares less the square of the mean, are sums over the axes."""
    tensor = run.operation.tensors["InputTensor"]
    x = _logical(run, "InputTensor")
    axes = _normalized_axes(run)
    desc = run.operation.desc
    n = prod(x.shape[axis] for axis in axes)
    centred = bool(desc.get("UseMean", True))
    mean = x.mean(axis=axes, keepdims=True) if centred else np.zeros(1)
    squares = np.mean(np.square(x), axis=axes, keepdims=True)
    variance = np.maximum(squares - np.square(mean), 0)
    divides = bool(desc.get("NormalizeVariance", desc.get("UseVariance", True)))
    deviation = np.sqrt(variance + float(desc.get("Epsilon", 0))) if divides else np.ones(1)
    deviation = np.maximum(deviation, 1e-30)
    between = run.smallest(output)  # steps may be rounded to the type; sums of FLOAT16 are in FLOAT32
    u = min(between, 2.0**-24)
    roundings = Errors(np.asarray(LIKELY * np.sqrt(n) + 8), np.asarray(max(n, LIKELY * np.sqrt(n)) + 8))
    scale = np.abs(_logical(run, "ScaleTensor")) if "ScaleTensor" in run.inputs else np.ones(1)
    bias = np.abs(_logical(run, "BiasTensor")) if "BiasTensor" in run.inputs else np.zeros(1)
    exact = run.outputs[output]
    tiers = []
    for k in roundings:
        of_mean = k * u * np.sqrt(squares) + 4 * between * (np.abs(x) + np.abs(mean))
        of_deviation = np.abs(x - mean) * (k * u * squares / np.square(deviation) + 8 * between)
        found = scale * (of_mean + of_deviation) / deviation + 4 * between * bias
        own = 1.5 * ulps_of(exact, run.smallest(output))
        tiers.append(own + np.broadcast_to(found + overflows(n * squares), tensor.sizes).reshape(-1))
    return lambda part: Errors(tiers[0][part], tiers[1][part])


def _logical(run: Run, name: str) -> Array:
    """Returns the elements of an input as float64, of the sizes of its tensor."""
    elements = shaped(run.inputs[name], run.operation.tensors[name]).astype(np.float64)
    return np.nan_to_num(elements, nan=0.0, posinf=0.0, neginf=0.0)


def _normalized_axes(run: Run) -> tuple[int, ...]:
    desc, rank = run.operation.desc, run.operation.tensors["InputTensor"].rank
    if "Axes" in desc:
        return tuple(int(axis) for axis in desc["Axes"])
    return tuple(range(1 if desc.get("CrossChannel") else 2, rank))
