"""Chooses how to compute a formula: the cheapest exact way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array, DataType

from ....execution import Stop
from ...formulas.bounds import is_single
from ...formulas.certified import Certified
from ...formulas.formula import PlanFormula, tensors
from ...formulas.resolve import SCALED, integer_range
from . import native
from .forms import Form, certified_form, form_of, table_form
from .recipe import Way
from .tables import LookupTable

WIDE_TILE = 1 << 13
"""Elements in a float64 tile, which with some intermediate results fits into the L2 cache."""

TILE = 1 << 15
"""Elements in a tile in the tensors' own type."""

LONG_TILE = 1 << 18
"""Elements in a tile without intermediate results: as many as a thread may process between two polls of ``stop``."""

WIDE_BYTES = 3 << 7
"""Memory for the intermediate results of an element, in bytes, where some elements are computed with error bounds."""

BYTES, ONE_PASS_BYTES = 1 << 6, 1 << 4
"""The same in the tensors' own type, and for a single function."""

TABLE_BYTES = WIDE_TILE * WIDE_BYTES
"""Memory for making a lookup table, in bytes."""

Compute = Callable[[Mapping[str, Array], Array, Stop], None]
"""Fills an array from tensors, by name, that broadcast to its shape."""


@dataclass(frozen=True, slots=True)
class Computation:
    """A way to compute a formula.

    Attributes:
        compute: computes a tile.
        tile: elements in a tile.
        tensors: names of the tensors it reads.
        bytes: memory per element of a tile.
        table: lookup table to use instead for many elements, if any.
        form: returns the form of a compiled kernel to use instead for many elements, or None.
    """

    compute: Compute
    tile: int
    tensors: tuple[str, ...]
    bytes: int = BYTES
    table: LookupTable | None = None
    form: Callable[[], Form | None] = lambda: None

    @property
    def is_one_pass(self) -> bool:
        """Whether NumPy computes a tile in one pass, without intermediate results."""
        return self.bytes == ONE_PASS_BYTES


def computation(formula: PlanFormula) -> Computation:
    """Returns the cheapest exact way to compute a formula."""
    expression, inputs, output = formula.expression, formula.inputs, formula.output
    names = tuple(sorted(tensors(expression)))
    types = {name: inputs[name] for name in names}
    if is_on_bits(expression):
        form = partial(form_of, expression, _as_bits(types), _bits(output), Way.INTEGERS)
        return Computation(partial(_on_bits, expression), *_tile(expression, native.INTEGERS, names), form=form)
    if scale_of(expression) is not None:
        return Computation(_scaled_first(formula), WIDE_TILE, names, WIDE_BYTES)
    if not any(data_type.is_float for data_type in types.values()):
        return in_own_type(formula)
    if isinstance(expression, InputElement):
        form = partial(form_of, expression, _as_bits(types), _bits(output), Way.INTEGERS)
        return Computation(partial(_copied, expression.name), LONG_TILE, names, ONE_PASS_BYTES, form=form)
    floats = {data_type for data_type in types.values() if data_type.is_float}
    unlike = {inputs[name] for name in names if name not in _conditions(expression)}
    if len(floats) == 1 and unlike == floats and is_single(expression, next(iter(floats))):
        return in_own_type(formula)
    certified = Certified.of(expression, types, output)
    if list(types.values()) == [DataType.FLOAT16]:
        table = LookupTable(expression, names[0], output, certified.compute)
        return Computation(
            certified.compute, WIDE_TILE, names, WIDE_BYTES, table, partial(table_form, names[0], output)
        )
    return Computation(certified.compute, WIDE_TILE, names, WIDE_BYTES, form=partial(certified_form, certified))


