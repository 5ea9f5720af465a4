"""Classes of reduced precision, recognized by computing with that precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import OpwireError
from ..schema import CATALOG
from ..tensor import Array
from .bounds import apart
from .chain import Chain, Key, Operation, unchanged
from .error_rules import Exact, Sum
from .error_table import rule_of
from .evidence import Evidence


@dataclass(frozen=True, slots=True)
class Format:
    """A float format within FLOAT32.

    Attributes:
        name: its name.
        digits: the bits of its fraction.
        smallest: its smallest normal exponent.
        largest: its largest number.
    """

    name: str
    digits: int
    smallest: int
    largest: float

    def rounded(self, array: Array, *, truncated: bool = False) -> Array:
        """Returns floats rounded to the format, to nearest or toward zero, as elements of their own type."""
        values = array.astype(np.float64)
        with np.errstate(all="ignore"):
            _, exponents = np.frexp(values)
            step = np.ldexp(1.0, np.maximum(exponents - 1, self.smallest) - self.digits)
            found = (np.trunc if truncated else np.rint)(values / step) * step
            found = np.where(np.abs(found) > self.largest, np.copysign(np.inf, found), found)
        return np.where(np.isfinite(values), found, values).astype(array.dtype)


TF32 = Format("TF32", 10, -126, float(np.finfo(np.float32).max))
BF16 = Format("BFLOAT16", 7, -126, 3.3895313892515355e38)
FP16 = Format("FLOAT16", 10, -14, 65504.0)

_FORMATS = (FP16, TF32, BF16)

_SEVERAL = 3
"""Elements with larger errors that are no fault of one of them."""

_NEARER = 4
"""How many times nearer the tensor of a class must be than the exact one."""

_ENOUGH = 8
"""Different numbers of a format that are no accident."""

_SPREAD = 0.1
"""The share of elements with larger errors than are likely that a class must have; fewer are a fault of these."""


def precision_of(evidence: Evidence) -> str:
    """Returns the class of precision that explains a tensor, or "" if none does."""
    if evidence.exact.dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        return next(_classes(evidence), "")


def _classes(evidence: Evidence) -> Iterator[str]:
    yield from _flushed_results(evidence)
    numbers = np.count_nonzero(np.isfinite(evidence.exact) & (evidence.exact != 0))
    if np.count_nonzero(evidence.unlikely) < _SPREAD * numbers:
        yield from _flushed_inputs(evidence)
        if np.count_nonzero(evidence.unlikely) >= _SEVERAL:
            yield from _approximated(evidence)  # some are coarse in parts of their range only
        return
    yield from _rounded_results(evidence)
    yield from _flushed_inputs(evidence)
    yield from _rounded_operands(evidence)
    yield from _low_sums(evidence)
    yield from _approximated(evidence)


def _flushed_results(evidence: Evidence) -> Iterator[str]:
    smallest = np.finfo(evidence.exact.dtype).smallest_normal
    flushed = np.where(np.abs(evidence.exact) < smallest, evidence.exact.dtype.type(0), evidence.exact)
    if np.any(evidence.actual[evidence.unlikely] == 0) and evidence.is_likely(flushed):
        yield "denormals flushed to zero in the result"


def _rounded_results(evidence: Evidence) -> Iterator[str]:
    """Yields the format that every element has, if the exact ones rounded to it are about these."""
    forms = [
        form
        for form in _FORMATS
        if form.digits < np.finfo(evidence.exact.dtype).nmant
        and np.array_equal(form.rounded(evidence.actual), evidence.actual, equal_nan=True)
    ]
    if np.unique(evidence.actual[np.isfinite(evidence.actual)]).size < _ENOUGH:
        return
    likely = evidence.limit(slice(0, evidence.exact.size)).likely
    for truncated in (False, True):
        fitting = []
        for form in forms:
            rounded = form.rounded(evidence.exact, truncated=truncated)
            step = np.abs(rounded.astype(np.float64)) * 2.0**-form.digits + np.ldexp(1.0, form.smallest - form.digits)
            away = apart(evidence.actual, rounded)
            if np.all((away <= likely) | ((away <= 1.01 * step) & (likely > 0))):
                fitting.append(form)
        if fitting:
            fewest = min(form.digits for form in fitting)
            yield f"the result rounded to {_names([form for form in fitting if form.digits == fewest], truncated)}"


def _names(forms: Sequence[Format], truncated: bool) -> str:
    return " or ".join(form.name for form in forms) + (" toward zero" if truncated else "")


def _rounded_operands(evidence: Evidence) -> Iterator[str]:
    """Yields the formats of operands that give the tensor; some give the same for these operands."""
    if evidence.chain is None or all(array.dtype.kind != "f" for array in evidence.chain.given.values()):
        return
    if evidence.exact.size < _ENOUGH:
        return
    least = evidence.distance(evidence.exact) / _NEARER
    for truncated, only_constants in ((False, False), (True, False), (False, True)):
        fitting: list[Format] = []
        for form in _FORMATS:
            if fitting and form.digits != fitting[0].digits:
                continue

            def low(array: Array, form: Format = form, truncated: bool = truncated) -> Array:
                return form.rounded(array, truncated=truncated)

            if any(_overflows(array, form) for array in evidence.chain.given.values()):
                continue  # an infinite operand shows no format
            found = _with_operands(evidence, low, only_constants=only_constants)
            if found is not None and evidence.distance(found) <= least and evidence.is_likely(found, 2):
                fitting.append(form)
        if fitting:
            yield f"{'constants' if only_constants else 'operands'} rounded to {_names(fitting, truncated)}"


def _overflows(array: Array, form: Format) -> bool:
    return array.dtype.kind == "f" and bool(np.any(np.isfinite(array) & (np.abs(array) > form.largest)))


def _with_operands(
    evidence: Evidence, change: Callable[[Array], Array], *, only_constants: bool = False
) -> Array | None:
    """Returns the tensor as computed from changed operands."""
    chain = evidence.chain
    assert chain is not None
    given = {
        key: change(array)
        for key, array in chain.given.items()
        if array.dtype.kind == "f" and (key in chain.constants or not only_constants)
    }
    if only_constants and not given:
        return None
    return _varied(evidence, given, chain)


def _varied(evidence: Evidence, given: Mapping[Key, Array], chain: Chain) -> Array | None:
    try:
        return evidence.elements(chain.varied(unchanged, given))
    except OpwireError:
        return None


def _flushed_inputs(evidence: Evidence) -> Iterator[str]:
    def flush(array: Array) -> Array:
        return np.where(np.abs(array) < np.finfo(array.dtype).smallest_normal, array.dtype.type(0), array)

    given = {} if evidence.chain is None else evidence.chain.given
    floats = [array for array in given.values() if array.dtype.kind == "f"]
    if not any(np.any((array != 0) & (flush(array) == 0)) for array in floats):
        return
    found = _with_operands(evidence, flush)
    if found is not None and evidence.is_likely(found):
        yield "denormals flushed to zero in the operands"


def _low_sums(evidence: Evidence) -> Iterator[str]:
    """Yields sums in FLOAT16: errors of that precision, of results that FLOAT16 has."""
    chain = evidence.chain
    if chain is None or not any(isinstance(rule_of(operation), Sum) for operation in chain.operations):
        return
    if not np.array_equal(FP16.rounded(evidence.actual), evidence.actual, equal_nan=True):
        return
    sums = 2.0**-24
    likely = evidence.limit(slice(0, evidence.exact.size)).likely
    if np.all(apart(evidence.actual, evidence.exact) <= likely * (FP16_UNIT / sums)):
        yield "sums in FLOAT16"


FP16_UNIT = 2.0**-11


def _gelu_tanh(x: Array, desc: Mapping[str, Any]) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _gelu_sigmoid(x: Array, desc: Mapping[str, Any]) -> Array:
    return np.asarray(x / (1 + np.exp(-1.702 * x)))


def _hard_sigmoid(x: Array, desc: Mapping[str, Any]) -> Array:
    return np.asarray(np.clip(x / 6 + 0.5, 0, 1))


def _hard_sigmoid_fifth(x: Array, desc: Mapping[str, Any]) -> Array:
    return np.asarray(np.clip(x * 0.2 + 0.5, 0, 1))


def _hard_swish(x: Array, desc: Mapping[str, Any]) -> Array:
    return np.asarray(x * np.clip(x / 6 + 0.5, 0, 1))


Approximation = Callable[[Array, Mapping[str, Any]], Array]

_APPROXIMATIONS: Mapping[str, Mapping[str, Approximation]] = {
    "ACTIVATION_GELU": {"GELU by tanh": _gelu_tanh, "x * sigmoid(1.702 x) for GELU": _gelu_sigmoid},
    "ACTIVATION_SIGMOID": {
        "clip(x / 6 + 0.5) for the sigmoid": _hard_sigmoid,
        "clip(0.2 x + 0.5)": _hard_sigmoid_fifth,
    },
    "ACTIVATION_SWISH": {"x * clip(x / 6 + 0.5) for Swish": _hard_swish},
}
"""Functions that stand for others, of the input as float64."""

_FUNCTIONS = frozenset(("functions", "activations", "softmax"))

_COARSE = 2.0**-8
"""The relative error that an approximate function may have."""


def _approximated(evidence: Evidence) -> Iterator[str]:
    chain = evidence.chain
    if chain is None:
        return
    for operation in chain.operations:
        for name, function in _APPROXIMATIONS.get(operation.type, {}).items():
            found = _with_function(evidence, chain, operation, function)
            if found is not None and _is_near(evidence, found):
                yield name
    last = chain.operations[-1]
    if CATALOG[last.type].family in _FUNCTIONS and not _is_exact(last):
        size = np.abs(evidence.exact.astype(np.float64))
        top = 1.0 if last.type in _BOUNDED else 0.0
        error = apart(evidence.actual, evidence.exact)
        if np.all(error <= _COARSE * np.maximum(size, top) + evidence.limit(slice(0, error.size)).likely):
            largest = np.max(_relative(error, size, top)[evidence.unlikely], initial=0)
            yield f"an approximate function: relative errors up to {largest:.1e}"


_BOUNDED = frozenset(
    f"ACTIVATION_{name}" for name in ("SIGMOID", "TANH", "SCALED_TANH", "SOFTSIGN", "ELU", "SCALED_ELU", "CELU")
) | frozenset(f"ELEMENT_WISE_{name}" for name in ("ERF", "TANH", "SIN", "COS"))
"""Functions whose approximations have errors relative to their range."""


def _is_exact(operation: Operation) -> bool:
    return isinstance(rule_of(operation), Exact)


def _relative(error: Array, size: Array, top: float) -> Array:
    return error / np.maximum(np.maximum(size, top), 1e-300)


def _with_function(evidence: Evidence, chain: Chain, operation: Operation, function: Approximation) -> Array | None:
    """Returns the tensor with another function in place of an operator's."""
    output = operation.outputs["OutputTensor"]
    given = chain.buffers[operation.inputs["InputTensor"]]
    found = function(given.astype(np.float64), operation.desc).astype(given.dtype)
    rest = replace(chain, operations=chain.operations[chain.operations.index(operation) + 1 :])
    if not rest.operations:
        return evidence.elements({output: found})
    return _varied(evidence, {output: found}, rest)


def _is_near(evidence: Evidence, found: Array) -> bool:
    """Returns whether the tensor is about another one, whose own function has some ULP of error."""
    error = apart(evidence.actual, found)
    size = np.maximum(np.abs(found.astype(np.float64)), 2.0**-4)
    return bool(np.all(error <= 2.0**-19 * size + evidence.limit(slice(0, error.size)).likely))
