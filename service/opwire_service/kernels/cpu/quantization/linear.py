"""Quotients and products of quantization as formulas, for the kernels that these have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ..elementwise.compiled import FEW, CompiledFormula
from ..elementwise.forms import converted_form, form_of
from ..elementwise.planes import planes_of
from ..elementwise.quotients import NEAREST_QUOTIENT
from ..elementwise.recipe import Way

SOURCE, SCALE, ZERO_POINT = "source", "scale", "zero point"
"""The tensors of the formulas."""


def quantized(source: DataType, target: DataType, zero_point: Expression | None) -> Expression:
    """The nearest integers to quotients, halves to even, moved; NaN counts as 0. They are to be saturated."""
    x, scale = InputElement(SOURCE), InputElement(SCALE)
    if source.is_float and target.bits == 8:
        return Operation(NEAREST_QUOTIENT, (x, scale, zero_point or Constant(0.0)))
    whole = Operation("round_even", (Operation("divide", (x, scale)),))
    whole = Operation("select", (Operation("equal", (whole, whole)), whole, Constant(0.0)))
    moved = whole if zero_point is None else Operation("add", (whole, zero_point))
    if not target.is_packed:
        return moved
    least, greatest = target.limits
    return Operation("minimum", (Operation("maximum", (moved, Constant(float(least)))), Constant(float(greatest))))


def dequantized(zero_point: Expression | None) -> Expression:
    """Products of integers of up to 16 bits, which FLOAT64 holds."""
    moved = InputElement(SOURCE) if zero_point is None else Operation("subtract", (InputElement(SOURCE), zero_point))
    return Operation("multiply", (moved, InputElement(SCALE)))


def compiled(
    expression: Expression,
    sizes: Sequence[int],
    tensors: Mapping[str, tuple[DataType, Sequence[int]]],
    *,
    is_in_float32: bool = False,
) -> CompiledFormula | None:
    """The kernel of a formula, if there are enough elements for one.

    Args:
        expression: the formula.
        sizes: of all tensors.
        tensors: that it reads, and last the output: their types, and their strides in elements.
        is_in_float32: whether FLOAT32 holds the operands of its last operation, which then rounds once.
    """
    *sources, (_, (output, _)) = ((name, (_whole(of), steps)) for name, (of, steps) in tensors.items())
    types = {name: of for name, (of, _) in sources}
    form = (
        form_of(expression, types, output, Way.FLOAT32) if is_in_float32 else converted_form(expression, types, output)
    )
    if form is None or prod(sizes) < FEW:
        return None
    planes = planes_of(sizes, {name: _in_bytes(*each) for name, each in tensors.items()})
    return CompiledFormula(form, planes) if planes.is_worth else None


def _whole(data_type: DataType) -> DataType:
    """The type in which elements are unpacked."""
    if not data_type.is_packed:
        return data_type
    return DataType.INT8 if data_type.is_signed else DataType.UINT8


def _in_bytes(data_type: DataType, steps: Sequence[int]) -> tuple[tuple[int, ...], int]:
    size = data_type.dtype.itemsize
    return tuple(size * step for step in steps), size
