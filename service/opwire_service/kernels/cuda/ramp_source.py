"""Generates CUDA C for an element times a line of it that is limited to [0, 1], in pairs of FLOAT32."""

from __future__ import annotations

from typing import NamedTuple

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ..formulas.formula import PlanFormula
from .known_source import are_zeros_right, or_known
from .pair_source import GROWTH, LEAST, above, bits_of, is_float, single

_UNIT = 2.0**-24


class _Ramp(NamedTuple):
    """The line ``slope * x + start``."""

    slope: float
    start: float

    @property
    def error(self) -> float:
        """Bound on the error of ``x`` times the line, relative to ``x``, where the line is at most 1.

        The sum of ``start`` and the exact product rounds its low part, which is at most one unit of each; the product
        by ``x`` rounds a low part of two units.
        """
        return 1.01 * _UNIT**2 * (4 + abs(self.start))

    @property
    def margin(self) -> float:
        """Exceeds the distance of the line from its high part."""
        return 4 * _UNIT * (1 + abs(self.start))


def ramp_lines(formula: PlanFormula, names: tuple[str, ...]) -> list[str]:
    """Returns the statements for such a formula, which return whether the result is settled; none for others."""
    expression = formula.expression
    ramp = _ramp(expression)
    floats = DataType.FLOAT32, DataType.FLOAT16
    if ramp is None or len(names) != 1 or not {formula.output, formula.inputs[names[0]]} <= set(floats):
        return []
    if not 1 / GROWTH <= abs(ramp.slope) <= GROWTH or not (ramp.start == 0 or 1 / GROWTH <= abs(ramp.start) <= GROWTH):
        return []
    has_zeros = str(are_zeros_right(formula, expression, names)).lower()
    numbers = ", ".join(single(above(each)) for each in (ramp.error, ramp.margin))
    line = f"{single(ramp.slope)}, {single(ramp.start)}, {numbers}"
    settled = f"times_ramp(widen(x0), {line}, {bits_of(LEAST * GROWTH)}, {has_zeros}, result)"
    return [f"    return (!is_tiny(widen(x0)) && {settled}){or_known(formula, expression, names)};"]


def _ramp(expression: Expression) -> _Ramp | None:
    match expression:
        case Operation(
            "multiply",
            (
                InputElement() as x,
                Operation("minimum", (Operation("maximum", (line, Constant(0))), Constant(1))),
            ),
        ):
            return _line(line, x)
        case _:
            return None


def _line(expression: Expression, x: InputElement) -> _Ramp | None:
    match expression:
        case Operation("add", (Operation("multiply", (Constant(slope) as factor, other)), Constant(start) as added)):
            return _Ramp(slope, start) if other == x and is_float(factor) and is_float(added) else None
        case _:
            return None
