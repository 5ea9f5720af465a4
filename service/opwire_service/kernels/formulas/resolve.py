"""Resolves formulas for a desc: substitutes attributes, options, scales and fused activations.

Only tensors, constants and primitives remain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isnan, trunc
from typing import Any

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.formulas import (
    Attribute,
    Bound,
    ChannelValue,
    Constant,
    EnumChoice,
    Expression,
    FusedActivation,
    InputElement,
    Limit,
    Moved,
    Operation,
    Scaled,
    select,
)
from opwire.operators import OPERATORS
from opwire.tensor import DataType

SCALED = "scaled"
"""The ScaleBias primitive on integers; operands: value, scale and bias."""


@dataclass(frozen=True, slots=True)
class _Resolution:
    """Resolves formulas for one desc.

    Attributes:
        attribute: looks up an attribute of the desc by name.
        types: data types of the formula's inputs; numbers of the desc get that of the first.
        operand: replaces the input of a fused activation.
    """

    attribute: Callable[[str], Any]
    types: Mapping[str, DataType]
    operand: Expression | None = None

    @property
    def data_type(self) -> DataType:
        """Data type of the first input."""
        return next(iter(self.types.values()))

    def of(self, formula: Expression) -> Expression:
        """Returns the formula with its attributes substituted."""
        match formula:
            case InputElement():
                return formula if self.operand is None else self.operand
            case Attribute(name):
                return Constant(self._converted(self.attribute(name)))
            case Bound(name):
                return Constant(self._narrowed(self.attribute(name)))
            case Limit(name):
                number = self.attribute(name)
                return Constant(number if self.data_type.is_float else _limit(number, self.data_type))
            case Moved(operand, name, is_down):
                number = -self.attribute(name) if is_down else self.attribute(name)
                return self._moved(self.of(operand), number)
            case ChannelValue(name):
                return InputElement(name)
            case Scaled(name, operand):
                return self._scaled(self.attribute(name), self.of(operand))
            case FusedActivation(name, operand):
                return activated_expression(as_fused(self.attribute(name)), self.of(operand))
            case EnumChoice(name, options):
                return self.of(dict(options)[self.attribute(name).name])
            case Operation(primitive, operands):
                found = tuple(map(self.of, operands))
                if primitive == "negate" and isinstance(found[0], Constant):
                    return Constant(-found[0].value)  # without integer wraparound
                if primitive == "subtract" and isinstance(found[0], Constant) and found[0] == found[1]:
                    return Constant(found[0].value - found[0].value)  # zero; NaN for infinities
                return Operation(primitive, found)
        return formula

    def _scaled(self, scale_bias: Any, operand: Expression) -> Expression:
        if scale_bias is None:
            return operand
        scale, bias = Constant(scale_bias.Scale), Constant(scale_bias.Bias)
        data_type = self.types[operand.name] if isinstance(operand, InputElement) else self.data_type
        return operand * scale + bias if data_type.is_float else Operation(SCALED, (operand, scale, bias))

    def _moved(self, operand: Expression, number: float) -> Expression:
        return operand + number if self.data_type.is_float else _moved(operand, number, self.data_type)

    def _converted(self, number: float) -> float:
        return number if self.data_type.is_float else saturated(number, self.data_type)

    def _narrowed(self, number: float) -> float:
        if not self.data_type.is_float:
            return saturated(number, self.data_type)
        # Beyond the range of FLOAT16, its largest number; infinities too.
        most = float(np.finfo(self.data_type.dtype).max) if self.data_type is DataType.FLOAT16 else np.inf
        return float(np.float64(np.clip(number, -most, most)).astype(self.data_type.dtype))


def resolve(formula: Expression, attribute: Callable[[str], Any], types: Mapping[str, DataType]) -> Expression:
    """Resolves a formula for a desc.

    Args:
        formula: the formula of the operator.
        attribute: looks up an attribute of the desc by name.
        types: data types of the inputs, by name.

        Returns:
            An expression of tensors, constants and primitives; for integers these include ``SCALED``.
    """
    return _Resolution(attribute, types).of(formula)


def as_fused(activation: NestedOperator | None) -> NestedOperator | None:
    """Returns an activation as all operators but GEMM fuse it.

    As in DirectML, RELU multiplies what is not above 0 by 0: the zeros are negative, and NaN and -infinity give NaN.
    """
    if activation is None or activation.name != "ACTIVATION_RELU":
        return activation
    return replace(activation, name="ACTIVATION_LEAKY_RELU", values={"Alpha": 0.0})


def activated_expression(activation: NestedOperator | None, operand: Expression) -> Expression:
    """Returns the formula of a fused operator on a float operand, or the operand itself if nothing is fused.

    Raises:
        ValueError: the operator is not elementwise.
    """
    if activation is None:
        return operand
    formula = OPERATORS[activation.name].formula
    if formula is None:
        raise ValueError(f"{activation.name} is not an elementwise operator")
    return _Resolution(activation.values.__getitem__, {"": DataType.FLOAT32}, operand).of(formula)


def _limit(number: float, data_type: DataType) -> int:
    """Returns an integer that integers, and their opposites, exceed where they exceed a number.

    Nothing exceeds NaN.
    """
    beyond = 1 << data_type.bits
    return beyond if isnan(number) else floor(min(max(number, -beyond), beyond))


def _moved(operand: Expression, number: float, data_type: DataType) -> Expression:
    """Returns the sum of an integer and a number: truncated, then saturated; NaN gives 0."""
    if isnan(number):
        return Constant(0)
    beyond = 1 << data_type.bits
    number = min(max(number, -beyond), beyond)
    low, high = (_added(operand, whole, data_type) for whole in (floor(number), ceil(number)))
    return low if low == high else select(operand >= -floor(number), low, high)


def _added(operand: Expression, whole: int, data_type: DataType) -> Expression:
    """Returns the sum of two integers, saturated."""
    least, greatest = integer_range(data_type)
    if not whole:
        return operand
    wrapped = operand + ((whole - least) % (1 << data_type.bits) + least)
    if whole > 0:
        return select(operand > greatest - whole, greatest, wrapped)
    return select(operand < least - whole, least, wrapped)


def saturated(number: float | Fraction, data_type: DataType) -> int:
    """Converts a number to an integer type: truncated, then saturated; NaN becomes 0."""
    least, greatest = integer_range(data_type)
    if isinstance(number, float) and isnan(number):
        return 0
    return least if number < least else (greatest if number > greatest else trunc(number))


def integer_range(data_type: DataType) -> tuple[int, int]:
    """Returns the minimum and maximum of an integer type."""
    if data_type.is_signed:
        return -(1 << data_type.bits - 1), (1 << data_type.bits - 1) - 1
    return 0, (1 << data_type.bits) - 1
