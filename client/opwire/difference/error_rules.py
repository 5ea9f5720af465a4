"""The errors that an operator adds: a rule for each family or operator, and samples for all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import frexp, prod
from typing import Any

import numpy as np

from ..errors import OpwireError
from ..schema import CATALOG, Promise, schema_of
from ..tensor import Array
from .bounds import Errors, Limit, Run, apart, moved, signs, spacing, unit
from .chain import Operation

Rule = Callable[[Run, str], Limit]

_LIKELY = 6.0
"""Standard deviations that a likely sum of roundings may have."""

_CONSTANT = 8
"""Roundings besides those of the terms: of factors, biases and averages."""


def rule_of(operation: Operation) -> Rule:
    """Returns the rule of the errors that an operator adds."""
    desc = operation.desc
    if desc.get("ScaleBias"):
        return Sampled(ulps=8)
    if operation.type == "REDUCE":
        return _REDUCTIONS[str(desc["Function"]).removeprefix("DML_REDUCE_FUNCTION_")]
    found = _ROWS.get(operation.type) or _FAMILIES.get(CATALOG[operation.type].family)
    if found is not None and not str(desc.get("InterpolationMode", "")).endswith("NEAREST_NEIGHBOR"):
        return found
    promise = schema_of(operation.type).accuracy[0].promise
    return Exact() if promise is Promise.EXACT else Sampled()


@dataclass(frozen=True, slots=True)
class Exact:
    """No rounding at all: the elements are moved, compared, or chosen."""

    def __call__(self, run: Run, output: str) -> Limit:
        def at(part: slice) -> Errors:
            zeros = np.zeros(run.outputs[output][part].size)
            return Errors(zeros, zeros)

        return at


@dataclass(frozen=True, slots=True)
class Rounded:
    """A function that is computed for each element, within some ULP, and absolute errors of its approximations.

    Attributes:
        ulps: ULP of the result.
        absolute: units of rounding of the function's range, about 1 or the largest of its factors.
        of_input: units of rounding of the input.
        logarithm: units of rounding of the result's logarithm, relative to the result.
    """

    ulps: float = 1
    absolute: float = 0
    of_input: float = 0
    logarithm: float = 0

    def __call__(self, run: Run, output: str) -> Limit:
        exact, u = run.outputs[output], run.smallest(output)
        factors = (run.operation.desc.get(name, 1.0) for name in ("Alpha", "Beta", "Gamma"))
        absolute = self.absolute * u * max(1.0, *(abs(each) for each in factors))
        given = next((array for array in run.inputs.values() if array.size == exact.size), None)

        def at(part: slice) -> Errors:
            error = self.ulps * _ulps(exact[part], u) + absolute
            if self.of_input and given is not None:
                error = error + self.of_input * u * _finite(given[part])
            if self.logarithm:
                size = _finite(exact[part])
                error = error + self.logarithm * u * size * np.abs(np.log(np.maximum(size, 1e-300)))
            return Errors(error, 4 * error)

        return at


@dataclass(frozen=True, slots=True)
class Relative:
    """Sums and products without cancellation: an error relative to the result.

    Attributes:
        terms: the number of terms.
        ulps: ULP besides.
        absolute: units of rounding besides.
    """

    terms: Callable[[Run], int]
    ulps: float = 8
    absolute: float = 0

    def __call__(self, run: Run, output: str) -> Limit:
        exact, n, u = run.outputs[output], self.terms(run), run.smallest(output)
        sums = min(u, 2.0**-24)  # sums of FLOAT16 are in FLOAT32

        def at(part: slice) -> Errors:
            size, own = _finite(exact[part]), self.ulps * _ulps(exact[part], u) + self.absolute * u
            return Errors(own + _LIKELY * np.sqrt(n) * sums * size, own + 2 * n * sums * size)

        return at


@dataclass(frozen=True, slots=True)
class Sum:
    """Sums of products, whose terms may cancel.

    The root of the sum of their squares is computed by the operator itself, from squares of its inputs. The sum of
    absolute terms is at most that times the root of the number of terms.

    Attributes:
        terms: the number of terms.
        is_mean: whether the factors of the terms are weights whose sum is at most 1.
        positions: whether the weights depend on positions in the input, which have roundings of their own.
    """

    terms: Callable[[Run], int]
    is_mean: bool = False
    positions: bool = False

    def __call__(self, run: Run, output: str) -> Limit:
        exact, u = run.outputs[output], run.smallest(output)
        root, scale = _root_of_squares(run, output)
        n = self.terms(run) + 2
        sums = min(u, 2.0**-24)
        far = 4.0 * max(max(tensor.sizes) for tensor in run.operation.tensors.values()) if self.positions else 0.0

        def at(part: slice) -> Errors:
            size = root[part].astype(np.float64) * scale
            own = 1.5 * _ulps(exact[part], u) + far * sums * size
            likely = _LIKELY * (np.sqrt(n) + 2) * sums * (_finite(exact[part]) + size)
            possible = (n + _CONSTANT) * sums * size * (1 if self.is_mean else np.sqrt(n))
            return Errors(own + likely, own + np.maximum(likely, possible))

        return at


@dataclass(frozen=True, slots=True)
class Sampled:
    """What happens if inputs and attributes are moved by their roundings: how ill-conditioned the operator is.

    Attributes:
        ulps: ULP of the result besides.
        absolute: units of rounding of the largest element besides, for approximations within.
        steps: by how many ULP inputs move.
        terms: the number of terms of its sums.
    """

    ulps: float = 4
    absolute: float = 0
    steps: float = 1
    terms: Callable[[Run], int] = lambda run: 1

    def __call__(self, run: Run, output: str) -> Limit:
        exact, u = run.outputs[output], run.smallest(output)
        largest = np.zeros(exact.size)
        for i in range(2 + _SEEDS):
            for both in (True, False):
                inputs = {name: self._moved(array, i, j) for j, (name, array) in enumerate(run.inputs.items())}
                desc = _moved_floats(run.operation.desc, self.steps * 2.0**-24 * (1 if i != 1 else -1))
                operation = replace(run.operation, desc=desc) if both else run.operation
                if both and desc == run.operation.desc:
                    continue
                try:
                    found = operation.run(run.runner, inputs)[output]
                except OpwireError:
                    continue
                np.fmax(largest, np.nan_to_num(apart(found, exact), posinf=0), out=largest)
        if exact.dtype.kind != "f":
            return lambda part: Errors(largest[part], largest[part])
        n = self.terms(run)
        top = float(np.max(_finite(exact), initial=0))

        def at(part: slice) -> Errors:
            own = self.ulps * _ulps(exact[part], u) + self.absolute * u * top
            likely = own + 4 * np.sqrt(n) * largest[part]
            return Errors(likely, likely + 4 * n * largest[part])

        return at

    def _moved(self, array: Array, i: int, j: int) -> Array:
        if array.dtype.kind != "f":
            return array
        return moved(array, self.steps * 2 * unit(array.dtype) * _finite(array) * signs(i, array.size, 10 * j))


_SEEDS = 3


def _moved_floats(desc: Mapping[str, Any], by: float) -> dict[str, Any]:
    def change(value: Any) -> Any:
        if isinstance(value, float):
            return value if abs(frexp(value)[0]) in (0, 0.5) else value * (1 + 2 * by)  # powers of 2 round nothing
        return [change(each) for each in value] if isinstance(value, list) else value

    return {name: change(value) for name, value in desc.items()}


def _ulps(exact: Array, u: float) -> Array:
    """Returns an ULP of each element, or of a wider rounding in between."""
    return np.maximum(spacing(exact), 2 * u * _finite(exact)) if exact.dtype.kind == "f" else np.zeros(exact.size)


def _finite(array: Array) -> Array:
    return np.nan_to_num(np.abs(array.astype(np.float64)), nan=0.0, posinf=0.0)


def _root_of_squares(run: Run, output: str) -> tuple[Array, float]:
    """Returns the root of the sum of the squared terms of each element, and what to multiply it by."""
    desc = as_float32(run.operation.desc)
    squared = {name: float(desc[name]) ** 2 for name in ("Alpha", "Beta") if name in desc}
    if str(desc.get("Function", "")).endswith("L1"):
        squared["Function"] = "SUM"  # type: ignore[assignment]
    operation = replace(run.operation, desc={**desc, **squared})
    largest = {
        name: max(float(np.max(_finite(array), initial=0)), 1e-300)
        for name, array in run.inputs.items()
        if array.dtype.kind == "f"
    }
    additive = [name for name in largest if name in ("BiasTensor", "CTensor")]
    product = prod(value for name, value in largest.items() if name not in additive and name != "ROITensor")
    scales = {name: product if name in additive else value for name, value in largest.items() if name != "ROITensor"}
    inputs = {name: _squares(array, scales.get(name)) for name, array in run.inputs.items()}
    found = operation.run(run.runner, inputs)[output]
    return np.sqrt(np.maximum(found, np.float32(0))), product


def _squares(array: Array, scale: float | None) -> Array:
    if array.dtype.kind != "f":
        return array
    if scale is None:
        return array.astype(np.float32)
    found = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32) / np.float32(max(scale, 1e-38))
    return np.asarray(np.square(found, out=found))


def as_float32(value: Any) -> Any:
    """Returns a desc with FLOAT32 for FLOAT16."""
    if isinstance(value, Mapping):
        return {name: as_float32(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_float32(each) for each in value]
    return "FLOAT32" if value in ("FLOAT16", "FLOAT64") else value


def _softmax(run: Run, output: str) -> Limit:
    n = max(run.operation.sizes("InputTensor"))
    return Rounded(8 + np.sqrt(n), logarithm=2)(run, output)


def _log_softmax(run: Run, output: str) -> Limit:
    n = max(run.operation.sizes("InputTensor"))
    return Rounded(4, absolute=16 + np.sqrt(n), of_input=4)(run, output)


def _batch_normalization(run: Run, output: str) -> Limit:
    """Scale, mean and bias may be folded before the input is read."""
    signs_of = {"MeanTensor": -1, "VarianceTensor": 1}
    inputs = {
        name: (np.abs(array) * np.float32(signs_of.get(name, 1))).astype(np.float32)
        for name, array in run.inputs.items()
    }
    operation = replace(run.operation, desc=as_float32(run.operation.desc))
    size = operation.run(run.runner, inputs)[output]
    exact, u = run.outputs[output], run.smallest(output)

    def at(part: slice) -> Errors:
        own = 1.5 * _ulps(exact[part], u) + 8 * min(u, 2.0**-24) * _finite(size[part])
        return Errors(own, 2 * own)

    return at


def _mean_variance(run: Run, output: str) -> Limit:
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
    u = min(run.smallest(output), 2.0**-24)
    roundings = Errors(np.asarray(_LIKELY * np.sqrt(n) + 8), np.asarray(n + 8.0))
    scale = np.abs(_logical(run, "ScaleTensor")) if "ScaleTensor" in run.inputs else np.ones(1)
    bias = np.abs(_logical(run, "BiasTensor")) if "BiasTensor" in run.inputs else np.zeros(1)
    exact = run.outputs[output]
    tiers = []
    for k in roundings:
        of_mean = k * u * np.sqrt(squares) + 4 * u * (np.abs(x) + np.abs(mean))
        of_deviation = np.abs(x - mean) * (k * u * squares / np.square(deviation) + 8 * u)
        found = scale * (of_mean + of_deviation) / deviation + 4 * u * bias
        own = 1.5 * _ulps(exact, run.smallest(output))
        tiers.append(own + np.broadcast_to(found, tensor.sizes).reshape(-1))
    return lambda part: Errors(tiers[0][part], tiers[1][part])


def _logical(run: Run, name: str) -> Array:
    """Returns the elements of an input as float64, of the sizes of its tensor."""
    tensor = run.operation.tensors[name]
    array = run.inputs[name]
    strides = [step * array.itemsize for step in tensor.element_strides]
    viewed = np.lib.stride_tricks.as_strided(array, tensor.sizes, strides, writeable=False)
    return np.nan_to_num(viewed.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _normalized_axes(run: Run) -> tuple[int, ...]:
    desc, rank = run.operation.desc, run.operation.tensors["InputTensor"].rank
    if "Axes" in desc:
        return tuple(int(axis) for axis in desc["Axes"])
    return tuple(range(1 if desc.get("CrossChannel") else 2, rank))


def _along_axes(run: Run) -> int:
    sizes = run.operation.sizes("InputTensor")
    return prod(sizes[axis] for axis in run.operation.desc.get("Axes", range(len(sizes))))


def _along_axis(run: Run) -> int:
    axis: int = run.operation.desc["Axis"]
    return run.operation.sizes("InputTensor")[axis]


def _window(run: Run) -> int:
    return prod(run.operation.desc["WindowSize"])


def _filter(run: Run) -> int:
    sizes = run.operation.sizes("FilterTensor")
    is_forward = str(run.operation.desc.get("Direction", "FORWARD")).endswith("FORWARD")
    return prod(sizes[1:]) if is_forward else prod(sizes) // sizes[1]


def _inner(run: Run) -> int:
    sizes = run.operation.sizes("ATensor")
    return sizes[-2] if str(run.operation.desc.get("TransA", "NONE")).endswith("TRANSPOSE") else sizes[-1]


def _per_output(run: Run) -> int:
    """Returns how many elements of the inputs there are for one of the output, at most."""
    most = max(array.size for array in run.inputs.values())
    return max(8, 2 * most // max(1, min(array.size for array in run.outputs.values())))


def _recurrent(run: Run) -> int:
    sequence, _, inputs = run.operation.sizes("InputTensor")[-3:]
    hidden = run.operation.sizes("RecurrenceTensor")[-1]
    return sequence * (inputs + hidden)


def _largest(run: Run) -> int:
    return max(max(tensor.sizes) for tensor in run.operation.tensors.values())


_REDUCTIONS: Mapping[str, Rule] = {
    **dict.fromkeys(("ARGMAX", "ARGMIN", "MAX", "MIN"), Exact()),
    **dict.fromkeys(("SUM", "L1"), Sum(_along_axes)),
    "AVERAGE": Sum(_along_axes, is_mean=True),
    **dict.fromkeys(("L2", "SUM_SQUARE", "MULTIPLY"), Relative(_along_axes)),
    "LOG_SUM": Sampled(8, absolute=4, terms=_along_axes),
    "LOG_SUM_EXP": Relative(_along_axes, absolute=16),
}

_FAMILIES: Mapping[str, Rule] = {
    "pooling": Sum(_window, is_mean=True),
    "resampling": Sum(_per_output, is_mean=True, positions=True),
    "regions": Sum(_per_output, is_mean=True, positions=True),
    "recurrent": Sampled(16, absolute=16, terms=_recurrent),
    "attention": Sampled(16, absolute=4, terms=_largest),
    "quantization": Sampled(1, steps=3),
    "optimizer": Sampled(8),
    "normalization": Sampled(8, terms=_per_output),
    "functions": Rounded(8, absolute=4),
    "activations": Rounded(8, absolute=8),
}

_ROWS: Mapping[str, Rule] = {
    "CONVOLUTION": Sum(_filter),
    "GEMM": Sum(_inner),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": Sampled(8, steps=3),
    "QUANTIZED_LINEAR_CONVOLUTION": Sampled(1, steps=3),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": Sampled(1, steps=3),
    "QUANTIZED_LINEAR_AVERAGE_POOLING": Sampled(1, steps=3),
    "CUMULATIVE_SUMMATION": Sum(_along_axis),
    "CUMULATIVE_PRODUCT": Relative(_along_axis),
    "FOLD": Sum(_per_output),
    **dict.fromkeys(("LP_POOLING", "LP_POOLING1"), Relative(_window, ulps=32)),
    "MAX_POOLING_GRAD": Sum(_per_output),
    "ROI_POOLING": Exact(),
    **dict.fromkeys(("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"), _softmax),
    **dict.fromkeys(("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1"), _log_softmax),
    "BATCH_NORMALIZATION": _batch_normalization,
    **dict.fromkeys(
        ("MEAN_VARIANCE_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION1", "MEAN_VARIANCE_NORMALIZATION2"),
        _mean_variance,
    ),
    "LOCAL_RESPONSE_NORMALIZATION": Relative(_largest, ulps=64),
    "LP_NORMALIZATION": Relative(_along_axis, ulps=16),
    "ACTIVATION_IDENTITY": Exact(),
    "ACTIVATION_RELU": Exact(),
    "ACTIVATION_RELU_GRAD": Exact(),
    "ACTIVATION_THRESHOLDED_RELU": Exact(),
    "ACTIVATION_LEAKY_RELU": Rounded(1),
    "ACTIVATION_PARAMETERIZED_RELU": Rounded(1),
    **dict.fromkeys(
        ("ACTIVATION_LINEAR", "ACTIVATION_HARD_SIGMOID", "ACTIVATION_HARD_SWISH", "ACTIVATION_SHRINK"), Sampled(2)
    ),
    "ACTIVATION_SIGMOID": Rounded(8, absolute=4),
    "ACTIVATION_TANH": Rounded(8, absolute=4),
    "ACTIVATION_SOFTSIGN": Rounded(4),
    "ACTIVATION_GELU": Rounded(8, absolute=1, of_input=4),
    "ACTIVATION_SWISH": Rounded(8, absolute=1, of_input=4),
    **dict.fromkeys(("ELEMENT_WISE_CEIL", "ELEMENT_WISE_FLOOR", "ELEMENT_WISE_ROUND"), Exact()),
    **dict.fromkeys(("ELEMENT_WISE_SQRT", "ELEMENT_WISE_RECIP"), Rounded(2)),
    "ELEMENT_WISE_EXP": Rounded(4),
    "ELEMENT_WISE_LOG": Rounded(4, absolute=2),
    **dict.fromkeys(("ELEMENT_WISE_SIN", "ELEMENT_WISE_COS"), Rounded(4, absolute=4, of_input=1)),
    **dict.fromkeys(
        (
            "ELEMENT_WISE_TAN",
            "ELEMENT_WISE_POW",
            "ELEMENT_WISE_CONSTANT_POW",
            "ELEMENT_WISE_ACOSH",
            "ELEMENT_WISE_ATANH",
            "ELEMENT_WISE_ACOS",
        ),
        Sampled(16),
    ),
    "ELEMENT_WISE_ATAN_YX": Rounded(8),
    **dict.fromkeys(
        ("ELEMENT_WISE_ADD", "ELEMENT_WISE_ADD1", "ELEMENT_WISE_SUBTRACT", "ELEMENT_WISE_MULTIPLY"), Rounded(1)
    ),
    "ELEMENT_WISE_DIVIDE": Rounded(2),
    **dict.fromkeys(("VALUE_SCALE_2D", "ELEMENT_WISE_MEAN", "ELEMENT_WISE_DIFFERENCE_SQUARE"), Sampled(2)),
    "CAST": Rounded(1),
    "FILL_VALUE_SEQUENCE": Sampled(2),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": Sampled(2),
}
