"""Exact evaluation of a resolved formula: the real result rounded once, or the integer modulo the type's range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array, DataType

from ...execution import Stop, Stopped
from .. import exact
from . import bounded, real
from .integers import Integers, scaled, truncated
from .interval import Interval, Mpf, TooWide
from .resolve import SCALED

FIRST_BITS = 96
"""Interval precision of the first attempt, in bits; it doubles with each retry."""

MOST_BITS = 1 << 16
"""Maximum interval precision. Only a faulty formula exceeds it: midpoints of two floats are rational, hence exact."""

_FINEST = 1100
"""All floats, and all midpoints of adjacent floats, are multiples of 2**-1100."""

AT_ONCE = 64
"""Number of elements between polls of ``stop``."""

FORMATS = {**exact.FORMATS, DataType.FLOAT64: exact.FloatFormat(DataType.FLOAT64, 52)}

_BITS = frozenset(("bit_and", "bit_or", "bit_xor", "bit_not", "bit_count", "shift_left", "shift_right"))

PIECE = 1 << 11
"""Elements per float64 batch; all intermediates of one element take up to 1 KiB."""

Element = Any
"""A NumPy scalar."""


@dataclass(frozen=True, slots=True)
class ExactFormula:
    """An elementwise formula.

    Attributes:
        expression: the resolved formula.
        inputs: data types of the tensors it names.
        output: data type of the result.
    """

    expression: Expression
    inputs: Mapping[str, DataType]
    output: DataType

    def of(self, elements: Mapping[str, Element]) -> Element:
        """Returns the output element for the named input elements."""
        return self._settled(self.expression, elements)

    def of_all(self, elements: Mapping[str, Array], stop: Stop) -> Array:
        """Returns the output elements for arrays of input elements, computing each distinct combination once.

        Tensors repeat values: where one element needs the exact path, thousands of equal ones may.

        Args:
            elements: arrays of shape (count,), by name.
            stop: polled regularly.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        first, which = _distinct(list(elements.values()))
        found = np.empty(first.size, self.output.dtype)
        for begin in range(0, first.size, PIECE):
            part = {name: array[first[begin : begin + PIECE]] for name, array in elements.items()}
            self._fill(found[begin : begin + PIECE], part, stop)
        return found[which]

    def _fill(self, found: Array, elements: Mapping[str, Array], stop: Stop) -> None:
        is_known = self._settled_in_float64(found, elements)
        for number, index in enumerate(np.flatnonzero(~is_known).tolist()):
            if number % AT_ONCE == AT_ONCE - 1 and stop():
                raise Stopped
            found[index] = self.of({name: array[index] for name, array in elements.items()})

    def _settled_in_float64(self, found: Array, elements: Mapping[str, Array]) -> Array:
        """Fills in the elements that float64 decides, such as infinities, and returns their mask."""
        is_real = all(each.is_float and each.bits < 64 for each in (self.output, *self.inputs.values()))
        if not (is_real and bounded.covers(self.expression)):
            return np.zeros(found.size, bool)
        with np.errstate(all="ignore"):
            wide = {name: array.astype(np.float64) for name, array in elements.items()}
            found[...], is_undecided = bounded.settle(self.expression, wide, lambda value: value.astype(found.dtype))
        # A NaN that is only moved keeps its bits.
        has_nan = reduce(np.logical_or, map(np.isnan, wide.values()))
        is_known: Array = ~is_undecided & ~has_nan
        return is_known

    def _settled(self, expression: Expression, elements: Mapping[str, Element]) -> Element:
        """Returns the element; where it is only moved, or its sign changed, its other bits are kept."""
        match expression:
            case InputElement(name) if self.inputs[name] is self.output:
                return elements[name]
            case Operation("select", (condition, yes, no)):
                return self._settled(yes if self._holds(condition, elements) else no, elements)
            case Operation("absolute" | "negate" as primitive, (InputElement(name),)) if self.inputs[name].is_float:
                return np.abs(elements[name]) if primitive == "absolute" else np.negative(elements[name])
            case Operation(primitive, operands) if primitive in _BITS:
                return self._of_bits(primitive, [_stored(elements[operand.name]) for operand in operands])  # type: ignore[attr-defined]
        if any(data_type.is_float for data_type in self.inputs.values()):
            return self._of_reals(expression, elements)
        return self.output.dtype.type(self._integer(expression, elements))

    def _of_bits(self, primitive: str, operands: list[int]) -> Element:
        if primitive == "bit_count":
            return self.output.dtype.type(operands[0].bit_count())
        unsigned = np.dtype(f"<u{self.output.dtype.itemsize}")
        bits = Integers(DataType.of(unsigned)).apply(primitive, *operands)
        return np.array(bits, unsigned).view(self.output.dtype)[()]

    def _integer(self, expression: Expression, elements: Mapping[str, Element]) -> int:
        match expression:
            case InputElement(name):
                return int(elements[name])
            case Constant(value):
                return value  # type: ignore[return-value]  # an integer, or the scale of one
            case Operation("select", (condition, yes, no)):
                return self._integer(yes if self._holds(condition, elements) else no, elements)
            case Operation(primitive, (InputElement(name), Constant(scale), Constant(bias))) if primitive == SCALED:
                return scaled(int(elements[name]), scale, bias, self.inputs[name])
            case Operation(primitive, operands):
                found = [self._integer(operand, elements) for operand in operands]
                return Integers(self.output).apply(primitive, *found)
        raise TypeError(expression)

    def _holds(self, condition: Expression, elements: Mapping[str, Element]) -> bool:
        if isinstance(condition, InputElement) and not self.inputs[condition.name].is_float:
            return bool(elements[condition.name])
        if not any(data_type.is_float for data_type in self.inputs.values()):
            return bool(self._integer(condition, elements))
        return bool(_decided(lambda bits: self._truth(condition, elements, bits)))

    def _of_reals(self, expression: Expression, elements: Mapping[str, Element]) -> Element:
        if isinstance(expression, Operation) and (
            expression.primitive == "not_" or expression.primitive in real.COMPARISONS
        ):
            return self.output.dtype.type(self._holds(expression, elements))
        return _decided(lambda bits: rounded(self._real(expression, elements, bits), self.output))

    def _truth(self, expression: Expression, elements: Mapping[str, Element], bits: int) -> bool:
        match expression:
            case Operation("not_", (operand,)):
                return not self._truth(operand, elements, bits)
            case Operation(primitive, (a, b)):
                order = real.compare(self._real(a, elements, bits), self._real(b, elements, bits), bits)
                return order is not None and real.COMPARISONS[primitive](order)
        raise TypeError(expression)

    def _real(self, expression: Expression, elements: Mapping[str, Element], bits: int) -> real.Number:
        match expression:
            case InputElement(name):
                return real.number(elements[name].item())
            case Constant(value):
                return real.number(value)
            case Operation("select", (condition, yes, no)):
                return self._real(yes if self._truth(condition, elements, bits) else no, elements, bits)
            case Operation(primitive, (InputElement(name), Constant(scale), Constant(bias))) if primitive == SCALED:
                return real.number(scaled(int(elements[name]), scale, bias, self.inputs[name]))
            case Operation(primitive, operands):
                return real.FUNCTIONS[primitive](*(self._real(operand, elements, bits) for operand in operands), bits)
        raise TypeError(expression)


