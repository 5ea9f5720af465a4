"""ARGMIN and ARGMAX: positions are row-major over the reduced dimensions, in dimension order."""

from __future__ import annotations

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array

from ...execution import Arrays, Stop
from .elements import Elements, groups
from .extreme import FIRST_GREATEST, FIRST_LEAST, LAST_GREATEST, LAST_LEAST, Extreme

EXTREMES = {
    ("ARGMIN", AxisDirection.INCREASING): FIRST_LEAST,
    ("ARGMIN", AxisDirection.DECREASING): LAST_LEAST,
    ("ARGMAX", AxisDirection.INCREASING): FIRST_GREATEST,
    ("ARGMAX", AxisDirection.DECREASING): LAST_GREATEST,
}


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    extreme = EXTREMES[plan.operator.name, plan.attributes.AxisDirection]
    write_positions(extreme, plan.attributes.Axes, inputs["InputTensor"], outputs["OutputTensor"], stop)


def write_positions(extreme: Extreme, axes: tuple[int, ...], source: Array, target: Array, stop: Stop) -> None:
    """Writes the position of the winner among the elements along the axes."""
    for elements, place in groups(axes, source, target):
        place[...] = extreme.winner(Elements(elements, stop))[0]


KERNELS = {"ARGMIN": run, "ARGMAX": run}
