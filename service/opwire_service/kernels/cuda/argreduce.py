"""ARGMIN and ARGMAX: the position of the winner among the elements along the axes."""

from __future__ import annotations

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import DataType

from .job import Card
from .reduction import Accumulator, Reduction


def extreme(data_type: DataType, *, greatest: bool, first: bool, position: bool) -> Accumulator:
    """Returns the accumulator for the greatest or least element, or its position; ties go to the first or the last."""
    flags = {"GREATEST": greatest, "FIRST": first, "POSITION": position}
    macros = tuple((name, int(value)) for name, value in flags.items())
    return Accumulator("extreme", 16 if data_type.bits == 64 else 8, macros, ordered=True)


def job(plan: Plan, card: Card) -> Reduction:
    """Returns the job of an ARGMIN or ARGMAX plan."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    accumulator = extreme(
        source.data_type,
        greatest=plan.operator.name == "ARGMAX",
        first=plan.attributes.AxisDirection is AxisDirection.INCREASING,
        position=True,
    )
    return Reduction(source, target, plan.attributes.Axes, accumulator, card.processors)


JOBS = dict.fromkeys(("ARGMIN", "ARGMAX"), job)
