"""The numbers that rules compare, computed from JSON descs without the package."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from opwire.rules.expressions import Computed, ConstantQuantity, Measure, Quantity, Size, StructField


def number_of(quantity: Quantity | int | Any, desc: Mapping[str, Any]) -> int:
    """Returns the value of a quantity."""
    match quantity:
        case int():
            return quantity
        case ConstantQuantity():
            return quantity.number
        case Size():
            at = quantity.dimension if isinstance(quantity.dimension, int) else desc[quantity.dimension]
            return int(desc[quantity.tensor]["Sizes"][at])
        case Measure(member, "rank"):
            return len(desc[member]["Sizes"])
        case Measure(member, "length"):
            return len(desc[member])
        case Measure(member, "product of sizes"):
            return prod(desc[member]["Sizes"])
        case Measure(member, ""):
            return int(desc[member])
        case StructField(member, name):
            return int(desc[member][name])
        case Computed("+", left, right):
            return number_of(left, desc) + number_of(right, desc)
        case Computed("-", left, right):
            return number_of(left, desc) - number_of(right, desc)
        case Computed("*", left, right):
            return number_of(left, desc) * number_of(right, desc)
        case Computed("/", left, right):
            return number_of(left, desc) // number_of(right, desc)
    raise TypeError(f"{quantity!r} is no quantity")


def set_number(quantity: Quantity, number: int, desc: dict[str, Any]) -> None:
    """Changes a desc so that a size or attribute has a value."""
    match quantity:
        case Size(tensor, int() as at):
            desc[tensor]["Sizes"][at] = number
        case Measure(member, ""):
            desc[member] = number
        case StructField(member, name):
            desc[member] = {**desc[member], name: number}
        case _:
            raise TypeError(f"{quantity!r} cannot be set")
