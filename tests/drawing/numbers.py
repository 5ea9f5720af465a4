"""The numbers that rules compare, computed from a desc as JSON apart from the package."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from opwire.rules.expressions import Computed, Constant, Expression, Measure, Part, Size


def number_of(expression: Expression | int | Any, desc: Mapping[str, Any]) -> int:
    """The value of an expression."""
    match expression:
        case int():
            return expression
        case Constant():
            return expression.number
        case Size():
            at = expression.dimension if isinstance(expression.dimension, int) else desc[expression.dimension]
            return int(desc[expression.tensor]["Sizes"][at])
        case Measure(member, "rank"):
            return len(desc[member]["Sizes"])
        case Measure(member, "length"):
            return len(desc[member])
        case Measure(member, "product of sizes"):
            return prod(desc[member]["Sizes"])
        case Measure(member, ""):
            return int(desc[member])
        case Part(member, name):
            return int(desc[member][name])
        case Computed("+", left, right):
            return number_of(left, desc) + number_of(right, desc)
        case Computed("-", left, right):
            return number_of(left, desc) - number_of(right, desc)
        case Computed("*", left, right):
            return number_of(left, desc) * number_of(right, desc)
        case Computed("/", left, right):
            return number_of(left, desc) // number_of(right, desc)
    raise TypeError(f"{expression!r} is no expression")


def set_number(expression: Expression, number: int, desc: dict[str, Any]) -> None:
    """Changes a desc so that an expression, a size or an attribute, has a value."""
    match expression:
        case Size(tensor, int() as at):
            desc[tensor]["Sizes"][at] = number
        case Measure(member, ""):
            desc[member] = number
        case Part(member, name):
            desc[member] = {**desc[member], name: number}
        case _:
            raise TypeError(f"{expression!r} cannot be set")
