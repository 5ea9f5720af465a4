"""A priori bounds on the relative error of a formula evaluated in float64.

NumPy's functions are within 4 ULPs; the bounds assume 8. How much a function amplifies the error of its operand is
bounded by its condition number wherever the result is neither zero nor infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import frexp, isfinite

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from .resolve import SCALED
from .slopes import COMPARISONS, LEVEL

UNIT = 2.0**-53
"""Relative error of one float64 operation."""

FUNCTION = 2.0**-49
"""Relative error of a function, 8 ULPs."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The floating-point arithmetic in which a formula is evaluated.

    Attributes:
        bits: significant bits.
        function: relative error of a function.
        own: relative errors of the functions that are less accurate.
        condition: upper bounds on the condition numbers of functions; functions not listed have no bound.
        factor: products and sums of two numbers of so many significant bits are exact.
    """

    bits: int
    function: float
    own: Mapping[str, float]
    condition: Mapping[str, float]
    factor: int = 0

    @property
    def unit(self) -> float:
        """The relative error of one operation."""
        return 2.0**-self.bits


BINARY64 = Precision(
    53,
    FUNCTION,
    {"erfc": 2.0**-42},  # the square of the argument, up to 746, is rounded
    {**dict.fromkeys(LEVEL, 1.0), "exp": 746.0, "expm1": 746.0, "sinh": 712.0, "cosh": 712.0, "erfc": 1500.0},
)

_SIGNIFICANT = {DataType.FLOAT16: 11, DataType.FLOAT32: 24, DataType.FLOAT64: 53}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about a value.

    Attributes:
        error: bound on the relative error.
        bits: maximum number of significant bits, where the error is 0.
        sign: 1 if the value is never negative, -1 if it is never positive, else 0.
        keeps_sign: whether the computed value always has the sign of the real one, or is zero with it.
    """

    error: float
    bits: int
    sign: int = 0
    keeps_sign: bool = True


