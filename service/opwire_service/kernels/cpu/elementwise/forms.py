"""Formulas as kernels take them: with constants as parameters, so that one kernel serves many formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ...formulas.bounds import error_bound
from ...formulas.certified import Certified
from ...formulas.quick import GUARD, QUICK, condensed, guarded
from .certified_code import ADD_TO_ODD
from .machine_code import converts_halves
from .planes import Planes
from .recipe import Recipe, Source, Way, can_be_compiled, outlined, packed_numbers

MOST_SLACK = {DataType.FLOAT32: 20, DataType.FLOAT16: 33}
"""Maximum slack of a formula: with it, one in 256 elements is close to a midpoint."""


@dataclass(frozen=True, slots=True)
class Form:
    """A formula, independent of the layout of its tensors.

    Attributes:
        expression: the expression, with parameters in place of constants.
        numbers: the parameters' values, in the kernel's format.
        parameters: number of parameters.
        types: data types of the tensors, by name.
        output: data type of the result.
        way: how it is computed.
        certified: settles undecided elements, if any.
        slack: see ``Recipe``.
    """

    expression: Expression
    numbers: Any
    parameters: int
    types: Mapping[str, DataType]
    output: DataType
    way: Way
    certified: Certified | None = None
    slack: int = 0

    def recipe(self, planes: Planes) -> Recipe:
        """Returns the recipe of the kernel for a layout."""
        sources = tuple(
            Source(name, data_type, is_spread=plane.column == 0 and planes.columns > 1)
            for (name, data_type), plane in zip(self.types.items(), planes.tensors[:-1], strict=True)
        )
        return Recipe(self.expression, self.parameters, sources, self.output, self.way, self.slack)


def form_of(expression: Expression, types: Mapping[str, DataType], output: DataType, way: Way) -> Form | None:
    """Returns the form of a formula computed in the tensors' own type, or None if there is no code for it."""
    is_wide = any(data_type is DataType.FLOAT64 for data_type in types.values())
    if not _has_code(expression, types, output, way) or (is_wide and _has_mean(expression)):
        return None
    numbers: list[float] = []
    outline = outlined(expression, numbers)
    recipe = Recipe(outline, len(numbers), tuple(Source(*each, False) for each in types.items()), output, way)
    try:
        packed = packed_numbers(recipe, numbers)
    except OverflowError:  # an integer outside the tensors' type
        return None
    return Form(outline, packed, len(numbers), types, output, way)


def certified_form(certified: Certified) -> Form | None:
    """Returns the form of a formula of real numbers, or None if there is no code for it."""
    types, output = certified.inputs, certified.output
    expression = with_products(condensed(certified.expression))
    if output not in (DataType.FLOAT32, DataType.FLOAT16) or certified.infinite:
        return None
    if not _has_code(expression, types, output, Way.CERTIFIED):
        return None
    exactly, error, slack = to_odd(expression, types), error_bound(expression, types, QUICK), 0
    if exactly is None:
        slack = 0 if error is None else _slack(error, output)
        if not slack:
            return None
    numbers: list[float] = []
    outline = outlined(guarded(expression, types) if exactly is None else exactly, numbers)
    reach = (error or 0.0) + 2 * QUICK.unit
    packed = np.array([*numbers, 1 - reach, 1 + reach])
    return Form(outline, packed, len(numbers), types, output, Way.CERTIFIED, certified, slack)


def _slack(error: float, output: DataType) -> int:
    """Returns the slack of a formula, or 0 if its error leaves too many elements undecided."""
    narrowed = 2.0**28 if output is DataType.FLOAT16 else 0.0  # rounded to FLOAT32 first
    slack = ceil(log2((error + 2 * QUICK.unit) * 2.0**53 + narrowed))
    return slack if slack <= MOST_SLACK[output] else 0


def _has_code(expression: Expression, types: Mapping[str, DataType], output: DataType, way: Way) -> bool:
    has_halves = DataType.FLOAT16 in (*types.values(), output)
    return can_be_compiled(expression, way) and (converts_halves() or not has_halves)


def converted_form(expression: Expression, types: Mapping[str, DataType], output: DataType) -> Form | None:
    """Returns the form of a formula that is exact in FLOAT64, of any types, or None if there is no code for it."""
    if not _has_code(expression, types, output, Way.CONVERTED):
        return None
    numbers: list[float] = []
    outline = outlined(expression, numbers)
    return Form(outline, np.array(numbers, np.float64), len(numbers), types, output, Way.CONVERTED)


def table_form(name: str, output: DataType) -> Form:
    """Returns the form of a FLOAT16 lookup; its numbers are the table, which is made later."""
    return Form(InputElement(name), np.empty(0), 0, {name: DataType.FLOAT16}, output, Way.TABLE)


def with_products(expression: Expression) -> Expression:
    """Returns an expression with small integer powers replaced by products and quotients."""
    match expression:
        case Operation("power", (base, Constant(exponent))) if exponent in (-1, 1, 2, 3):
            base = with_products(base)
            whole = {-1: Constant(1) / base, 1: base, 2: base * base, 3: base * base * base}
            return whole[int(exponent)]
        case Operation(primitive, operands):
            return Operation(primitive, tuple(map(with_products, operands)))
    return expression


def to_odd(expression: Expression, types: Mapping[str, DataType]) -> Expression | None:
    """Returns an expression rounded to odd, which then rounds correctly, or None if that is not possible.

    It must be exact, or a final sum of exact operands. A 53-bit float with its last bit set wherever it is inexact is
    on the same side of each midpoint of narrower floats as the real number. Operations that only move or compare it
    preserve that.
    """
    if error_bound(expression, types, QUICK) == 0:
        return expression
    match expression:
        case Operation("add" | "subtract" as primitive, (a, b)) if (
            error_bound(a, types, QUICK) == 0 and error_bound(b, types, QUICK) == 0
        ):
            return Operation(ADD_TO_ODD, (a, b if primitive == "add" else -b))
        case Operation("ceil" | "floor" as primitive, (operand,)) if (odd := to_odd(operand, types)) is not None:
            return Operation(GUARD + primitive, (odd,))
        case Operation("select", (condition, *moved)):
            return _moved("select", (condition,), moved, types)
        case Operation("absolute" | "negate" | "minimum" | "maximum" as primitive, moved):
            return _moved(primitive, (), moved, types)
    return None


def _moved(
    primitive: str, before: tuple[Expression, ...], moved: Sequence[Expression], types: Mapping[str, DataType]
) -> Expression | None:
    """Returns a call whose last operands are rounded to odd, or None if they cannot be."""
    found = [odd for operand in moved if (odd := to_odd(operand, types)) is not None]
    operands = (*before, *found)
    return Operation(primitive, operands) if len(found) == len(moved) else None


def _has_mean(expression: Expression) -> bool:
    return isinstance(expression, Operation) and (
        expression.primitive == "mean" or any(map(_has_mean, expression.operands))
    )
