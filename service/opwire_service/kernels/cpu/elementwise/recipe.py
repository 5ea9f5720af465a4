"""Recipes of formula kernels, and the format of their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from opwire.formulas import Constant, Expression, Operation
from opwire.tensor import DataType

from . import code
from .code import KernelParameter

CERTIFIED_WIDTH = 32
"""Lanes of a vector in FLOAT64 code, and bits in a record of undecided elements."""

_NATIVE_BYTES = 128
"""Size of a vector of the widest elements, in bytes."""


class Way(Enum):
    """The arithmetic in which a formula is computed."""

    FLOATS = "in the tensors' own type of floats"
    INTEGERS = "in the tensors' own type of integers"
    FLOAT32 = "in FLOAT32, whatever the types of the tensors"
    CERTIFIED = "in FLOAT64, with a list of the elements that this leaves undecided"
    UNROUNDED = "in FLOAT64, into FLOAT64"
    CONVERTED = "in FLOAT64, and then converted, where integers come of no NaN; a tensor alone is converted as it is"
    TABLE = "by the results for all FLOAT16, which stand in place of the parameters"


IN_FLOAT64 = (Way.CERTIFIED, Way.UNROUNDED, Way.CONVERTED)
"""Ways that compute in FLOAT64."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that a kernel reads.

    Attributes:
        name: name in the formula.
        data_type: type of its elements.
        is_spread: whether it has one element per row, which is broadcast.
    """

    name: str
    data_type: DataType
    is_spread: bool


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything a kernel is made from.

    Attributes:
        expression: the expression, with parameters in place of constants.
        parameters: number of parameters; those of a certified formula are followed by 1 minus and 1 plus its error.
        sources: the tensors.
        output: data type of the result.
        way: how it is computed.
        slack: binary logarithm of the error of a certified formula in units of the last place; 0 if its value is exact,
            or rounded to odd.
        is_streamed: whether to use streaming stores; not for formulas that leave elements undecided.
    """

    expression: Expression
    parameters: int
    sources: tuple[Source, ...]
    output: DataType
    way: Way
    slack: int = 0
    is_streamed: bool = False

    @property
    def width(self) -> int:
        """Lanes of a vector."""
        if self.way in IN_FLOAT64:
            return CERTIFIED_WIDTH
        types = (*(source.data_type for source in self.sources), self.output)
        return _NATIVE_BYTES * 8 // max(32 if each is DataType.FLOAT16 else each.bits for each in types)


def outlined(
    expression: Expression, numbers: list[float], known: dict[Operation, Expression] | None = None
) -> Expression:
    """Replaces constants with parameters and appends their values to ``numbers``; equal parts stay equal."""
    known = {} if known is None else known
    match expression:
        case Constant(value):
            numbers.append(value)
            return KernelParameter(len(numbers) - 1)
        case Operation(primitive, operands):
            if expression not in known:
                known[expression] = Operation(primitive, tuple(outlined(each, numbers, known) for each in operands))
            return known[expression]
    return expression


_PRIMITIVES = {
    Way.FLOATS: code.NATIVE_FLOATS,
    Way.INTEGERS: code.NATIVE_INTEGERS,
    Way.FLOAT32: code.NATIVE_FLOATS,
    Way.CERTIFIED: code.CERTIFIED,
    Way.UNROUNDED: code.CERTIFIED,
    Way.CONVERTED: code.CONVERTED,
    Way.TABLE: frozenset(),
}


def can_be_compiled(expression: Expression, way: Way) -> bool:
    """Whether there is code for every primitive."""
    if not isinstance(expression, Operation):
        return True
    return expression.primitive in _PRIMITIVES[way] and all(can_be_compiled(each, way) for each in expression.operands)


def constant_type(recipe: Recipe) -> DataType:
    """Returns the type of constants in a formula computed in the tensors' own type."""
    types = [source.data_type for source in recipe.sources]
    return next((each for each in types if each.is_float), types[0])


def packed_numbers(recipe: Recipe, numbers: list[float]) -> Any:
    """Returns the parameters in the format of kernels that compute in the tensors' own type, eight bytes each.

    Raises:
        OverflowError: an integer is out of that type's range.
    """
    packed = np.zeros(len(numbers), np.uint64)
    dtype = constant_type(recipe).dtype
    places = packed.view(np.uint8).reshape(-1, 8)
    with np.errstate(over="ignore"):
        for place, number in zip(places, numbers, strict=True):
            place[: dtype.itemsize] = np.array([number], dtype).view(np.uint8)
    return packed
