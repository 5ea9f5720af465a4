"""Activations that are fused into other operators, in float64."""

from __future__ import annotations

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.formulas import InputElement
from opwire.tensor import Array

from .formulas.float64 import evaluate
from .formulas.resolve import activated_expression

_VALUES = InputElement("Values")


def activated(activation: NestedOperator | None, values: Array) -> Array:
    """The activation of each value, within a few units of the last place of float64.

    Args:
        activation: a fused or nested operator of single elements as a plan's attributes hold it, or None for none.
        values: float64, of any shape. They stay as they are.

    Returns:
        An array of that shape; ``values`` itself where there is no activation.

    Raises:
        ValueError: the activation works on more than one element at a time.
    """
    if activation is None:
        return values
    with np.errstate(all="ignore"):
        found: Array = np.asarray(evaluate(activated_expression(activation, _VALUES), {"Values": values}), np.float64)
    return found
