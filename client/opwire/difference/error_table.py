"""Which rule the errors of each operator follow."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..schema import CATALOG, Promise, schema_of
from .bounds import Run
from .chain import Operation
from .error_normalization import batch_normalization, log_softmax, mean_variance, softmax
from .error_rules import Exact, Relative, Rounded, Rule, Sampled, Sum


def rule_of(operation: Operation) -> Rule:
    """Returns the rule of the errors that an operator adds."""
    desc = operation.desc
    if desc.get("ScaleBias"):
        return Sampled(ulps=8)
    if operation.type == "REDUCE":
        return _REDUCTIONS[str(desc["Function"]).removeprefix("DML_REDUCE_FUNCTION_")]
    kind = CATALOG[operation.type]
    found = _ROWS.get(kind.name) or _ROWS.get(kind.first) or _FAMILIES.get(kind.family)
    if found is not None and not str(desc.get("InterpolationMode", "")).endswith("NEAREST_NEIGHBOR"):
        return found
    promise = schema_of(operation.type).accuracy[0].promise
    return Exact() if promise is Promise.EXACT else Sampled()


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
    "LP_POOLING": Relative(_window, ulps=32),
    "MAX_POOLING_GRAD": Sum(_per_output),
    "ROI_POOLING": Exact(),
    "ACTIVATION_SOFTMAX": softmax,
    "ACTIVATION_LOG_SOFTMAX": log_softmax,
    "BATCH_NORMALIZATION": batch_normalization,
    "MEAN_VARIANCE_NORMALIZATION": mean_variance,
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
    **dict.fromkeys(("ELEMENT_WISE_ADD", "ELEMENT_WISE_SUBTRACT", "ELEMENT_WISE_MULTIPLY"), Rounded(1)),
    "ELEMENT_WISE_DIVIDE": Rounded(2),
    **dict.fromkeys(("VALUE_SCALE_2D", "ELEMENT_WISE_MEAN", "ELEMENT_WISE_DIFFERENCE_SQUARE"), Sampled(2)),
    "CAST": Rounded(1),
    "FILL_VALUE_SEQUENCE": Sampled(2),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": Sampled(2),
}