def in_own_type(formula: PlanFormula) -> Computation:
    """Returns the computation of a formula of integers, or of one float type, in that type."""
    expression, output = formula.expression, formula.output
    names = tuple(sorted(tensors(expression)))
    types = {name: formula.inputs[name] for name in names}
    floats = [data_type for data_type in types.values() if data_type.is_float]
    if not floats:
        constant = partial(_integer_constant, next(iter(types.values())))
        compute = partial(_natively, expression, native.INTEGERS, constant)
        form = partial(form_of, expression, types, output, Way.INTEGERS)
        return Computation(compute, *_tile(expression, native.INTEGERS, names), form=form)
    compute = partial(_natively, expression, native.FLOATS, floats[0].dtype.type)
    form = partial(form_of, expression, types, output, Way.FLOATS)
    return Computation(compute, *_tile(expression, native.FLOATS, names), form=form)


def _as_bits(types: Mapping[str, DataType]) -> dict[str, DataType]:
    """Returns the unsigned integer types that hold the elements' bits."""
    return {name: _bits(data_type) for name, data_type in types.items()}


def _bits(data_type: DataType) -> DataType:
    return DataType[f"UINT{data_type.bits}"]


def _tile(
    expression: Expression, functions: Mapping[str, native.Function], names: tuple[str, ...]
) -> tuple[int, tuple[str, ...], int]:
    """Returns the elements in a tile, the tensors, and the bytes per element."""
    is_one_pass = native.is_one_pass(expression, functions)
    return (LONG_TILE, names, ONE_PASS_BYTES) if is_one_pass else (TILE, names, BYTES)


def is_on_bits(expression: Expression) -> bool:
    """Whether an expression only reads or changes bits of elements."""
    return isinstance(expression, Operation) and expression.primitive in native.ON_BITS


def _conditions(expression: Expression) -> set[str]:
    """Returns the tensors that are truth values."""
    match expression:
        case Operation("select", (InputElement(name), _, _)):
            return {name}
    return set()


def scale_of(expression: Expression) -> Operation | None:
    """Returns the part of a formula that applies ScaleBias to integers, if any."""
    match expression:
        case Operation(primitive, operands):
            if primitive == SCALED:
                return expression
            return next((found for operand in operands if (found := scale_of(operand)) is not None), None)
    return None


def _copied(name: str, given: Mapping[str, Array], target: Array, stop: Stop) -> None:
    target[...] = given[name]


def _natively(
    expression: Expression,
    functions: Mapping[str, native.Function],
    constant: native.Function,
    given: Mapping[str, Array],
    target: Array,
    stop: Stop,
) -> None:
    native.evaluate_into(expression, given, functions, constant, target)


def _on_bits(expression: Expression, given: Mapping[str, Array], target: Array, stop: Stop) -> None:
    stored = {name: array.view(f"<u{array.dtype.itemsize}") for name, array in given.items()}
    place = target if target.dtype.kind == "u" else target.view(f"<u{target.dtype.itemsize}")
    native.evaluate_into(expression, stored, native.INTEGERS, int, place)


def _integer_constant(data_type: DataType, value: int) -> object:
    least, greatest = integer_range(data_type)
    # NumPy compares integers with Python integers outside their range.
    return data_type.dtype.type(value) if least <= value <= greatest else value


def _scaled_first(formula: PlanFormula) -> Compute:
    """Applies ScaleBias to integers into a temporary array, then computes the rest from it."""
    scale = scale_of(formula.expression)
    assert scale is not None
    (operand, factor, bias) = scale.operands
    assert isinstance(operand, InputElement)
    data_type = formula.inputs[operand.name]
    types = {operand.name: data_type}
    first = Certified(scale, types, data_type, operand * factor + bias, None, False)
    rest = _replaced(formula.expression, scale, operand)
    if isinstance(rest, InputElement):
        return first.compute
    second = computation(replace(formula, expression=rest)).compute

    def compute(given: Mapping[str, Array], target: Array, stop: Stop) -> None:
        between = np.empty(given[operand.name].shape, data_type.dtype)
        first.compute({operand.name: given[operand.name]}, between, stop)
        second({**given, operand.name: between}, target, stop)

    return compute


def _replaced(expression: Expression, part: Expression, by: Expression) -> Expression:
    match expression:
        case Operation(primitive, operands) if expression != part:
            return Operation(primitive, tuple(_replaced(operand, part, by) for operand in operands))
        case Constant():
            return expression
    return by if expression == part else expression