def error_bound(
    expression: Expression, inputs: Mapping[str, DataType], precision: Precision = BINARY64
) -> float | None:
    """Returns a bound on the relative error of an expression, or None if it depends on the data."""
    known = _Bounds(inputs, precision).known(expression)
    return None if known is None else known.error


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Derives what is known about expressions.

    Attributes:
        inputs: data types of the tensors.
        precision: the arithmetic.
    """

    inputs: Mapping[str, DataType]
    precision: Precision

    def known(self, expression: Expression) -> Known | None:
        """Returns what is known about a value, or None if it depends on the data."""
        whole = self.precision.bits
        match expression:
            case InputElement(name):
                data_type = self.inputs[name]
                bits = _SIGNIFICANT.get(data_type, data_type.bits)
                return Known(0, bits) if bits <= whole else None
            case Constant(value):
                bits, sign = _significant(value), 1 if value >= 0 else -1
                return Known(0, bits, sign) if bits <= whole else Known(self.precision.unit, whole, sign)
            case Operation(primitive) if primitive == SCALED:
                return None
            case Operation("select", (condition, yes, no)):
                return self._chosen(condition, self.known(yes), self.known(no))
            case Operation(primitive, operands):
                found = [self.known(operand) for operand in operands]
                known = [one for one in found if one is not None]
                rule = _RULES.get(primitive, _function)
                return rule(self.precision, primitive, *known) if len(known) == len(found) else None
            case _:
                pass
        return None

    def _chosen(self, condition: Expression, yes: Known | None, no: Known | None) -> Known | None:
        if yes is None or no is None or not isinstance(condition, Operation):
            return None
        a, b = (self.known(operand) for operand in condition.operands)
        if a is None or b is None or not (a.error == b.error == 0 or _is_sign_test(condition, a)):
            return None
        return _either(yes, no)


def _significant(value: float) -> int:
    if not value or not isfinite(value):
        return 0
    whole = int(abs(frexp(value)[0]) * 2**53)
    return whole.bit_length() - ((whole & -whole).bit_length() - 1)


def _is_sign_test(condition: Operation, a: Known) -> bool:
    return condition.operands[1] == Constant(0) and a.keeps_sign


def _either(a: Known, b: Known) -> Known:
    sign = a.sign if a.sign == b.sign else 0
    return Known(max(a.error, b.error), max(a.bits, b.bits), sign, a.keeps_sign and b.keeps_sign)


_ANY = 2.0**-96
"""Error of an exact sum: functions with a zero elsewhere than at 0 may amplify the error of any sum too much."""


def _sum(precision: Precision, primitive: str, a: Known, b: Known) -> Known | None:
    other = b if primitive == "add" else Known(b.error, b.bits, -b.sign)
    sign = a.sign if a.sign == other.sign else 0
    if a.error == b.error == 0 and max(a.bits, b.bits) <= precision.factor:
        return Known(_ANY, precision.bits, sign)
    if a.error == b.error == 0:
        return Known(precision.unit, precision.bits, sign)
    if b.bits == 0:  # the constant 0
        return a
    return Known(max(a.error, b.error) + 2 * precision.unit, precision.bits, sign) if sign else None


def _product(precision: Precision, primitive: str, a: Known, b: Known) -> Known:
    sign = a.sign * b.sign
    bits = a.bits + b.bits
    is_short = bits <= precision.bits or max(a.bits, b.bits) <= precision.factor
    if primitive == "multiply" and a.error == b.error == 0 and is_short:
        return Known(0, bits, sign)
    return Known(1.01 * (a.error + b.error) + precision.unit, precision.bits, sign)


def _extreme(precision: Precision, primitive: str, a: Known, b: Known) -> Known:
    wanted = 1 if primitive == "maximum" else -1
    sign = wanted if wanted in (a.sign, b.sign) else (a.sign if a.sign == b.sign else 0)
    return Known(max(a.error, b.error), max(a.bits, b.bits), sign)


def _same(precision: Precision, primitive: str, a: Known) -> Known:
    return Known(a.error, a.bits, 1 if primitive == "absolute" else -a.sign)


def _whole(precision: Precision, primitive: str, a: Known) -> Known | None:
    return Known(0, a.bits, a.sign) if a.error == 0 else None


def _exact(precision: Precision, primitive: str, a: Known, b: Known) -> Known | None:
    if a.error or b.error:
        return None
    return Known(precision.unit if primitive != "remainder" else 0, precision.bits)


def _own(precision: Precision, primitive: str) -> float:
    return precision.own.get(primitive, precision.function if primitive != "sqrt" else precision.unit)


def _two(precision: Precision, primitive: str, a: Known, b: Known) -> Known | None:
    own, condition = _own(precision, primitive), precision.condition.get(primitive)
    if a.error == b.error == 0:
        return Known(own, precision.bits)
    return None if b.error or condition is None else Known(own + 2 * condition * a.error, precision.bits)


def _log1p(precision: Precision, primitive: str, a: Known) -> Known | None:
    if a.error and a.sign <= 0:
        return None
    return Known(_own(precision, primitive) + 1.01 * a.error, precision.bits, a.sign)


def _function(precision: Precision, primitive: str, a: Known) -> Known | None:
    own = _own(precision, primitive)
    sign = 1 if primitive in ("exp", "cosh", "sqrt", "erfc") else 0
    if a.error == 0:
        return Known(own, precision.bits, sign)
    condition = precision.condition.get(primitive)
    return None if condition is None else Known(own + 2 * condition * a.error, precision.bits, sign)


_RULES: Mapping[str, Callable[..., Known | None]] = {
    "add": _sum,
    "subtract": _sum,
    "multiply": _product,
    "divide": _product,
    "minimum": _extreme,
    "maximum": _extreme,
    "absolute": _same,
    "negate": _same,
    "sign": _whole,
    **dict.fromkeys(("ceil", "floor", "truncate", "round_even", "round_away"), _whole),
    **dict.fromkeys(("mean", "remainder", "floor_remainder"), _exact),
    **dict.fromkeys(("power", "atan2"), _two),
    "log1p": _log1p,
}


def is_single(expression: Expression, data_type: DataType, *, fuses: bool = False, but_overflow: bool = False) -> bool:
    """Whether computing directly in a float type rounds at most once, and computes nothing from the rounded value.

    Args:
        expression: the formula.
        data_type: the type of its tensors.
        fuses: whether FLOAT32 products are added before they are rounded, and FLOAT16 is computed in FLOAT32.
        but_overflow: whether results may be NaN where a sum overflows.
    """
    return _Roundings(data_type, fuses, but_overflow).of(expression) is not None


_MOVING = ("minimum", "maximum", "absolute", "negate")
_EXACT_IN_TYPE = ("sign", "ceil", "floor", "truncate", "round_even", "round_away", "remainder")
_ROUNDED_ONCE = ("add", "subtract", "multiply", "divide", "sqrt", "mean", "floor_remainder")
_ZERO = Constant(0)


@dataclass(frozen=True, slots=True)
class _Roundings:
    """Counts how often a value is rounded, 0 or 1; None if more often or unknown. See ``is_single``."""

    data_type: DataType
    fuses: bool
    but_overflow: bool

    def of(self, expression: Expression) -> int | None:
        match expression:
            case InputElement():
                return 0
            case Constant(value):
                with np.errstate(over="ignore"):
                    return 0 if float(np.float64(value).astype(self.data_type.dtype)) == value else None
            case Operation("select", (InputElement(), yes, no)):
                return self._most((yes, no))
            case Operation("select", (Operation(primitive, operands), yes, no)) if primitive in COMPARISONS:
                return self._most((yes, no)) if self._compares(operands) else None
            case Operation("not_", (operand,)):
                return self.of(operand)
            case Operation(primitive, operands):
                return self._of_operation(primitive, operands)
            case _:
                pass
        return None

    def _of_operation(self, primitive: str, operands: tuple[Expression, ...]) -> int | None:
        most = self._most(self._unfused(primitive, operands))
        if primitive in _MOVING:
            return most
        if most == 1 and self.fuses and primitive == "multiply" and operands[0] == _ZERO:
            return 1 if self.but_overflow or self.data_type is DataType.FLOAT16 else None
        if primitive in _ROUNDED_ONCE:
            return 1 if most == 0 else None
        return 0 if most == 0 and primitive in (*_EXACT_IN_TYPE, *COMPARISONS) else None

    def _compares(self, operands: tuple[Expression, ...]) -> bool:
        """Whether a comparison is right: rounding keeps the sign of a sum."""
        match operands:
            case (Operation("add" | "subtract", added), Constant(0)) if self.fuses and self._most(added) == 0:
                return True
            case _:
                return self._most(operands) == 0

    def _unfused(self, primitive: str, operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
        match operands:
            case (Operation("multiply", factors), added) if (
                self.fuses and primitive == "add" and self.data_type is DataType.FLOAT32
            ):
                return *factors, added
            case _:
                return operands

    def _most(self, operands: Iterable[Expression]) -> int | None:
        found = [self.of(operand) for operand in operands]
        known = [each for each in found if each is not None]
        return max(known) if len(known) == len(found) else None
