"""Formulas over the reals, rounded once: in float64, and exactly where that is too close to a rounding boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array, DataType

from ...execution import Stop
from . import bounded, float64
from .bounds import UNIT, error_bound
from .long import scaled_floats, scaled_integers

ABSOLUTE = 2.0**-47
"""Absolute error of a cosine computed from a tangent; near the zeros of the cosine it is large in relative terms."""

SETTLED = 1 << 11
"""Elements per batch; all intermediates of one element take up to 1 KiB."""


@dataclass(frozen=True)
class Certified:
    """A formula evaluated on arrays.

    Attributes:
        formula: the resolved formula.
        inputs: data types of the tensors it names.
        output: data type of the result.
        expression: the formula in float64; for an integer output its value is truncated.
        error: bound on the relative error of all elements; None if each element needs its own.
        infinite: whether the formula has an infinite constant, which makes float64 underflow matter.
        absolute: an additional absolute error, independent of the value.
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
            tensors: arrays by name, in the data types of the formula; they broadcast to the shape of ``target``.
            target: the output.
            stop: polled where many elements need the exact path.
        """
        undecided = self._uniformly(tensors, target)
        if undecided.any():
            self._each(tensors, target, np.nonzero(undecided), stop)

    def settle(self, tensors: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        """Computes the elements at the given places, indices along each dimension."""
        for first in range(0, places[0].size, SETTLED):
            part = tuple(place[first : first + SETTLED] for place in places)
            given = {name: np.broadcast_to(array, target.shape)[part] for name, array in tensors.items()}
            found = np.empty(part[0].size, target.dtype)
            self.compute(given, found, stop)
            target[part] = found

    def _uniformly(self, tensors: Mapping[str, Array], target: Array) -> Array:
        """Fills in all elements and returns a mask of those that a bound for all of them leaves undecided."""
        if self.error is None:
            return np.ones(target.shape, bool)
        wide = {name: array.astype(np.float64) for name, array in tensors.items()}
        values = float64.evaluate(self.expression, wide) if not self.absolute else self._cosine(wide)
        # The real value lies between these two; where both round to the same float, that is the result.
        below, above = np.empty(target.shape, target.dtype), target
        reach = self.error + 2 * UNIT
        low, high = values * (1 - reach), values * (1 + reach)
        if self.absolute:
            low -= self.absolute
            high += self.absolute
        below[...], above[...] = low, high
        undecided: Array = _bits(below) != _bits(above)
        if self.infinite:
            undecided |= np.isnan(above)
        return undecided

    def _cosine(self, wide: Mapping[str, Array]) -> Any:
        """Computes the cosine from the tangent of half the angle, which NumPy vectorizes."""
        assert isinstance(self.expression, Operation)
        t = np.tan(float64.evaluate(self.expression.operands[0], wide) * 0.5)
        t *= t
        return (1 - t) / (1 + t)

    def _each(self, tensors: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        """Computes the elements at the given places with individual bounds, and the undecided ones exactly."""
        for first in range(0, places[0].size, SETTLED):
            self._some(tensors, target, tuple(place[first : first + SETTLED] for place in places), stop)

    def _some(self, tensors: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        taken = {name: np.broadcast_to(array, target.shape)[places] for name, array in tensors.items()}
        if self.output.bits == 64:
            self._long(taken, target, places, stop)
            return
        wide = {name: array.astype(np.float64) for name, array in taken.items()}
        target[places], is_undecided = bounded.settle(self.expression, wide, self._rounded)
        self._exactly(taken, target, places, np.flatnonzero(is_undecided), stop)

    def _long(self, taken: Mapping[str, Array], target: Array, places: Any, stop: Stop) -> None:
        """Computes ScaleBias, the only 64-bit formula that is not evaluated in the tensors' own type."""
        match self.expression:
            case Operation("add", (Operation("multiply", (InputElement(name), Constant(scale))), Constant(bias))):
                x = taken[name]
            case _:
                raise TypeError(self.expression)
        is_undecided = np.ones(x.size, bool)
        if self.output.is_float:
            target[places], is_undecided = scaled_floats(x, scale, bias)
        elif (found := scaled_integers(x, scale, bias, self.output, stop)) is not None:
            target[places], is_undecided = found, ~is_undecided
        self._exactly(taken, target, places, np.flatnonzero(is_undecided), stop)

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
        from .exact_formula import ExactFormula  # imports mpmath, which is slow, and few elements need it

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
