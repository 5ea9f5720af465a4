"""Quantization and dequantization as formulas for compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ..elementwise.compiled import LEAST_RUN, CompiledFormula
from ..elementwise.forms import converted_form, form_of
from ..elementwise.planes import planes_of
from ..elementwise.quotients import NEAREST_QUOTIENT
from ..elementwise.recipe import Way

SOURCE, SCALE, ZERO_POINT = "source", "scale", "zero point"
"""Names of the tensors in the formulas."""


def quantized(source: DataType, target: DataType, zero_point: Expression | None) -> Expression:
    """Returns the formula of rounded quotients, ties to even, plus zero points; NaN gives 0. Kernels saturate."""
    x, scale = InputElement(SOURCE), InputElement(SCALE)
    if source.is_float and target.bits == 8:
        return Operation(NEAREST_QUOTIENT, (x, scale, zero_point or Constant(0.0)))
    whole = Operation("round_even", (Operation("divide", (x, scale)),))
    moved = whole if zero_point is None else Operation("add", (whole, zero_point))
    moved = Operation("select", (Operation("equal", (moved, moved)), moved, Constant(0.0)))
    if not target.is_packed:
        return moved
    least, greatest = target.limits
    return Operation("minimum", (Operation("maximum", (moved, Constant(float(least)))), Constant(float(greatest))))


def dequantized(zero_point: Expression | None) -> Expression:
    """Returns the formula of products of integers of up to 16 bits, which FLOAT64 represents exactly."""
    moved = InputElement(SOURCE) if zero_point is None else Operation("subtract", (InputElement(SOURCE), zero_point))
    return Operation("multiply", (moved, InputElement(SCALE)))


def compiled(
    expression: Expression,
    sizes: Sequence[int],
    tensors: Mapping[str, tuple[DataType, Sequence[int]]],
    *,
    is_in_float32: bool = False,
) -> CompiledFormula | None:
    """Returns the kernel of a formula, or None if there are too few elements.

    Args:
        expression: the formula.
        sizes: sizes of all tensors.
        tensors: the tensors it reads, then the output: types, and strides in elements.
        is_in_float32: whether the operands of its last operation are exact in FLOAT32, so that it rounds once.
    """
    *sources, (_, (output, _)) = ((name, (_whole(of), steps)) for name, (of, steps) in tensors.items())
    types = {name: of for name, (of, _) in sources}
    form = (
        form_of(expression, types, output, Way.FLOAT32) if is_in_float32 else converted_form(expression, types, output)
    )
    if form is None or prod(sizes) < LEAST_RUN:
        return None
    planes = planes_of(sizes, {name: _in_bytes(*each) for name, each in tensors.items()})
    return CompiledFormula(form, planes) if planes.is_worth else None


def _whole(data_type: DataType) -> DataType:
    """Returns the type that elements are unpacked to."""
    if not data_type.is_packed:
        return data_type
    return DataType.INT8 if data_type.is_signed else DataType.UINT8


def _in_bytes(data_type: DataType, steps: Sequence[int]) -> tuple[tuple[int, ...], int]:
    size = data_type.dtype.itemsize
    return tuple(size * step for step in steps), size
