"""How large the errors of a float implementation may be, for each element and for these very inputs.

The bound follows from a running error analysis of the operators, one by one: each rounds its own result, and passes on
the errors of its inputs. There are two tiers. What is *likely* grows with the square root of the number of terms of
a sum, as roundings that are independent of each other do; nearly everything stays below. What is *possible* holds for
any order of the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..tensor import Array
from .chain import Chain, Key, Operation
from .subjects import Runner

SLICE = 1 << 20
"""Elements that are judged at a time."""


class Errors(NamedTuple):
    """Absolute errors that elements may have, as float64."""

    likely: Array
    possible: Array


Limit = Callable[[slice], Errors]
"""Returns the errors of a slice of the elements of a tensor, in the order of its buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """An operator that was run, as the rules of its errors see it.

    Attributes:
        operation: the operator.
        inputs, outputs: the elements of its tensors.
        runner: what computes variants.
    """

    operation: Operation
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    runner: Runner

    def floats(self) -> list[str]:
        """Returns the names of its inputs that are floats."""
        return [name for name, array in self.inputs.items() if array.dtype.kind == "f"]

    def smallest(self, output: str) -> float:
        """Returns the unit of the roundings between its inputs and an output."""
        array = self.outputs[output]
        kinds = [array.dtype, *(self.inputs[name].dtype for name in self.floats())]
        return max((unit(each) for each in kinds if each.kind == "f"), default=2.0**-24)


def unit(dtype: np.dtype[Any]) -> float:
    """Returns the relative error of a rounding to a float type: half an ULP of 1."""
    return float(np.finfo(dtype).eps) / 2


def spacing(array: Array) -> Array:
    """Returns an ULP of each element as float64; that of the largest number for infinities, 0 for NaN."""
    limit = np.finfo(array.dtype).max
    found = np.spacing(np.minimum(np.abs(array), np.nextafter(limit, array.dtype.type(0)))).astype(np.float64)
    return np.asarray(np.nan_to_num(found, nan=0.0))


def limits(chain: Chain, rule: Callable[[Operation], Callable[[Run, str], Limit]]) -> dict[Key, Limit]:
    """Returns the errors that the buffers that a chain writes may have.

    Args:
        chain: the chain; it has run.
        rule: returns the rule of the errors that an operator adds.

    Raises:
        OpwireError: an operator cannot be varied.
    """
    found: dict[Key, Limit] = {}
    for operation in chain.operations:
        outputs = {name: chain.buffers[key] for name, key in operation.outputs.items()}
        run = Run(operation, chain.inputs_of(operation), outputs, chain.runner)
        own = {name: rule(operation)(run, name) for name in outputs}
        carried = {name: found[key] for name, key in operation.inputs.items() if key in found}
        passed = _propagated(run, carried) if carried else {}
        for name, key in operation.outputs.items():
            found[key] = _sum(own[name], passed[name]) if name in passed else own[name]
    return found


def whole(limit: Limit, size: int) -> Errors:
    """Returns the errors of all elements."""
    return limit(slice(0, size))


def _sum(one: Limit, other: Errors) -> Limit:
    def at(part: slice) -> Errors:
        errors = one(part)
        return Errors(errors.likely + other.likely[part], errors.possible + other.possible[part])

    return at


_SEEDS = 3

_ROOM = 2.0
"""How much larger than the largest of the samples an error may be."""


def signs(count: int, size: int, seed: int) -> Array:
    """Returns the directions in which elements move: all up, all down, or each by itself."""
    if count < 2:
        return np.full(size, 1.0 if count == 0 else -1.0)
    return np.random.default_rng(seed + count).uniform(-1, 1, size)


def moved(array: Array, by: Array) -> Array:
    """Returns floats moved by amounts, at least to their neighbours where the amounts are not zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = (array.astype(np.float64) + by).astype(array.dtype)
        stuck = (found == array) & (by != 0)
        found[stuck] = np.nextafter(array[stuck], np.copysign(np.inf, by[stuck]).astype(array.dtype))
    return found


def _propagated(run: Run, carried: Mapping[str, Limit]) -> dict[str, Errors]:
    """Returns how errors of inputs change the outputs, from runs with inputs moved by them."""
    errors = {name: whole(limit, run.inputs[name].size) for name, limit in carried.items()}
    found: dict[str, Errors] = {}
    tiers = []
    for tier in range(2):
        largest = {name: np.zeros(array.size) for name, array in run.outputs.items()}
        for i in range(2 + _SEEDS):
            inputs = dict(run.inputs)
            for j, name in enumerate(errors):
                by = np.nan_to_num(errors[name][tier], nan=0.0, posinf=0.0) * signs(i, run.inputs[name].size, 10 * j)
                inputs[name] = shifted(run.inputs[name], by)
            outputs = run.operation.run(run.runner, inputs)
            for name, array in outputs.items():
                np.fmax(largest[name], apart(array, run.outputs[name]), out=largest[name])
        tiers.append(largest)
    for name, array in run.outputs.items():
        scale = _ROOM if array.dtype.kind == "f" else 1.0
        found[name] = Errors(scale * tiers[0][name], scale * np.fmax(tiers[0][name], tiers[1][name]))
    return found


def shifted(array: Array, by: Array) -> Array:
    """Returns elements of any type moved by amounts, within the range of the type."""
    if array.dtype.kind == "f":
        return moved(array, by)
    limit = np.iinfo(array.dtype)
    return np.clip(array.astype(np.float64) + np.round(by), limit.min, limit.max).astype(array.dtype)


def apart(one: Array, other: Array) -> Array:
    """Returns the absolute differences of elements as float64.

    NaN is infinitely far from numbers, and infinity is a little beyond the largest number.
    """
    if one.dtype.kind in "iub":
        away = np.abs(one.astype(np.float64) - other.astype(np.float64))
        found: Array = np.where(one == other, 0.0, np.maximum(away, 1.0))
        return found
    limit = float(np.finfo(one.dtype).max) * (1 + unit(one.dtype))
    a, b = (np.clip(each.astype(np.float64), -limit, limit) for each in (one, other))
    with np.errstate(invalid="ignore"):
        found = np.abs(a - b)
    nan, other_nan = np.isnan(one), np.isnan(other)
    found[nan | other_nan] = np.inf
    found[nan & other_nan] = 0
    return found
