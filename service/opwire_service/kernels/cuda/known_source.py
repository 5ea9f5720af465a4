"""What is known beforehand of results in pairs of FLOAT32: those of zeros, infinities and NaN."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import numpy as np

from opwire.formulas import Expression, InputElement, Operation

from ..formulas.exact_formula import ExactFormula
from ..formulas.formula import PlanFormula, primitives

_SPECIAL = (0.0, -0.0, inf, -inf, nan)
"""The numbers of ``Known``, in order."""


def are_zeros_right(formula: PlanFormula, expression: Expression, names: Sequence[str]) -> bool:
    """Whether a positive zero is the right result wherever it is computed: of 0, and of vanishing exponentials."""
    if "power" in primitives(expression) or not (len(names) == 1 or _is_of_sums(expression)):
        return False
    points = (0.0, 1000.0, -1000.0) if _vanishes(expression) else (0.0,)
    exact = ExactFormula(formula.expression, formula.inputs, formula.output)
    zeros = {name: formula.inputs[name].dtype.type(0) for name in names}
    found = [exact.of({**zeros, names[0]: formula.inputs[names[0]].dtype.type(each)}) for each in points]
    return not any(each == 0 and np.signbit(each) for each in found)


def _is_of_sums(expression: Expression) -> bool:
    """Whether tensors occur only in sums or differences of two, whose zeros are positive unless an element is -0."""
    match expression:
        case InputElement():
            return False
        case Operation("add" | "subtract", (InputElement(), InputElement())):
            return True
        case Operation(_, operands):
            return all(map(_is_of_sums, operands))
        case _:
            return True


def or_known(formula: PlanFormula, expression: Expression, names: Sequence[str]) -> str:
    """Returns the end of a condition: that the results of zeros, infinities and NaN are known beforehand."""
    if len(names) != 1 or "power" in primitives(expression):
        return ""
    exact = ExactFormula(formula.expression, formula.inputs, formula.output)
    kind = formula.inputs[names[0]].dtype.type
    with np.errstate(all="ignore"):
        found = [np.asarray(exact.of({names[0]: kind(each)}), formula.output.dtype) for each in _SPECIAL]
    bits = ", ".join(f"{int(each.view(f'u{each.itemsize}')):#x}u" for each in found)
    return f" || is_known(widen(x0), Known{{{bits}}}, result)"


def _vanishes(expression: Expression) -> bool:
    """Whether exponentials may make a result 0; those in divisors are undecided where they might."""
    match expression:
        case Operation("exp", _):
            return True
        case Operation("divide", (above, _)):
            return _vanishes(above)
        case Operation(_, operands):
            return any(map(_vanishes, operands))
        case _:
            return False
