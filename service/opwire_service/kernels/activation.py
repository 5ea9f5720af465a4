"""Activations fused into other operators, evaluated in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.formulas import InputElement
from opwire.tensor import Array

from .formulas.float64 import evaluator
from .formulas.resolve import activated_expression

Activation = Callable[[Array], Array]
"""An activation of the elements of an array."""

_VALUES = InputElement("Values")


def activated(activation: NestedOperator | None, values: Array) -> Array:
    """Applies an activation element by element, accurate to a few float64 ULPs.

    Args:
        activation: a fused or nested elementwise operator from a plan's attributes, or None.
        values: a float64 array of any shape; it is not modified.

    Returns:
        An array of the same shape; ``values`` itself if there is no activation.

    Raises:
        ValueError: the activation is not elementwise.
    """
    if activation is None:
        return values
    with np.errstate(all="ignore"):
        return activation_of(activation)(values)


def activation_of(operator: NestedOperator) -> Activation:
    """Returns what ``activated`` applies; the caller ignores NumPy's warnings."""
    compute = evaluator(activated_expression(operator, _VALUES))
    return lambda values: np.asarray(compute({"Values": values}), np.float64)
