"""Formulas over the reals, rounded once: in float64, and exactly where that is too near to the middle of two floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array, DataType

from ...execution import Stop
from . import careful, float64
from .bounds import UNIT, error_bound
from .long import scaled_floats, scaled_integers

ABSOLUTE = 2.0**-47
"""The error of a cosine that is computed from a tangent: next to its zeros it is a large part of it."""

DECIDED = 1 << 11
"""Elements that have bounds of their own at a time: all intermediate results of one take up to a KiB."""


@dataclass(frozen=True)
class Certified:
    """What computes a formula on arrays.

    Attributes:
        formula: resolved.
        inputs: the data types of the tensors that it names.
        output: the data type of the result.
        expression: the formula in float64; to an integer what it gives is truncated.
        error: the bound on the relative error of all elements, None where each has its own.
        infinite: whether it has an infinite constant, beside which what is too small for float64 matters.
        absolute: an error that may come on top of ``error``, whatever the value.
    """

    formula: Expression
    inputs: Mapping[str, DataType]
    output: DataType
    expression: Expression
    error: float | None
    infinite: bool
    absolute: float = 0.0

    @classmethod
    def of(cls, expression: Expression, inputs: Mapping[str, DataType], output: DataType) -> Certified:
        bound = error_bound(expression, dict(inputs)) if output.is_float and output.bits < 64 else None
        if bound is not None and isinstance(expression, Operation) and expression.primitive == "cos":
            return cls(expression, inputs, output, expression, bound, False, ABSOLUTE)
        return cls(expression, inputs, output, expression, bound, _has_infinity(expression))

    def compute(self, tensors: Mapping[str, Array], target: Array, stop: Stop) -> None:
        """Fills ``target``.

        Args:
            tensors: by name, in the types of the formula; they broadcast to the shape of ``target``.
            target: the output.
            stop: asked where many elements need the exact path.
        """
        if self.error is None:
            places = tuple(index.ravel() for index in np.indices(target.shape, np.int32))
            self.decide(tensors, target, places, stop)
            return
        wide = {name: array.astype(np.float64) for name, array in tensors.items()}
        values = float64.evaluate(self.expression, wide) if not self.absolute else self._cosine(wide)
        # The real number lies between these two: what both are rounded to is right.
        below, above = np.empty(target.shape, target.dtype), target
        reach = self.error + 2 * UNIT
        low, high = values * (1 - reach), values * (1 + reach)
        if self.absolute:
            low -= self.absolute
            high += self.absolute
        below[...], above[...] = low, high
        undecided = _bits(below) != _bits(above)
        if self.infinite:
            undecided |= np.isnan(above)
        if undecided.any():
            self.decide(tensors, target, np.nonzero(undecided), stop)

    def _cosine(self, wide: Mapping[str, Array]) -> Any:
        """The cosine by the tangent of half the angle, which NumPy has vectors for."""
        assert isinstance(self.expression, Operation)
        t = np.tan(float64.evaluate(self.expression.operands[0], wide) * 0.5)
        t *= t
        return (1 - t) / (1 + t)

    def decide(self, tensors: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        """Decides elements at given places, with a bound for each, and those that are open even then exactly."""
        for first in range(0, places[0].size, DECIDED):
            self._decide(tensors, target, tuple(place[first : first + DECIDED] for place in places), stop)

    def _decide(self, tensors: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        taken = {name: np.broadcast_to(array, target.shape)[places] for name, array in tensors.items()}
        if self.output.bits == 64:
            self._long(taken, target, places, stop)
            return
        wide = {name: array.astype(np.float64) for name, array in taken.items()}
        target[places], is_open = careful.settle(self.expression, wide, self._rounded)
        self._exactly(taken, target, places, np.flatnonzero(is_open), stop)

    def _long(self, taken: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        """ScaleBias, the one formula of 64 bits that is not computed in the tensors' own type."""
        match self.expression:
            case Operation("add", (Operation("multiply", (InputElement(name), Constant(scale))), Constant(bias))):
                x = taken[name]
            case _:
                raise TypeError(self.expression)
        is_open = np.ones(x.size, bool)
        if self.output.is_float:
            target[places], is_open = scaled_floats(x, scale, bias)
        elif (found := scaled_integers(x, scale, bias, self.output, stop)) is not None:
            target[places], is_open = found, ~is_open
        self._exactly(taken, target, places, np.flatnonzero(is_open), stop)

    def _rounded(self, values: Array) -> Array:
        output = self.output
        if output.is_float:
            return values.astype(output.dtype)
        info = np.iinfo(output.dtype)
        whole = np.nan_to_num(np.trunc(values), nan=0.0, posinf=np.inf, neginf=-np.inf)
        clipped: Array = np.clip(whole, float(info.min), float(info.max))
        return clipped.astype(output.dtype)

    def _exactly(self, taken: Mapping[str, Array], target: Array, places: Any, which: Any, stop: Stop) -> None:
        if not len(which):
            return
        from .exactly import ExactFormula  # it loads mpmath, which takes long, and few elements need it

        exact = ExactFormula(self.formula, self.inputs, self.output)
        found = exact.of_all({name: array[which] for name, array in taken.items()}, stop)
        target[tuple(place[which] for place in places)] = found


def _bits(values: Array) -> Array:
    return values.view(f"<u{values.dtype.itemsize}")


def _has_infinity(expression: Expression) -> bool:
    match expression:
        case Constant(value):
            return isinf(value)
        case Operation(_, operands):
            return any(map(_has_infinity, operands))
    return False