def _stored(element: Element) -> int:
    """Returns the bits of an element as an unsigned integer."""
    return int.from_bytes(element.tobytes(), "little")


def _decided(attempt: Any) -> Any:
    """Returns the result of an attempt, doubling its precision until the interval is narrow enough."""
    bits = FIRST_BITS
    while True:
        try:
            return attempt(bits)
        except TooWide:
            bits *= 2
            if bits > MOST_BITS:
                raise


def rounded(value: real.Number, data_type: DataType) -> Element:
    """Converts a number to an element: floats round to nearest, ties to even; integers truncate and saturate.

    Raises:
        TooWide: an interval is too wide to decide.
    """
    if not data_type.is_float:
        return data_type.dtype.type(truncated(value, data_type))
    to = FORMATS[data_type]
    if isinstance(value, float):
        return to.of(value)
    if not isinstance(value, Interval):
        return exact.round_ratio(value.numerator, value.denominator, to)
    for inwards in (0, 1):  # an end on a midpoint of two floats is excluded: the number lies on its inner side
        low, high = _rounded_end(value.low, inwards, to), _rounded_end(value.high, -inwards, to)
        if low == high and np.signbit(low) == np.signbit(high):
            return low
    raise TooWide


def _rounded_end(end: Mpf, moved: int, to: exact.FloatFormat) -> Element:
    """Rounds an end of an interval, after moving it by less than the distance to the next float or midpoint."""
    integer, exponent = -end[1] if end[0] else end[1], end[2]
    if moved and exponent < _FINEST:
        finer = max(0, exponent + _FINEST) + 1
        integer, exponent = (integer << finer) + moved, exponent - finer
    return exact.round_scaled(integer, exponent, to)


def _distinct(arrays: Sequence[Array]) -> tuple[Array, Array]:
    """Returns the first index of each distinct tuple of elements, and for every element the number of its tuple."""
    codes = np.zeros(arrays[0].size, np.int64)
    for array in arrays:
        values, code = np.unique(array.view(f"<u{array.itemsize}"), return_inverse=True)
        _, codes = np.unique(codes * len(values) + code, return_inverse=True)
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return first, which
